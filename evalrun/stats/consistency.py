"""How steadily documents are answered, from n samples of which c are right: four kinds of
documents, and three laws.

always right: c = n; mostly: n/2 < c < n; unstable: 0 < c <= n/2; never: c = 0. As shares of the
documents they say pass@n = 1 - never and cons@n = always + mostly; avg@n, the mean of c/n, lies
above cons@n / 2 and not above pass@n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evalrun.stats.sampling import check_counts, integers

SLACK = 1e-9
"""Relative: means of floats differ in their last digits."""
_LEAST = 1e-11  # absolute: what the laws of stats.sampling may be off


def kinds(n: ArrayLike, c: ArrayLike) -> tuple[int, int, int, int]:
    """How many documents are right always, mostly, unstably, never.

    They add up to the number of documents.

    Args:
        n, c: whole numbers per document, that broadcast; ValueError unless n >= 1 and 0 <= c <= n.
    """
    tries, right = integers("n", n), integers("c", c)
    check_counts(tries, right, np.int64(1))
    tries, right = np.broadcast_arrays(tries, right)
    always, half, some = right == tries, 2 * right > tries, right > 0
    return (
        int(np.count_nonzero(always)),
        int(np.count_nonzero(half & ~always)),
        int(np.count_nonzero(some & ~half)),
        int(np.count_nonzero(~some)),
    )


def contradictions(
    k: int, passed: float | None = None, agreed: float | None = None, average: float | None = None
) -> list[str]:
    """Which laws pass@k (passed), cons@k (agreed) and avg@n (average) of the same counts break;
    none in a sound run.

    Fractions; None is not known. Of a document, c of n samples are right; J of the k that are
      drawn. Then cons@k <= pass@k               since J > k/2 implies J >= 1;
      avg@n <= pass@k                since pass@k grows with k, and pass@1 = c/n; cons@k <= 2k/(k+1)
      avg@n       since J is whole, so that J > k/2 is J >= (k+1)/2, and by Markov's inequality
                                     P(J >= (k+1)/2) <= E[J] / ((k+1)/2), where E[J] = kc/n.
    Each holds for every document, hence for the means. At k = n the third says: a document in
    cons@n has at least (n+1)/2 of n right, so it gives avg@n more than 1/2; cons@n >= 2 avg@n > 0
    cannot be. Nor can, by the first, a low pass@k beside a high cons@k.
    """
    found = []
    if agreed is not None and passed is not None and _is_above(agreed, passed):
        found.append(f"cons@{k} = {agreed:.6g} is above pass@{k} = {passed:.6g}")
    if average is not None and passed is not None and _is_above(average, passed):
        found.append(f"avg@n = {average:.6g} is above pass@{k} = {passed:.6g}")
    if agreed is not None and average is not None and _is_above(agreed, 2 * k / (k + 1) * average):
        found.append(f"cons@{k} = {agreed:.6g} is above {2 * k}/{k + 1} of avg@n = {average:.6g}")
    return found


def differs(one: float, other: float) -> bool:
    """Whether two ways to the same number came to different ones."""
    return _is_above(one, other) or _is_above(other, one)


def _is_above(one: float, other: float) -> bool:
    return one > other * (1 + SLACK) + _LEAST
