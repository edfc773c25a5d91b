"""F1 of the words that two texts share, and DROP's two numbers over spans."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault, visible
from evalrun.metrics.base import Column, Matrix, Metric, Output, Scorer, Statistic
from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric, scorer
from evalrun.text.normalizers import helm, helm_words
from evalrun.types import Answer, Doc, Samples, Verdict

TOKENS = ("set", "multiset")
_KEPT = 1 << 10  # word sets are large: those of a batch are not all kept
Words = frozenset[str] | tuple[str, ...]


def check_tokens(tokens: Any) -> None:
    """Fault unless `tokens` is set or multiset."""
    if tokens not in TOKENS:
        raise Fault(f"f1_score: tokens must be set or multiset, got {visible(repr(tokens))}.")


def word_f1(answer: Words, gold: Words) -> float:
    """2·shared / (answer + gold) words, which is 2PR/(P+R). 0 where either is empty. Range [0, 1].

    Two sets: every word counts once. Two tuples: as often as it occurs in both (SQuAD).
    """
    if not answer or not gold:
        return 0.0
    if isinstance(answer, frozenset) and isinstance(gold, frozenset):
        shared = len(answer & gold)
    else:
        shared = (Counter(answer) & Counter(gold)).total()
    return 2 * shared / (len(answer) + len(gold))


class WordScorer(Scorer):
    """The best F1 of the text's words over the golds."""

    is_graded: ClassVar[bool] = True
    # Equal texts are right even where `split` leaves no word of them, as of "A".
    is_right_if_equal: ClassVar[bool] = False
    tokens: str

    def words(self, text: str) -> Words:
        """The words of a text: a frozenset, or a tuple where they are counted."""
        found = self.split(text)
        return frozenset(found) if self.tokens == "set" else tuple(found)

    def split(self, text: str) -> list[str]:
        """The words in their order."""
        raise NotImplementedError

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """A value in [0, 1]. An empty answer is 0."""
        return self._judge(doc, text, self.words)

    def judge_batch(self, items: Sequence[tuple[Doc, str]]) -> list[Verdict]:
        """As `judge_text`; a text that comes again soon is cut into words once."""
        words = lru_cache(maxsize=_KEPT)(self.words)
        return [self._judge(doc, text, words) for doc, text in items]

    def _judge(self, doc: Doc, text: str, words: Callable[[str], Words]) -> Verdict:
        golds = doc.gold_texts
        if not golds:
            raise ValueError(self.check_doc(doc))
        mine = words(text)
        value = max(word_f1(mine, words(gold)) for gold in golds)
        if self.is_right_if_equal and text and text in golds:
            value = 1.0
        return Verdict(value, text.strip(), (0, len(text)), f"{self.tokens} of words")


@scorer("f1_score")
class F1Scorer(WordScorer):
    """F1 of the words between white space.

    Attributes:
        tokens: set or multiset.

    Range [0, 1]. Source: HELM; multiset: SQuAD.
    """

    tokens: str = "set"

    def __post_init__(self) -> None:
        check_tokens(self.tokens)

    def split(self, text: str) -> list[str]:
        return text.split()


@scorer("f1_score_quasi")
class F1QuasiScorer(WordScorer):
    """`f1_score` of the words that the normaliser `helm` leaves; 1 where the texts are equal and
    not empty. Range [0, 1].
    """

    version: ClassVar[int] = 2
    is_right_if_equal: ClassVar[bool] = True
    tokens: str = "set"

    def __post_init__(self) -> None:
        check_tokens(self.tokens)

    def split(self, text: str) -> list[str]:
        return helm_words(text)


class LabelF1(Metric):
    """The whole answers are labels: statistics are the gold's and the predicted label of each
    document.

    The predicted label is the whole first sample, empty where there is no answer. Where it
    equals one of several golds, that gold is the label, else the first.
    """

    has_scorer: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("gold", "label"), Column("predicted", "label"))

    def check_doc(self, doc: Doc) -> str | None:
        return None if doc.gold else f"document {doc.id!r} has no gold answer"

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        if not isinstance(answer, Samples) or not answer.texts or not doc.gold:
            raise ValueError(f"document {doc.id!r} has no answer or no gold")
        if answer.failed[0]:
            raise ValueError(f"document {doc.id!r}: its request failed")
        text, golds = answer.texts[0] or "", doc.gold_texts
        return (text if text in golds else golds[0], text)


@metric(
    "f1_score_macro",
    source="definition: F1 per class, plain mean (as scikit-learn 1.9.1, average macro)",
)
class F1ScoreMacro(LabelF1):
    """Mean over labels of 2·tp / (2·tp + fp + fn). Range [0, 1]. Error by bootstrap.

    The labels are all golds and answers, character by character; a draw of the bootstrap has its
    own.
    """

    def outputs(self) -> tuple[Output, ...]:
        return (Output(self.display, ("gold", "predicted"), of_rows=_macro_f1),)


@metric(
    "f1_score_micro",
    source="definition: F1 of summed counts (as scikit-learn 1.9.1, average micro)",
)
class F1ScoreMicro(LabelF1):
    """2·tp / (2·tp + fp + fn) with the counts of all labels: with one label per document the share
    that is right.

    Range [0, 1]. Error by bootstrap. Labels as in f1_score_macro.
    """

    def outputs(self) -> tuple[Output, ...]:
        return (Output(self.display, ("gold", "predicted"), of_rows=_micro_f1),)


def _macro_f1(matrix: Matrix) -> float:
    gold, predicted = np.asarray(matrix["gold"]), np.asarray(matrix["predicted"])
    n = len(gold)
    if not (gold.dtype.kind == predicted.dtype.kind == "i"):
        gold, predicted = np.split(
            np.unique(np.concatenate([gold, predicted]), return_inverse=True)[1], [n]
        )
    size = int(max(gold.max(), predicted.max())) + 1
    in_both = np.bincount(gold[gold == predicted], minlength=size)
    in_either = np.bincount(gold, minlength=size) + np.bincount(predicted, minlength=size)
    present = in_either > 0
    return float(np.mean(2 * in_both[present] / in_either[present]))


def _micro_f1(matrix: Matrix) -> float:
    return float(np.mean(np.asarray(matrix["gold"]) == np.asarray(matrix["predicted"])))


@metric("drop", source="Dua et al. 2019 (DROP, arXiv 1903.00161), drop_eval; mean over documents")
class Drop(Metric):
    """DROP's exact match and F1 over answer spans, after the normaliser `helm`.

    Outputs drop_em, drop_f1. Range [0, 1].

    em: the same set of spans, equally many. f1: spans paired one to one for the largest sum of
    their word sets' F1, divided by the larger number of spans, rounded to two places; a pair counts
    only where the gold holds no number or the two share one. The best gold counts. A gold is one
    span, or several in `gold_spans` of the document; an answer is one span. n samples: their mean;
    where n is open the best of a document's answers.
    """

    has_scorer: ClassVar[bool] = False
    n: int | None = None

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("em", "float"), Column("f1", "float"))

    def outputs(self) -> tuple[Output, ...]:
        params = () if self.n is None else (("n", self.n),)
        return tuple(
            Output(f"drop_{name}", (name,), partial(_column, name), params) for name in ("em", "f1")
        )

    def check_doc(self, doc: Doc) -> str | None:
        return None if gold_spans(doc) else f"document {doc.id!r} has no gold answer"

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        golds = gold_spans(doc)
        texts = answer.texts[: self.n] if isinstance(answer, Samples) else ()
        if not golds or not texts or (self.n is not None and len(texts) < self.n):
            raise ValueError(f"document {doc.id!r} has {len(golds)} golds and {len(texts)} samples")
        pairs = [_best_of(golds, (text or "",)) for text in texts]
        em, f1 = zip(*pairs, strict=True)
        if self.n is None:
            return (max(em), max(f1))
        return (math.fsum(em) / len(em), math.fsum(f1) / len(f1))


def gold_spans(doc: Doc) -> tuple[tuple[str, ...], ...]:
    """The golds of a document, each as its spans."""
    spans = dict(doc.extra).get("gold_spans")
    if spans is None:
        return tuple((gold,) for gold in doc.gold_texts)
    return tuple((gold,) if isinstance(gold, str) else tuple(gold) for gold in spans)


def drop_scores(gold: Sequence[str], answer: Sequence[str]) -> tuple[float, float]:
    """(em, f1) of an answer's spans against one gold's. Range [0, 1]; f1 rounded to two places."""
    mine, right = _span_bags(tuple(answer)), _span_bags(tuple(gold))
    is_same = {text for text, _ in mine} == {text for text, _ in right} and len(mine) == len(right)
    table = np.array([[_bag_f1(g, a) for _, a in mine] for _, g in right])
    return float(is_same), round(_best_sum(table) / max(len(mine), len(right)), 2)


def _best_of(golds: Sequence[Sequence[str]], answer: Sequence[str]) -> tuple[float, float]:
    em, f1 = zip(*(drop_scores(gold, answer) for gold in golds), strict=True)
    return max(em), max(f1)


@lru_cache(maxsize=1 << 14)
def _span_bags(spans: tuple[str, ...]) -> tuple[tuple[str, frozenset[str]], ...]:
    forms = [helm(span) for span in spans or ("",)]
    return tuple((form, frozenset(form.split())) for form in forms)


def _bag_f1(gold: frozenset[str], answer: frozenset[str]) -> float:
    numbers = {word for word in gold if _is_number(word)}
    if numbers and not numbers & answer:
        return 0.0
    shared = len(gold & answer)
    precision = shared / len(answer) if answer else 1.0
    recall = shared / len(gold) if gold else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _best_sum(table: NDArray[np.float64]) -> float:
    """The largest sum of entries, no two in one row or column."""
    if min(table.shape) == 1:
        return float(table.max())
    from scipy.optimize import linear_sum_assignment

    return float(table[linear_sum_assignment(table, maximize=True)].sum())


def _column(name: str, matrix: Matrix) -> NDArray[np.float64]:
    return np.asarray(matrix[name], dtype=np.float64)
