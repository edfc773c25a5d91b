"""Error bars of a mean over documents.

stderr = s / sqrt(N) with s from N - 1 (the central limit theorem over documents; Miller 2024, arXiv
2411.00640), or over clusters of documents (evalrun.stats.clustered). Interval: that of
evalrun.stats.bounded_mean where the values cannot leave [0, 1], at every number of documents; else
Student's t. NaN is never dropped: it gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalrun.stats.bounded_mean import bounded_interval
from evalrun.stats.clustered import clustered_stderr

Values: TypeAlias = NDArray[np.float64] | Sequence[float]


@dataclass(frozen=True, slots=True)
class MeanError:
    """A mean with its error. None is absent.

    Attributes:
        method: `clt+bounded`, `clt+t`, `clustered+bounded`, `clustered+t`, `bounded` (no stderr,
            one document or cluster) or `none`.
    """

    value: float
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    method: str


def mean_stderr(values: Values) -> float | None:
    """s / sqrt(N), s with N - 1.

    None for one value; NaN where a value is NaN; ValueError for none.
    """
    array = _floats(values)
    if array.size == 1:
        return None
    if np.all(array == array[0]):
        return 0.0  # np.std of equal values need not be exactly 0
    return float(np.std(array, ddof=1) / math.sqrt(array.size))


def t_interval(mean: float, stderr: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """mean +- t(n - 1) * stderr, Student's t, two-sided.

    Args:
        n: documents, or clusters.

    ValueError for n < 2.
    """
    half = t_quantile(n, level) * stderr
    return mean - half, mean + half


def t_quantile(n: int, level: float = 0.95) -> float:
    """Two-sided quantile of Student's t with n - 1 degrees of freedom. ValueError for n < 2."""
    if n < 2:
        raise ValueError(f"an interval needs two documents, got {n}")
    from scipy.special import stdtrit  # lazy: scipy takes long to import

    return float(stdtrit(n - 1, 0.5 + _level(level) / 2))


def mean_error(
    values: Values,
    is_bounded: bool = True,
    level: float = 0.95,
    codes: NDArray[np.int64] | None = None,
) -> MeanError:
    """The mean of per-document values with stderr and interval.

    Args:
        values: one per document.
        is_bounded: the values lie in [0, 1] by definition. They get an interval from one document
            (or cluster) on; others have neither stderr nor interval there.
        level: confidence of the interval, in (0, 1), default 0.95.
        codes: cluster of each document, from 0 without gaps; None: all are independent.

    NaN gives NaN throughout. ValueError for no value, or where a bounded one lies outside [0, 1].
    """
    array = _floats(values)
    value = float(np.mean(array))
    stderr = mean_stderr(array) if codes is None else clustered_stderr(array, codes)
    family = "clt" if codes is None else "clustered"
    rule = "bounded" if is_bounded else "t"
    if math.isnan(value):
        return MeanError(math.nan, math.nan, math.nan, math.nan, f"{family}+{rule}")
    if is_bounded:
        low, high = bounded_interval(array, level, codes)
        return MeanError(value, stderr, low, high, rule if stderr is None else f"{family}+{rule}")
    if stderr is None:
        return MeanError(value, None, None, None, "none")
    units = array.size if codes is None else int(codes.max()) + 1
    return MeanError(value, stderr, *t_interval(value, stderr, units, level), f"{family}+{rule}")


def group_stderr(stderrs: Sequence[float | None]) -> float | None:
    """sqrt(sum se^2) / K: stderr of the plain mean of K independent estimates.

    None where a member has none.
    """
    known = [stderr for stderr in stderrs if stderr is not None]
    if not stderrs or len(known) < len(stderrs):
        return None
    return math.sqrt(math.fsum(stderr * stderr for stderr in known)) / len(stderrs)


def _floats(values: Values) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"need a row of values, one per document, got shape {array.shape}")
    return array


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies in (0, 1), got {level}")
    return level
