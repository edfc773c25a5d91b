"""A metric that reads one answer of a document, over several: its number for each sample, averaged.

Sample i of all documents is one corpus: a corpus formula (bleu) is reduced once per i, and the
numbers are averaged. Never is one of the samples taken for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics.base import Column, Matrix, Metric, Output, Statistic
from evalrun.metrics.create import parameters
from evalrun.types import Answer, Doc, Kind, Samples, Verdict


def reads_one(metric: Metric | type[Metric]) -> bool:
    """Whether a metric of generated texts knows no n: it reads one answer of a document."""
    return metric.reads is Kind.GENERATE and not hasattr(metric, "n")


def over_samples(metric: Metric, n: int) -> Metric:
    """`metric` as the mean over the first n samples of each document; itself where it knows n, and
    for n = 1.

    Its columns are those of the metric, once per sample: `NAME.0`, `NAME.1`, ...
    """
    if n == 1 or not reads_one(metric):
        return metric
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__doc__": type(metric).__doc__,
        "columns": property(lambda self: tuple(_columns(metric, n))),
        "outputs": lambda self: tuple(_mean(metric, output, n) for output in metric.outputs()),
        "notes": lambda self, matrix: _notes(metric, matrix, n),
        "score": lambda self, doc, answer, verdicts: _rows(metric, [doc], [answer], [verdicts], n)[
            0
        ],
        "score_batch": lambda self, docs, answers, verdicts: _rows(
            metric, docs, answers, verdicts, n
        ),
    }
    made: Metric = type(type(metric).__name__, (type(metric),), namespace)(
        **dict(parameters(metric))
    )
    return made


def _columns(metric: Metric, n: int) -> list[Column]:
    return [
        Column(f"{column.name}.{i}", column.type) for i in range(n) for column in metric.columns
    ]


def _rows(
    metric: Metric,
    docs: Sequence[Doc],
    answers: Sequence[Answer],
    verdicts: Sequence[Sequence[Verdict]],
    n: int,
) -> list[tuple[Statistic, ...]]:
    each = []
    for i in range(n):
        samples = [_sample(doc, answer, i) for doc, answer in zip(docs, answers, strict=True)]
        each.append(metric.score_batch(docs, samples, [head[i : i + 1] for head in verdicts]))
    return [tuple(chain.from_iterable(parts)) for parts in zip(*each, strict=True)]


def _sample(doc: Doc, answer: Answer, i: int) -> Samples:
    if not isinstance(answer, Samples) or len(answer.texts) <= i:
        raise ValueError(f"document {doc.id!r} has no answer {i}")
    return Samples(answer.texts[i : i + 1], answer.failed[i : i + 1])


def _of_sample(metric: Metric, matrix: Matrix, i: int) -> Matrix:
    return {column.name: matrix[f"{column.name}.{i}"] for column in metric.columns}


def _notes(metric: Metric, matrix: Matrix, n: int) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            note for i in range(n) for note in metric.notes(_of_sample(metric, matrix, i))
        )
    )


def _mean(metric: Metric, output: Output, n: int) -> Output:
    """The output averaged over the samples.

    Where it is a mean over documents, fresh samples vary it by s^2 / n.
    """
    columns = tuple(f"{name}.{i}" for i in range(n) for name in output.columns)
    if output.per_doc is not None:
        values = _per_doc(metric, output.per_doc, n)
        return replace(
            output, columns=columns, per_doc=lambda matrix: np.mean(values(matrix), axis=0),
            rerun=lambda matrix: np.var(values(matrix), axis=0, ddof=1) / n,
        )  # fmt: skip
    if output.of_sums is not None:
        return replace(
            output, columns=columns, of_sums=_of_sums(output.of_sums, n, len(output.columns))
        )
    assert output.of_rows is not None
    of_rows = output.of_rows
    return replace(
        output,
        columns=columns,
        of_rows=lambda matrix: float(
            np.mean([of_rows(_of_sample(metric, matrix, i)) for i in range(n)])
        ),
    )


def _per_doc(
    metric: Metric, per_doc: Callable[[Matrix], NDArray[np.float64]], n: int
) -> Callable[[Matrix], NDArray[np.float64]]:
    """Matrix -> [samples, documents]."""
    return lambda matrix: np.stack([per_doc(_of_sample(metric, matrix, i)) for i in range(n)])


def _of_sums(
    formula: Callable[[NDArray[np.float64]], NDArray[np.float64]], n: int, width: int
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    def mean(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(
            np.mean(formula(sums.reshape(*sums.shape[:-1], n, width)), axis=-1), dtype=np.float64
        )

    return mean
