"""The table as Markdown, as plain text and on a terminal.

Names are folded where they must be, numbers never.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalrun.stages.summary.advice import sections, without_advice
from evalrun.stages.summary.assemble import TableColumn, WideTable, build
from evalrun.stages.summary.formatting import SummarySettings
from evalrun.types import Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

GAP = 2  # blanks between columns
NARROWEST = 8  # a name is not folded below this width
TITLE_WIDTH = 28  # in files, longer model names are folded over lines
DEFAULTS = SummarySettings()


def md_text(records: Sequence[Record], settings: SummarySettings = DEFAULTS) -> str:
    """A GitHub table and a list of notes, then the sections on repeated answers likewise, each
    below its title.

    `|` and other marks of Markdown in names are escaped.
    """
    lines = _md_lines(build(records, settings))
    for section in sections(records, settings):
        lines += ["", f"### {section.title}", "", *_md_lines(section.table)]
    return "\n".join(lines) + "\n"


def _md_lines(table: WideTable) -> list[str]:
    lines = [_md_line([md_escaped(c.title) for c in table.columns])]
    lines.append(_md_line(["---:" if c.is_right else "---" for c in table.columns]))
    lines += [_md_line([md_escaped(" ".join(cell.split())) for cell in row]) for row in table.rows]
    lines += ["", *(f"- {md_escaped(note)}" for note in table.notes)] if table.notes else []
    return lines


def _md_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def md_escaped(text: str) -> str:
    """`text` so that GitHub Markdown shows it as it stands, also within a table.

    `_` within a word stays.
    """
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", "&#92;", text)
    text = re.sub(r"([|*`<~])", r"\\\1", text)
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)
    return text.replace("](", "\\](")


def txt_text(records: Sequence[Record], settings: SummarySettings = DEFAULTS) -> str:
    """Columns of plain text, a rule under the titles, then the notes; the sections on repeated
    answers likewise.

    Every name is whole, numbers are aligned.
    """
    lines = _txt_lines(build(records, settings))
    for section in sections(records, settings):
        lines += ["", section.title, "", *_txt_lines(section.table)]
    return "\n".join(lines) + "\n"


def _txt_lines(table: WideTable) -> list[str]:
    spans = [_span(table, i, is_folded=False) for i in range(len(table.columns))]
    lines = _laid_out([c.title for c in table.columns], table.columns, spans)
    lines.append((" " * GAP).join("-" * span for span in spans))
    for row in table.rows:
        lines += _laid_out(row, table.columns, spans)
    lines += ["", *table.notes] if table.notes else []
    return lines


def _span(table: WideTable, i: int, is_folded: bool) -> int:
    """Width of column i: as wide as it wants to be, or (is_folded) as narrow as it may be."""
    column = table.columns[i]
    title, cells = width(column.title), max((width(row[i]) for row in table.rows), default=0)
    if column.is_model:
        return max(cells, min(title, NARROWEST if is_folded else TITLE_WIDTH))
    widest = max(title, cells)
    return min(widest, max(title, NARROWEST)) if is_folded and column.is_name else widest


def _laid_out(
    cells: Sequence[str], columns: Sequence[TableColumn], spans: Sequence[int]
) -> list[str]:
    folded = [fold(cell, span) for cell, span in zip(cells, spans, strict=True)]
    lines = []
    for k in range(max(map(len, folded))):
        parts = [
            _padded(f[k] if k < len(f) else "", span, column.is_right)
            for f, span, column in zip(folded, spans, columns, strict=True)
        ]
        lines.append((" " * GAP).join(parts).rstrip())
    return lines


def _padded(text: str, span: int, is_right: bool) -> str:
    blanks = " " * (span - width(text))
    return blanks + text if is_right else text + blanks


def width(text: str) -> int:
    """Columns of a terminal that `text` takes: 2 for wide East Asian characters, 0 for combining
    ones.
    """
    from rich.cells import cell_len

    return cell_len(text)


def fold(text: str, span: int) -> list[str]:
    """`text` in lines of at most `span` columns (at least one character each), cut after a mark
    where there is one.

    The lines joined give `text` back.
    """
    lines = []
    while width(text) > span:
        end = 1
        while end < len(text) and width(text[: end + 1]) <= span:
            end += 1
        marks = [i + 1 for i in range(end // 2, end) if text[i] in "-_/:.,|& "]
        end = marks[-1] if marks else end
        lines.append(text[:end])
        text = text[end:]
    return [*lines, text]


def print_table(
    records: Sequence[Record], console: Console, settings: SummarySettings = DEFAULTS
) -> None:
    """The table on `console`: in its width and with colour on a terminal, else exactly `txt_text`;
    without the advice.

    Where room is short, `mode` and `version` are left out (and said so), further models follow in
    further tables and names are folded; a terminal too narrow even for that gets the text form.
    """
    from rich.text import Text

    settings = without_advice(settings)
    table = build(records, settings)
    is_rich = console.is_terminal and console.encoding.startswith("utf")
    layout = _arranged(table, console.width) if is_rich else None
    if not layout or not layout[1]:
        encoding = console.encoding
        console.file.write(
            txt_text(records, settings).encode(encoding, "backslashreplace").decode(encoding)
        )
        console.file.flush()
        return
    shared, groups = layout
    for group in groups:
        console.print(_rich_table(table, [*shared, *group], console.width), highlight=False)
        console.print()
    hidden = [c.title for i, c in enumerate(table.columns) if not c.is_model and i not in shared]
    notes = [
        *table.notes,
        *([f"Left out here for want of room: {', '.join(hidden)}."] if hidden else []),
    ]
    for note in notes:
        style = "bold" if note.startswith("[") else "dim"
        console.print(Text(note, style=style, overflow="fold"), highlight=False)
    for section in sections(records, settings):
        console.print(
            Text("\n" + "\n".join([section.title, *_txt_lines(section.table)]), overflow="fold"),
            highlight=False,
        )


def _arranged(table: WideTable, room: int) -> tuple[list[int], list[list[int]]] | None:
    """(columns before the models, model columns of each table): the first way that fits with the
    fewest tables.
    """
    shared = [i for i, c in enumerate(table.columns) if not c.is_model]
    ways = []
    for hidden, is_folded in (
        ((), False),
        (("mode",), False),
        (("mode", "version"), False),
        (("mode", "version"), True),
    ):
        kept = [i for i in shared if table.columns[i].title not in hidden]
        groups = _groups(table, kept, room, is_folded)
        if groups is not None:
            ways.append((kept, groups))
    return min(ways, key=lambda way: len(way[1]), default=None)


def _groups(
    table: WideTable, shared: list[int], room: int, is_folded: bool
) -> list[list[int]] | None:
    """Model columns in tables that fit into `room`; None where not even one does."""
    base = sum(_span(table, i, is_folded) + GAP for i in shared)
    groups: list[list[int]] = []
    used = room + 1
    for i in (i for i, c in enumerate(table.columns) if c.is_model):
        need = _span(table, i, is_folded=True)
        if base + need > room:
            return None
        if used + GAP + need > room:
            groups.append([])
            used = base + need
        else:
            used += GAP + need
        groups[-1].append(i)
    return groups


def _fitted(table: WideTable, chosen: list[int], room: int) -> list[int]:
    """Widths of the chosen columns: the wanted ones, model titles and then names made narrower
    until all fit.
    """
    spans = [_span(table, i, is_folded=False) for i in chosen]
    least = [_span(table, i, is_folded=True) for i in chosen]
    while sum(spans) + GAP * (len(spans) - 1) > room:
        loose = [k for k in range(len(spans)) if spans[k] > least[k]]
        titles = [k for k in loose if table.columns[chosen[k]].is_model]
        if not loose:
            break
        spans[max(titles or loose, key=lambda k: spans[k])] -= 1
    return spans


def _rich_table(table: WideTable, chosen: list[int], room: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    spans = _fitted(table, chosen, room)
    shown = RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), highlight=False
    )
    for i, span in zip(chosen, spans, strict=True):
        title = Text("\n".join(fold(table.columns[i].title, span)), style="bold")
        side = "right" if table.columns[i].is_right else "left"
        shown.add_column(title, justify=side, width=span, no_wrap=True)  # type: ignore[arg-type]
    for row in table.rows:
        cells = [Text("\n".join(fold(row[i], span))) for i, span in zip(chosen, spans, strict=True)]
        for i, cell in zip(chosen, cells, strict=True):
            if table.columns[i].is_model:
                cell.stylize("red" if row[i][:1].isalpha() and "[" in row[i] else "bold")
        shown.add_row(*cells)
    return shown
