"""BLEU of single answers: scorers and metrics bleu_1 and bleu_4, as nltk's sentence_bleu without
smoothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evalrun.errors import unknown
from evalrun.metrics.base import SCORERS, Scorer
from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric, scorer
from evalrun.metrics.text.exact import MeanOfVerdicts
from evalrun.text.overlap import ngrams, shared_counts
from evalrun.text.tokenize import PUNKT_HELP, WORD_TOKENIZERS, has_punkt, needs_punkt
from evalrun.types import Doc, Verdict

WEIGHTS = ("single_order", "cumulative")
DEFAULT = "nltk_treebank_no_punkt"
SOURCE = (
    "Papineni et al. 2002 (aclanthology P02-1040), as nltk 3.9.1 sentence_bleu without smoothing"
)


def sentence_bleu(
    golds: Sequence[Sequence[str]], pred: Sequence[str], weights: Sequence[float]
) -> float:
    """Brevity penalty x exp(sum of w_n log p_n), p_n the clipped precision of n-grams against all
    golds. Range [0, 1].

    0 where an order that has weight has no match, or no word matches at all. (nltk gives about
    1e-308 for the former.) The penalty takes the gold whose length is nearest, of two the shorter.
    Source: Papineni et al. 2002.
    """
    total = 0.0
    for n, weight in enumerate(weights, 1):
        if not weight and n > 1:
            continue
        matches, found = clipped(golds, pred, n)
        if not matches:
            return 0.0
        total += weight * math.log(matches / found)
    nearest = min((abs(len(gold) - len(pred)), len(gold)) for gold in golds)[1]
    penalty = 1.0 if len(pred) > nearest else math.exp(1 - nearest / len(pred))
    return penalty * math.exp(total)


def clipped(golds: Sequence[Sequence[str]], pred: Sequence[str], n: int) -> tuple[int, int]:
    """(n-grams of `pred` that stand in a gold, each no more often than in any one gold; all
    n-grams of `pred`).
    """
    most = Counter(ngrams(golds[0], n))
    for gold in golds[1:]:
        most |= Counter(ngrams(gold, n))
    found = ngrams(pred, n)
    return shared_counts(most, Counter(found)), len(found)


def check_options(owner: Any) -> None:
    """Fault for an unknown kind of weights or an unknown tokenizer."""
    for name, allowed in (("weights", WEIGHTS), ("tokenizer", tuple(WORD_TOKENIZERS))):
        if getattr(owner, name) not in allowed:
            raise unknown(f"{name} of {owner.name}", str(getattr(owner, name)), list(allowed))


@dataclass(frozen=True, slots=True)
class SentenceBleuScorer(Scorer):
    """BLEU of one answer against all golds. Range [0, 1].

    Attributes:
        order: the highest order of n-grams.
    """

    packages: ClassVar[tuple[str, ...]] = ("nltk",)
    is_graded: ClassVar[bool] = True
    order: ClassVar[int]
    weights: str = "single_order"
    tokenizer: str = DEFAULT

    def __post_init__(self) -> None:
        check_options(self)

    def check_doc(self, doc: Doc) -> str | None:
        """A document needs a gold, and the tokenizer's data where its golds cannot be cut
        without.
        """
        reason = Scorer.check_doc(self, doc)
        if (
            reason
            or self.tokenizer == DEFAULT
            or has_punkt()
            or not any(map(needs_punkt, doc.gold_texts))
        ):
            return reason
        return f"document {doc.id!r} cannot be cut into words: {PUNKT_HELP}"

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """ValueError where the document has no gold, or the tokenizer lacks its data."""
        if not doc.gold:
            raise ValueError(self.check_doc(doc))
        cut = WORD_TOKENIZERS[self.tokenizer]
        return Verdict(
            sentence_bleu([cut(gold) for gold in doc.gold_texts], cut(text), self._weights())
        )

    def _weights(self) -> list[float]:
        if self.weights == "cumulative":
            return [1 / self.order] * self.order
        return [0.0] * (self.order - 1) + [1.0]


@scorer("bleu_1")
class Bleu1Scorer(SentenceBleuScorer):
    """Clipped precision of words x brevity penalty. Range [0, 1].

    Attributes:
        tokenizer: nltk_treebank_no_punkt, nltk_word_tokenize.
    """

    version: ClassVar[int] = 2
    order: ClassVar[int] = 1


@scorer("bleu_4")
class Bleu4Scorer(SentenceBleuScorer):
    """BLEU of 4-grams alone (weights=single_order) or of orders 1 to 4 (cumulative).

    Range [0, 1]. Else as bleu_1.
    """

    version: ClassVar[int] = 2
    order: ClassVar[int] = 4


@dataclass(frozen=True, slots=True)
class SentenceBleuMean(MeanOfVerdicts):
    """Mean of a sentence BLEU over samples, then over documents; the scorer has the metric's
    parameters.
    """

    has_own_scorer: ClassVar[bool] = True
    version: ClassVar[int] = 2
    source: ClassVar[str] = SOURCE
    n: int | None = None
    weights: str = "single_order"
    tokenizer: str = DEFAULT
    scorer: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        check_options(self)
        scorer = SCORERS.get(self.name)(weights=self.weights, tokenizer=self.tokenizer)  # type: ignore[call-arg]
        object.__setattr__(self, "scorer", scorer.signature)


@metric("bleu_1")
class Bleu1(SentenceBleuMean):
    """Brevity penalty x clipped precision of words, all golds as references; mean over samples,
    then documents.

    Range [0, 1]. It is the mean of sentences' scores, not a corpus score.

    Attributes:
        tokenizer: nltk_treebank_no_punkt, or nltk_word_tokenize, which needs NLTK's punkt_tab data.
    """


@metric("bleu_4")
class Bleu4(SentenceBleuMean):
    """Brevity penalty x clipped precision of 4-grams alone, all golds as references; mean over
    samples, then documents.

    Range [0, 1]; 0 for an answer of fewer than 4 words. weights=cumulative: the geometric mean of
    orders 1 to 4, the BLEU-4 of the paper. It is the mean of sentences' scores, not a corpus score.

    Attributes:
        tokenizer: as bleu_1.
    """
