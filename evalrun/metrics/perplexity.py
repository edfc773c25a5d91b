"""Perplexities: how surprised the model is by whole texts, or by the right answers.

An infinite value (exp of more than about 709 nats) and one without any unit to divide by are NaN,
and said so.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics.base import Column, Matrix, Metric, Output, Statistic
from evalrun.metrics.choices.choice_scores import (
    ChoiceMetric,
    check_word,
    checked,
    gold_indices,
)
from evalrun.metrics.register import metric
from evalrun.types import Answer, Doc, Kind, Roll, Verdict


def words_of(text: str) -> int:
    """Pieces of a split at runs of white space, empty ones at the ends included: "" has 1, "a b\\n"
    has 3.

    lm-evaluation-harness, `word_perplexity`. Text written without spaces is one word.
    """
    return len(re.split(r"\s+", text))


def bytes_of(text: str) -> int:
    """Length in UTF-8; half of a surrogate pair counts 3."""
    return len(text.encode("utf-8", "surrogatepass"))


def perplexity_of_sums(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(-logprob / units) of sums [..., (logprob, units)]; NaN where it is infinite or has no
    unit. Range [1, inf).
    """
    with np.errstate(over="ignore"):
        return _finite(np.exp(_nats_of_sums(sums)))


def bits_of_sums(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """-logprob / units / ln 2 of sums [..., (logprob, units)]; NaN where there is no unit.

    Range [0, inf).
    """
    return _finite(_nats_of_sums(sums) / math.log(2))


def logprob_of_sums(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """logprob / units of sums [..., (logprob, units)]; NaN where there is no unit.

    Range (-inf, 0].
    """
    return _finite(0.0 - _nats_of_sums(sums))


def _nats_of_sums(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    units = sums[..., 1]
    return np.divide(0.0 - sums[..., 0], units, out=np.full_like(units, np.nan), where=units > 0)


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(values), values, np.nan)


def rolled(doc: Doc, answer: Answer) -> Roll:
    """`answer` if it scores a whole text. ValueError naming the document."""
    if not isinstance(answer, Roll):
        raise ValueError(
            f"document {doc.id!r}: expected the log-probability of a text, got "
            f"{type(answer).__name__}"
        )
    return answer


def known(logprob: float | None) -> float:
    """`logprob`, or NaN where it is no log-probability: None, NaN or +inf."""
    return math.nan if logprob is None or logprob == math.inf else float(logprob)


def tokens_of(doc: Doc, n_tokens: int | None) -> int:
    """The number of tokens. ValueError naming the document where it is missing."""
    if n_tokens is None:
        raise ValueError(f"document {doc.id!r}: the number of tokens is needed and missing")
    return n_tokens


class OfSums(Metric):
    """Statistics logprob (nats, summed over tokens) and units; the number is a formula of their
    sums.
    """

    reads: ClassVar[Kind] = Kind.ROLLING
    has_scorer: ClassVar[bool] = False
    is_in_bits: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("logprob", "float"), Column("units", "int"))

    def outputs(self) -> tuple[Output, ...]:
        return (
            Output(
                self.display,
                ("logprob", "units"),
                unit="count",
                is_higher_better=False,
                is_bounded=False,
                of_sums=bits_of_sums if self.is_in_bits else perplexity_of_sums,
            ),
        )

    def notes(self, matrix: Matrix) -> tuple[str, ...]:
        """Why the number is NaN, where it is."""
        return nan_notes(self.display, matrix, not self.is_in_bits)


def nan_notes(shown: str, matrix: Matrix, is_exponential: bool) -> tuple[str, ...]:
    """Why a number of these sums is NaN: one line, or none."""
    logprob, units = (np.asarray(matrix[name], dtype=np.float64) for name in ("logprob", "units"))
    broken = np.count_nonzero(~np.isfinite(logprob))
    if broken:
        return (
            f"{shown} is NaN: {broken} of {len(logprob)} documents have a log-probability that is "
            "not finite",
        )
    if units.sum() <= 0:
        return (f"{shown} is NaN: the texts have nothing to divide by",)
    mean = float(-logprob.sum() / units.sum())
    if is_exponential and mean > math.log(np.finfo(np.float64).max):
        return (f"{shown} is NaN: exp({mean:.6g}) is too large for a number",)
    return ()


class PerUnit(OfSums):
    """Whole texts, divided by units of them."""

    @abstractmethod
    def units(self, doc: Doc, roll: Roll) -> int:
        """How many units the text of a document has."""

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        roll = rolled(doc, answer)
        return (known(roll.logprob), self.units(doc, roll))


_WEIGHTED = "lm-evaluation-harness, weighted_perplexity over documents"


@metric("word_perplexity", source=_WEIGHTED)
class WordPerplexity(PerUnit):
    """exp(-sum logprob / sum words) over the corpus. Range [1, inf), lower is better.

    Words are the pieces of a split at white space, empty ones at the ends included (the harness's
    count).
    """

    def units(self, doc: Doc, roll: Roll) -> int:
        return words_of(roll.text)


@metric("byte_perplexity", source=_WEIGHTED)
class BytePerplexity(PerUnit):
    """exp(-sum logprob / sum UTF-8 bytes) over the corpus.

    Range [1, inf), lower is better. No bytes: NaN.
    """

    def units(self, doc: Doc, roll: Roll) -> int:
        return bytes_of(roll.text)


@metric("bits_per_byte", source="Gao et al. 2020 (The Pile, arXiv 2101.00027), section 3.1")
class BitsPerByte(PerUnit):
    """-sum logprob / sum UTF-8 bytes / ln 2 = log2(byte_perplexity).

    Range [0, inf) bits, lower is better.
    """

    is_in_bits: ClassVar[bool] = True

    def units(self, doc: Doc, roll: Roll) -> int:
        return bytes_of(roll.text)


@metric("token_perplexity", source="Jelinek et al. 1977 (JASA 62, S63), perplexity per token")
class TokenPerplexity(PerUnit):
    """exp(-sum logprob / sum tokens) over the corpus.

    Range [1, inf), lower is better. Depends on the tokenizer.
    """

    def units(self, doc: Doc, roll: Roll) -> int:
        return tokens_of(doc, roll.n_tokens)


@metric(
    "prediction_perplexity",
    source="LightEval 0.13 `prediction_perplexity` (lm-evaluation-harness, `perplexity`)",
)
class PredictionPerplexity(PerUnit):
    """exp(-mean over documents of the summed logprob). Range [1, inf), lower is better.

    Not per token: made for texts of one word; from about 700 nats a text on it is NaN. See
    token_perplexity.
    """

    def units(self, doc: Doc, roll: Roll) -> int:
        return 1


@metric(
    "log_prob", source="Liang et al. 2022 (HELM, arXiv 2211.09110), logprob", reads=Kind.ROLLING
)
class LogProb(Metric):
    """Log-probability in nats: of a text, the mean over documents; or of a token of the corpus.

    Range (-inf, 0], higher is better.

    Attributes:
        per: sample (sum logprob / documents) or token (sum logprob / sum tokens over the corpus, so
            that each token counts alike; minus the logarithm of token_perplexity).
    """

    version: ClassVar[int] = 2
    has_scorer: ClassVar[bool] = False
    per: str = "sample"

    def __post_init__(self) -> None:
        check_word(self, "per", self.per, ("sample", "token"))

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.per == "token":
            return (Column("logprob", "float"), Column("units", "int"))
        return (Column("value", "float"),)

    def outputs(self) -> tuple[Output, ...]:
        names = tuple(column.name for column in self.columns)
        is_pooled = self.per == "token"
        return (
            Output(
                self.display,
                names,
                per_doc=None if is_pooled else _value,
                params=(("per", self.per),),
                unit="nats",
                is_bounded=False,
                of_sums=logprob_of_sums if is_pooled else None,
            ),
        )

    def notes(self, matrix: Matrix) -> tuple[str, ...]:
        """Why the number is NaN, where it is; of `per=token` alone."""
        return nan_notes(self.display, matrix, False) if self.per == "token" else ()

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        roll = rolled(doc, answer)
        if self.per == "sample":
            return (known(roll.logprob),)
        return (known(roll.logprob), tokens_of(doc, roll.n_tokens))


def _value(matrix: Matrix) -> NDArray[np.float64]:
    return np.asarray(matrix["value"], dtype=np.float64)


class OfGolds(OfSums, ChoiceMetric):
    """The right answers of a document: their summed log-probability; the other choices do not
    count.
    """

    reads: ClassVar[Kind] = Kind.LOGLIKELIHOOD

    def check_doc(self, doc: Doc) -> str | None:
        """As ChoiceMetric: a gold among the choices."""
        return ChoiceMetric.check_doc(self, doc)

    @abstractmethod
    def units(self, doc: Doc, places: Sequence[int], n_tokens: Sequence[int] | None) -> int:
        """How many units the golds of a document have."""

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        choices = checked(doc, answer)
        places = gold_indices(doc, len(choices.logprobs))
        return (
            sum(known(choices.logprobs[place]) for place in places),
            self.units(doc, places, choices.n_tokens),
        )


@metric(
    "target_perplexity",
    source="LightEval `target_perplexity` on the golds alone (lm-evaluation-harness, LAMBADA)",
)
class TargetPerplexity(OfGolds):
    """exp(-mean over documents of the golds' summed logprob). Range [1, inf), lower is better.

    Not per token: made for answers of one word; from about 700 nats on it is NaN. See
    target_token_perplexity.
    """

    def units(self, doc: Doc, places: Sequence[int], n_tokens: Sequence[int] | None) -> int:
        return 1


@metric(
    "target_token_perplexity",
    source="Jelinek et al. 1977 (JASA 62, S63), perplexity per token, of the golds",
)
class TargetTokenPerplexity(OfGolds):
    """exp(-sum of the golds' logprobs / sum of their tokens) over the corpus.

    Range [1, inf), lower is better.
    """

    def units(self, doc: Doc, places: Sequence[int], n_tokens: Sequence[int] | None) -> int:
        return sum(
            tokens_of(doc, None if n_tokens is None else n_tokens[place]) for place in places
        )
