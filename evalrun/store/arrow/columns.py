"""Arrow columns from Python lists, built from buffers.

pyarrow's own `pa.array(list)` imports pandas (0.25 s) when it is installed; these do not. They are
also strict: an int column takes ints only, a text column str only. Raises TypeError or
OverflowError, never rounds or wraps.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

TEXT = pa.large_string()
INT = pa.int64()
FLOAT = pa.float64()
BOOL = pa.bool_()

_is_none = partial(operator.is_, None)
_WIDTHS = {pa.int32(): np.int32, pa.int64(): np.int64}


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """`values` (None = null) as an array of `kind`: text, int, float, bool, large lists and structs
    of them.

    A lone surrogate, which UTF-8 cannot hold, is stored visibly, as its escape \\udXXX.
    """
    n_present = len(values) - sum(map(_is_none, values))
    if n_present == 0 and len(values):
        return pa.nulls(len(values), kind)
    valid = None
    if n_present < len(values):
        valid = pa.py_buffer(
            np.packbits([value is not None for value in values], bitorder="little")
        )
    if pa.types.is_large_list(kind):
        items = [() if value is None else value for value in values]
        child = column(list(chain.from_iterable(items)), kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [valid, _offsets(items)], children=[child])
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        children = [
            column([row[i] for row in values], field.type) for i, field in enumerate(fields)
        ]
        return pa.Array.from_buffers(kind, len(values), [valid], children=children)
    return pa.Array.from_buffers(kind, len(values), [valid, *_data(values, kind)])


def _data(values: Sequence[Any], kind: pa.DataType) -> list[pa.Buffer]:
    if kind == TEXT:
        return _texts(values)
    if kind in _WIDTHS:
        return [_whole_numbers(values, kind)]
    if kind == FLOAT:
        is_plain = set(map(type, values)) == {float}
        real = values if is_plain else [0.0 if v is None else _real(v) for v in values]
        return [pa.py_buffer(np.array(real, dtype=np.float64))]
    if kind == BOOL:
        return [pa.py_buffer(np.packbits([bool(value) for value in values], bitorder="little"))]
    raise TypeError(f"no column of type {kind}")


def _texts(values: Sequence[Any]) -> list[pa.Buffer]:
    """Offsets and bytes. ASCII texts without gaps, the usual case, are encoded in one go."""
    if set(map(type, values)) == {str} and (joined := "".join(values)).isascii():
        return [_offsets(values), pa.py_buffer(joined.encode("ascii"))]
    encoded = [b"" if value is None else _utf8(value) for value in values]
    return [_offsets(encoded), pa.py_buffer(b"".join(encoded))]


def _whole_numbers(values: Sequence[Any], kind: pa.DataType) -> pa.Buffer:
    is_plain = set(map(type, values)) == {int}
    whole = values if is_plain else [0 if v is None else operator.index(v) for v in values]
    try:
        numbers = np.array(whole, dtype=np.int64)
    except OverflowError:
        raise OverflowError(f"a number does not fit {kind}") from None
    narrow = numbers.astype(_WIDTHS[kind])
    if not np.array_equal(narrow, numbers):  # NumPy wraps in silence
        raise OverflowError(f"a number does not fit {kind}")
    return pa.py_buffer(narrow)


def _offsets(items: Sequence[Any]) -> pa.Buffer:
    offsets = np.zeros(len(items) + 1, dtype=np.int64)
    np.cumsum(list(map(len, items)), out=offsets[1:])
    return pa.py_buffer(offsets)


def _utf8(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"a text column got {type(value).__name__} {value!r}")
    return value.encode("utf-8", "backslashreplace")


def _real(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(f"a number column got text {value!r}")
    return float(value)


def stored_text(text: str) -> str:
    """`text` as it comes back from a text column: the same, but for lone surrogates, which come
    back escaped.
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
