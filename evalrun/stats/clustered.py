"""Error of a mean over documents that are not independent: they come in clusters (Miller 2024,
arXiv 2411.00640).

Var = G/(G-1) * 1/N^2 * sum over clusters g of (sum over its documents i of (s_ig - mean))^2, with G
clusters; t with G - 1 degrees of freedom. With one document per cluster it is s^2/N, the plain one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def cluster_codes(clusters: Sequence[str | None]) -> NDArray[np.int64] | None:
    """The cluster of each document as a number from 0, in order of appearance.

    A document without one is a cluster of its own. None where every document stands alone.
    """
    if all(cluster is None for cluster in clusters):
        return None
    seen: dict[str | tuple[int], int] = {}
    codes = [
        seen.setdefault((i,) if name is None else name, len(seen))
        for i, name in enumerate(clusters)
    ]
    return None if len(seen) == len(codes) else np.asarray(codes, dtype=np.int64)


def clustered_stderr(values: NDArray[np.float64], codes: NDArray[np.int64]) -> float | None:
    """sqrt(Var) as above.

    None for one cluster; NaN where a value is NaN; exact for whole numbers up to 2^53 / N.

    ValueError where values and codes differ in length.
    """
    if values.shape != codes.shape or values.size == 0:
        raise ValueError(
            f"need one cluster per value, got {values.shape} values and {codes.shape} clusters"
        )
    sizes = np.bincount(codes)
    groups = int(np.count_nonzero(sizes))
    if groups == 1:
        return None
    if np.all(values == values[0]):
        return 0.0
    number = values.size
    # N times the sum of differences from the mean: whole for whole values, so that equal shares
    # give exactly 0
    spread = np.bincount(codes, weights=values) * number - sizes * float(values.sum())
    return math.sqrt(groups / (groups - 1) * float(np.sum((spread / number) ** 2))) / number
