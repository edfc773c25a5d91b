"""What the stored rows of a cell were made of: rows of two contents never mix."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from evalrun.backends.base import Backend
from evalrun.errors import Fault
from evalrun.stages.asking.prepared import Prepared, requests_of
from evalrun.store.cell import predictions, saved_docs
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.saved_docs import StoredDoc
from evalrun.store.lock import Lock
from evalrun.store.rows.row_writer import RowWriter
from evalrun.tasks import cell_requests
from evalrun.types import Cell, Reply
from evalrun.version import __version__


def check_cell(files: CellFiles, item: Prepared) -> None:
    """Fault where another process writes the cell, or its data has changed since it was asked."""
    Lock(files.predictions.lock_file).release()
    if item.failure is not None:
        return
    stored = saved_docs.metadata(files)
    known = {"dataset": stored["dataset"]} if "dataset" in stored else {}
    if lines := _changes(item.cell, known, {"dataset": item.digest}):
        raise _other_content(item.cell, lines)


def settle_content(
    files: CellFiles, item: Prepared, content: Mapping[str, str], writer: RowWriter[Reply]
) -> None:
    """Fault where stored rows came from another dataset, model or engine; else the content goes
    into the files.
    """
    cell, stored = item.cell, predictions.content_of(files, writer.stored_metadata)
    lines = _changes(cell, stored, content)
    if lines and writer.stored_keys():
        raise _other_content(cell, lines)
    writer.describe(
        {
            "content": json.dumps(dict(sorted({**stored, **content}.items()))),
            "n": str(max(cell.n, predictions.n_of(writer.stored_metadata) or 0)),
            "evalrun": __version__,
        }
    )


def _changes(cell: Cell, stored: Mapping[str, str], content: Mapping[str, str]) -> list[str]:
    """One line for each entry that both know and that differs; long digests are cut."""
    names = {"dataset": f"dataset {cell.dataset.path}"}
    return [
        f"{names.get(key, key)}: stored {stored[key][:12]}, now {content[key][:12]}"
        for key in sorted(stored.keys() & content.keys())
        if stored[key] != content[key]
    ]


def _other_content(cell: Cell, lines: Sequence[str]) -> Fault:
    return Fault(
        f"Task {cell.name}: the stored rows were made of other content ({'; '.join(lines)}). "
        "Rows of the two do not mix: start a new run without --resume."
    )


def store_docs(
    files: CellFiles, item: Prepared, backend: Backend, writer: RowWriter[Reply]
) -> None:
    """Write the documents with their rendered prompts; those that the run holds besides stay.

    Fault where the prompt of a stored document has changed since.
    """
    cell = item.cell
    first_keys = [cell_requests.keys_of(cell, doc)[0] for doc in item.docs]
    prompts = {r.doc_id: backend.render(r) for r in requests_of(item, first_keys)}
    stored = _stored(files)
    changed = [
        d.id
        for d in item.docs
        if d.id in stored and stored[d.id].prompt not in (None, prompts[d.id])
    ]
    if changed and writer.stored_keys():
        raise Fault(
            f"Task {cell.name}: the prompts of {len(changed)} stored documents have changed "
            f"({', '.join(changed[:5])}). Rows of the two do not mix: start a new run without "
            "--resume."
        )
    others = [each for doc_id, each in stored.items() if doc_id not in prompts]
    prompts |= {each.doc.id: each.prompt for each in others if each.prompt is not None}
    docs = [*item.docs, *(each.doc for each in others)]
    metadata = {"ask_id": cell.ask_id, "dataset": item.digest}
    saved_docs.write_docs(files, docs, prompts, metadata)


def document_order(files: CellFiles, item: Prepared) -> list[str]:
    """The documents of this command, then those that the run holds besides, as they are stored."""
    return list(dict.fromkeys([*(doc.id for doc in item.docs), *_stored(files)]))


def _stored(files: CellFiles) -> dict[str, StoredDoc]:
    """Document id -> what is stored of it; empty where nothing is."""
    if not files.docs_file.exists():
        return {}
    return {each.doc.id: each for each in saved_docs.read_docs(files)}
