"""Confidence interval of a mean of values in [0, 1] that keeps its level near 0 and near 1.

Student's t fails there for two reasons: the few documents that lie far out may be missing from the
sample, and the spread is then estimated too small together with the mean. Both are mended as in
Gaffke's bound (Gaffke 2005; Learned-Miller and Thomas 2019, arXiv 1905.06208): before the upper
end is computed one document is added whose value is the worst possible, 1; before the lower end one
whose value is 0. For 0/1 values that is the exact interval of Clopper and Pearson (1934). For other
values a whole document at the end is far too much where t is right, so it is added in part:

    far  = tie^2 min(1, 12 / apart)                  at 1
    near = (1 - far) min(1, cv^2) min(1, 15 rel)     at min(1, 1.75 max)

tie is the share of the other documents that equal the median one, apart the number that do not
(values that are nearly all equal tell nothing about what else may come), cv = sd / mean, and rel
the relative variance of the mean: `near` fades where the mean is known to a quarter of itself. The
end is the quantile of the beta law with the mean and the variance of the posterior of a Bayesian
bootstrap (Rubin 1981) over documents and additions. Where nothing is added the variance carries
N/(N-1) and (t/z)^2, so that the middle of the range gets Student's t.

Documents in clusters: variance over clusters with Student's t at G_eff - 1 degrees of freedom,
G_eff = N^2 / sum n_g^2 (Kish 1965), as Korn and Graubard (1998) do for shares. The added unit has
the size of the design effect: one document where clusters do not matter, a cluster where they rule.
It leans to a whole cluster where few documents inform about it.

The constants were set by simulation; docs/intervals.md has the table. Below ASSURED clusters or
documents nothing was simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from evalrun.stats.arrays import Floats

ASSURED = 15
"""Documents (or clusters) from which on the level was verified by simulation."""

_APART = 12.0  # documents off the median up to which the addition at the end is whole
_REACH = 1.75  # one more document may lie this much farther out than the farthest seen
_ROUGH = 15.0  # a mean with a relative variance of 1/15 or more is rough
_LEAN = 3.0  # documents that a whole cluster counts as in the estimate of the design effect
_SAME = 1e-12  # values that differ by rounding alone are equal
_STEADY = 1e8  # beta laws with more observations than this are normal within 1e-9


@dataclass(frozen=True, slots=True)
class Sample:
    """What the interval reads of the values; each field one number, or an array over samples.

    Attributes:
        n: documents.
        units: documents, or clusters.
        mean: of the values, in [0, 1].
        spread: sum over documents of (value - mean)^2.
        unit_spread: sum over units of the squared sum of (value - mean) of its documents.
        equal: documents whose value is the median one.
        least, most: smallest and largest value.
        sizes: sum over units of their squared number of documents.
        lean: sum over units of (sum of value - mean) times number of documents.
        is_binary: all values are 0 or 1.
    """

    n: int
    units: int
    mean: Floats
    spread: Floats
    unit_spread: Floats
    equal: Floats
    least: Floats
    most: Floats
    sizes: float
    lean: Floats
    is_binary: Floats


def bounded_interval(
    values: Floats | Sequence[float],
    level: float = 0.95,
    codes: NDArray[np.int64] | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> tuple[float, float]:
    """The interval of the mean of `values`, inside [low, high] and never of width 0.

    Args:
        values: one per document, each in [low, high].
        level: confidence, in (0, 1), default 0.95.
        codes: cluster of each document, from 0 without gaps; None: all are independent.
        low, high: range of the values, default 0 and 1.

    O(N). NaN among the values gives NaN. ValueError for no value, a value outside the range, an
    empty range, another number of clusters than of values, or a level outside (0, 1).
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"need a row of values, one per document, got shape {array.shape}")
    if not low < high:
        raise ValueError(f"need low < high, got {low} and {high}")
    if np.isnan(array).any():
        return float("nan"), float("nan")
    if array.min() < low or array.max() > high:
        raise ValueError(f"values outside [{low:g}, {high:g}]: {array.min()} to {array.max()}")
    if codes is not None and codes.shape != array.shape:
        raise ValueError(f"need one cluster per value, got {array.shape} and {codes.shape}")
    is_unit = low == 0 and high == 1
    scaled = array if is_unit else np.clip((array - low) / (high - low), 0.0, 1.0)
    ends = interval_of(sample_of(scaled, codes), level)
    first, last = (low + (high - low) * float(end) for end in ends)
    return max(low, first), min(high, last)


def sample_of(values: Floats, codes: NDArray[np.int64] | None = None) -> Sample:
    """The Sample of values in [0, 1], one at least.

    One cluster is one document with its mean: nothing is known of another cluster.
    """
    groups = values.size if codes is None else int(codes.max()) + 1
    if codes is not None and groups == 1:
        return sample_of(np.clip(np.mean(values, keepdims=True), 0.0, 1.0))
    mean = float(np.clip(np.mean(values), 0.0, 1.0))
    apart = values - mean
    least, most = float(values.min()), float(values.max())
    if most - least <= _SAME:
        apart = np.zeros_like(values)  # rounding of the mean is no spread
    spread = float(apart @ apart)
    number, sizes, lean, unit_spread = values.size, float(values.size), 0.0, spread
    if codes is not None:
        size = np.bincount(codes).astype(np.float64)
        sums = np.bincount(codes, weights=apart)
        sizes, lean, unit_spread = float(size @ size), float(sums @ size), float(sums @ sums)
    is_binary = {least, most} <= {0.0, 1.0} and bool(np.all((values == 0) | (values == 1)))
    places = [(number - 1) // 2, number // 2]
    medians = set(np.partition(values, places)[places].tolist())
    equal = max(int(np.count_nonzero(np.abs(values - x) <= _SAME)) for x in medians)
    return Sample(
        n=number,
        units=groups,
        mean=np.asarray(mean),
        spread=np.asarray(spread),
        unit_spread=np.asarray(unit_spread),
        equal=np.asarray(float(equal)),
        least=np.asarray(least),
        most=np.asarray(most),
        sizes=sizes,
        lean=np.asarray(lean),
        is_binary=np.asarray(float(is_binary)),
    )


def interval_of(sample: Sample, level: float = 0.95) -> tuple[Floats, Floats]:
    """(low, high) of each sample, in [0, 1]. ValueError for a level outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies in (0, 1), got {level}")
    mirrored = replace(
        sample,
        mean=1.0 - sample.mean,
        least=1.0 - sample.most,
        most=1.0 - sample.least,
        lean=-sample.lean,
    )
    return 1.0 - _upper_end(mirrored, level), _upper_end(sample, level)


def _upper_end(s: Sample, level: float) -> Floats:
    """Quantile of the beta law after the additions; above the mean, 1 where all values are 1."""
    unit = _added_size(s)
    far, near = _additions(s, unit)
    place = np.minimum(1.0, _REACH * s.most)
    total = s.n + unit * (far + near)
    mean = (s.n * s.mean + unit * (far + near * place)) / total
    shift = s.mean - mean
    squares = (
        s.unit_spread
        + 2 * shift * s.lean
        + s.sizes * shift**2
        + unit**2 * (far * (1 - mean) ** 2 + near * (place - mean) ** 2)
    )
    # Clusters: their number is what the variance rests on, whatever is added
    rest = np.ones_like(mean) if s.units < s.n else 1 - far - near
    variance = squares / total / (total + unit) * _small_sample(s, unit, level) ** rest
    high = _beta_quantile(mean, variance, 0.5 + level / 2)
    return np.asarray(np.where(s.least >= 1, 1.0, np.maximum(high, np.nextafter(s.mean, 2.0))))


def _added_size(s: Sample) -> Floats:
    """Documents in the added unit: the design effect, leaning to a whole cluster."""
    if s.units == s.n:
        return np.ones_like(s.mean)
    cluster = s.n / s.units
    effect = np.where(s.spread > 0, s.unit_spread / np.where(s.spread > 0, s.spread, 1.0), cluster)
    apart = s.n - s.equal
    return np.asarray((np.clip(effect, 1.0, cluster) * apart + cluster * _LEAN) / (apart + _LEAN))


def _additions(s: Sample, unit: Floats) -> tuple[Floats, Floats]:
    """(far, near): how much of a unit is added at 1, and near the largest value."""
    apart = s.n - s.equal
    tie = (s.equal - 1) / (s.n - 1) if s.n > 1 else np.ones_like(s.mean)
    far = tie**2 * np.minimum(1.0, _APART * unit / np.maximum(apart, 1))
    if s.units == s.n:
        far = np.where(s.is_binary > 0, 1.0, far)
    mean = np.maximum(s.mean, 1e-100)
    irregular = np.minimum(1.0, s.spread / s.n / mean**2)
    rough = np.minimum(1.0, _ROUGH * s.unit_spread / (s.n * mean) ** 2)
    return far, (1 - far) * irregular * rough


def _small_sample(s: Sample, unit: Floats, level: float) -> Floats:
    """From the posterior's variance to that of Student's t: N/(N-1) and the quantiles."""
    from scipy.special import stdtrit  # lazy: scipy takes long to import

    units = s.n**2 / s.sizes
    freedom = max(1.0, units - 1)
    share = 0.5 + level / 2
    ratio = float(stdtrit(freedom, share)) / NormalDist().inv_cdf(share)
    return np.asarray((1 + unit / s.n) * units / freedom * ratio**2)


def _beta_quantile(mean: Floats, variance: Floats, share: float) -> Floats:
    """Quantile of the beta law with this mean and variance, at most that of Beta(m/1, (1-m)/1).

    A law with very many observations is normal, and the inverse of the beta integral inexact.
    """
    from scipy.special import betaincinv  # lazy: scipy takes long to import

    is_open = mean < 1
    inner = np.where(is_open, mean, 0.5)
    variance = np.minimum(variance, inner * (1 - inner) / 2)
    safe = np.maximum(variance, 1e-300)
    number = inner * (1 - inner) / safe - 1
    is_steady = number * np.minimum(inner, 1 - inner) > _STEADY
    counted = np.where(is_steady, 1.0, number)
    quantile = betaincinv(counted * inner, counted * (1 - inner), share)
    normal = inner + NormalDist().inv_cdf(share) * np.sqrt(variance)
    return np.asarray(np.where(is_open, np.where(is_steady, normal, quantile), 1.0))
