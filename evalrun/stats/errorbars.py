"""Error bars of a mean over documents.

stderr = s / sqrt(N) with s from N - 1 (the central limit theorem over documents; Miller 2024, arXiv
2411.00640), or over clusters of documents (evalrun.stats.clustered). Interval: Wilson's score
interval (Wilson 1927) where every value is 0 or 1, over clusters with n_eff = p(1-p)/stderr^2 and
the number of clusters where the stderr is 0; else Student's t, cut to [0, 1] where the values
cannot leave it. NaN is never dropped: it gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalrun.stats.clustered import clustered_stderr

Values: TypeAlias = NDArray[np.float64] | Sequence[float]


@dataclass(frozen=True, slots=True)
class MeanError:
    """A mean with its error. None is absent.

    Attributes:
        method: `clt+wilson`, `clt+t`, `clustered+wilson`, `clustered+t`, `wilson` (no stderr, one
            document or cluster) or `none`.
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


def wilson(
    successes: float, n: float, level: float = 0.95, quantile: float | None = None
) -> tuple[float, float]:
    """Wilson's score interval for successes / n, within [0, 1].

    (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). n may be an effective number of
    documents.

    Args:
        quantile: stands for the normal z.

    ValueError unless 0 <= successes <= n and n > 0.
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n and n > 0, got {successes} of {n}")
    z = NormalDist().inv_cdf(0.5 + _level(level) / 2) if quantile is None else quantile
    share, spread = successes / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


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
    from scipy.special import stdtrit  # lazy: the statistics of a binary metric need no scipy

    return float(stdtrit(n - 1, 0.5 + _level(level) / 2))


def mean_error(
    values: Values,
    is_bounded: bool = True,
    level: float = 0.95,
    codes: NDArray[np.int64] | None = None,
) -> MeanError:
    """The mean of per-document values with stderr and interval.

    Args:
        is_bounded: the values lie in [0, 1] by definition.
        codes: cluster of each document, from 0 without gaps; None: all are independent. Binary
            values get Wilson's interval at every N, one document included; one document (or one
            cluster) that is not binary has neither stderr nor interval. NaN gives NaN throughout.

    ValueError for no value, or where a bounded one lies outside [0, 1].
    """
    array = _floats(values)
    value = float(np.mean(array))
    stderr = mean_stderr(array) if codes is None else clustered_stderr(array, codes)
    units = array.size if codes is None else int(codes.max()) + 1
    family = "clt" if codes is None else "clustered"
    if math.isnan(value):
        return MeanError(math.nan, math.nan, math.nan, math.nan, f"{family}+t")
    if is_bounded and (array.min() < 0 or array.max() > 1):
        raise ValueError(f"values outside [0, 1]: {array.min()} to {array.max()}")
    if is_bounded and bool(np.all((array == 0) | (array == 1))):
        low, high = _binary_interval(
            value, stderr, array.size, None if codes is None else units, level
        )
        return MeanError(
            value, stderr, low, high, "wilson" if stderr is None else f"{family}+wilson"
        )
    if stderr is None:
        return MeanError(value, None, None, None, "none")
    low, high = t_interval(value, stderr, units, level)
    if is_bounded:
        low, high = max(0.0, low), min(1.0, high)
    return MeanError(value, stderr, low, high, f"{family}+t")


def _binary_interval(
    share: float, stderr: float | None, n: int, clusters: int | None, level: float
) -> tuple[float, float]:
    """Wilson's interval; over clusters with n_eff = p(1-p)/stderr^2 (their number where there is
    no spread) and t.
    """
    if clusters is None:
        return wilson(float(round(share * n)), n, level)
    n_eff = share * (1 - share) / stderr**2 if stderr else float(clusters)
    quantile = t_quantile(clusters, level) if clusters > 1 else None
    return wilson(min(share * n_eff, n_eff), n_eff, level, quantile)


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
