"""Documents as scoring needs them: `<task>.docs.arrow` beside the predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evalrun.errors import Fault, visible
from evalrun.store.arrow import arrowfile
from evalrun.store.arrow.arrowfile import ArrowTable, lists
from evalrun.store.arrow.columns import INT, TEXT
from evalrun.store.cell.files import CellFiles
from evalrun.strict_json import Misfit, from_json, to_json
from evalrun.types import Doc

_TEXTS = pa.large_list(TEXT)
_CHOICE = pa.struct([("text", TEXT), ("characters", INT), ("bytes", INT), ("tokens", INT)])

DOCS = ArrowTable(
    "docs",
    1,
    pa.schema(
        [
            pa.field("doc_id", TEXT, nullable=False),
            pa.field("row", INT, nullable=False),
            pa.field("task", TEXT, nullable=False),
            pa.field("subset", TEXT),
            pa.field("cluster", TEXT),
            pa.field("gold", _TEXTS),  # right answers as texts; null where they are indices
            # right answers as places in choices; else null
            pa.field("gold_index", pa.large_list(INT)),
            pa.field("choices", pa.large_list(_CHOICE), nullable=False),
            pa.field("query", TEXT, nullable=False),
            pa.field("prompt", TEXT),
            pa.field("system", TEXT),
            pa.field("fewshot", _TEXTS, nullable=False),
            pa.field("extra", TEXT, nullable=False),  # JSON list of [name, value]
            pa.field("doc_hash", TEXT, nullable=False),
        ]
    ),
)


@dataclass(frozen=True, slots=True)
class StoredDoc:
    """A document, its prompt as it was sent (None: not rendered), and the hash of its content
    when written.
    """

    doc: Doc
    prompt: str | None
    doc_hash: str


def doc_hash(doc: Doc) -> str:
    """32 hex digits of sha256 over the document's content; equal on every machine.

    Everything but `task` and `row` counts: an edited document is noticed, a document that only
    moved is not.
    """
    content = [
        doc.id,
        doc.subset,
        doc.query,
        list(doc.gold),
        list(doc.choices),
        doc.system,
        list(doc.fewshot),
    ]
    text = to_json([*content, doc.cluster, _extra(doc)])
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def write_docs(
    files: CellFiles,
    docs: Sequence[Doc],
    prompts: Mapping[str, str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write all documents of a cell, in order, whole or not at all; a larger limit writes the file
    anew.

    Args:
        prompts: doc id -> rendered prompt. extra comes back as JSON gives it (tuples as lists, nan
            as "NaN", what JSON does not know as its str).

    ValueError where an id comes twice, or gold mixes texts and indices.
    """
    if len({doc.id for doc in docs}) != len(docs):
        raise ValueError(f"two documents of {files.task} have one id")
    rows = [_row(doc, prompts.get(doc.id)) for doc in docs]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(DOCS.schema)
    schema = DOCS.with_metadata({**(metadata or {}), **files.names})
    arrowfile.write_file(files.docs_file, schema, [DOCS.batch(columns)])


def read_docs(files: CellFiles) -> list[StoredDoc]:
    """All documents of a cell, in order. Fault where the file is absent or not sound."""
    path = files.docs_file
    try:
        batches, _ = arrowfile.read_file(path, DOCS)
    except FileNotFoundError as cause:
        raise Fault(
            f"There are no documents of model {visible(files.model)!r}, task "
            f"{visible(files.task)!r}: no {path}."
        ) from cause
    columns = [lists(batches, name) for name in DOCS.schema.names]
    return [
        _stored(dict(zip(DOCS.schema.names, row, strict=True)), path)
        for row in zip(*columns, strict=True)
    ]


def metadata(files: CellFiles) -> dict[str, str]:
    """What `write_docs` was told about the documents; empty where there is no file.

    Fault: the file is not sound.
    """
    try:
        return arrowfile.read_file(files.docs_file, DOCS)[1]
    except FileNotFoundError:
        return {}


def count(files: CellFiles) -> int | None:
    """How many documents are stored, from the footer; None where there is no file."""
    path = files.docs_file
    return arrowfile.count_rows(path, DOCS) if path.exists() else None


def _row(doc: Doc, prompt: str | None) -> tuple[Any, ...]:
    indices = [gold for gold in doc.gold if isinstance(gold, int)]
    if indices and len(indices) != len(doc.gold):
        raise ValueError(f"document {doc.id!r}: gold mixes texts and indices")
    gold = (None, indices) if indices else (doc.gold, None)
    try:
        extra = to_json(_extra(doc))
    except Misfit as misfit:
        raise Fault(f"Document {visible(doc.id)!r}: a column {misfit}.") from misfit
    choices = [
        (text, len(text), len(text.encode("utf-8", "backslashreplace")), None)
        for text in doc.choices
    ]
    place = (doc.id, doc.row, doc.task, doc.subset, doc.cluster)
    asked = (doc.query, prompt, doc.system, doc.fewshot)
    return (*place, *gold, choices, *asked, extra, doc_hash(doc))


def _extra(doc: Doc) -> list[list[Any]]:
    return [[name, value] for name, value in doc.extra]


def _stored(row: dict[str, Any], path: Path) -> StoredDoc:
    try:
        extra = tuple((str(name), value) for name, value in from_json(row["extra"]))
    except (Misfit, TypeError, ValueError) as cause:
        raise arrowfile.unsound(path, DOCS, cause) from cause
    gold = row["gold"] if row["gold_index"] is None else row["gold_index"]
    doc = Doc(
        id=row["doc_id"],
        task=row["task"],
        row=row["row"],
        query=row["query"],
        gold=tuple(gold or ()),
        choices=tuple(choice["text"] for choice in row["choices"]),
        subset=row["subset"],
        system=row["system"],
        fewshot=tuple(row["fewshot"]),
        cluster=row["cluster"],
        extra=extra,
    )
    return StoredDoc(doc, row["prompt"], row["doc_hash"])
