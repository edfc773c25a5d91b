"""Answers compared exactly: scorers `number` and `exact_match`, metrics `accuracy` and
`exact_match`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics.base import Column, Matrix, Metric, Output, Scorer, Statistic
from evalrun.metrics.counts import check_count, first_n
from evalrun.metrics.register import metric, scorer
from evalrun.text.extract import EXTRACTORS, Extraction, extract_number, extract_whole
from evalrun.types import Answer, Doc, State, Verdict


class ExtractingScorer(Scorer):
    """Reads an answer from text and gold alike; right where it equals that of any gold."""

    def read(self, text: str) -> Extraction | None:
        """The answer in a text, in canonical form."""
        raise NotImplementedError

    def is_nothing(self, text: str, found: Extraction) -> bool:
        """Whether the answer says nothing, which is never right, not even for an empty gold."""
        return not found.text

    def check_doc(self, doc: Doc) -> str | None:
        """A document can be judged when an answer can be read from at least one of its golds."""
        reason = super().check_doc(doc)
        if reason or _readable(self, doc.gold_texts):
            return reason
        shown = ", ".join(repr(gold[:80]) for gold in doc.gold_texts)
        return f"{self.signature} reads no answer from the gold of document {doc.id!r}: {shown}"

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """1.0 or 0.0. ValueError where no gold can be read, naming the document."""
        golds = _readable(self, doc.gold_texts)
        if not golds:
            raise ValueError(self.check_doc(doc))
        found = self.read(text)
        if found is None:
            return Verdict(0.0, state=State.UNPARSED)
        if self.is_nothing(text, found):
            return Verdict(0.0, found.text, found.span, found.rule)
        return Verdict(float(found.text in golds), found.text, found.span, found.rule)

    def judge_batch(self, items: Sequence[tuple[Doc, str]]) -> list[Verdict]:
        """As `judge_text`; equal (gold, text) pairs are judged once."""
        known: dict[tuple[tuple[str, ...], str], Verdict] = {}
        verdicts = []
        for doc, text in items:
            key = (doc.gold_texts, text)
            if key not in known:
                known[key] = self.judge_text(doc, text)
            verdicts.append(known[key])
        return verdicts


@lru_cache(maxsize=1 << 14)
def _readable(scorer: ExtractingScorer, golds: tuple[str, ...]) -> frozenset[str]:
    return frozenset(found.text for gold in golds if (found := scorer.read(gold)) is not None)


@scorer("number")
class NumberScorer(ExtractingScorer):
    """The number in the answer equals the number in a gold, exactly: 29.00 = 29, 1/2 = 0.5, 29.01
    != 29.

    Range {0, 1}; an answer without a number is 0 and unparsed. Rules:
    evalrun.text.extract.extract_number.
    """

    def read(self, text: str) -> Extraction | None:
        return extract_number(text)


@scorer("exact_match")
class ExactMatchScorer(ExtractingScorer):
    """The extracted answer equals a gold's, as text without white space at its ends. Range {0, 1}.

    An empty answer is never right, nor is one of which an extractor takes nothing.

    Attributes:
        extract: name of an extractor, used on text and gold alike; None: the whole texts.
    """

    version: ClassVar[int] = 2
    extract: str | None = None

    def __post_init__(self) -> None:
        if self.extract is not None:
            EXTRACTORS.get(self.extract, "scorer exact_match")

    def is_nothing(self, text: str, found: Extraction) -> bool:
        # As HELM: a whole answer is empty before it is stripped, so that blanks match a gold "".
        return not (text if self.extract is None else found.text)

    def read(self, text: str) -> Extraction | None:
        found = extract_whole(text) if self.extract is None else EXTRACTORS.get(self.extract)(text)
        return None if found is None else Extraction(found.text.strip(), found.span, found.rule)


class MeanOfVerdicts(Metric):
    """Per document the mean of its n verdicts; the number is the mean over documents. Range [0, 1].

    Attributes:
        is_best_of_open: where n is open (texts scored without a run), a document's texts are
            alternatives and the best counts, as in HELM; n set, they are samples and their mean
            does.
    """

    is_best_of_open: ClassVar[bool] = False
    n: int | None

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("value", "float"),)

    def outputs(self) -> tuple[Output, ...]:
        params = () if self.n is None else (("n", self.n),)
        return (Output(self.display, ("value",), _value, params),)

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        values = first_n(doc, verdicts, self.n)
        if self.n is None and self.is_best_of_open:
            return (max(values),)
        return (math.fsum(values) / len(values),)


@dataclass(frozen=True, slots=True)
class FixedScorer(MeanOfVerdicts):
    """The mean of one scorer that cannot be changed.

    Several golds: the best counts, which the scorer sees to.
    """

    has_own_scorer: ClassVar[bool] = True
    is_best_of_open: ClassVar[bool] = True
    n: int | None = None
    scorer: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)


def _value(matrix: Matrix) -> NDArray[np.float64]:
    return np.asarray(matrix["value"], dtype=np.float64)


@metric("accuracy", aliases=("acc",), source="definition: share of right answers")
class Accuracy(MeanOfVerdicts):
    """Mean of the task's scorer over the n samples of a document, then over documents.

    Range [0, 1].
    """

    n: int | None = None
    scorer: str | None = None

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)


@metric(
    "exact_match",
    aliases=("em",),
    source="Liang et al. 2022 (HELM, arXiv 2211.09110), exact match after stripping",
)
class ExactMatch(FixedScorer):
    """Share of samples whose extracted answer text equals a gold's.

    Range [0, 1]. The scorer is fixed.
    """

    version: ClassVar[int] = 2
