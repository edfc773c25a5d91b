"""Verdicts: one sample judged by one scorer. Key: (doc_id, index, scorer signature)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from evalrun.store.arrow import arrowfile
from evalrun.store.arrow.arrowfile import ArrowTable, lists
from evalrun.store.arrow.columns import FLOAT, INT, TEXT
from evalrun.store.cell.files import CellFiles
from evalrun.store.disk import alone_in
from evalrun.types import State, Verdict

ByScorer: TypeAlias = Mapping[str, Mapping[tuple[str, int], Verdict]]
"""Scorer signature -> (doc_id, index) -> verdict."""

VERDICTS = ArrowTable(
    "verdicts",
    1,
    pa.schema(
        [
            pa.field("doc_id", TEXT, nullable=False),
            pa.field("index", INT, nullable=False),
            pa.field("scorer", TEXT, nullable=False),
            pa.field("value", FLOAT),
            pa.field("extracted", TEXT),
            pa.field("span_start", INT),
            pa.field("span_end", INT),
            pa.field("rule", TEXT),
            pa.field("state", TEXT, nullable=False),
            pa.field("note", TEXT),
        ]
    ),
)


def write_verdicts(
    files: CellFiles, rows: ByScorer, metadata: Mapping[str, str] | None = None
) -> None:
    """Store the verdicts of the given scorers in place of their old ones; other scorers' verdicts
    stay.

    Sorted by scorer, doc_id, index: equal verdicts give equal files. TaskFailure on OSError; Fault
    where the old file is not sound.
    """
    path = files.verdicts_file
    with alone_in(path.parent):
        merged = {**read_verdicts(files), **rows}
        flat = [
            _row(*key, scorer, judged[key])
            for scorer, judged in sorted(merged.items())
            for key in sorted(judged)
        ]
        columns = list(zip(*flat, strict=True)) or [()] * len(VERDICTS.schema)
        schema = VERDICTS.with_metadata({**(metadata or {}), **files.names})
        arrowfile.write_file(path, schema, [VERDICTS.batch(columns)])


def read_verdicts(files: CellFiles) -> dict[str, dict[tuple[str, int], Verdict]]:
    """Scorer signature -> (doc_id, index) -> verdict; empty where none are stored.

    Fault: the file is not sound.
    """
    path = files.verdicts_file
    try:
        batches, _ = arrowfile.read_file(path, VERDICTS)
    except FileNotFoundError:
        return {}
    found: dict[str, dict[tuple[str, int], Verdict]] = {}
    states = {state.value: state for state in State}
    for doc_id, index, scorer, value, extracted, start, end, rule, state, note in zip(
        *(lists(batches, name) for name in VERDICTS.schema.names), strict=True
    ):
        if state not in states:
            raise arrowfile.unsound(path, VERDICTS, ValueError(f"there is no state {state!r}"))
        span = None if start is None or end is None else (start, end)
        verdict = Verdict(value, extracted, span, rule, states[state], note)
        found.setdefault(scorer, {})[doc_id, index] = verdict
    return found


def verdict_columns(files: CellFiles) -> dict[str, list[Any]]:
    """Column name -> values of all stored rows; empty where none are stored.

    Fault: the file is not sound.
    """
    try:
        batches, _ = arrowfile.read_file(files.verdicts_file, VERDICTS)
    except FileNotFoundError:
        return {}
    return {name: lists(batches, name) for name in VERDICTS.schema.names}


def _row(doc_id: str, index: int, scorer: str, verdict: Verdict) -> tuple[Any, ...]:
    start, end = verdict.span if verdict.span is not None else (None, None)
    state = State(verdict.state).value
    judged = (verdict.value, verdict.extracted, start, end, verdict.rule, state, verdict.note)
    return (doc_id, index, scorer, *judged)
