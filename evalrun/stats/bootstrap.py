"""Bootstrap: resample documents with replacement, recompute, look at the spread (Efron 1979).

stderr is the standard deviation (n - 1) of the replicates. Intervals: percentile, or BCa (Efron
1987, bias-corrected and accelerated). What is resampled is the matrix of statistics, never an
answer: a formula over sums costs one matrix product per chunk of draws. Where documents come in
clusters, whole clusters are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalrun.stats.arrays import Floats, Ints

DRAWS = 1000
CELLS = 1 << 21
"""Draws are made in chunks of at most this many drawn documents (16 MB of weights), one draw at
least.
"""


def replicates_of_sums(
    rows: Floats,
    of_sums: Callable[[Floats], Floats],
    draws: int = DRAWS,
    seed: int = 0,
    codes: Ints | None = None,
) -> Floats:
    """of_sums of `draws` resamples of `rows` [documents, columns]: float64 [draws].

    Args:
        codes: cluster of each document. The stream depends on the seed only, not on the chunks.

    ValueError for no row.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if codes is not None:
        rows = _sums_by(codes, rows)
    parts = [of_sums(_weights(drawn, len(rows)) @ rows) for drawn in _drawn(len(rows), draws, seed)]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


def replicates_of_rows(
    matrix: Mapping[str, NDArray[Any]],
    of_rows: Callable[[dict[str, NDArray[Any]]], float],
    draws: int = DRAWS,
    seed: int = 0,
    codes: Ints | None = None,
) -> Floats:
    """of_rows of `draws` resamples of the matrix's rows: float64 [draws].

    OverflowError in a draw gives NaN there.
    """
    size = len(next(iter(matrix.values())))
    groups = None if codes is None else _members(codes)
    found = []
    for chunk in _drawn(size if groups is None else len(groups), draws, seed):
        for drawn in chunk:
            rows = drawn if groups is None else np.concatenate([groups[g] for g in drawn])
            found.append(_value(of_rows, {name: column[rows] for name, column in matrix.items()}))
    return np.asarray(found, dtype=np.float64)


def bootstrap_stderr(replicates: Floats) -> float:
    """Standard deviation of the replicates, with n - 1. NaN where one of them is not finite."""
    return float(np.std(replicates, ddof=1)) if np.isfinite(replicates).all() else float("nan")


def percentile_interval(replicates: Floats, level: float = 0.95) -> tuple[float, float]:
    """The middle `level` of the replicates. NaN where one of them is not finite."""
    return _quantiles(replicates, (1 - level) / 2, (1 + level) / 2)


def bca_interval(
    value: float, replicates: Floats, left_out: Floats, level: float = 0.95
) -> tuple[float, float]:
    """The bias-corrected and accelerated interval.

    Args:
        value: of the whole sample.
        left_out: the values with one document (or cluster) left out each. NaN where a number is not
            finite. Where all replicates lie on one side of the value the percentile interval
            stands.
    """
    below = float(np.mean(replicates < value) + np.mean(replicates == value) / 2)
    if not np.isfinite(left_out).all() or not 0 < below < 1:
        return _quantiles(
            replicates if np.isfinite(left_out).all() else left_out,
            (1 - level) / 2,
            (1 + level) / 2,
        )
    normal = NormalDist()
    pull = left_out.mean() - left_out
    scale = 6.0 * float(np.sum(pull**2)) ** 1.5
    acceleration = float(np.sum(pull**3)) / scale if scale else 0.0
    bias = normal.inv_cdf(below)
    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(share)
        ends.append(normal.cdf(bias + z / (1 - acceleration * z)))
    return _quantiles(replicates, *ends)


def left_out_of_sums(
    rows: Floats, of_sums: Callable[[Floats], Floats], codes: Ints | None = None
) -> Floats:
    """of_sums with each document (or cluster) left out in turn."""
    rows = np.asarray(rows, dtype=np.float64)
    if codes is not None:
        rows = _sums_by(codes, rows)
    return np.asarray(of_sums(rows.sum(axis=0) - rows), dtype=np.float64)


def left_out_of_rows(
    matrix: Mapping[str, NDArray[Any]],
    of_rows: Callable[[dict[str, NDArray[Any]]], float],
    codes: Ints | None = None,
) -> Floats:
    """of_rows with each document (or cluster) left out in turn."""
    size = len(next(iter(matrix.values())))
    members = _members(np.arange(size) if codes is None else codes)
    found = []
    for group in members:
        found.append(
            _value(of_rows, {name: np.delete(column, group) for name, column in matrix.items()})
        )
    return np.asarray(found, dtype=np.float64)


def _drawn(size: int, draws: int, seed: int) -> Iterator[Ints]:
    """Chunks of row numbers [draws of the chunk, size]."""
    if size < 1 or draws < 2:
        raise ValueError(f"need a row and two draws, got {size} and {draws}")
    generator = np.random.default_rng(seed)
    step = max(1, CELLS // size)
    for start in range(0, draws, step):
        yield generator.integers(0, size, (min(step, draws - start), size))


def _weights(drawn: Ints, size: int) -> Floats:
    """How often each row was drawn: multinomial weights [draws, size]."""
    shifted = (drawn + np.arange(len(drawn))[:, None] * size).ravel()
    return (
        np.bincount(shifted, minlength=len(drawn) * size)
        .reshape(len(drawn), size)
        .astype(np.float64)
    )


def _sums_by(codes: Ints, rows: Floats) -> Floats:
    return np.stack([np.bincount(codes, weights=column) for column in rows.T], axis=1)


def _members(codes: Ints) -> list[Ints]:
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def _value(
    of_rows: Callable[[dict[str, NDArray[Any]]], float], matrix: dict[str, NDArray[Any]]
) -> float:
    try:
        return float(of_rows(matrix))
    except OverflowError:
        return float("nan")


def _quantiles(values: Floats, low: float, high: float) -> tuple[float, float]:
    if not np.isfinite(values).all():
        return float("nan"), float("nan")
    ends = np.quantile(values, (low, high))
    return float(ends[0]), float(ends[1])
