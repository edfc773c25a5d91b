"""Blocks to the wide table for people: datasets and metrics down, models across, then the notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalrun.stages.summary.blocks import (
    Block,
    Lane,
    MetricRow,
    blocks,
    count,
    has_number,
    is_shown,
    lanes,
)
from evalrun.stages.summary.formatting import SummarySettings, flat, number_text, scale
from evalrun.stages.summary.notes import Footnotes, all_notes, state_text
from evalrun.types import Record


@dataclass(frozen=True, slots=True)
class TableColumn:
    """is_name: may be folded over lines. is_model: holds the numbers of a model, never folded."""

    title: str
    is_name: bool = False
    is_model: bool = False
    is_right: bool = False


@dataclass(frozen=True, slots=True)
class WideTable:
    """Texts only; control characters are already escapes.

    Cells of a model column are padded alike.
    """

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A model's cell in parts, so that a column can be aligned at the number and at the error."""

    number: str = ""
    star: str = ""
    error: str = ""
    rerun: str = ""
    interval: str = ""
    mark: str = ""
    word: str = ""


def build(records: Sequence[Record], settings: SummarySettings) -> WideTable:
    """The wide table of `records`.

    Columns: dataset, version, metric, mode, [unit], n_docs, n, [counts], models.
    """
    found = blocks(records)
    order = list(dict.fromkeys(lane for lane, _ in lanes(records)))
    feet = Footnotes()
    has_unit = _has_unit_column(found, settings)
    counted = [name for name in ("error", "truncated", "unparsed") if _is_counted(found, name)]
    names: list[tuple[str, ...]] = []
    grid: list[list[_Shown]] = []
    for block in found:
        for row in block.rows:
            names.append(_row_names(block, row, order, has_unit, counted, settings))
            grid.append([_shown(block, row, lane, settings, feet) for lane in order])
    aligned = [_aligned([line[i] for line in grid]) for i in range(len(order))]
    rows = tuple((*names[r], *(column[r] for column in aligned)) for r in range(len(grid)))
    has_lists = any(", " in cell for row in names for cell in row[4:])
    notes = all_notes(records, found, settings, feet, has_lists)
    columns = _columns(order, has_unit, counted)
    return WideTable(columns, rows, tuple(flat(note) for note in notes))


def _columns(order: list[Lane], has_unit: bool, counted: list[str]) -> tuple[TableColumn, ...]:
    columns = [
        TableColumn("dataset", is_name=True),
        TableColumn("version"),
        TableColumn("metric", is_name=True),
        TableColumn("mode"),
    ]
    if has_unit:
        columns.append(TableColumn("unit"))
    counts = ("n_docs", "n", *(_COUNT_TITLES[name] for name in counted))
    columns += [TableColumn(title, is_right=True) for title in counts]
    columns += [TableColumn(_label(lane), is_model=True) for lane in order]
    return tuple(columns)


_COUNT_TITLES = {"error": "errors", "truncated": "truncated", "unparsed": "unparsed"}


def _label(lane: Lane) -> str:
    return flat(lane[0]) if lane[1] == 0 else f"{flat(lane[0])} #{lane[1] + 1}"


def _is_counted(found: list[Block], name: str) -> bool:
    return any(
        count(record, row.estimates.get(lane), name)
        for block in found
        for row in block.rows
        for lane, record in block.records.items()
        if is_shown(record, row.estimates.get(lane))
    )


def _has_unit_column(found: list[Block], settings: SummarySettings) -> bool:
    units = {row.unit for block in found for row in block.rows if row.unit is not None}
    return bool({scale(unit, settings)[1] for unit in units} - {scale("fraction", settings)[1]})


def _row_names(
    block: Block,
    row: MetricRow,
    order: list[Lane],
    has_unit: bool,
    counted: list[str],
    settings: SummarySettings,
) -> tuple[str, ...]:
    arrow = "" if row.is_higher_better else " ↓"
    cells = [flat(block.task), flat(block.version), flat(row.label) + arrow, flat(row.mode)]
    if has_unit:
        cells.append("" if row.unit is None else scale(row.unit, settings)[1])
    asked: list[list[int | None]] = [[] for _ in range(2 + len(counted))]
    for lane in order:
        record, e = block.records.get(lane), row.estimates.get(lane)
        if record is None or not is_shown(record, e):
            values: list[int | None] = [None] * len(asked)
        else:
            n_docs, n = (record.n_docs, record.n) if e is None else (e.n_docs, e.n)
            values = [n_docs, row.n or n, *(count(record, e, name) for name in counted)]
        for column, value in zip(asked, values, strict=True):
            column.append(value)
    return (*cells, *(_listed(column) for column in asked))


def _listed(values: list[int | None]) -> str:
    """One number where all models agree, else one per model, `-` where a model has none."""
    known = {value for value in values if value is not None}
    if len(known) <= 1:
        return str(known.pop()) if known else ""
    return ", ".join("-" if value is None else str(value) for value in values)


def _shown(
    block: Block, row: MetricRow, lane: Lane, settings: SummarySettings, feet: Footnotes
) -> _Shown:
    record, e = block.records.get(lane), row.estimates.get(lane)
    if record is None or not is_shown(record, e):
        return _Shown()
    if e is None or e.value is None or not has_number(record, e):
        word, reason = state_text(record)
        return _Shown(word=word, mark=feet.mark(reason))
    mark = feet.mark(state_text(record)[1]) if record.state == "incomplete" else ""
    if not math.isfinite(e.value):
        mark += feet.mark(
            f"{block.task}, {record.model}: {e.display} is {e.value}, not a finite number."
        )
    interval = ""
    if settings.show_ci and e.ci_low is not None and e.ci_high is not None:
        low, high = (number_text(x, e.unit, settings) for x in (e.ci_low, e.ci_high))
        interval = f"[{low}, {high}]"
    return _Shown(
        number=number_text(e.value, e.unit, settings),
        star="*" if record.state == "incomplete" else "",
        error="" if e.stderr is None else number_text(e.stderr, e.unit, settings),
        rerun="" if e.rerun_stderr is None else number_text(e.rerun_stderr, e.unit, settings),
        interval=interval,
        mark=mark,
    )


def _aligned(cells: list[_Shown]) -> list[str]:
    """The texts of one model's column: numbers and errors right-aligned, stars and marks behind
    them.
    """
    width = {
        name: max(len(getattr(c, name)) for c in cells)
        for name in ("number", "star", "error", "rerun", "interval")
    }
    texts = []
    for c in cells:
        if c.word or not c.number:
            texts.append(f"{c.word} {c.mark}".strip())
            continue
        parts = [c.number.rjust(width["number"]) + c.star.ljust(width["star"])]
        if width["error"]:
            sign = "±" if c.error else " "
            parts.append(f"{sign} {c.error.rjust(width['error'])}")
        if width["rerun"]:
            part = f", of which rerun ± {c.rerun.rjust(width['rerun'])}" if c.rerun else ""
            parts[-1] += part.ljust(width["rerun"] + len(", of which rerun ± "))
        if width["interval"]:
            parts.append(c.interval.ljust(width["interval"]))
        texts.append(" ".join([*parts, c.mark]).rstrip())
    full = max(map(len, texts))
    return [text.ljust(full) for text in texts]
