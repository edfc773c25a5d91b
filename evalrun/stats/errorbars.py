"""Error bars of a mean over documents.

stderr = s / sqrt(N) with s from N - 1 (the central limit theorem over documents; Miller 2024, arXiv 2411.00640).
Interval: Wilson's score interval (Wilson 1927) where every value is 0 or 1; else Student's t, cut to [0, 1] where
the values cannot leave it. NaN is never dropped: it gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64] | Sequence[float]


@dataclass(frozen=True, slots=True)
class MeanError:
    """A mean with its error. None is absent. method: `clt+wilson`, `clt+t`, `wilson` (one document) or `none`."""

    value: float
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    method: str


def mean_stderr(values: Values) -> float | None:
    """s / sqrt(N), s with N - 1. None for one value; NaN where a value is NaN; ValueError for none."""
    array = _floats(values)
    if array.size == 1:
        return None
    if np.all(array == array[0]):
        return 0.0  # np.std of equal values need not be exactly 0
    return float(np.std(array, ddof=1) / math.sqrt(array.size))


def wilson(successes: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for successes / n, within [0, 1].

    (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). ValueError unless 0 <= successes <= n, n >= 1.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n and n >= 1, got {successes} of {n}")
    z = NormalDist().inv_cdf(0.5 + _level(level) / 2)
    share, spread = successes / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def t_interval(mean: float, stderr: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """mean +- t(n - 1) * stderr, Student's t, two-sided. ValueError for n < 2."""
    if n < 2:
        raise ValueError(f"an interval needs two documents, got {n}")
    from scipy.special import stdtrit  # lazy: the statistics of a binary metric need no scipy

    half = float(stdtrit(n - 1, 0.5 + _level(level) / 2)) * stderr
    return mean - half, mean + half


def mean_error(values: Values, is_bounded: bool = True, level: float = 0.95) -> MeanError:
    """The mean of per-document values with stderr and interval.

    is_bounded: the values lie in [0, 1] by definition. Binary values get Wilson's interval at every N, one document
    included; one document that is not binary has neither stderr nor interval. NaN gives NaN throughout.
    ValueError for no value, or where a bounded one lies outside [0, 1].
    """
    array = _floats(values)
    value, stderr = float(np.mean(array)), mean_stderr(array)
    if math.isnan(value):
        return MeanError(math.nan, math.nan, math.nan, math.nan, "clt+t")
    if is_bounded and (array.min() < 0 or array.max() > 1):
        raise ValueError(f"values outside [0, 1]: {array.min()} to {array.max()}")
    if is_bounded and np.all((array == 0) | (array == 1)):
        low, high = wilson(float(array.sum()), array.size, level)
        return MeanError(value, stderr, low, high, "wilson" if stderr is None else "clt+wilson")
    if stderr is None:
        return MeanError(value, None, None, None, "none")
    low, high = t_interval(value, stderr, array.size, level)
    if is_bounded:
        low, high = max(0.0, low), min(1.0, high)
    return MeanError(value, stderr, low, high, "clt+t")


def group_stderr(stderrs: Sequence[float | None]) -> float | None:
    """sqrt(sum se^2) / K: stderr of the plain mean of K independent estimates. None where a member has none."""
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
