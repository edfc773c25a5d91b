"""Character n-grams that texts share, for every order at once: n-grams as integers, counted by
sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Grams: TypeAlias = list[NDArray[np.int64]]
_MOST = 1 << 62
_SURROGATES = 0xD800


def character_grams(texts: Sequence[str], max_order: int) -> list[Grams]:
    """[text][order - 1]: the n-grams of a text as sorted integers; equal n-grams of all texts
    have equal integers.
    """
    characters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    alphabet, signs = np.unique(characters, return_inverse=True)
    codes = _split(signs.astype(np.int64), [len(text) for text in texts])
    grams: list[Grams] = [[np.sort(each)] for each in codes]
    keys, n_keys = codes, len(alphabet)
    for order in range(2, max_order + 1):
        if n_keys * len(alphabet) > _MOST:  # too many for an integer: number those that occur
            found, places = np.unique(np.concatenate(keys), return_inverse=True)
            keys, n_keys = _split(places.astype(np.int64), [len(key) for key in keys]), len(found)
        keys = [
            key[:-1] * len(alphabet) + code[order - 1 :]
            for key, code in zip(keys, codes, strict=True)
        ]
        n_keys *= len(alphabet)
        for row, key in zip(grams, keys, strict=True):
            row.append(np.sort(key))
    return grams


def shared_sorted(first: NDArray[np.int64], *others: NDArray[np.int64]) -> int:
    """How many of `first` stand in the others, each no more often than in any one of them.

    All are sorted.
    """
    if not len(first):
        return 0
    starts = np.flatnonzero(np.concatenate(([True], first[1:] != first[:-1])))
    counts = np.diff(starts, append=len(first))
    values = first[starts]
    there = [
        other.searchsorted(values, "right") - other.searchsorted(values, "left") for other in others
    ]
    return int(np.minimum(counts, there[0] if len(there) == 1 else np.max(there, axis=0)).sum())


def as_characters(*sides: Sequence[str]) -> list[str]:
    """Each side as a text with one character per distinct word, the same for all sides."""
    numbers: dict[str, int] = {}
    for side in sides:
        for word in side:
            numbers.setdefault(word, len(numbers))
    sign = {word: chr(n if n < _SURROGATES else n + 0x800) for word, n in numbers.items()}
    return ["".join(map(sign.__getitem__, side)) for side in sides]


def _split(joined: NDArray[np.int64], lengths: Sequence[int]) -> list[NDArray[np.int64]]:
    return np.split(joined, np.cumsum(lengths)[:-1])
