"""Repeated sampling: one hypergeometric law.

Of n tries c are correct; k are drawn without replacement; J of them are correct. Then pass@k = P(J >= 1),
cons@k = P(J > k/2), avg@n = c/n. Sources: Chen et al. 2021 (arXiv 2107.03374) for pass@k; cons@k is the strict
majority of a k-subset in expectation, which at k = n is "more than half of the n are correct".
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_EXACT_N = 128
"""Up to here integers are cheap and the result is the correctly rounded fraction."""


def tail(n: ArrayLike, c: ArrayLike, k: ArrayLike, at_least: ArrayLike) -> Floats:
    """P(J >= at_least), J hypergeometric: correct ones among k of n tries, c of them correct.

    Integers that broadcast, n >= 1, 0 <= c <= n, 1 <= k <= n, else ValueError; result in [0, 1], of the broadcast
    shape. Absolute error below 1e-12 for n up to 10,000. Each distinct (n, c, k, at_least) is computed once.
    """
    columns = [_integers(name, x) for name, x in (("n", n), ("c", c), ("k", k), ("at_least", at_least))]
    _check(*columns[:3])
    wide = np.broadcast_arrays(*columns)
    shape = wide[0].shape
    flat = [column.ravel() for column in wide]
    if flat[0].size == 0:
        return np.zeros(shape)
    code, first = _codes(flat)
    values = [_tail_one(*(int(column[place]) for column in flat)) for place in first]
    return np.asarray(values, dtype=np.float64)[code].reshape(shape)


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """1 - C(n-c, k) / C(n, k): at least one of k tries is correct. Range and errors as `tail`."""
    return tail(n, c, k, 1)


def cons_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """P(J > k/2): more than half of k tries are correct; exactly half is not enough. As `tail`."""
    return tail(n, c, k, _integers("k", k) // 2 + 1)


def avg_at_n(n: ArrayLike, c: ArrayLike) -> Floats:
    """c / n, the share of correct tries. ValueError as `tail`."""
    tries, correct = _integers("n", n), _integers("c", c)
    _check(tries, correct, np.int64(1))
    return np.asarray(correct / tries, dtype=np.float64)


def _integers(name: str, values: ArrayLike) -> Ints:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got {array.dtype}")
    return array.astype(np.int64)


def _check(n: Ints | np.int64, c: Ints | np.int64, k: Ints | np.int64) -> None:
    for is_bad, rule in (
        (n < 1, "n >= 1"),
        (c < 0, "c >= 0"),
        (c > n, "c <= n"),
        (k < 1, "k >= 1"),
        (k > n, "k <= n"),
    ):
        if np.any(is_bad):
            bad = np.broadcast_to(is_bad, np.broadcast_shapes(np.shape(n), np.shape(c), np.shape(k)))
            at = np.unravel_index(int(np.argmax(bad)), bad.shape)
            got = (int(np.broadcast_to(x, bad.shape)[at]) for x in (n, c, k))
            raise ValueError(f"{rule} does not hold for n={next(got)}, c={next(got)}, k={next(got)}")


def _codes(columns: list[Ints]) -> tuple[Ints, Ints]:
    """(number of each row's combination, a row for each combination). One column at a time: no row sort."""
    code = np.zeros(columns[0].shape, dtype=np.int64)
    for column in columns:
        _, place = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (int(place.max()) + 1) + place, return_inverse=True)
    first = np.zeros(int(code.max()) + 1, dtype=np.int64)
    first[code] = np.arange(code.size)
    return code, first


def _tail_one(n: int, c: int, k: int, at_least: int) -> float:
    low, high = max(0, k - (n - c)), min(c, k)
    if at_least <= low:
        return 1.0
    if at_least > high:
        return 0.0
    if n <= _EXACT_N:
        ways = sum(math.comb(c, j) * math.comb(n - c, k - j) for j in range(at_least, high + 1))
        return ways / math.comb(n, k)
    if at_least == 1:
        few, many = sorted((c, k))
        return 1.0 - float(np.prod(1.0 - many / np.arange(n, n - few, -1.0)))
    return _tail_by_ratios(n, c, k, at_least, low, high)


def _tail_by_ratios(n: int, c: int, k: int, at_least: int, low: int, high: int) -> float:
    """Terms relative to the largest one, by products of P(j+1)/P(j); all positive, so nothing cancels."""
    j = np.arange(low, high, dtype=np.float64)
    ratios = (c - j) * (k - j) / ((j + 1) * (n - c - k + j + 1))
    mode = min(max((c + 1) * (k + 1) // (n + 2), low), high)
    up = np.cumprod(ratios[mode - low :])
    down = np.cumprod(1.0 / ratios[: mode - low][::-1])[::-1]
    terms = np.concatenate((down, [1.0], up))
    return min(1.0, float(terms[at_least - low :].sum() / terms.sum()))
