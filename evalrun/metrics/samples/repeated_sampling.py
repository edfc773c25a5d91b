"""Metrics over n samples of a document, from the count of correct ones: pass@k, cons@k, avg@n."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics.base import Column, Matrix, Metric, Output, Statistic
from evalrun.metrics.counts import check_count, check_draws, check_threshold, first_n, value_table
from evalrun.metrics.register import metric
from evalrun.metrics.text.whole_text import set_text_match
from evalrun.stats import rerun, sampling
from evalrun.types import Answer, Doc, Verdict

Law = Callable[[Any, Any, Any], NDArray[np.float64]]


class CountMetric(Metric):
    """Statistics of a document: n samples, c of them correct (verdict at least `threshold`)."""

    n: int | None
    threshold: float

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("n", "int"), Column("c", "int"))

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        values = first_n(doc, verdicts, self.n)
        return (len(values), sum(value >= self.threshold for value in values))

    def score_batch(
        self, docs: Sequence[Doc], answers: Sequence[Answer], verdicts: Sequence[Sequence[Verdict]]
    ) -> list[tuple[Statistic, ...]]:
        table = value_table(docs, verdicts, self.n)
        if table is None:
            return super().score_batch(docs, answers, verdicts)
        n = table.shape[1]
        return [(n, c) for c in np.count_nonzero(table >= self.threshold, axis=1).tolist()]


@dataclass(frozen=True, slots=True)
class DrawMetric(CountMetric):
    """A hypergeometric law of (n, c, k); one output per k, with its rerun error for n >= 2k."""

    needs_k: ClassVar[bool] = True
    k: int | tuple[int, ...] | None = None
    n: int | None = None
    scorer: str | None = None
    threshold: float = 1.0

    def __post_init__(self) -> None:
        check_parameters(self)

    @staticmethod
    @abstractmethod
    def law(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        """The value of a document, from arrays of n and c."""

    @staticmethod
    @abstractmethod
    def variance(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        """The variance of that value over fresh samples; NaN where n < 2k."""

    def outputs(self) -> tuple[Output, ...]:
        """ValueError while k is open."""
        if self.k is None:
            raise ValueError(f"{self.name}: k is open")
        draws = self.k if isinstance(self.k, tuple) else (self.k,)
        return tuple(self._output(k, isinstance(self.k, tuple)) for k in draws)

    def _output(self, k: int, is_one_of_several: bool) -> Output:
        params = (("k", k),) if self.n is None else (("k", k), ("n", self.n))
        name = self.display
        if is_one_of_several:
            name += ":" + "&".join(f"{key}={value}" for key, value in params)
        return Output(
            name,
            ("n", "c"),
            partial(_drawn, self.law, k),
            params,
            rerun=partial(_drawn, self.variance, k),
        )


def _drawn(law: Law, k: int, matrix: Matrix) -> NDArray[np.float64]:
    return law(matrix["n"], matrix["c"], k)


def _share(matrix: Matrix) -> NDArray[np.float64]:
    return sampling.avg_at_n(matrix["n"], matrix["c"])


def _share_variance(matrix: Matrix) -> NDArray[np.float64]:
    return rerun.avg_at_n_variance(matrix["n"], matrix["c"])


@metric("pass_at_k", display="pass@k", source="Chen et al. 2021 (arXiv 2107.03374), eq. 1")
class PassAtK(DrawMetric):
    """1 - C(n-c, k) / C(n, k): chance that one of k samples is correct, without bias from n.

    Range [0, 1].

    Attributes:
        k: draw size or several.
        n: samples (open: k).
        threshold: a sample is correct from this verdict on. A document with several golds is
            refused: each text of the answer could be right for another reason.
    """

    strip: bool | None = None
    normalize: str | None = None

    def check_doc(self, doc: Doc) -> str | None:
        return one_gold(self, doc)

    @staticmethod
    def law(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        return sampling.pass_at_k(n, c, k)

    @staticmethod
    def variance(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        return rerun.pass_at_k_variance(n, c, k)


@metric(
    "cons_at_k",
    display="cons@k",
    source="AISBench accuracy test, strict majority; for k < n its expectation over k-subsets",
)
class ConsAtK(DrawMetric):
    """P(J > k/2) with J correct among k drawn: more than half are correct. Range [0, 1].

    At k = n it is 1 where c > n/2, else 0. Right samples are counted, not equal texts: see maj@n.
    Parameters as pass_at_k.
    """

    strip: bool | None = None
    normalize: str | None = None

    @staticmethod
    def law(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        return sampling.cons_at_k(n, c, k)

    @staticmethod
    def variance(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        return rerun.cons_at_k_variance(n, c, k)


@metric("avg_at_n", display="avg@n", source="AISBench accuracy test, avg@n")
class AvgAtN(CountMetric):
    """c / n, the share of correct samples.

    Range [0, 1]. (The mean of graded verdicts is `accuracy`.)
    """

    needs_n: ClassVar[bool] = True
    n: int | None = None
    scorer: str | None = None
    threshold: float = 1.0
    strip: bool | None = None
    normalize: str | None = None

    def __post_init__(self) -> None:
        check_parameters(self)

    def outputs(self) -> tuple[Output, ...]:
        params = () if self.n is None else (("n", self.n),)
        return (Output(self.display, ("n", "c"), _share, params, rerun=_share_variance),)


def one_gold(metric: Metric, doc: Doc) -> str | None:
    """Why a metric that allows one gold only cannot take this document, or None."""
    if len(doc.gold) <= 1:
        return None
    return (
        f"{metric.display} needs exactly one gold answer, document {doc.id!r} has {len(doc.gold)}"
    )


def check_parameters(metric: Any) -> None:
    """Fault unless n, k and threshold of a metric over counts are what they must be."""
    check_count(metric, "n", metric.n)
    if hasattr(metric, "k"):
        check_draws(metric, metric.k, metric.n)
    check_threshold(metric, metric.threshold)
    set_text_match(metric)
