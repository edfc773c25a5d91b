"""Predictions of others in a table (JSONL, CSV, Parquet, Arrow): one row a sample, or one column
a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalrun.backends.base import answered
from evalrun.errors import Fault
from evalrun.tasks.docs import make_docs
from evalrun.tasks.rows import Rows, column_of, load_rows
from evalrun.tasks.values import as_text, is_absent, lookup
from evalrun.types import Cell, Doc, Kind, Reply


@dataclass(frozen=True)
class Imported:
    """Documents and their saved samples.

    Attributes:
        n: samples per document.
    """

    docs: tuple[Doc, ...]
    replies: tuple[Reply, ...]
    n: int
    digest: str


def read(cell: Cell, predictions: Sequence[str], id_column: str | None) -> Imported:
    """Read `cell.dataset` (a local file) with its saved predictions.

    Args:
        predictions: the columns that hold answers, one per sample; dots reach into nested values.
        id_column: rows that share its value are samples of one document, in file order; without it
            every row is a document. Answers are taken unchanged (no stop string is applied); a
            reasoning part is split off; null is "no answer".

    Fault: an unknown column, an answer that is not text, documents with different numbers of
    samples.
    """
    rows = load_rows(cell.dataset)
    if id_column is not None:
        column_of(rows, id_column, "--id")
    for column in predictions:
        column_of(rows, column, "--prediction")
    groups = _groups(rows, id_column)
    firsts = [places[0] for places in groups]
    kept = replace(
        rows, rows=[rows.rows[i] for i in firsts], numbers=[rows.numbers[i] for i in firsts]
    )
    docs = make_docs(cell.name, cell.subset, cell.dataset, kept, cell.limit)
    _refuse_other_questions(cell, rows, groups)
    replies: list[Reply] = []
    sizes = {len(places) * len(predictions) for places in groups[: len(docs)]}
    if len(sizes) > 1:
        raise Fault(
            f"{rows.source}: the documents have different numbers of samples ({min(sizes)} to "
            f"{max(sizes)}, by --id {id_column}). Every document needs the same number; nothing is "
            "filled up or dropped."
        )
    for doc, places in zip(docs, groups, strict=False):
        texts = [_text(rows, i, column) for i in places for column in predictions]
        replies += [_reply(doc, index, text) for index, text in enumerate(texts)]
    return Imported(tuple(docs), tuple(replies), sizes.pop(), rows.digest)


def _groups(rows: Rows, id_column: str | None) -> list[list[int]]:
    if id_column is None:
        return [[i] for i in range(len(rows))]
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows.rows):
        value = as_text(lookup(row, id_column))
        if value is None:
            raise Fault(f"{rows.place(i)} has no value in the --id column {id_column}.")
        groups.setdefault(value, []).append(i)
    return list(groups.values())


def _refuse_other_questions(cell: Cell, rows: Rows, groups: Sequence[Sequence[int]]) -> None:
    """Fault where rows of one id differ in question or gold: they are no samples of one
    document.
    """
    columns = dict(cell.dataset.columns)
    names = [columns.get(field, field) for field in ("query", "gold", "choices", "system")]
    names = [name for name in names if isinstance(name, str)]
    for places in groups:
        first = [as_text(lookup(rows.rows[places[0]], name)) for name in names]
        for i in places[1:]:
            other = [as_text(lookup(rows.rows[i], name)) for name in names]
            if other != first:
                name = next(n for n, a, b in zip(names, first, other, strict=True) if a != b)
                raise Fault(
                    f"{rows.place(places[0])} and {rows.place(i)} have one --id but differ in "
                    f"column {name!r}: they are no samples of one question. Name a column that "
                    "tells questions apart, or leave --id out."
                )


def _text(rows: Rows, i: int, column: str) -> str | None:
    value = lookup(rows.rows[i], column)
    if is_absent(value):
        return None
    text = as_text(value)
    if text is None:
        raise Fault(
            f"{rows.place(i)}: column {column} holds a {type(value).__name__}, not the text of an "
            "answer."
        )
    return text


def _reply(doc: Doc, index: int, text: str | None) -> Reply:
    row = answered(Reply(doc.id, Kind.GENERATE.value, index), text, finish_reason=None)
    return row if text is not None else replace(row, text=None)
