"""Text files read by us, so that no value changes its type: JSON Lines, JSON, CSV, TSV, also as
.gz.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from evalrun.errors import Fault, nearest, visible
from evalrun.tasks.values import Number

BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_text_rows(path: Path, form: str, key: str | None = None) -> list[dict[str, Any]]:
    """The rows of one file.

    Args:
        form: jsonl, json, csv or tsv.
        key: the list to take from a JSON object of lists.

    A bad line is a Fault that begins with FILE:LINE.
    """
    try:
        with _opened(path) as stream:
            if form == "jsonl":
                return list(_json_lines(stream, path))
            data = stream.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Fault(
            f"{path}: the file is not a whole gzip file ({error}). Compress or download it again."
        ) from error
    text = _decoded(data, path)
    return (
        _json_document(text, path, key)
        if form == "json"
        else _csv_rows(text, path, "\t" if form == "tsv" else ",")
    )


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _decoded(data: bytes, path: Path, line: int = 1) -> str:
    """UTF-8 text without its byte-order mark. `line` is the number of the first line of `data`."""
    if line == 1 and data.startswith(_UTF16):
        raise Fault(
            f"{path}:1: the file is UTF-16. Allowed is UTF-8: save it again with that encoding."
        )
    try:
        return data.removeprefix(BOM if line == 1 else b"").decode("utf-8")
    except UnicodeDecodeError as error:
        place = error.start + (len(BOM) if line == 1 and data.startswith(BOM) else 0)
        at_line = line + data.count(b"\n", 0, place)
        column = place - data.rfind(b"\n", 0, place)
        raise Fault(
            f"{path}:{at_line}: byte 0x{data[place]:02x} (byte {column} of the line) is not UTF-8. "
            "Allowed is UTF-8: save the file again with that encoding."
        ) from error


# ---- JSON ----------------------------------------------------------------------------------------


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


def _json_lines(stream: BinaryIO, path: Path) -> Iterator[dict[str, Any]]:
    """One object per line.

    A line ends at \\n alone; U+2028, U+2029 and U+0085 are ordinary characters.
    """
    for number, raw in enumerate(stream, 1):
        raw = raw.rstrip(b"\r\n")
        if raw.strip() and raw.strip() != BOM:
            yield _as_row(_parsed(_decoded(raw, path, number), path, number), f"{path}:{number}")


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


def _json_document(text: str, path: Path, key: str | None) -> list[dict[str, Any]]:
    """A list of objects, an object that holds one such list (or the one named `key`), or JSON
    Lines.
    """
    if not text.strip():
        return []
    first, _, rest = text.strip().partition("\n")
    if first.rstrip().endswith("}") and rest.lstrip().startswith("{"):
        return list(_json_lines(io.BytesIO(text.encode("utf-8")), path))
    value = _parsed(text, path)
    if isinstance(value, dict):
        value = _inner_list(value, path, key)
    if not isinstance(value, list):
        raise Fault(
            f"{path}: a .json file of rows holds a list of objects; this is {_kind(value)}."
        )
    return [_as_row(each, f"{path}: entry {i}") for i, each in enumerate(value, 1)]


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


# ---- CSV -----------------------------------------------------------------------------------------


def _csv_rows(text: str, path: Path, delimiter: str) -> list[dict[str, Any]]:
    """Every cell is text.

    Blank lines are skipped; a row with more or fewer cells than the header is a Fault.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    limit = csv.field_size_limit(sys.maxsize)
    header: list[str] | None = None
    rows: list[dict[str, Any]] = []
    line = 1
    try:
        for cells in reader:
            if header is None and cells:
                header = _header(cells, f"{path}:{line}")
            elif header is not None and cells:
                rows.append(_csv_row(header, cells, f"{path}:{line}"))
            line = reader.line_num + 1
    except csv.Error as error:
        raise Fault(
            f"{path}:{line}: not valid CSV: {error}. A cell that holds a quote, a line break or "
            "the separator is quoted, and quotes inside it are doubled."
        ) from error
    finally:
        csv.field_size_limit(limit)
    return rows


def _header(cells: list[str], place: str) -> list[str]:
    repeated = sorted({name for name in cells if cells.count(name) > 1})
    if repeated:
        raise Fault(
            f"{place}: the header names column {visible(repeated[0])!r} twice. Names of columns "
            "are unique."
        )
    return cells


def _csv_row(header: list[str], cells: list[str], place: str) -> dict[str, Any]:
    if len(cells) != len(header):
        raise Fault(
            f"{place}: the row has {len(cells)} cells, the header has {len(header)}. Every row has "
            "as many cells as the header; a cell with the separator in it is quoted."
        )
    return dict(zip(header, cells, strict=True))
