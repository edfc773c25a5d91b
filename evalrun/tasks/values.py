"""What a cell of a dataset holds: its text, its place, whether two are equal.

Types are never guessed.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

MOST_DIGITS = 20
"""Beyond this many places before or behind the point a number keeps its exponent."""


class Number(float):
    """A JSON number with a fraction or an exponent.

    It counts as a float and shows as it was written: 2.50.
    """

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Number], tuple[str]]:
        return (Number, (self.text,))


class _Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()
"""What `lookup` gives where a row has no such column."""


def is_absent(value: Any) -> bool:
    """True for null, NaN and a column that the row does not have. An empty text is not absent."""
    return value is None or value is MISSING or (isinstance(value, float) and math.isnan(value))


def as_text(value: Any) -> str | None:
    """The text of one value, or None where it has none (absent, a list, a mapping, bytes that are
    not UTF-8).

    Text stays as it is; a JSON number keeps its source text (2.50); a boolean is `true` or `false`,
    as JSON writes it; dates and times are ISO 8601. A number of a typed file is shown as a person
    writes it: 0.1, 18, 0.0000001.
    """
    if isinstance(value, str):
        return value
    if is_absent(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal) or type(value) is float:
        return as_written(value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return _decoded(value)
    return None


def as_written(value: float | decimal.Decimal) -> str:
    """A number as a person writes it: no exponent, and no fraction of zeros.

    A decimal keeps the digits of its fraction (1.10), which its column declares. Numbers of more
    than MOST_DIGITS places keep their exponent.
    """
    exact = decimal.Decimal(repr(value)) if isinstance(value, float) else value
    if not exact.is_finite() or abs(exact.adjusted()) > MOST_DIGITS:
        return str(value)
    text = format(exact, "f")
    whole, _, fraction = text.partition(".")
    if fraction.strip("0"):
        return text
    return "0" if exact == 0 else whole  # never -0


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def is_same(left: Any, right: Any) -> bool:
    """Whether two values are equal: null with null, numbers as numbers, everything else by its
    text.
    """
    if is_absent(left) or is_absent(right):
        return is_absent(left) and is_absent(right)
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    one, other = as_text(left), as_text(right)
    return one is not None and one == other


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)


def jsonable(value: Any) -> Any:
    """`value` with dates, decimals and bytes as text, mappings and lists walked.

    ValueError where it has no text.
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(each) for each in value]
    text = as_text(value)
    if text is None:
        raise ValueError(f"a value of type {type(value).__name__} has no text form")
    return text


def lookup(row: Any, column: str) -> Any:
    """The value of a column. Dots go into mappings (`answers.text`), lists by number (`options.0`).

    A name on a list of mappings gives the list of their values. A column whose own name holds the
    dots wins. MISSING where the row does not have it.
    """
    if isinstance(row, Mapping) and column in row:
        return row[column]
    return _descend(row, column.split("."))


def _descend(value: Any, parts: list[str]) -> Any:
    if not parts:
        return value
    if isinstance(value, Mapping):
        for end in range(len(parts), 0, -1):
            key = ".".join(parts[:end])
            if key in value:
                found = _descend(value[key], parts[end:])
                if found is not MISSING:
                    return found
        return MISSING
    if not isinstance(value, (list, tuple)):
        return MISSING
    if parts[0].isascii() and parts[0].isdigit():
        place = int(parts[0])
        return _descend(value[place], parts[1:]) if place < len(value) else MISSING
    found_all = [_descend(each, parts) for each in value]
    return MISSING if not found_all or any(each is MISSING for each in found_all) else found_all


def column_names(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Every column that any row has, in the order first seen."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return tuple(names)


def nested_names(row: Mapping[str, Any]) -> Iterator[str]:
    """The dotted names one level below the columns of a row, for error messages."""
    for name, value in row.items():
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, Mapping):
            yield from (f"{name}.{key}" for key in first)
