"""maj@n: the verdict of the answer that most of n samples give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics.base import Column, Matrix, Metric, Output, Statistic
from evalrun.metrics.counts import check_count, first_n
from evalrun.metrics.register import metric
from evalrun.metrics.text.whole_text import set_text_match
from evalrun.types import Answer, Doc, Verdict


class Vote(Metric):
    """The most frequent answer as the scorer read it wins, of equals the one seen first; its
    verdict is the value.

    Samples without an answer, and answers of which nothing is left, vote as one group, which is
    wrong when it wins. A document with several golds is refused: answers that differ as text would
    split the vote.
    """

    version: ClassVar[int] = 2
    n: int | None

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("value", "float"),)

    def outputs(self) -> tuple[Output, ...]:
        params = () if self.n is None else (("n", self.n),)
        return (Output(self.display, ("value",), _value, params),)

    def check_doc(self, doc: Doc) -> str | None:
        if len(doc.gold) == 1:
            return None
        return (
            f"{self.display} needs exactly one gold answer, document {doc.id!r} has {len(doc.gold)}"
        )

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        if reason := self.check_doc(doc):
            raise ValueError(reason)
        values = first_n(doc, verdicts, self.n)
        answers = _ballots(verdicts[: len(values)])
        votes: dict[str | None, int] = {}
        for each in answers:
            votes[each] = votes.get(each, 0) + 1
        # the first of equals: dicts keep the order of arrival
        winner = max(votes, key=votes.__getitem__)
        return (0.0 if winner is None else values[answers.index(winner)],)


@metric(
    "maj_at_n",
    display="maj@n",
    source="Wang et al. 2022 (self-consistency, arXiv 2203.11171), plurality vote",
)
class MajAtN(Vote):
    """The verdict of the most frequent answer among n samples, of equals the one seen first.

    Range [0, 1].

    Answers are equal where the scorer reads the same from them.

    Attributes:
        strip, normalize: whole texts vote and are compared so, instead of what the task's scorer
            reads. Samples without an answer vote as one group, which is wrong when it wins. A
            document with several golds is refused.
    """

    needs_n: ClassVar[bool] = True
    n: int | None = None
    scorer: str | None = None
    strip: bool | None = None
    normalize: str | None = None

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        set_text_match(self)


@metric("maj_at_5", source="LightEval, maj_at_5; vote as in maj@n")
class MajAt5(Vote):
    """maj@n over 5 samples of raw texts: "A" and "A " are different votes. Range [0, 1]."""

    n: int | None = field(default=5, init=False)
    scorer: str | None = field(default="text_match(strip=False)", init=False)


@metric("maj_at_8", source="LightEval, maj_at_8; vote as in maj@n")
class MajAt8(Vote):
    """maj@n over 8 samples of raw texts. Range [0, 1]."""

    n: int | None = field(default=8, init=False)
    scorer: str | None = field(default="text_match(strip=False)", init=False)


@metric(
    "maj_at_4_math",
    source="Lewkowycz et al. 2022 (Minerva, arXiv 2206.14858), maj1@k on MATH; LightEval, "
    "maj_at_4_math",
)
class MajAt4Math(Vote):
    """maj@n over 4 samples, stripped and brought into one spelling by the normaliser `math`.

    Range [0, 1].
    """

    n: int | None = field(default=4, init=False)
    scorer: str | None = field(default="text_match(normalize=math)", init=False)


@metric(
    "maj_at_8_gsm8k",
    source="Lewkowycz et al. 2022 (Minerva, arXiv 2206.14858), maj1@k; LightEval, maj_at_8_gsm8k",
)
class MajAt8Gsm8k(Vote):
    """maj@n over 8 samples of the number after `#### ` (normaliser `gsm8k`). Range [0, 1]."""

    n: int | None = field(default=8, init=False)
    scorer: str | None = field(default="text_match(normalize=gsm8k)", init=False)


def _value(matrix: Matrix) -> NDArray[np.float64]:
    return np.asarray(matrix["value"], dtype=np.float64)


def _ballots(verdicts: Sequence[Verdict]) -> list[str | None]:
    """The answers that vote; None of a sample that gives no answer.

    One that is right though its text is not known (a bound) votes with the right text.
    """
    right = next((v.extracted for v in verdicts if v.value and v.extracted), "")
    return [right if v.extracted is None and v.value else v.extracted or None for v in verdicts]
