"""Strict JSON (RFC 8259): a number that JSON cannot hold becomes the text "NaN", "Infinity" or
"-Infinity".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(value: Any, indent: int | None = None) -> str:
    """`value` as strict JSON, keys in the order given.

    NumPy scalars and arrays, enums and dataclasses are taken as
    what they hold; anything else that JSON does not know becomes its `str`."""
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(
        plain(value), indent=indent, ensure_ascii=False, allow_nan=False, separators=separators
    )


def from_json(text: str) -> Any:
    """The value of strict JSON text. ValueError on NaN literals and on what is no JSON."""
    return _DECODER.decode(text)


def plain(value: Any) -> Any:
    """`value` in the types of JSON: dict, list, str, int, float, bool, None."""
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _name(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    as_list = getattr(value, "tolist", None)  # NumPy: scalars give a number, arrays lists
    return plain(as_list()) if callable(as_list) else str(value)


def number(value: Any) -> Any:
    """The float behind "NaN", "Infinity", "-Infinity"; every other value as it is."""
    return NOT_NUMBERS.get(value, value) if isinstance(value, str) else value


def _name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _refuse(literal: str) -> float:
    raise ValueError(f"{literal} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
