"""Records grouped by dataset, with the union of the metrics that the models report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from evalrun.metrics import METRICS
from evalrun.types import Estimate, Record

Lane: TypeAlias = tuple[str, int]
"""One column of the wide table: model name, and 0 for its first record of a task, 1 for the
second.
"""

RowKey: TypeAlias = tuple[str, str, int, str, int, str]


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of one dataset over all models. name is `-` where no model knows a metric.

    Attributes:
        label: the name, with ` #1`, ` #2` where metrics of one name differ in their signature
            (given without ask_id).
        mode: how the model was asked: one task may hold metrics over texts and over
            log-probabilities.
    """

    name: str
    label: str
    signature: str
    n: int | None
    unit: str | None
    is_higher_better: bool
    estimates: dict[Lane, Estimate]
    mode: str = "gen"


@dataclass(frozen=True, slots=True)
class Block:
    """One dataset (task, version, mode): its records by lane, its metrics in the order of their
    first showing.
    """

    task: str
    version: str
    mode: str
    records: dict[Lane, Record] = field(default_factory=dict)
    rows: list[MetricRow] = field(default_factory=list)


def lanes(records: Iterable[Record]) -> list[tuple[Lane, Record]]:
    """Each record with its column.

    A model that has two records of one task gets a second column.
    """
    seen: dict[tuple[str, str, str, str], int] = {}
    out = []
    for record in records:
        key = (record.model, record.task, record.version, record.mode)
        out.append(((record.model, seen.get(key, 0)), record))
        seen[key] = seen.get(key, 0) + 1
    return out


def blocks(records: Sequence[Record]) -> list[Block]:
    """Records grouped by dataset, in the order of the records; metrics are the union over the
    models.
    """
    by_key: dict[tuple[str, str, str], Block] = {}
    for lane, record in lanes(records):
        key = (record.task, record.version, record.mode)
        by_key.setdefault(key, Block(*key)).records[lane] = record
    for block in by_key.values():
        _add_rows(block)
    return list(by_key.values())


def _add_rows(block: Block) -> None:
    keys = {lane: [_row_key(e) for e in record.estimates] for lane, record in block.records.items()}
    repeated = {key for found in keys.values() for key in found if found.count(key) > 1}
    rows: dict[RowKey, MetricRow] = {}
    numbers: dict[RowKey, int] = {}
    for lane, record in block.records.items():
        for key, e in zip(keys[lane], record.estimates, strict=True):
            signature = _portable(e.signature)
            full = (*key[:5], signature) if key in repeated else key
            if full not in rows:
                numbers[key] = numbers.get(key, 0) + 1
                label = f"{e.display} #{numbers[key]}" if key in repeated else e.display
                rows[full] = MetricRow(
                    e.display,
                    label,
                    signature,
                    e.n,
                    e.unit,
                    e.is_higher_better,
                    {},
                    _mode(e, block),
                )
            rows[full].estimates[lane] = e
    block.rows.extend(rows.values() or [MetricRow("-", "-", "", None, None, True, {}, block.mode)])


def _mode(e: Estimate, block: Block) -> str:
    """gen, ll or ppl: by what the metric reads; the task's mode for a metric that is not known
    here, and for judges.
    """
    if block.mode == "judge" or e.metric not in METRICS:
        return block.mode
    return METRICS.get(e.metric).reads.mode


def _row_key(e: Estimate) -> RowKey:
    return (e.display, e.metric, e.version, e.unit, e.n, "")


def _portable(signature: str) -> str:
    """The signature without its ask_id, which names the model and so differs between columns."""
    return re.sub(r"\bask(_id)?[:=][0-9A-Za-z]+[|,; ]?", "", signature)


def is_shown(record: Record, e: Estimate | None) -> bool:
    """True where the cell holds a number or a word; False where the model does not report this
    metric.
    """
    if e is not None:
        return True
    return record.state != "complete" and not any(x.value is not None for x in record.estimates)


def has_number(record: Record, e: Estimate | None) -> bool:
    """True where there is a number to show: never for a failed or missing task, whatever lies in
    its record.
    """
    return (
        e is not None
        and e.value is not None
        and record.state in ("complete", "incomplete", "withheld")
    )


def count(record: Record, e: Estimate | None, name: str) -> int:
    """n_error, n_truncated or n_unparsed (`name` without n_) of a cell: its metric's own, else
    its task's.
    """
    return int(getattr(e if e is not None else record.counts, f"n_{name}"))
