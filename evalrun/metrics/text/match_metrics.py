"""Metrics that average a fixed text scorer: exact, quasi, prefix and suffix matches, and the F1
of words.
"""

from __future__ import annotations

from typing import ClassVar

from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric
from evalrun.metrics.text.exact import FixedScorer
from evalrun.metrics.text.overlap_f1 import check_tokens
from evalrun.metrics.text.whole_text import ExactMatchIndicatorScorer

_HELM = "Liang et al. 2022 (HELM, arXiv 2211.09110)"


@metric(
    "perfect_exact_match", aliases=("perfect_em",), source=f"{_HELM}, exact match without stripping"
)
class PerfectExactMatch(FixedScorer):
    """Share of samples that equal a gold, character by character. Range [0, 1]."""


@metric(
    "quasi_exact_match", source=f"{_HELM}, quasi-exact match; numbers as in DROP (arXiv 1903.00161)"
)
class QuasiExactMatch(FixedScorer):
    """Share of samples that equal a gold after the normaliser `helm`. Range [0, 1]."""


@metric(
    "quasi_exact_match_triviaqa",
    source="lm-evaluation-harness, task triviaqa: exact match without case and punctuation",
)
class QuasiExactMatchTriviaqa(FixedScorer):
    """Share of samples that equal a gold after the normaliser `triviaqa`, on both sides.

    Range [0, 1].
    """


@metric("prefix_exact_match", aliases=("pem",), source=f"{_HELM}, prefix exact match")
class PrefixExactMatch(FixedScorer):
    """Share of samples that begin with a gold, both stripped; an empty gold fits nothing.

    Range [0, 1].
    """


@metric("prefix_quasi_exact_match", aliases=("pqem",), source=f"{_HELM}, quasi-prefix exact match")
class PrefixQuasiExactMatch(FixedScorer):
    """Share of samples that begin with a gold after the normaliser `helm`. Range [0, 1]."""


@metric("suffix_exact_match", source="LightEval, exact matches of type suffix")
class SuffixExactMatch(FixedScorer):
    """Share of samples that end with a gold, both stripped; an empty gold fits nothing.

    Range [0, 1].
    """


@metric("quasi_exact_match_math", source="Hendrycks et al. 2021 (MATH, arXiv 2103.03874), is_equiv")
class QuasiExactMatchMath(FixedScorer):
    """Share of samples whose boxed answer equals a gold's after the normaliser `math`.

    Range [0, 1].
    """


@metric(
    "quasi_exact_match_gsm8k",
    source="Cobbe et al. 2021 (GSM8K, arXiv 2110.14168), grade-school-math",
)
class QuasiExactMatchGsm8k(FixedScorer):
    """Share of samples whose number after `#### ` equals a gold's.

    No such number is wrong. Range [0, 1].
    """


@metric("exact_match_indicator", source=f"{_HELM}, exact match after an indicator")
class ExactMatchIndicator(FixedScorer):
    """Share of samples whose text after the last `indicator` equals a gold's, both stripped.

    Range [0, 1].
    """

    indicator: str = " "

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        object.__setattr__(self, "scorer", ExactMatchIndicatorScorer(self.indicator).spec)


@metric("f1_score", source=f"{_HELM}, F1 over word sets; multiset: SQuAD v1.1 (arXiv 1606.05250)")
class F1Score(FixedScorer):
    """F1 of the words of answer and gold, mean over samples and documents. Range [0, 1].

    2·P·R / (P + R) with P, R the shared share of the answer's and the gold's words.

    Attributes:
        tokens: set (every word counts once) or multiset (as often as it occurs). Nothing on either
            side gives 0.
    """

    tokens: str = "set"

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        check_tokens(self.tokens)
        object.__setattr__(
            self,
            "scorer",
            self.name if self.tokens == "set" else f"{self.name}(tokens={self.tokens})",
        )


@metric("f1_score_quasi")
class F1ScoreQuasi(F1Score):
    """`f1_score` of the words that the normaliser `helm` leaves; 1 where the texts are equal and
    not empty. Range [0, 1].
    """

    version: ClassVar[int] = 2
