"""Rerun error: how much a number would change if the same questions were asked again.

A document's value U(c), c of its n samples right, is the mean over all k-subsets of a gain h(J), J
the right ones of the subset: a U-statistic (Hoeffding 1948). With a chance p of a right sample it
varies over fresh samples by

    V(p) = sum over c of P(c | n, p) U(c)^2 - f(p)^2,   f(p) = sum over j of P(j | k, p) h(j).

Over N documents the rerun stderr of their mean is sqrt(sum V)/N. For k = 1 a document's own samples
give V without bias: p(1-p)/(n-1). For k > 1 such an estimate exists too, but near 0 and 1 it is 0
for most documents and large for a few, so that the sum is usually too small. There p has a beta
prior fitted to the counts of all documents (by moments; Kleinman 1973), and V is averaged over the
posterior of each: empirical Bayes (Efron and Morris 1975). docs/intervals.md compares both.

Where n < 2k the value rests on too few disjoint draws: NaN, not estimable.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evalrun.stats.arrays import Floats, Ints
from evalrun.stats.sampling import (
    check_counts,
    integers,
    law,
    least_correct,
    per_combination,
)

Prior: TypeAlias = tuple[float, float]

_LEAST_ALIKE = 0.02  # correlation of two samples of a document, kept off 0 and 1: there the prior
_MOST_ALIKE = 0.98  # would be a point, or two


def rerun_stderr(variances: ArrayLike) -> float | None:
    """sqrt(sum V) / N.

    None where it cannot be estimated for some document. ValueError for no document.
    """
    array = np.asarray(variances, dtype=np.float64)
    if array.size == 0:
        raise ValueError("no document")
    total = float(array.sum())
    return None if math.isnan(total) else math.sqrt(max(total, 0.0)) / array.size


def pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """V of pass@k: h(J) = 1 where J >= 1.

    n, c: one per document, whole numbers; [documents], NaN where n < 2k; ValueError as `tail`.
    """
    return _variances(n, c, _from(k, 1))


def pass_hat_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """V of pass^k: h(J) = 1 where J = k. As `pass_at_k_variance`."""
    return _variances(n, c, _from(k, k))


def avg_at_n_variance(n: ArrayLike, c: ArrayLike) -> Floats:
    """p(1-p)/(n-1), p = c/n. [documents], NaN where n = 1."""
    return _variances(n, c, _from(1, 1))


def cons_at_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """V of cons@k: h(J) = 1 where J > k/2. As `pass_at_k_variance`."""
    return _variances(n, c, _from(k, k // 2 + 1))


def g_pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: int, share: float) -> Floats:
    """V of G-Pass@k: h(J) = 1 where J >= max(1, ceil(share * k)). As `pass_at_k_variance`."""
    return _variances(n, c, _from(k, least_correct(k, share)))


def mg_pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """V of mG-Pass@k: h(J) = 2/k max(0, J - ceil(k/2)). As `pass_at_k_variance`."""
    gain = np.maximum(0, np.arange(k + 1) - math.ceil(k / 2))
    return _variances(n, c, np.asarray(2 / k * gain, dtype=np.float64))


def fitted_prior(n: Ints, c: Ints, times: Ints) -> Prior:
    """(a, b) of the beta law of the chances.

    Args:
        n, c: samples and right ones of a document; one entry per pair (n, c) that occurs.
        times: how many documents have that pair.

    Mean (sum c + 1/2) / (sum n + 1). The correlation 1 / (a + b + 1) of two samples of a document
    comes from the spread of c/n beyond that of binomial counts; 1/2 where there is one document or
    one sample each.
    """
    docs = int(times.sum())
    mean = (float(times @ c) + 0.5) / (float(times @ n) + 1)
    samples = docs / float(times @ (1 / n))
    alike = 0.5
    if docs > 1 and samples > 1:
        spread = float(times @ (c / n - mean) ** 2) / (docs - 1)
        alike = (spread / (mean * (1 - mean)) - 1 / samples) / (1 - 1 / samples)
    size = 1 / min(max(alike, _LEAST_ALIKE), _MOST_ALIKE) - 1
    return mean * size, (1 - mean) * size


def posterior_variance(value: Floats, pair: Floats, c: int, prior: Prior) -> float:
    """E[V(p) | c of n right], p from Beta(a, b); at least 0, error below 1e-12.

    Args:
        value: U(c') for c' = 0 .. n.
        pair: h(J1) h(J2) of two disjoint draws of k, in expectation, s = 0 .. 2k right.
        c: right samples of the document.
        prior: (a, b), both above 0.

    Sums over beta-binomial laws: nothing is integrated.
    """
    n = value.size - 1
    a, b = prior[0] + c, prior[1] + n - c
    square = float(_beta_binomial(n, a, b) @ value**2)
    return max(0.0, square - float(_beta_binomial(pair.size - 1, a, b) @ pair))


def _from(k: int, at_least: int) -> Floats:
    """h(j), j = 0 .. k: 1 from `at_least` on."""
    return np.asarray(np.arange(k + 1) >= at_least, dtype=np.float64)


def _variances(n: ArrayLike, c: ArrayLike, gain: Floats) -> Floats:
    tries, correct = integers("n", n), integers("c", c)
    k = gain.size - 1
    check_counts(tries, correct, np.int64(k))
    if k == 1:
        return per_combination([tries, correct], _share)
    shape = np.broadcast_shapes(tries.shape, correct.shape)
    if 0 in shape:
        return np.zeros(shape)
    pairs = _distinct(
        np.broadcast_to(tries, shape).ravel(), np.broadcast_to(correct, shape).ravel()
    )
    pair = _mean_gains(2 * k, k, gain, is_pair=True)
    tables = {size: _mean_gains(size, k, gain) for size in set(pairs[0].tolist()) if size >= 2 * k}
    one = partial(_pooled, tables, pair, fitted_prior(*pairs))
    return per_combination([tries, correct], one)


def _distinct(n: Ints, c: Ints) -> tuple[Ints, Ints, Ints]:
    """(n, c, how often) of each pair that occurs. Counted where the pairs are few, else sorted."""
    width = int(n.max()) + 1
    code = n * width + c
    if width * width <= max(1 << 16, 4 * code.size):
        counts = np.bincount(code)
        places = np.flatnonzero(counts)
        times = counts[places]
    else:
        places, times = np.unique(code, return_counts=True)
    return places // width, places % width, times


def _pooled(tables: dict[int, Floats], pair: Floats, prior: Prior, n: int, c: int) -> float:
    return posterior_variance(tables[n], pair, c, prior) if n in tables else math.nan


def _share(n: int, c: int) -> float:
    return c * (n - c) / (n * n * (n - 1)) if n > 1 else math.nan


def _mean_gains(n: int, k: int, gain: Floats, is_pair: bool = False) -> Floats:
    """E[h(J)] over all k-subsets of n samples, c = 0 .. n right; of a pair: E[h(J) h(c - J)]."""
    found = np.zeros(n + 1)
    for c in range(n + 1):
        low, chances = law(n, c, k)
        j = np.arange(low, low + chances.size)
        found[c] = chances @ (gain[j] * gain[c - j] if is_pair else gain[j])
    return found


def _beta_binomial(n: int, a: float, b: float) -> Floats:
    """P(x right of n), x = 0 .. n, the chance being from Beta(a, b)."""
    from scipy.special import betaln, gammaln  # lazy: scipy takes long to import

    x = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    chances = np.exp(ways + betaln(a + x, b + n - x) - betaln(a, b))
    return np.asarray(chances / chances.sum(), dtype=np.float64)
