"""Rows of JSON and JSON Lines. No value changes its type; a number keeps its digits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evalrun.errors import Fault, nearest, visible
from evalrun.tasks.values import Number

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(
            f"the key {visible(twice)!r} stands twice in one object; keep one of the two"
        )
    return row


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=Number, parse_constant=Number, strict=False
)


def json_lines(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[dict[str, Any]]:
    """One object per line; blank lines are passed over.

    Args:
        lines: (number, text) of each line, numbers from 1.
        path: of the file, for errors.
    """
    for number, text in lines:
        if text.strip():
            yield _as_row(_parsed(text, path, number), f"{path}:{number}")


def _parsed(text: str, path: Path, line: int = 1) -> Any:
    place = f"{path}:{line}"
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        around = visible(text[max(0, error.pos - 20) : error.pos + 20]).strip()
        at_line = line + error.lineno - 1
        raise Fault(
            f"{path}:{at_line}: not valid JSON: {error.msg} at column {error.colno}, near "
            f"{around!r}."
        ) from error
    except RecursionError as error:
        raise Fault(f"{place}: lists or objects are nested too deeply to be read.") from error
    except ValueError as error:
        raise Fault(f"{place}: {error}.") from error
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise Fault(
                f"{place}: \\u{ord(error.object[error.start]):04x} is half of a character (a lone "
                "surrogate) and cannot be sent to a model. Write the whole pair, or the character "
                "itself."
            ) from error
    return value


def _as_row(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        hint = " A file that holds one list is named .json." if isinstance(value, list) else ""
        raise Fault(f"{place}: a row is an object {{...}}; this is {_kind(value)}.{hint}")
    return value


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def json_document(text: str, path: Path, key: str | None) -> list[dict[str, Any]]:
    """The rows of a .json file.

    It holds a list of objects; an object with one such list (or the one named `key`); an object of
    rows by their number, {"0": {...}, "1": {...}}; an object of columns, each a mapping from the
    row's number to a cell, as pandas' `to_json()` writes it; or JSON Lines.
    """
    if not text.strip():
        return []
    first, _, rest = text.strip().partition("\n")
    if first.rstrip().endswith("}") and rest.lstrip().startswith("{"):
        return list(json_lines(enumerate(text.split("\n"), 1), path))
    value = _parsed(text, path)
    if isinstance(value, dict):
        value = _by_number(value) or _inner_list(value, path, key)
    if not isinstance(value, list):
        raise Fault(
            f"{path}: a .json file of rows holds a list of objects; this is {_kind(value)}."
        )
    return [_as_row(each, f"{path}: entry {i}") for i, each in enumerate(value, 1)]


def _by_number(value: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Rows of an object whose keys number the rows, or whose columns do; None for any other."""
    if not value or not all(isinstance(each, dict) and each for each in value.values()):
        return None
    if _are_numbers(value):
        return [value[key] for key in sorted(value, key=int)]
    first = next(iter(value.values()))
    if not _are_numbers(first) or any(each.keys() != first.keys() for each in value.values()):
        return None
    return [
        {name: cells[number] for name, cells in value.items()} for number in sorted(first, key=int)
    ]


def _are_numbers(keys: Iterable[str]) -> bool:
    return all(key.isascii() and key.isdigit() for key in keys)


def _inner_list(value: dict[str, Any], path: Path, key: str | None) -> list[Any]:
    lists = {
        k: v
        for k, v in value.items()
        if isinstance(v, list) and v and all(isinstance(e, dict) for e in v)
    }
    if len(lists) == 1:
        return next(iter(lists.values()))
    if key in lists:
        return lists[key]
    if not lists:
        raise Fault(
            f"{path}: a .json file of rows holds a list of objects; this object has none among its "
            "values."
        )
    hint = f" Nearest: {nearest(key, lists)!r}." if key and nearest(key, lists) else ""
    names = ", ".join(visible(name) for name in lists)
    raise Fault(
        f"{path}: the file holds several lists of objects: {names}. Choose with "
        f"dataset.name=KEY.{hint}"
    )
