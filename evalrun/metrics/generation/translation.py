"""Corpus scores of translations: bleu, chrf, chrf++ and ter, equal to sacrebleu 2.6.0.

Each document gives a few counts; the number is a formula over their sums, so that a bootstrap never
reads a text again. Every gold is a reference. Of several answers the first is read; no answer is an
empty hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault, unknown
from evalrun.metrics.answers import texts_of, without_gold
from evalrun.metrics.base import Column, Metric, Output, Statistic
from evalrun.metrics.register import metric
from evalrun.text.character_grams import as_characters, character_grams, shared_sorted
from evalrun.text.edit_rate import edits
from evalrun.text.overlap import ngrams, shared
from evalrun.types import Answer, Doc, Verdict

Sums = NDArray[np.float64]

MAX_ORDER = 4
CHAR_ORDER = 6
BETA_SQUARED = 4.0
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class CorpusMetric(Metric):
    """Counts per document and a formula over their sums."""

    has_scorer: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("sacrebleu",)
    is_higher_better: ClassVar[bool] = True
    counts: ClassVar[tuple[str, ...]]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            Column(name, "float" if name == "ref_len_mean" else "int") for name in self.counts
        )

    @property
    def formula(self) -> Callable[[Sums], Sums]:
        """Sums of the counts [..., columns] -> scores [...]."""
        raise NotImplementedError

    def outputs(self) -> tuple[Output, ...]:
        return (
            Output(
                self.display,
                self.counts,
                unit="percent",
                is_higher_better=self.is_higher_better,
                is_bounded=False,
                of_sums=self.formula,
            ),
        )

    def check_doc(self, doc: Doc) -> str | None:
        return without_gold(doc)

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        if reason := self.check_doc(doc):
            raise ValueError(reason)
        return self.count(texts_of(doc, answer)[0], doc.gold_texts)

    def count(self, hypothesis: str, references: Sequence[str]) -> tuple[Statistic, ...]:
        """The counts of one document, in the order of `counts`."""
        raise NotImplementedError


_MECAB = {"ja-mecab": ("MeCab", "sacrebleu[ja]"), "ko-mecab": ("mecab_ko", "sacrebleu[ko]")}
BLEU_TOKENIZERS = ("13a", "intl", "zh", "char", "none", *_MECAB)


@lru_cache(maxsize=8)
def _bleu_tokenizer(name: str) -> Callable[[str], str]:
    from sacrebleu.metrics.bleu import BLEU

    tokenizer: Callable[[str], str] = BLEU(tokenize=name).tokenizer
    return tokenizer


@lru_cache(maxsize=1 << 16)
def _chunk_words(chunk: str) -> tuple[str, ...]:
    return tuple(_bleu_tokenizer("13a")(chunk).split())


def bleu_words(tokenizer: str, text: str) -> list[str]:
    """The words of a text by a tokenizer of sacrebleu.

    13a looks no farther than the white space around a chunk (but for a hyphen at the end of a line
    and `<skipped>`), so each distinct chunk is cut once, and letters and digits alone are not cut.
    """
    if tokenizer != "13a" or "-\n" in text or "<skipped>" in text:
        return _bleu_tokenizer(tokenizer)(text.rstrip()).split()
    words: list[str] = []
    for chunk in text.split():
        if chunk.isalnum() and chunk.isascii():
            words.append(chunk)
        else:
            words += _chunk_words(chunk)
    return words


@metric(
    "bleu", source="Papineni et al. 2002 (aclanthology P02-1040), as computed by sacrebleu 2.6.0"
)
class Bleu(CorpusMetric):
    """Corpus BLEU: brevity penalty x geometric mean of the precisions of 1 to 4 words, over the
    whole corpus.

    Range [0, 100], in percent. Orders without a match are smoothed (exp); nothing matched at all:
    0.

    Attributes:
        tokenize: 13a (Western scripts), intl, zh, char, ja-mecab, ko-mecab or none. 13a does not
            cut Chinese or Japanese.
    """

    counts: ClassVar[tuple[str, ...]] = (
        "hyp_len", "ref_len", *(f"{what}_{n}" for what in ("match", "total") for n in (1, 2, 3, 4))
    )  # fmt: skip
    tokenize: str = "13a"

    def __post_init__(self) -> None:
        if self.tokenize not in BLEU_TOKENIZERS:
            raise unknown("tokenizer of bleu", str(self.tokenize), list(BLEU_TOKENIZERS))
        package, wanted = _MECAB.get(self.tokenize, ("sacrebleu", ""))
        if wanted and find_spec(package) is None:
            raise Fault(
                f"bleu: tokenize={self.tokenize} needs {package}, not installed here: pip install "
                f"'{wanted}'."
            )

    @property
    def formula(self) -> Callable[[Sums], Sums]:
        return corpus_bleu

    def count(self, hypothesis: str, references: Sequence[str]) -> tuple[Statistic, ...]:
        words = bleu_words(self.tokenize, hypothesis)
        golds = [bleu_words(self.tokenize, reference) for reference in references]
        found, *wanted = character_grams(as_characters(words, *golds), MAX_ORDER)
        totals = [len(grams) for grams in found]
        matches = [
            shared_sorted(grams, *others) for grams, *others in zip(found, *wanted, strict=True)
        ]
        ref_len = min((abs(len(gold) - len(words)), len(gold)) for gold in golds)[1]
        return (len(words), ref_len, *matches, *totals)


def corpus_bleu(sums: Sums) -> Sums:
    """Sums of (hyp_len, ref_len, match 1..4, total 1..4) [..., 10] -> BLEU in percent [...]."""
    hyp, ref = sums[..., 0], sums[..., 1]
    match, total = sums[..., 2:6], sums[..., 6:10]
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(hyp < ref, np.where(hyp > 0, np.exp(1 - ref / hyp), 0.0), 1.0)
        # The k-th order without a match counts as 1 / 2^k match.
        halvings = np.cumsum(match == 0, axis=-1)
        precision = 100 * np.where(match > 0, match, 0.5**halvings) / total
        mean = np.exp(np.log(precision).mean(axis=-1))
        has_score = (match > 0).any(axis=-1) & (total > 0).all(axis=-1)
        return np.asarray(np.where(has_score, penalty * mean, 0.0), dtype=np.float64)


def _chrf_counts(n_orders: int) -> tuple[str, ...]:
    return tuple(
        f"{what}_{order}" for order in range(1, n_orders + 1) for what in ("hyp", "ref", "match")
    )


class CharacterF(CorpusMetric):
    """chrF: F with beta 2 of the precision and the recall, each a mean over the orders of n-grams
    that both sides have.

    Characters without white space, orders 1 to 6, and words, orders 1 to `word_order`.
    """

    packages: ClassVar[tuple[str, ...]] = ()
    word_order: ClassVar[int]

    @property
    def formula(self) -> Callable[[Sums], Sums]:
        return corpus_chrf

    def count(self, hypothesis: str, references: Sequence[str]) -> tuple[Statistic, ...]:
        """Of several references, the first of those that give this document its best score."""
        lines = ["".join(text.split()) for text in (hypothesis, *references)]
        found, *wanted = character_grams(lines, CHAR_ORDER)
        words, *gold_words = [
            _edge_cut(text) if self.word_order else [] for text in (hypothesis, *references)
        ]
        rows = []
        for grams, gold in zip(wanted, gold_words, strict=True):
            row: list[int] = []
            for mine, theirs in zip(found, grams, strict=True):
                row += (len(mine) if len(theirs) else 0, len(theirs), shared_sorted(mine, theirs))
            for n in range(1, self.word_order + 1):
                pred_words, ref_words = ngrams(words, n), ngrams(gold, n)
                row += (
                    len(pred_words) if ref_words else 0,
                    len(ref_words),
                    shared(ref_words, pred_words),
                )
            rows.append(row)
        best = (
            0 if len(rows) == 1 else int(np.argmax(corpus_chrf(np.array(rows, dtype=np.float64))))
        )
        return tuple(rows[best])


def _edge_cut(text: str) -> list[str]:
    """Words, with one punctuation mark cut off the end, else off the beginning.

    Source: sacrebleu 2.6.0, chrF++.
    """
    words: list[str] = []
    for word in text.split():
        if len(word) == 1:
            words.append(word)
        elif word[-1] in _PUNCTUATION:
            words += (word[:-1], word[-1])
        elif word[0] in _PUNCTUATION:
            words += (word[0], word[1:])
        else:
            words.append(word)
    return words


def corpus_chrf(sums: Sums) -> Sums:
    """Sums of (hypothesis, reference, match) for every order [..., 3 x orders] -> chrF in
    percent [...].
    """
    by_order = sums.reshape(*sums.shape[:-1], -1, 3)
    hyp, ref, match = by_order[..., 0], by_order[..., 1], by_order[..., 2]
    counts = (hyp > 0) & (ref > 0)
    n_orders = np.maximum(counts.sum(axis=-1), 1)
    precision = np.where(counts, match / np.where(counts, hyp, 1), 0).sum(axis=-1) / n_orders
    recall = np.where(counts, match / np.where(counts, ref, 1), 0).sum(axis=-1) / n_orders
    bottom = BETA_SQUARED * precision + recall
    score = 100 * (1 + BETA_SQUARED) * precision * recall / np.where(bottom > 0, bottom, 1)
    return np.asarray(score, dtype=np.float64)


@metric("chrf", source="Popović 2015 (aclanthology W15-3049), as computed by sacrebleu 2.6.0")
class Chrf(CharacterF):
    """chrF: F-score with beta 2 of character n-grams of orders 1 to 6, white space left out.

    Range [0, 100], percent.

    Precision and recall are means over the orders that both sides have, over the whole corpus.
    """

    counts: ClassVar[tuple[str, ...]] = _chrf_counts(CHAR_ORDER)
    word_order: ClassVar[int] = 0


@metric(
    "chrf_plus_plus",
    aliases=("chrf_plus",),
    display="chrf++",
    source="Popović 2017 (aclanthology W17-4770), as computed by sacrebleu 2.6.0",
)
class ChrfPlusPlus(CharacterF):
    """chrF++: chrF with words and pairs of words as two more orders. Range [0, 100], in percent."""

    counts: ClassVar[tuple[str, ...]] = _chrf_counts(CHAR_ORDER + 2)
    word_order: ClassVar[int] = 2


@metric(
    "ter",
    source="Snover et al. 2006 (aclanthology 2006.amta-papers.25), as computed by sacrebleu 2.6.0",
)
class Ter(CorpusMetric):
    """Translation edit rate: edits and shifts of words / mean length of the references.

    Lower is better.

    Range [0, inf), in percent; it may pass 100. Of several references the one with the fewest edits
    counts. Case is ignored unless case_sensitive; normalized cuts punctuation off (with
    asian_support also CJK characters one by one); no_punct removes it.
    """

    is_higher_better: ClassVar[bool] = False
    counts: ClassVar[tuple[str, ...]] = ("edits", "ref_len_mean")
    normalized: bool = False
    no_punct: bool = False
    asian_support: bool = False
    case_sensitive: bool = False

    def __post_init__(self) -> None:
        for name in ("normalized", "no_punct", "asian_support", "case_sensitive"):
            if not isinstance(getattr(self, name), bool):
                raise Fault(f"ter: {name} must be true or false, got {getattr(self, name)!r}.")

    @property
    def formula(self) -> Callable[[Sums], Sums]:
        return corpus_ter

    def count(self, hypothesis: str, references: Sequence[str]) -> tuple[Statistic, ...]:
        options = (self.normalized, self.no_punct, self.asian_support, self.case_sensitive)
        cut = _ter_tokenizer(*options)
        words = cut(hypothesis.rstrip()).split()
        golds = [cut(reference.rstrip()).split() for reference in references]
        return (min(edits(words, gold) for gold in golds), sum(map(len, golds)) / len(golds))


@lru_cache(maxsize=8)
def _ter_tokenizer(
    normalized: bool, no_punct: bool, asian_support: bool, case_sensitive: bool
) -> Callable[[str], str]:
    from sacrebleu.metrics.ter import TER

    metric = TER(
        normalized=normalized, no_punct=no_punct, asian_support=asian_support,
        case_sensitive=case_sensitive,
    )  # fmt: skip
    tokenizer: Callable[[str], str] = metric.tokenizer
    return tokenizer


def corpus_ter(sums: Sums) -> Sums:
    """Sums of (edits, mean reference length) [..., 2] -> TER in percent [...]; without reference
    words 100, or 0.
    """
    edits, length = sums[..., 0], sums[..., 1]
    rate = np.where(
        length > 0, edits / np.where(length > 0, length, 1), np.where(edits > 0, 1.0, 0.0)
    )
    return np.asarray(100 * rate, dtype=np.float64)
