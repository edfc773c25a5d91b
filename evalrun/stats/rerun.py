"""Rerun error: how much a number would change if the same questions were asked again.

A document's value is the mean over all k-subsets of its n samples of a gain h(J), J the correct
ones of the subset: a U-statistic (Hoeffding 1948). Its variance over fresh samples has the unbiased
estimate

    v = U^2 - E[h(J1) h(J2)],  J1 and J2 the correct ones of two disjoint draws of k out of the n,

which exists for n >= 2k. For pass@k that is q^2 - C(n-c, 2k)/C(n, 2k) with q = C(n-c, k)/C(n, k);
for the share of correct samples p(1-p)/(n-1). Over N documents the rerun stderr of their mean is
sqrt(sum v)/N. All of these return NaN where n < 2k: not estimable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evalrun.stats.arrays import Floats
from evalrun.stats.sampling import (
    EXACT_N,
    check_counts,
    integers,
    law,
    least_correct,
    per_combination,
)

Law: TypeAlias = Callable[[int, int, int], float]

_NOISE = 1e-14  # of a difference of two floats below 1


def rerun_stderr(variances: ArrayLike) -> float | None:
    """sqrt(sum v) / N.

    None where it cannot be estimated for some document. ValueError for no document.
    """
    array = np.asarray(variances, dtype=np.float64)
    if array.size == 0:
        raise ValueError("no document")
    total = float(array.sum())
    return None if math.isnan(total) else math.sqrt(max(total, 0.0)) / array.size


def pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """q^2 - C(n-c, 2k)/C(n, 2k), q = C(n-c, k)/C(n, k). [documents], NaN where n < 2k;
    ValueError as `tail`.
    """
    return _variances(n, np.asarray(n) - np.asarray(c), k, _all_of)


def pass_hat_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """q^2 - C(c, 2k)/C(n, 2k), q = C(c, k)/C(n, k). As `pass_at_k_variance`."""
    return _variances(n, c, k, _all_of)


def avg_at_n_variance(n: ArrayLike, c: ArrayLike) -> Floats:
    """p(1-p)/(n-1), p = c/n. [documents], NaN where n = 1."""
    return _variances(n, c, 1, _share)


def cons_at_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Variance of P(J > k/2). As `pass_at_k_variance`."""
    return _variances(n, c, k, partial(_gain_variance, gain=_from(k, k // 2 + 1)))


def g_pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: int, share: float) -> Floats:
    """Variance of P(J >= max(1, ceil(share * k))). As `pass_at_k_variance`."""
    return _variances(n, c, k, partial(_gain_variance, gain=_from(k, least_correct(k, share))))


def mg_pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Variance of 2/k * E[max(0, J - ceil(k/2))]. As `pass_at_k_variance`."""
    gain = tuple(max(0, j - math.ceil(k / 2)) for j in range(k + 1))
    return 4 / k**2 * _variances(n, c, k, partial(_gain_variance, gain=gain))


def _from(k: int, at_least: int) -> tuple[int, ...]:
    return tuple(int(j >= at_least) for j in range(k + 1))


def _variances(n: ArrayLike, c: ArrayLike, k: int, one: Law) -> Floats:
    columns = [integers("n", n), integers("c", c), integers("k", k)]
    check_counts(*columns)
    return per_combination(columns, partial(_where_estimable, one))


def _where_estimable(one: Law, n: int, c: int, k: int) -> float:
    return math.nan if n < 2 * k else one(n, c, k)


def _share(n: int, c: int, k: int) -> float:
    return c * (n - c) / (n * n * (n - 1))


def _all_of(n: int, c: int, k: int) -> float:
    """q_k^2 - q_2k with q_k = C(c, k)/C(n, k)."""
    if n <= EXACT_N:
        once, twice = math.comb(n, k), math.comb(n, 2 * k)
        return (math.comb(c, k) ** 2 * twice - math.comb(c, 2 * k) * once**2) / (once**2 * twice)
    if c < k:
        return 0.0
    steps = np.arange(k, dtype=np.float64)
    first = (c - steps) / (n - steps)
    second = np.maximum(c - k - steps, 0) / (n - k - steps)
    return _clean(float(np.prod(first)) * (float(np.prod(first)) - float(np.prod(second))))


def _gain_variance(n: int, c: int, k: int, gain: tuple[int, ...]) -> float:
    """U^2 - E[h(J1) h(J2)], exact in whole numbers up to n = EXACT_N."""
    if n > EXACT_N:
        return _gain_variance_float(n, c, k, np.asarray(gain, dtype=np.float64))
    draws, rest = math.comb(n, k), math.comb(n - k, k)
    won = _ways(n, c, k, gain)
    both = sum(
        gain[j] * math.comb(c, j) * math.comb(n - c, k - j) * _ways(n - k, c - j, k, gain)
        for j in range(max(0, k - (n - c)), min(c, k) + 1)
        if gain[j]
    )
    return (won * won * rest - both * draws) / (draws * draws * rest)


def _ways(n: int, c: int, k: int, gain: tuple[int, ...]) -> int:
    """Sum of the gain over all k-subsets."""
    low, high = max(0, k - (n - c)), min(c, k)
    return sum(
        gain[j] * math.comb(c, j) * math.comb(n - c, k - j) for j in range(low, high + 1) if gain[j]
    )


def _gain_variance_float(n: int, c: int, k: int, gain: Floats) -> float:
    low, chances = law(n, c, k)
    won, both = 0.0, 0.0
    for j, chance in enumerate(chances.tolist(), start=low):
        if gain[j] and chance > 0:
            won += gain[j] * chance
            rest_low, rest = law(n - k, c - j, k)
            both += gain[j] * chance * float(rest @ gain[rest_low : rest_low + rest.size])
    return _clean(won * won - both)


def _clean(variance: float) -> float:
    return 0.0 if variance < _NOISE else variance
