"""Rows of a dataset: local files read by us with types untouched, hub data through `datasets`.

path of a DatasetPlan:  FILE.jsonl .ndjson .json .csv .tsv (also .gz) .parquet .arrow .arrows
.feather
                        FOLDER      with [NAME/]SPLIT.jsonl, SPLIT-00000-of-00001.parquet,
                                    SPLIT/*.arrow, ...
                        package:X   a file that comes with evalrun
                        OWNER/NAME  the Hugging Face hub
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalrun.errors import Fault, unknown, visible
from evalrun.tasks.sources.forms import TEXT_FORMS, form_of
from evalrun.tasks.sources.hub import load_hub
from evalrun.tasks.sources.local_files import files_of, is_local
from evalrun.tasks.sources.table_files import read_table
from evalrun.tasks.sources.text_files import read_text_rows
from evalrun.tasks.values import MISSING, column_names, is_same, lookup, nested_names
from evalrun.types import DatasetPlan, Pairs


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one split, after the filter.

    Attributes:
        numbers: the place of each row in its source, from 0.
        columns: every column of the source.
        digest: SHA-256 of the file's bytes (several files: of their digests; hub: of the rows),
            before the filter.
        source: for messages.
        notes: what a person should know of how the files were read, such as another separator.
    """

    rows: Sequence[dict[str, Any]]
    numbers: Sequence[int]
    columns: tuple[str, ...]
    digest: str
    source: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, i: int) -> str:
        """Where row i stands, for messages; counted from 1."""
        return f"row {self.numbers[i] + 1} of {self.source}"


def load_rows(dataset: DatasetPlan, base_dir: Path | None = None) -> Rows:
    """The rows of a dataset, never empty.

    Args:
        base_dir: what relative local paths start from.

    Fault: a file, split, column or value that is not as asked. TaskFailure: the hub cannot be
    reached.
    """
    here = is_local(dataset.path, base_dir)
    rows = _load_files(files_of(dataset, base_dir), dataset) if here else _load_hub(dataset)
    if not rows.rows:
        raise Fault(
            f"{rows.source} holds no rows, so there is nothing to ask. Set dataset.path to a file "
            "with rows."
        )
    return _filtered(rows, dataset.filter)


def digest_here(dataset: DatasetPlan, base_dir: Path | None = None) -> str | None:
    """The `digest` of local files without reading their rows; None for hub data and for files
    that are not here.
    """
    if not is_local(dataset.path, base_dir):
        return None
    try:
        digests = []
        for path in files_of(dataset, base_dir):
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    except (Fault, OSError):
        return None
    return _joined(digests)


def _joined(digests: Sequence[str]) -> str:
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
    )


# ---- reading local files -------------------------------------------------------------------------


def _load_files(paths: list[Path], dataset: DatasetPlan) -> Rows:
    rows: list[dict[str, Any]] = []
    digests = []
    notes: list[str] = []
    for path in paths:
        try:
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
            found, remarks = _read(path, dataset.name)
        except OSError as error:
            raise Fault(
                f"{visible(str(path))} cannot be read (dataset.path): {error.strerror or error}."
            ) from error
        rows += found
        notes += remarks
    source = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return Rows(
        rows, range(len(rows)), column_names(rows), _joined(digests), visible(source), tuple(notes)
    )


def _read(path: Path, name: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    form = form_of(path.name)
    assert form is not None
    return read_text_rows(path, form, name) if form in TEXT_FORMS else (read_table(path, form), [])


def _load_hub(dataset: DatasetPlan) -> Rows:
    rows, columns = load_hub(dataset)
    source = "/".join(part for part in (dataset.path, dataset.name, dataset.split) if part)
    return Rows(rows, range(len(rows)), columns, digest_of(rows), visible(source))


def digest_of(rows: Sequence[dict[str, Any]]) -> str:
    """SHA-256 over rows as JSON with sorted keys, one per line."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=repr).encode())
        digest.update(b"\n")
    return digest.hexdigest()


# ---- filter --------------------------------------------------------------------------------------


def _filtered(rows: Rows, wanted: Pairs) -> Rows:
    """The rows whose columns hold the wanted values (one of them, where a list is given)."""
    kept = list(range(len(rows)))
    for column, value in wanted:
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        cells = column_of(rows, column, "dataset.filter")
        kept = [i for i in kept if any(is_same(cells[i], each) for each in values)]
        if not kept:
            seen = sorted(
                {visible(repr(cell))[:60] for cell in cells if not isinstance(cell, (dict, list))}
            )
            shown = ", ".join(seen[:12]) + (", ..." if len(seen) > 12 else "")
            raise Fault(
                f"dataset.filter.{column}={value!r} leaves none of the {len(rows)} rows of "
                f"{rows.source}. Values there: {shown or 'lists or objects only'}."
            )
    if len(kept) == len(rows):
        return rows
    return replace(rows, rows=[rows.rows[i] for i in kept], numbers=[rows.numbers[i] for i in kept])


def column_of(rows: Rows, column: str, where: str) -> list[Any]:
    """The cells of a column (dots go into nested values), MISSING where a row has none.

    Fault: no row has it.
    """
    cells = [lookup(row, column) for row in rows.rows]
    if column not in rows.columns and all(cell is MISSING for cell in cells):
        names = [*rows.columns, *(nested_names(rows.rows[0]) if rows.rows else ())]
        raise unknown("column", column, names, f"{rows.source} ({where})")
    return cells
