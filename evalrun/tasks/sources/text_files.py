"""Text files, read so that no value changes its type: JSON Lines, JSON, CSV, TSV, also gzip."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from evalrun.errors import Fault
from evalrun.tasks.sources.csv_files import csv_rows, tsv_rows
from evalrun.tasks.sources.json_files import json_document, json_lines

BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LFS = b"version https://git-lfs.github.com/spec/"


def read_text_rows(
    path: Path, form: str, key: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of one file, and notes on how it was read.

    Args:
        path: the file; gzip is recognised by its content.
        form: jsonl, json, csv or tsv.
        key: the list to take from a JSON object of lists.

    Fault: a bad line (the message begins with FILE:LINE), a file that is no text, a damaged gzip
    file, a pointer of Git LFS.
    """
    notes: list[str] = []
    try:
        with _opened(path, notes) as stream:
            if form == "jsonl":
                return list(json_lines(_lines(stream, path), path)), notes
            data = stream.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Fault(
            f"{path}: the file is not a whole gzip file ({error}). Compress or download it again."
        ) from error
    text = _decoded(data, path)
    if form == "json":
        return json_document(text, path, key), notes
    rows, remarks = (tsv_rows if form == "tsv" else csv_rows)(text, path)
    return rows, [*notes, *remarks]


def _opened(path: Path, notes: list[str]) -> BinaryIO:
    """The file's bytes, unpacked."""
    with path.open("rb") as file:
        start = file.read(len(_LFS))
    if start == _LFS:
        raise Fault(
            f"{path} is a pointer of Git LFS, not the data: the repository was cloned without its "
            "large files. Run `git lfs pull` in it."
        )
    if start.startswith(_ZSTD):
        raise Fault(
            f"{path} is compressed with Zstandard, which evalrun does not read. Unpack it: zstd -d "
            f"{path.name}."
        )
    is_named = path.name.casefold().endswith(".gz")
    if start.startswith(_GZIP) and not is_named:
        notes.append(
            f"{path} holds gzip data, though its name does not end in .gz; it was unpacked"
        )
    is_packed = is_named or start.startswith(_GZIP)
    return cast(BinaryIO, gzip.open(path, "rb")) if is_packed else path.open("rb")


def _lines(stream: BinaryIO, path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of each line.

    A line ends at \\n alone; U+2028, U+2029 and U+0085 are ordinary characters. A byte-order mark
    at the start of any line goes: it stands there where files were joined.
    """
    for number, raw in enumerate(stream, 1):
        yield number, _decoded(raw.rstrip(b"\r\n").removeprefix(BOM), path, number)


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
