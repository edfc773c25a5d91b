"""Answers that hold a gold somewhere in them: scorer and metric `contains`."""

from __future__ import annotations

from evalrun.errors import Fault, visible
from evalrun.metrics.base import Scorer
from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric, scorer
from evalrun.metrics.text.exact import FixedScorer
from evalrun.text.containing import whole_words
from evalrun.types import Doc, Verdict

GOLDS = ("any", "all")


@scorer("contains")
class ContainsScorer(Scorer):
    """1.0 where a gold stands in the text as whole words. Range {0, 1}. An empty gold never does.

    Rules: evalrun.text.containing.whole_words. The extracted answer is the first gold as the text
    writes it.

    Attributes:
        golds: of several golds, any of them is enough, or all of them must stand there.
        ignore_case: "paris" counts as "Paris".
    """

    golds: str = "any"
    ignore_case: bool = True

    def __post_init__(self) -> None:
        if self.golds not in GOLDS:
            raise Fault(f"contains: golds must be any or all, got {visible(repr(self.golds))}.")
        if not isinstance(self.ignore_case, bool):
            raise Fault(
                "contains: ignore_case must be true or false, got "
                f"{visible(repr(self.ignore_case))}."
            )

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """1.0 or 0.0. ValueError where the document has no gold."""
        if reason := self.check_doc(doc):
            raise ValueError(reason)
        spans = [whole_words(gold, text, self.ignore_case) for gold in doc.gold_texts]
        found = [span for span in spans if span is not None]
        if not found or (self.golds == "all" and len(found) < len(spans)):
            return Verdict(0.0)
        start, end = found[0]
        return Verdict(1.0, text[start:end], (start, end), "contains")


@metric("contains", source="definition: the gold stands in the answer as whole words")
class Contains(FixedScorer):
    """Share of samples in which a gold stands as whole words. Range [0, 1].

    A gold that a wrong answer happens to name counts too: a number of answers that name the gold,
    not of answers that state it.

    Attributes:
        golds: of several golds, any of them is enough, or all of them must stand there.
        ignore_case: "paris" counts as "Paris".
    """

    golds: str = "any"
    ignore_case: bool = True

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        judge = ContainsScorer(self.golds, self.ignore_case)
        object.__setattr__(self, "scorer", judge.spec)
