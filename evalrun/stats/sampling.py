"""Repeated sampling: one hypergeometric law.

Of n tries c are correct; k are drawn without replacement; J of them are correct. Then pass@k = P(J
>= 1), pass^k = P(J = k), cons@k = P(J > k/2), G-Pass@k at a share t = P(J >= max(1, ceil(t k))),
mG-Pass@k = 2/k sum over i > ceil(k/2) of P(J >= i), avg@n = c/n. Sources: Chen et al. 2021 (arXiv
2107.03374) for pass@k; Yao et al. 2024 (arXiv 2406.12045) for pass^k; Liu et al. 2024 (arXiv
2412.13147) for G-Pass@k; cons@k is the strict majority of a k-subset in expectation, which at k = n
is "more than half of the n are correct".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from evalrun.stats.arrays import Floats, Ints

EXACT_N = 128
"""Up to here integers are cheap and the result is the correctly rounded fraction."""

_SLACK = 1e-9  # of a share times k, so that 0.6 * 5 is 3 and not 4


def tail(n: ArrayLike, c: ArrayLike, k: ArrayLike, at_least: ArrayLike) -> Floats:
    """P(J >= at_least), J hypergeometric: correct ones among k of n tries, c of them correct.

    Integers that broadcast, n >= 1, 0 <= c <= n, 1 <= k <= n, else ValueError; result in [0, 1], of
    the broadcast shape. Absolute error below 1e-12 for n up to 10,000. Each distinct (n, c, k,
    at_least) is computed once.
    """
    columns = [
        integers(name, x) for name, x in (("n", n), ("c", c), ("k", k), ("at_least", at_least))
    ]
    check_counts(*columns[:3])
    return per_combination(columns, _tail_one)


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """1 - C(n-c, k) / C(n, k): at least one of k tries is correct. Range and errors as `tail`."""
    return tail(n, c, k, 1)


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """C(c, k) / C(n, k): all of k tries are correct. Range and errors as `tail`."""
    return tail(n, c, k, k)


def cons_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """P(J > k/2): more than half of k tries are correct; exactly half is not enough. As `tail`."""
    return tail(n, c, k, integers("k", k) // 2 + 1)


def g_pass_at_k(n: ArrayLike, c: ArrayLike, k: int, share: float) -> Floats:
    """P(J >= max(1, ceil(share * k))): at least this share of k tries is correct. share in [0,
    1]. As `tail`.
    """
    return tail(n, c, k, least_correct(k, share))


def mg_pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """2/k * sum over i = ceil(k/2)+1 .. k of P(J >= i). Range [0, 1]; 0 for k = 1. Errors as
    `tail`.
    """
    total = np.zeros(np.broadcast_shapes(np.shape(n), np.shape(c)))
    for at_least in range(math.ceil(k / 2) + 1, k + 1):
        total = total + tail(n, c, k, at_least)
    return np.asarray(2 / k * total, dtype=np.float64)


def avg_at_n(n: ArrayLike, c: ArrayLike) -> Floats:
    """c / n, the share of correct tries. ValueError as `tail`."""
    tries, correct = integers("n", n), integers("c", c)
    check_counts(tries, correct, np.int64(1))
    return np.asarray(correct / tries, dtype=np.float64)


def least_correct(k: int, share: float) -> int:
    """max(1, ceil(share * k)): how many of k tries must be correct.

    ValueError unless share lies in [0, 1].
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies in [0, 1], got {share}")
    return max(1, math.ceil(share * k - _SLACK))


def integers(name: str, values: ArrayLike) -> Ints:
    """`values` as int64. ValueError for anything but whole numbers."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got {array.dtype}")
    return array.astype(np.int64, copy=False)


def check_counts(n: Ints | np.int64, c: Ints | np.int64, k: Ints | np.int64) -> None:
    """ValueError with the first triple that breaks n >= 1, 0 <= c <= n or 1 <= k <= n."""
    for is_bad, rule in (
        (n < 1, "n >= 1"),
        (c < 0, "c >= 0"),
        (c > n, "c <= n"),
        (k < 1, "k >= 1"),
        (k > n, "k <= n"),
    ):
        if np.any(is_bad):
            bad = np.broadcast_to(
                is_bad, np.broadcast_shapes(np.shape(n), np.shape(c), np.shape(k))
            )
            at = np.unravel_index(int(np.argmax(bad)), bad.shape)
            got = (int(np.broadcast_to(x, bad.shape)[at]) for x in (n, c, k))
            raise ValueError(
                f"{rule} does not hold for n={next(got)}, c={next(got)}, k={next(got)}"
            )


def per_combination(columns: list[Ints], one: Callable[..., float]) -> Floats:
    """`one` of each row of the broadcast columns, called once for each distinct row."""
    shape = np.broadcast_shapes(*(column.shape for column in columns))
    if 0 in shape:
        return np.zeros(shape)
    wide = {
        i: np.broadcast_to(column, shape).ravel()
        for i, column in enumerate(columns)
        if column.size > 1
    }
    row = [int(column.ravel()[0]) for column in columns]
    if not wide:
        return np.full(shape, one(*row))
    code, combinations, size = _codes(list(wide.values()))
    table = np.zeros(size)
    for place, values in combinations:
        for i, value in zip(wide, values, strict=True):
            row[i] = value
        table[place] = one(*row)
    return table[code].reshape(shape)


def _codes(columns: list[Ints]) -> tuple[Ints, list[tuple[int, tuple[int, ...]]], int]:
    """(code of each row, each code with the values that it stands for, number of possible codes).

    Values in narrow ranges are numbered by counting, others by sorting one column at a time.
    """
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    size = math.prod(spans)
    if size <= max(1 << 16, 4 * columns[0].size):
        code = np.zeros(1, dtype=np.int64)
        for column, low, span in zip(columns, lows, spans, strict=True):
            if span > 1:  # a column that is constant tells no rows apart
                code = code * span + (column - low) if code.size > 1 else column - low
        code = np.broadcast_to(code, columns[0].shape)
        present = np.flatnonzero(np.bincount(code, minlength=size))
        parts = [part.tolist() for part in np.unravel_index(present, spans)]
        values = zip(
            *([low + x for x in part] for low, part in zip(lows, parts, strict=True)), strict=True
        )
        return code, list(zip(present.tolist(), values, strict=True)), size
    code = np.zeros(columns[0].shape, dtype=np.int64)
    for column in columns:
        _, place = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (int(place.max()) + 1) + place, return_inverse=True)
    first = np.zeros(int(code.max()) + 1, dtype=np.int64)
    first[code] = np.arange(code.size)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    return code, list(enumerate(rows)), first.size


def _tail_one(n: int, c: int, k: int, at_least: int) -> float:
    low, high = max(0, k - (n - c)), min(c, k)
    if at_least <= low:
        return 1.0
    if at_least > high:
        return 0.0
    if n <= EXACT_N:
        ways = sum(math.comb(c, j) * math.comb(n - c, k - j) for j in range(at_least, high + 1))
        return ways / math.comb(n, k)
    if at_least == 1:
        few, many = sorted((c, k))
        return 1.0 - float(np.prod(1.0 - many / np.arange(n, n - few, -1.0)))
    low, chances = law(n, c, k)
    return min(1.0, float(chances[at_least - low :].sum()))


def law(n: int, c: int, k: int) -> tuple[int, Floats]:
    """(smallest possible J, P(J = j) from there on to the largest).

    Terms relative to the largest one, by products of P(j+1)/P(j); all positive, so nothing cancels.
    """
    low, high = max(0, k - (n - c)), min(c, k)
    j = np.arange(low, high, dtype=np.float64)
    ratios = (c - j) * (k - j) / ((j + 1) * (n - c - k + j + 1))
    mode = min(max((c + 1) * (k + 1) // (n + 2), low), high)
    up = np.cumprod(ratios[mode - low :])
    down = np.cumprod(1.0 / ratios[: mode - low][::-1])[::-1]
    terms = np.concatenate((down, [1.0], up))
    return low, terms / terms.sum()
