"""ROUGE between an answer and the gold summaries: scorers and metrics rouge1, rouge2, rougeL,
rougeLsum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from evalrun.errors import Fault, unknown, visible
from evalrun.metrics.base import SCORERS, Scorer
from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric, scorer
from evalrun.metrics.text.exact import MeanOfVerdicts
from evalrun.text import overlap
from evalrun.text.tokenize import ROUGE_TOKENIZERS, stems
from evalrun.types import Doc, State, Verdict

NO_TOKEN = "no_token"
LIN = "Lin 2004 (ROUGE, aclanthology W04-1013), as computed by rouge-score 0.1.2"


class Parts(NamedTuple):
    """A text, cut: its tokens, its n-grams of two, and the tokens of its lines that are not
    empty.
    """

    tokens: list[str]
    pairs: list[Hashable]
    sentences: list[list[str]]


Cut = Callable[[str], Parts]


def cutter(stemmer: str | None, tokenizer: str, kinds: Sequence[str]) -> Cut:
    """text -> Parts, of which only what `kinds` read is filled."""
    split = ROUGE_TOKENIZERS[tokenizer]

    def cut(text: str) -> Parts:
        lines = [line for line in text.split("\n") if line] if "rougeLsum" in kinds else [text]
        sentences = [split(line) if stemmer is None else stems(split(line)) for line in lines]
        tokens = (
            sentences[0] if len(sentences) == 1 else [token for each in sentences for token in each]
        )
        return Parts(tokens, overlap.ngrams(tokens, 2) if "rouge2" in kinds else [], sentences)

    return cut


def _unigrams(gold: Parts, pred: Parts) -> float:
    return f_measure(overlap.shared(gold.tokens, pred.tokens), len(gold.tokens), len(pred.tokens))


def _bigrams(gold: Parts, pred: Parts) -> float:
    return f_measure(overlap.shared(gold.pairs, pred.pairs), len(gold.pairs), len(pred.pairs))


def _subsequence(gold: Parts, pred: Parts) -> float:
    return f_measure(
        overlap.lcs_length(gold.tokens, pred.tokens), len(gold.tokens), len(pred.tokens)
    )


def _union(gold: Parts, pred: Parts) -> float:
    return f_measure(
        overlap.union_lcs_hits(gold.sentences, pred.sentences), len(gold.tokens), len(pred.tokens)
    )


KINDS: dict[str, Callable[[Parts, Parts], float]] = {
    "rouge1": _unigrams,
    "rouge2": _bigrams,
    "rougeL": _subsequence,
    "rougeLsum": _union,
}


def f_measure(hits: int, n_gold: int, n_pred: int) -> float:
    """2PR / (P + R) with P = hits / n_pred and R = hits / n_gold; 0 without a hit. Range [0, 1]."""
    if not hits:
        return 0.0
    precision, recall = hits / n_pred, hits / n_gold
    return 2 * precision * recall / (precision + recall)


def rouge(kinds: Sequence[str], golds: Sequence[Parts], pred: Parts) -> list[float]:
    """One F-measure in [0, 1] per kind: that of the gold which is best for it. 0 where a side
    has no token.
    """
    if not pred.tokens:
        return [0.0] * len(kinds)
    scored = [gold for gold in golds if gold.tokens]
    values: list[float] = []
    for kind in kinds:
        if (
            kind == "rougeLsum"
            and "rougeL" in kinds
            and len(pred.sentences) == 1 == max((len(gold.sentences) for gold in scored), default=1)
        ):
            values.append(values[kinds.index("rougeL")])  # sentences of one line: the same number
        else:
            values.append(max((KINDS[kind](gold, pred) for gold in scored), default=0.0))
    return values


def has_tokens(golds: Sequence[Parts], pred: Parts) -> bool:
    """True where the answer and some gold hold a token; else a 0 comes from the tokenizer, not from
    the answer.
    """
    return bool(pred.tokens) and any(gold.tokens for gold in golds)


def check_options(owner: Any) -> None:
    """Fault for an unknown stemmer or tokenizer.

    True and False stand for the stemmer porter and none.
    """
    if isinstance(owner.stemmer, bool) or owner.stemmer in ("true", "false", "none"):
        object.__setattr__(owner, "stemmer", "porter" if owner.stemmer in (True, "true") else None)
    if owner.stemmer not in (None, "porter"):
        raise Fault(
            f"{owner.name}: stemmer must be porter or none, got {visible(repr(owner.stemmer))}."
        )
    if owner.tokenizer not in ROUGE_TOKENIZERS:
        raise unknown(f"tokenizer of {owner.name}", str(owner.tokenizer), list(ROUGE_TOKENIZERS))


@dataclass(frozen=True, slots=True)
class RougeScorer(Scorer):
    """F-measure of one kind against the best gold.

    Range [0, 1]. A side without any token: 0, and unparsed.
    """

    packages: ClassVar[tuple[str, ...]] = ("rapidfuzz", "nltk")
    is_graded: ClassVar[bool] = True
    stemmer: str | None = None
    tokenizer: str = "rouge"

    def __post_init__(self) -> None:
        check_options(self)

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """ValueError where the document has no gold."""
        return self.judge_batch([(doc, text)])[0]

    def judge_batch(self, items: Sequence[tuple[Doc, str]]) -> list[Verdict]:
        """As `judge_text`; the golds of neighbours with equal golds are cut once."""
        cut = cutter(self.stemmer, self.tokenizer, (self.name,))
        verdicts = []
        known: tuple[str, ...] = ()
        golds: list[Parts] = []
        for doc, text in items:
            if not doc.gold:
                raise ValueError(self.check_doc(doc))
            if doc.gold_texts != known:
                known, golds = doc.gold_texts, [cut(gold) for gold in doc.gold_texts]
            pred = cut(text)
            if has_tokens(golds, pred):
                verdicts.append(Verdict(rouge((self.name,), golds, pred)[0]))
            else:
                verdicts.append(Verdict(0.0, state=State.UNPARSED, rule=NO_TOKEN))
        return verdicts


@scorer("rouge1")
class Rouge1Scorer(RougeScorer):
    """F-measure of shared words, best gold. Range [0, 1].

    Attributes:
        stemmer: porter or none.
        tokenizer: rouge (runs of a-z and 0-9) or char (every character).
    """


@scorer("rouge2")
class Rouge2Scorer(RougeScorer):
    """F-measure of shared pairs of neighbouring words, best gold. Range [0, 1]. As rouge1."""


@scorer("rougeL")
class RougeLScorer(RougeScorer):
    """F-measure of the longest common subsequence of words, best gold. Range [0, 1]. As rouge1."""


@scorer("rougeLsum")
class RougeLsumScorer(RougeScorer):
    """F-measure of the union over lines of longest common subsequences, best gold.

    Range [0, 1]. As rouge1.
    """


@dataclass(frozen=True, slots=True)
class RougeMean(MeanOfVerdicts):
    """Mean of a ROUGE scorer over samples, then over documents; the scorer has the metric's
    stemmer and tokenizer.
    """

    has_own_scorer: ClassVar[bool] = True
    source: ClassVar[str] = LIN
    n: int | None = None
    stemmer: str | None = None
    tokenizer: str = "rouge"
    scorer: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        scorer = SCORERS.get(self.name)(stemmer=self.stemmer, tokenizer=self.tokenizer)  # type: ignore[call-arg]
        check_options(self)
        object.__setattr__(self, "scorer", scorer.signature)


@metric("rouge1")
class Rouge1(RougeMean):
    """F-measure 2PR / (P + R) of words that answer and gold share.

    The best gold counts; mean over samples, then documents. Range [0, 1].

    Attributes:
        stemmer: porter or none.
        tokenizer: rouge (runs of a-z and 0-9; other scripts score 0) or char (every character).
    """


@metric("rouge2")
class Rouge2(RougeMean):
    """F-measure 2PR / (P + R) of pairs of neighbouring words that answer and gold share.

    The best gold counts; mean over samples, then documents. Range [0, 1].

    Attributes:
        stemmer: porter or none.
        tokenizer: rouge (runs of a-z and 0-9; other scripts score 0) or char (every character).
    """


@metric("rougeL")
class RougeL(RougeMean):
    """F-measure 2PR / (P + R) of the longest common subsequence of words.

    The best gold counts; mean over samples, then documents. Range [0, 1].

    Attributes:
        stemmer: porter or none.
        tokenizer: rouge (runs of a-z and 0-9; other scripts score 0) or char (every character).
    """


@metric("rougeLsum")
class RougeLsum(RougeMean):
    """F-measure 2PR / (P + R) over lines: words of a gold line that lie on a longest common
    subsequence with any line.

    The best gold counts; mean over samples, then documents. Range [0, 1].

    Attributes:
        stemmer: porter or none.
        tokenizer: rouge (runs of a-z and 0-9; other scripts score 0) or char (every character).
            Without newlines it equals rougeL.
    """
