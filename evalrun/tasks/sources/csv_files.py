"""Rows of CSV and TSV. Every cell is text."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalrun.errors import Fault, visible

# A cell that opens with a quote and closes with one, quotes inside it doubled.
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def csv_rows(text: str, path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a CSV file, and notes.

    A row with more or fewer cells than the header is a Fault. A file without one comma in its
    header in which every line splits equally at semicolons is read so, and a note says it.
    """
    delimiter, notes = ",", []
    if _has_semicolons(text):
        delimiter = ";"
        notes.append(f"{path} is separated by semicolons, not commas; it was read so")
    return _rows(list(_cells(text, path, delimiter)), path, text, notes), notes


def tsv_rows(text: str, path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a TSV file, and notes.

    A row is a line. A quote is a character like any other, unless it opens a cell and closes it on
    the same line. Only a file that fits in no such way is read with cells over several lines.
    """
    notes: list[str] = []
    lines = [
        (number, _split_tabs(line.removesuffix("\r")))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip("\r")
    ]
    if len({len(cells) for _, cells in lines}) > 1 and '"' in text:
        try:
            quoted = list(_cells(text, path, "\t"))
        except Fault:
            quoted = []
        if len({len(cells) for _, cells in quoted}) == 1:
            lines = quoted
    return _rows(lines, path, text, notes), notes


def _split_tabs(line: str) -> list[str]:
    """The cells of one line."""
    cells, place = [], 0
    while place <= len(line):
        match = _QUOTED.match(line, place)
        if match and (match.end() == len(line) or line[match.end()] == "\t"):
            cells.append(match[1].replace('""', '"'))
            place = match.end() + 1
            continue
        end = line.find("\t", place)
        end = len(line) if end < 0 else end
        cells.append(line[place:end])
        place = end + 1
    return cells


def _cells(text: str, path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, cells) of every record that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    limit = csv.field_size_limit(sys.maxsize)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise Fault(
            f"{path}:{line}: not valid CSV: {error}. A cell that holds a quote, a line break or "
            "the separator is quoted, and quotes inside it are doubled."
        ) from error
    finally:
        csv.field_size_limit(limit)


def _rows(
    records: list[tuple[int, list[str]]], path: Path, text: str, notes: list[str]
) -> list[dict[str, Any]]:
    if not records:
        return []
    (at, names), *rest = records
    header, width = _header(names, [cells for _, cells in rest], f"{path}:{at}")
    rows = [_row(header, width, cells, f"{path}:{line}") for line, cells in rest]
    n_lines = text.count("\n") + (not text.endswith("\n"))
    if n_lines != len(records):
        notes.append(
            f"{path} has {n_lines} lines and gave {len(rows)} rows below its header: blank lines "
            "were passed over, or quoted cells hold line breaks"
        )
    return rows


def _header(names: list[str], rows: list[list[str]], place: str) -> tuple[list[str], int]:
    """The names of the columns, and how many cells a row has.

    Excel writes empty columns at the end: they are dropped where no row has anything in them.
    """
    kept = list(names)
    while kept and not kept[-1].strip():
        kept.pop()
    width = len(names)
    if any(not name.strip() for name in kept) or any(
        cell.strip() for cells in rows for cell in cells[len(kept) : width]
    ):
        which = next(i for i, name in enumerate(names, 1) if not name.strip())
        raise Fault(
            f"{place}: column {which} of the header has no name, but rows have values in it. Give "
            "it a name."
        )
    repeated = sorted({name for name in kept if kept.count(name) > 1})
    if repeated:
        raise Fault(
            f"{place}: the header names column {visible(repeated[0])!r} twice. Names of columns "
            "are unique."
        )
    return kept, width


def _row(header: list[str], width: int, cells: list[str], place: str) -> dict[str, Any]:
    if len(cells) != width:
        raise Fault(
            f"{place}: the row has {len(cells)} cells, the header has {width}. Every row has "
            "as many cells as the header; a cell with the separator in it is quoted."
        )
    return dict(zip(header, cells, strict=False))


def _has_semicolons(text: str) -> bool:
    """Whether the header has semicolons and no comma, and every record as many cells as it."""
    first = text.split("\n", 1)[0]
    if ";" not in first or "," in first:
        return False
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=";", strict=True)
    try:
        widths = {len(cells) for cells in reader if cells}
    except csv.Error:
        return False
    return len(widths) == 1 and widths.pop() > 1
