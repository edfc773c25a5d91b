"""Strict JSON (RFC 8259) as text, and its values.

Written: a number that JSON cannot hold is the text "NaN", "Infinity" or "-Infinity". Read: NaN and
1e999 are refused, a key stands once, and lists nest 100 deep at most. What does not fit is a
`Misfit` that names the key. `json_types` makes dataclasses of the values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

MOST_DEEP = 100
NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Misfit(ValueError):
    """JSON that is not as it must be; its text names the key, as in `cells[0].n`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path} {problem}" if path else problem)
        self.problem, self.path = problem, path

    def inside(self, key: str) -> Misfit:
        """The same one level further out: `key` is a name, or a place such as `[0]`."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        return Misfit(self.problem, f"{key}{joint}{self.path}")


def to_json(value: Any, indent: int | None = None, is_ascii: bool = False) -> str:
    """`value` as strict JSON, keys in the order given.

    NumPy scalars and arrays, enums and dataclasses are taken as what they hold; anything else that
    JSON does not know becomes its `str`. Misfit where lists and objects nest too deep.

    Args:
        value: what to write.
        indent: spaces per level; None: all on one line, without spaces.
        is_ascii: other characters become escapes \\uXXXX.
    """
    separators = (",", ": ") if indent else (",", ":")
    bare = plain(value)
    text = json.dumps(
        bare, indent=indent, ensure_ascii=is_ascii, allow_nan=False, separators=separators
    )
    _check_depth(text, bare)  # nothing is written that would not be read
    return text


def from_json(text: str | bytes) -> Any:
    """The value of strict JSON text. Misfit on what is not."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        value = _DECODER.decode(text)
    except RecursionError:
        raise Misfit(f"its lists and objects nest more than {MOST_DEEP} deep") from None
    except Misfit:
        raise
    except ValueError as cause:
        raise Misfit(str(cause)) from cause
    _check_depth(text, value)
    return value


def from_object(text: str | bytes) -> dict[str, Any]:
    """The object of strict JSON text. Misfit on what is not, and on any other value."""
    value = from_json(text)
    if not isinstance(value, dict):
        raise Misfit("it holds no JSON object")
    return value


def plain(value: Any) -> Any:
    """`value` in the types of JSON: dict, list, str, int, float, bool, None."""
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, (str, int)):
        return str(value) if isinstance(value, str) else int(value)
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


def frozen(value: Any) -> Any:
    """`value` with every list, nested ones too, as a tuple."""
    return tuple(frozen(each) for each in value) if isinstance(value, list | tuple) else value


def number(value: Any) -> Any:
    """The float behind "NaN", "Infinity", "-Infinity"; every other value unchanged."""
    return NOT_NUMBERS.get(value, value) if isinstance(value, str) else value


def _check_depth(text: str, value: Any) -> None:
    """Misfit where the lists and objects of `value`, which is `text`, nest too deep."""
    if text.count("[") + text.count("{") <= MOST_DEEP:  # quick, and nearly always so
        return
    # Not by recursion, which has a bound of its own.
    left: list[tuple[Any, int, str]] = [(value, 0, "")]
    while left:
        item, depth, path = left.pop()
        if depth > MOST_DEEP:
            raise Misfit(f"nests more than {MOST_DEEP} lists and objects", path)
        if isinstance(item, dict):
            left += [(v, depth + 1, path or str(k)) for k, v in item.items()]
        elif isinstance(item, list):
            left += [(v, depth + 1, path) for v in item]


def _name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _refuse(literal: str) -> float:
    raise Misfit(f"{literal} is no JSON")


def _finite(digits: str) -> float:
    if math.isfinite(value := float(digits)):
        return value
    raise Misfit(f"{digits:.40} is larger than every float")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Misfit("stands twice", next(name for name in names if names.count(name) > 1))
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_once)
