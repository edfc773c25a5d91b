"""What stands under the table: every mark with its reason, then bounds, shares and remarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalrun.stages.summary.blocks import Block, has_number
from evalrun.stages.summary.formatting import SummarySettings, number_text, scale
from evalrun.stats.task_averages import is_group
from evalrun.types import Estimate, Record


class Footnotes:
    """Numbered notes in the order of their first mark; equal texts share a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        """`[1]` for a new text, the same again for one that is known."""
        return f"[{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    def lines(self) -> list[str]:
        """`[1] text` each."""
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


def state_text(record: Record) -> tuple[str, str]:
    """(word for a cell without a number, footnote) of a record: what happened, how far it came,
    why, which log.
    """
    c, total = record.counts, record.n_docs * record.n
    answered = max(total - c.n_error - c.n_unsent, 0)
    word = "unscored" if record.state == "complete" else record.state
    detail = ""
    if record.state == "failed" and c.n_error:
        word, detail = f"failed {c.n_error}/{total}", f" ({c.n_error} of {total} samples)"
    elif record.state == "incomplete" and total:
        word = f"incomplete {answered}/{total}"
        others = _part(c.n_error, "failed") + _part(c.n_unsent, "never sent")
        detail = f" ({answered} of {total} samples answered{others})"
    why = _sentence(record.reason) if record.reason else "no reason was recorded."
    if record.state == "complete" and not record.reason:
        why = "no document could be scored."
    log = f" Log: {record.log}" if record.log else ""
    return word, f"{_place(record)}: {word.split()[0]}{detail}: {why}{log}"


def _place(record: Record) -> str:
    return f"{record.task}, {record.model}"


def _part(count: int, word: str) -> str:
    return f", {count} {word}" if count else ""


def _sentence(text: str) -> str:
    """`text` on one line, with a full stop at its end."""
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", "。")) else line + "."


def all_notes(
    records: Sequence[Record],
    found: list[Block],
    settings: SummarySettings,
    feet: Footnotes,
    has_lists: bool,
) -> list[str]:
    """The notes in order: how to read a cell, footnotes, bounds, shares of odd answers, the
    records' own notes.
    """
    notes = _legend(found, settings, has_lists)
    notes += feet.lines()
    for block in found:
        notes += [
            f"{block.task}: {r.label} is {r.signature}" for r in block.rows if r.label != r.name
        ]
        for name, record, e in _numbers(block):
            notes += _bounds(record, name, e, settings)
    for record in records:
        notes += _odd_answers(record)
    return notes + _own_notes(records)


def _numbers(block: Block) -> Iterator[tuple[str, Record, Estimate]]:
    for row in block.rows:
        for lane, e in row.estimates.items():
            if has_number(block.records[lane], e):
                yield row.label, block.records[lane], e


def _legend(found: list[Block], settings: SummarySettings, has_lists: bool) -> list[str]:
    """How to read a cell: one line for each thing that stands in some cell of this table."""
    shown = [(record, e) for block in found for _, record, e in _numbers(block)]
    if not shown:
        return []
    errors = [e.stderr for _, e in shown]
    has_error = any(x is not None for x in errors)
    line = "value ± standard error over documents" if has_error else "value"
    if settings.show_ci and any(e.ci_low is not None for _, e in shown):
        line += ", [95 % confidence interval]"
    lines = [f"Cells: {line}; in {_unit_word(shown, settings)}."]
    legend = (
        (any(e.rerun_stderr is not None for _, e in shown), _RERUN),
        (None in errors, _NO_ERROR),
        (any(not e.is_higher_better for _, e in shown), "↓: lower is better."),
        (any(record.state == "incomplete" for record, _ in shown), _STAR),
        (has_lists, _LISTS),
    )
    return [*lines, *(text for is_needed, text in legend if is_needed)]


_RERUN = (
    "Of which rerun: the part that would change if the same questions were asked again; the ± "
    "holds it."
)
_NO_ERROR = "No ±: an error needs at least two scored documents and a known formula."
_STAR = "*: incomplete; the number enters no average."
_LISTS = "Several numbers in one count: one per model, in the order of the model columns."


def _unit_word(shown: list[tuple[Record, Estimate]], settings: SummarySettings) -> str:
    symbols = {scale(e.unit, settings)[1] for _, e in shown}
    if len(symbols) > 1:
        return "the unit named"
    return {"%": "percent", "fraction": "fractions"}.get(symbols.pop(), "the unit named")


def _bounds(record: Record, name: str, e: Estimate, settings: SummarySettings) -> list[str]:
    lines = []
    if e.n_error and e.bounds is not None:
        low, high = (number_text(x, e.unit, settings) for x in e.bounds)
        failed = (
            "the failed sample is" if e.n_error == 1 else f"the {e.n_error} failed samples are all"
        )
        lines.append(f"{_place(record)}: {name} is {low} if {failed} wrong, and {high} if right.")
    if e.n_scored < e.n_docs:
        missing = f"{e.n_scored} of {e.n_docs} documents; the others could not be scored"
        lines.append(f"{_place(record)}: {name} is over {missing}.")
    return lines


def _odd_answers(record: Record) -> Iterator[str]:
    c, total = record.counts, record.n_docs * record.n
    if c.n_truncated and total:
        share = f"{100 * c.n_truncated / total:.1f} %"
        yield (
            f"{_place(record)}: {c.n_truncated} of {total} answers ({share}) were cut off at the "
            "token limit."
        )
    parts = [
        f"{count} {word}"
        for count, word in ((c.n_filtered, "filtered"), (c.n_empty, "empty"))
        if count
    ]
    if parts:
        yield f"{_place(record)}: {' and '.join(parts)} of {total} answers; judged as they stand."


def _own_notes(records: Sequence[Record]) -> list[str]:
    """Each text once, with the places that it belongs to; no places where it belongs to all."""
    places: dict[str, list[str]] = {}
    for record in records:
        for text in dict.fromkeys(record.notes):
            places.setdefault(_sentence(text), []).append(_place(record))
    everywhere = sum(not is_group(record.task) for record in records)
    return [
        text if len(at) == everywhere else f"{'; '.join(at)}: {text}" for text, at in places.items()
    ]
