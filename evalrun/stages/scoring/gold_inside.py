"""A number of 0 although most answers hold the gold: the metric does not fit the answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evalrun.stages.scoring.estimates import ScoredMetric
from evalrun.text.containing import whole_words
from evalrun.types import Samples

HINT = "contains"
"""The metric that would fit."""


def note_of(scored: Sequence[ScoredMetric]) -> tuple[str, ...]:
    """One line, for the first metric of verdicts that finds nothing right, where the gold stands
    inside more than half of the answers; else nothing.

    Texts are searched only where a metric finds nothing right at all.
    """
    for item in scored:
        values = [verdict.value for row in item.verdicts for verdict in row]
        if not values or any(values) or (item.plan.scorer or "").startswith(HINT):
            continue
        found = list(_is_inside(item))
        if 2 * sum(found) > len(found):
            return (
                f"{item.plan.key}: 0 of {len(found)} right; in {sum(found)} of {len(found)} the "
                f"gold stands inside the answer: metric={HINT}",
            )
    return ()


def _is_inside(item: ScoredMetric) -> Iterator[bool]:
    """For each answer, whether a gold stands in it as whole words.

    A single letter stands in most English texts, as an article or a pronoun, and says nothing.
    """
    for doc, answer in zip(item.docs, item.answers, strict=True):
        golds = [g for g in doc.gold_texts if not (re.fullmatch(r"\s*[A-Za-z]\s*", g))]
        for text in answer.texts if isinstance(answer, Samples) else ():
            yield any(whole_words(gold, text or "") for gold in golds)
