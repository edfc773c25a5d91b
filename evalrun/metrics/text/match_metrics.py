"""Metrics that average a fixed text scorer: exact, quasi, prefix and suffix matches, and the F1
of words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from evalrun.metrics.base import METRICS
from evalrun.metrics.counts import check_count
from evalrun.metrics.text.exact import MeanOfVerdicts
from evalrun.metrics.text.overlap_f1 import check_tokens
from evalrun.metrics.text.whole_text import ExactMatchIndicatorScorer

_HELM = "Liang et al. 2022 (HELM, arXiv 2211.09110)"


@dataclass(frozen=True, slots=True)
class FixedScorer(MeanOfVerdicts):
    """The mean of one scorer that cannot be changed.

    Several golds: the best counts, which the scorer sees to.
    """

    is_best_of_open: ClassVar[bool] = True
    n: int | None = None
    scorer: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)


@METRICS.named("perfect_exact_match", aliases=("perfect_em",))
@dataclass(frozen=True, slots=True)
class PerfectExactMatch(FixedScorer):
    """Share of samples that equal a gold, character by character. Range [0, 1]."""

    name: ClassVar[str] = "perfect_exact_match"
    display: ClassVar[str] = "perfect_exact_match"
    aliases: ClassVar[tuple[str, ...]] = ("perfect_em",)
    source: ClassVar[str] = f"{_HELM}, exact match without stripping"
    scorer: str | None = field(default="perfect_exact_match", init=False)


@METRICS.named("quasi_exact_match")
@dataclass(frozen=True, slots=True)
class QuasiExactMatch(FixedScorer):
    """Share of samples that equal a gold after the normaliser `helm`. Range [0, 1]."""

    name: ClassVar[str] = "quasi_exact_match"
    display: ClassVar[str] = "quasi_exact_match"
    source: ClassVar[str] = f"{_HELM}, quasi-exact match; numbers as in DROP (arXiv 1903.00161)"
    scorer: str | None = field(default="quasi_exact_match", init=False)


@METRICS.named("quasi_exact_match_triviaqa")
@dataclass(frozen=True, slots=True)
class QuasiExactMatchTriviaqa(FixedScorer):
    """Share of samples that equal a gold after the normaliser `triviaqa`, on both sides.

    Range [0, 1].
    """

    name: ClassVar[str] = "quasi_exact_match_triviaqa"
    display: ClassVar[str] = "quasi_exact_match_triviaqa"
    source: ClassVar[str] = (
        "lm-evaluation-harness, task triviaqa: exact match without case and punctuation"
    )
    scorer: str | None = field(default="quasi_exact_match_triviaqa", init=False)


@METRICS.named("prefix_exact_match", aliases=("pem",))
@dataclass(frozen=True, slots=True)
class PrefixExactMatch(FixedScorer):
    """Share of samples that begin with a gold, both stripped; an empty gold fits nothing.

    Range [0, 1].
    """

    name: ClassVar[str] = "prefix_exact_match"
    display: ClassVar[str] = "prefix_exact_match"
    aliases: ClassVar[tuple[str, ...]] = ("pem",)
    source: ClassVar[str] = f"{_HELM}, prefix exact match"
    scorer: str | None = field(default="prefix_exact_match", init=False)


@METRICS.named("prefix_quasi_exact_match", aliases=("pqem",))
@dataclass(frozen=True, slots=True)
class PrefixQuasiExactMatch(FixedScorer):
    """Share of samples that begin with a gold after the normaliser `helm`. Range [0, 1]."""

    name: ClassVar[str] = "prefix_quasi_exact_match"
    display: ClassVar[str] = "prefix_quasi_exact_match"
    aliases: ClassVar[tuple[str, ...]] = ("pqem",)
    source: ClassVar[str] = f"{_HELM}, quasi-prefix exact match"
    scorer: str | None = field(default="prefix_quasi_exact_match", init=False)


@METRICS.named("suffix_exact_match")
@dataclass(frozen=True, slots=True)
class SuffixExactMatch(FixedScorer):
    """Share of samples that end with a gold, both stripped; an empty gold fits nothing.

    Range [0, 1].
    """

    name: ClassVar[str] = "suffix_exact_match"
    display: ClassVar[str] = "suffix_exact_match"
    source: ClassVar[str] = "LightEval, exact matches of type suffix"
    scorer: str | None = field(default="suffix_exact_match", init=False)


@METRICS.named("quasi_exact_match_math")
@dataclass(frozen=True, slots=True)
class QuasiExactMatchMath(FixedScorer):
    """Share of samples whose boxed answer equals a gold's after the normaliser `math`.

    Range [0, 1].
    """

    name: ClassVar[str] = "quasi_exact_match_math"
    display: ClassVar[str] = "quasi_exact_match_math"
    source: ClassVar[str] = "Hendrycks et al. 2021 (MATH, arXiv 2103.03874), is_equiv"
    scorer: str | None = field(default="quasi_exact_match_math", init=False)


@METRICS.named("quasi_exact_match_gsm8k")
@dataclass(frozen=True, slots=True)
class QuasiExactMatchGsm8k(FixedScorer):
    """Share of samples whose number after `#### ` equals a gold's.

    No such number is wrong. Range [0, 1].
    """

    name: ClassVar[str] = "quasi_exact_match_gsm8k"
    display: ClassVar[str] = "quasi_exact_match_gsm8k"
    source: ClassVar[str] = "Cobbe et al. 2021 (GSM8K, arXiv 2110.14168), grade-school-math"
    scorer: str | None = field(default="quasi_exact_match_gsm8k", init=False)


@METRICS.named("exact_match_indicator")
@dataclass(frozen=True, slots=True)
class ExactMatchIndicator(FixedScorer):
    """Share of samples whose text after the last `indicator` equals a gold's, both stripped.

    Range [0, 1].
    """

    name: ClassVar[str] = "exact_match_indicator"
    display: ClassVar[str] = "exact_match_indicator"
    source: ClassVar[str] = f"{_HELM}, exact match after an indicator"
    scorer: str | None = field(default="exact_match_indicator", init=False)
    indicator: str = " "

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        object.__setattr__(self, "scorer", ExactMatchIndicatorScorer(self.indicator).spec)


@METRICS.named("f1_score")
@dataclass(frozen=True, slots=True)
class F1Score(FixedScorer):
    """F1 of the words of answer and gold, mean over samples and documents. Range [0, 1].

    2·P·R / (P + R) with P, R the shared share of the answer's and the gold's words.

    Attributes:
        tokens: set (every word counts once) or multiset (as often as it stands). Nothing on either
            side gives 0.
    """

    name: ClassVar[str] = "f1_score"
    display: ClassVar[str] = "f1_score"
    source: ClassVar[str] = f"{_HELM}, F1 over word sets; multiset: SQuAD v1.1 (arXiv 1606.05250)"
    scorer: str | None = field(default="f1_score", init=False)
    tokens: str = "set"

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        check_tokens(self.tokens)
        object.__setattr__(
            self,
            "scorer",
            self.name if self.tokens == "set" else f"{self.name}(tokens={self.tokens})",
        )


@METRICS.named("f1_score_quasi")
@dataclass(frozen=True, slots=True)
class F1ScoreQuasi(F1Score):
    """`f1_score` of the words that the normaliser `helm` leaves. Range [0, 1]."""

    name: ClassVar[str] = "f1_score_quasi"
    display: ClassVar[str] = "f1_score_quasi"
    scorer: str | None = field(default="f1_score_quasi", init=False)
