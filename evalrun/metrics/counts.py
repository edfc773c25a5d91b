"""n, k and the verdicts of a document: checks and counting shared by the metrics over samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault, visible
from evalrun.metrics.base import Metric
from evalrun.types import Doc, Verdict


def check_count(metric: Metric, name: str, value: Any) -> None:
    """Fault unless `value` is None or a positive whole number (0, -1, 2.5, true and "5" are
    refused).
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Fault(
            f"Metric {metric.name!r}: {name} must be a positive whole number, got "
            f"{visible(repr(value))}."
        )


def check_draws(metric: Metric, k: Any, n: int | None) -> None:
    """Fault unless k is None, a positive whole number, or several different ones, none above n."""
    draws = k if isinstance(k, tuple) else (k,)
    if not draws:
        raise Fault(
            f"Metric {metric.name!r}: k is an empty list. Give one draw size or more, as in "
            "k=[1,2,4]."
        )
    for draw in draws:
        if draw is None and isinstance(k, tuple):
            raise Fault(f"Metric {metric.name!r}: k must hold positive whole numbers, got None.")
        check_count(metric, "k", draw)
        if n is not None and draw is not None and draw > n:
            raise Fault(
                f"Metric {metric.name!r}: k={draw} is larger than n={n}: k answers cannot be drawn "
                f"from {n}. Ask for n={draw} or more, or for k={n} or less."
            )
    if len(set(draws)) < len(draws):
        raise Fault(
            f"Metric {metric.name!r}: k={list(draws)} holds a number twice. Give each draw size "
            "once."
        )


def check_threshold(metric: Metric, value: Any) -> None:
    """Fault unless `value` lies in (0, 1]: a sample is correct where its verdict reaches it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise Fault(
            f"Metric {metric.name!r}: threshold must lie in (0, 1], got {visible(repr(value))}."
        )


def first_n(doc: Doc, verdicts: Sequence[Verdict], n: int | None) -> list[float]:
    """Values of the first n verdicts (all where n is open).

    ValueError where there are fewer than n or none, or where one was not scored: such a row enters
    no matrix.
    """
    chosen = verdicts if n is None else verdicts[:n]
    if not chosen or (n is not None and len(chosen) < n):
        raise ValueError(
            f"document {doc.id!r} has {len(chosen)} judged samples, the metric needs {n or 'one'}"
        )
    values = [verdict.value for verdict in chosen]
    if None in values:
        raise ValueError(f"document {doc.id!r}: sample {values.index(None)} is not scored")
    return [value for value in values if value is not None]


def value_table(
    docs: Sequence[Doc], verdicts: Sequence[Sequence[Verdict]], n: int | None
) -> NDArray[np.float64] | None:
    """[documents, samples] of verdict values, or None where the documents differ in their number
    of samples.
    """
    rows = [first_n(doc, row, n) for doc, row in zip(docs, verdicts, strict=True)]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        return None
    return np.asarray(rows, dtype=np.float64)
