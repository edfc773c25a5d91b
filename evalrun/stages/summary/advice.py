"""What stands below the wide table where documents were answered several times: shares of
documents, then advice.

The shares are counted. The advice reads pass@n, avg@n and cons@n (k = n) by thresholds that are
assumed: levels, the state that a combination of levels stands for, the uses whose targets are met,
and what is often misread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evalrun.stages.summary.assemble import TableColumn, WideTable
from evalrun.stages.summary.formatting import SummarySettings, flat, number_text, scale
from evalrun.types import Consistency, Record

HIGH, LOW = 0.8, 0.5
"""Above HIGH is high, below LOW is low, the rest is medium."""

STATES = {
    ("high", "medium", "low"): (
        "unsteady",
        "it can answer but does not do so reliably; make it consistent: other sampling, a vote "
        "over samples",
    ),
    ("medium", "medium", "medium"): ("even", "balanced, better all round is wanted: data, prompts"),
    ("low", "low", "low"): (
        "failing",
        "it hardly works on this task; train it again or take another model",
    ),
}
"""Levels of pass@n, avg@n, cons@n -> (word, what follows)."""


@dataclass(frozen=True, slots=True)
class Use:
    """A use with its targets: fractions that the number must exceed; None: it sets none."""

    name: str
    examples: str
    pass_at_n: float | None = None
    avg_at_n: float | None = None
    cons_at_n: float | None = None

    def is_met(self, found: Consistency) -> bool:
        """Whether every target is exceeded."""
        return all(getattr(found, name) > target for name, target in self.targets())

    def targets(self) -> list[tuple[str, float]]:
        """(number, target) of what the use asks for."""
        pairs = [(name, getattr(self, name)) for name in ("cons_at_n", "pass_at_n", "avg_at_n")]
        return [(name, target) for name, target in pairs if target is not None]


USES = (
    Use("reliability", "errors are costly: medicine, finance", pass_at_n=0.9, cons_at_n=0.8),
    Use(
        "tolerance",
        "one good try of several will do: code, exploration",
        pass_at_n=0.8,
        avg_at_n=0.7,
    ),
    Use("general use", "assistants", avg_at_n=0.75),
)

MISREADINGS = (
    "Often misread: pass@1 alone does not show what further tries would reach.",
    "Often misread: with cons@n left out, a model that is unsteady in use goes unnoticed.",
    "Often misread: avg@n alone does not tell some documents always right from all of them right "
    "now and then.",
)


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table with its notes."""

    title: str
    table: WideTable


def sections(records: Sequence[Record], settings: SummarySettings) -> list[Section]:
    """The shares of documents, then the advice; nothing where no document was answered more than
    once.
    """
    shown = [record for record in records if record.state in ("complete", "incomplete")]
    counted = list(_counted(shown))
    if not counted:
        return []
    names = _Names(counted)
    found = [_shares(counted, names, settings)]
    if settings.reading and any(record.state == "complete" for record, _ in counted):
        found.append(_advice(counted, names, settings))
    return found


def _counted(records: Sequence[Record]) -> Iterator[tuple[Record, Consistency]]:
    for record in records:
        for found in record.consistency:
            yield record, found


class _Names:
    """The first columns of a section: dataset, model, n; version and what was counted where
    those do not suffice.
    """

    def __init__(self, counted: Sequence[tuple[Record, Consistency]]) -> None:
        keys = [(record.task, record.model, found.n) for record, found in counted]
        self._is_full = len(set(keys)) < len(keys)

    def columns(self) -> list[TableColumn]:
        more = (
            [TableColumn("version"), TableColumn("counted", is_name=True)] if self._is_full else []
        )
        return [
            TableColumn("dataset", is_name=True),
            TableColumn("model", is_name=True),
            *more,
            TableColumn("n", is_right=True),
        ]

    def cells(self, record: Record, found: Consistency) -> list[str]:
        fields = dict(part.partition(":")[::2] for part in found.signature.split("|"))
        counted = " ".join(fields[name] for name in ("scorer", "params", "docs") if name in fields)
        more = [record.version, counted] if self._is_full else []
        return [flat(text) for text in (record.task, record.model, *more, str(found.n))]


def _shares(
    counted: Sequence[tuple[Record, Consistency]], names: _Names, settings: SummarySettings
) -> Section:
    kinds = ("always", "mostly", "unstable", "never")
    rows = []
    for record, found in counted:
        star = "*" if record.state == "incomplete" else ""
        numbers = [_text(getattr(found, kind) / found.n_scored, settings) + star for kind in kinds]
        rows.append((*names.cells(record, found), *numbers))
    whole = _target(1.0, settings)
    unit = "percent" if settings.percent else "fractions"
    notes = (
        f"Documents in {unit}: always = all n samples right; mostly = more than half, not all; "
        "unstable = some, at most half; never = none.",
        f"pass@n = {whole} - never; cons@n = always + mostly; avg@n lies between half of cons@n "
        "and pass@n.",
    )
    columns = (*names.columns(), *(TableColumn(kind, is_right=True) for kind in kinds))
    return Section("How steadily documents are answered", WideTable(columns, tuple(rows), notes))


def _advice(
    counted: Sequence[tuple[Record, Consistency]], names: _Names, settings: SummarySettings
) -> Section:
    rows = []
    for record, found in counted:
        if record.state != "complete":
            continue
        numbers = (found.pass_at_n, found.avg_at_n, found.cons_at_n)
        levels = (level(numbers[0]), level(numbers[1]), level(numbers[2]))
        state, _ = STATES.get(levels, ("-", ""))
        uses = ", ".join(use.name for use in USES if use.is_met(found)) or "-"
        texts = [f"{_text(x, settings)} {word}" for x, word in zip(numbers, levels, strict=True)]
        rows.append((*names.cells(record, found), *texts, state, uses))
    titles = ("pass@n", "avg@n", "cons@n", "state", "fits")
    table = WideTable(
        (*names.columns(), *map(TableColumn, titles)),
        tuple(rows),
        tuple(_legend(counted, settings)),
    )
    return Section("Reading (advice by assumed thresholds, no measurement)", table)


def _legend(
    counted: Sequence[tuple[Record, Consistency]], settings: SummarySettings
) -> Iterator[str]:
    high, low = _target(HIGH, settings), _target(LOW, settings)
    yield (
        f"Levels: high above {high}, medium {low} to {high}, low below {low}; the errors of the "
        "numbers are not weighed."
    )
    yield (
        "pass@n: what the model can reach in n tries; cons@n: how steady it is; avg@n: how good "
        "one try is."
    )
    for levels, (word, text) in STATES.items():
        pairs = zip(levels, ("pass@n", "avg@n", "cons@n"), strict=True)
        yield f"State {word} ({', '.join(f'{each} {name}' for each, name in pairs)}): {text}."
    for use in USES:
        targets = [
            f"{name.replace('_at_', '@')} above {_target(x, settings)}" for name, x in use.targets()
        ]
        yield f"Fits {use.name} ({use.examples}): {' and '.join(targets)}."
    yield from MISREADINGS
    left_out = dict.fromkeys(
        f"{flat(r.task)}, {flat(r.model)}" for r, _ in counted if r.state != "complete"
    )
    yield from (f"{place} is incomplete and is not read." for place in left_out)


def level(value: float) -> str:
    """high, medium or low: a fraction above HIGH, between, below LOW."""
    return "high" if value > HIGH else "low" if value < LOW else "medium"


def _text(value: float, settings: SummarySettings) -> str:
    return number_text(value, "fraction", settings)


def _target(value: float, settings: SummarySettings) -> str:
    """A threshold without needless decimals."""
    return f"{value * scale('fraction', settings)[0]:g}"


def without_advice(settings: SummarySettings) -> SummarySettings:
    """The settings of a screen: the advice stands in the files only."""
    return replace(settings, reading=False)
