"""Corpus metrics of classification by log-likelihood: F1 of one class, mean F1 over classes,
Matthews correlation.

The class of a document is its first gold; the predicted class is its best choice
(evalrun.metrics.choices.choice_scores). A document of which no choice has a finite score has no
predicted class and is wrong for every class.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault, visible
from evalrun.metrics.base import Column, Matrix, Output, Statistic
from evalrun.metrics.choices.choice_scores import (
    ChoiceMetric,
    ChoiceTable,
    choice_notes,
)
from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric
from evalrun.types import Answer, Doc, Verdict

_COUNTS = ("is_tied", "n_broken", "n_choices")


def f1_of_sums(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """2 tp / (2 tp + fp + fn) of sums [..., (tp, fp, fn)]; 0 where there is nothing to divide by.

    Range [0, 1].
    """
    twice = 2 * sums[..., 0]
    whole = twice + sums[..., 1] + sums[..., 2]
    return np.divide(twice, whole, out=np.zeros_like(twice), where=whole > 0)


def matthews(gold: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """Matthews correlation of two rows of class numbers (0 or more), for any number of classes.

    Range [-1, 1].

    (c s - sum_k p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)) with s documents, c of them
    right, t_k golds and p_k predictions of class k. 0 where one side holds a single class. Gorodkin
    2004, eq. 8.
    """
    size = int(max(gold.max(), predicted.max())) + 1
    wanted = np.bincount(gold, minlength=size).astype(np.float64)
    given = np.bincount(predicted, minlength=size).astype(np.float64)
    total, right = float(len(gold)), float(np.count_nonzero(gold == predicted))
    spread = (total * total - given @ given) * (total * total - wanted @ wanted)
    if spread <= 0:
        return 0.0
    return max(-1.0, min(1.0, float(right * total - given @ wanted) / math.sqrt(spread)))


def mean_f1(gold: NDArray[np.int64], predicted: NDArray[np.int64], n_classes: int) -> float:
    """Mean over the classes 0 to n_classes - 1 of 2 tp / (2 tp + fp + fn), each class against the
    rest. Range [0, 1].

    A class without golds and predictions has 0. A prediction outside the classes is a miss for its
    gold's class.
    """
    size = max(n_classes, int(gold.max(initial=0)) + 1, int(predicted.max(initial=0)) + 1)
    right = np.bincount(gold[gold == predicted], minlength=size)[:n_classes].astype(np.float64)
    whole = (np.bincount(gold, minlength=size) + np.bincount(predicted, minlength=size))[:n_classes]
    return float(np.mean(np.divide(2 * right, whole, out=np.zeros_like(right), where=whole > 0)))


class Classification(ChoiceMetric):
    """Statistics of a document from its gold and predicted class, both `class` numbers from 0."""

    names: ClassVar[tuple[str, ...]]  # the statistics before is_tied, n_broken and n_choices

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "int") for name in (*self.names, *_COUNTS))

    @abstractmethod
    def statistics(self, table: ChoiceTable) -> tuple[NDArray[Any], ...]:
        """One array [documents] for each of `names`."""

    def notes(self, matrix: Matrix) -> tuple[str, ...]:
        """Documents with ties, with scores that are no number, with one choice only."""
        return choice_notes(matrix)

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        return self.score_batch([doc], [answer], [verdicts])[0]

    def score_batch(
        self, docs: Sequence[Doc], answers: Sequence[Answer], verdicts: Sequence[Sequence[Verdict]]
    ) -> list[tuple[Statistic, ...]]:
        if not docs:
            return []
        table = self.table(docs, answers)
        counts = (table.is_tied(), table.n_broken, table.n_choices)
        columns = [
            np.asarray(each, dtype=np.int64).tolist() for each in (*self.statistics(table), *counts)
        ]
        return list(zip(*columns, strict=True))


class Predicting(Classification):
    """Statistics: the gold class, the predicted class, and whether anything was predicted."""

    names: ClassVar[tuple[str, ...]] = ("gold", "predicted", "has_answer")

    def statistics(self, table: ChoiceTable) -> tuple[NDArray[Any], ...]:
        return table.first_gold, table.best, table.has_answer


def _classes(matrix: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(gold, predicted); where nothing was predicted, one class more than there are."""
    gold, predicted = (np.asarray(matrix[name], dtype=np.int64) for name in ("gold", "predicted"))
    beyond = int(max(gold.max(), predicted.max())) + 1
    return gold, np.where(np.asarray(matrix["has_answer"]) > 0, predicted, beyond)


_F1 = "binary F1 (van Rijsbergen 1979; scikit-learn f1_score, zero_division=0)"


@metric("loglikelihood_f1", source=_F1)
class LoglikelihoodF1(Classification):
    """F1 = 2 tp / (2 tp + fp + fn) of one class over the corpus; 0 where the class never occurs.

    Range [0, 1].

    Attributes:
        positive_class: the index of the choice that counts as positive.
    """

    names: ClassVar[tuple[str, ...]] = ("tp", "fp", "fn")
    positive_class: int = 1

    def __post_init__(self) -> None:
        value = self.positive_class
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Fault(
                f"Metric {self.name!r}: positive_class must be the index of a choice, 0 or more; "
                f"got {visible(repr(value))}."
            )

    def outputs(self) -> tuple[Output, ...]:
        params = (("positive_class", self.positive_class),)
        return (Output(self.display, self.names, params=params, of_sums=f1_of_sums),)

    def statistics(self, table: ChoiceTable) -> tuple[NDArray[Any], ...]:
        is_gold = table.first_gold == self.positive_class
        is_given = (table.best == self.positive_class) & table.has_answer
        return is_gold & is_given, ~is_gold & is_given, is_gold & ~is_given


@metric("loglikelihood_f1_single_token")
class LoglikelihoodF1SingleToken(LoglikelihoodF1):
    """loglikelihood_f1 where every choice is one token; one forward pass scores them all.

    Range [0, 1].
    """

    is_single_token: ClassVar[bool] = True


@metric("mcc", source="Gorodkin 2004 (R_K); scikit-learn matthews_corrcoef")
class Mcc(Predicting):
    """Matthews correlation of gold and predicted class over the corpus, for any number of classes.

    Range [-1, 1].

    0 where one side holds a single class (undefined there; a note says so).
    """

    def outputs(self) -> tuple[Output, ...]:
        return (Output(self.display, Predicting.names, is_bounded=False, of_rows=_matthews),)

    def notes(self, matrix: Matrix) -> tuple[str, ...]:
        """As the base; and where the number is undefined."""
        notes = choice_notes(matrix)
        if any(len(np.unique(side)) == 1 for side in _classes(matrix)):
            notes += (
                f"{self.display} is undefined where golds or predictions hold one class only; it "
                "is given as 0",
            )
        return notes


@metric("mcc_single_token")
class MccSingleToken(Mcc):
    """mcc where every choice is one token. Range [-1, 1]."""

    is_single_token: ClassVar[bool] = True


@metric(
    "multi_f1_numeric",
    aliases=("mf1",),
    source="SuperGLUE CommitmentBank (Wang et al. 2019, arXiv 1905.00537), "
    "mean F1 over its 3 classes",
)
class MultiF1Numeric(Predicting):
    """Mean over the classes of each class's F1 against the rest, over the corpus. Range [0, 1].

    Attributes:
        num_classes: how many classes there are; open: as many as the documents have choices. A
            class that never occurs counts with 0. Every choice is one token; one forward pass
            scores them all.
    """

    is_single_token: ClassVar[bool] = True
    num_classes: int | None = None

    def __post_init__(self) -> None:
        check_count(self, "num_classes", self.num_classes)

    def outputs(self) -> tuple[Output, ...]:
        params = () if self.num_classes is None else (("num_classes", self.num_classes),)
        columns = (*Predicting.names, "n_choices")
        return (Output(self.display, columns, params=params, of_rows=self.reduce),)

    def reduce(self, matrix: Matrix) -> float:
        """The number of these rows."""
        return mean_f1(*_classes(matrix), self.num_classes or int(np.max(matrix["n_choices"])))


def _matthews(matrix: Matrix) -> float:
    return matthews(*_classes(matrix))
