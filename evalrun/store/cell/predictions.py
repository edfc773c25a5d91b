"""Predictions of one cell: writing them, and reading them back as rows or as answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from evalrun.errors import Fault, visible
from evalrun.store.arrow.arrowfile import Metadata, lists
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.reply_rows import REPLY_ROWS
from evalrun.store.rows import stored_rows
from evalrun.store.rows.row_writer import RowWriter
from evalrun.store.rows.stored_rows import StoredRows
from evalrun.strict_json import Misfit, from_object
from evalrun.types import Key, Kind, Reply, Status

_FAILURES = REPLY_ROWS.failures


@dataclass(frozen=True)
class Predictions:
    """Rows of one cell, one per key (the last whole row of a key; a failure never displaces an
    answer).

    Attributes:
        stored: file and streams as they were read.
    """

    stored: StoredRows = field(repr=False)

    def __len__(self) -> int:
        return len(self.stored.chosen)

    @property
    def metadata(self) -> Metadata:
        """Of the newest file."""
        return self.stored.metadata

    @property
    def n_duplicates(self) -> int:
        """Answers that a later answer displaced."""
        return self.stored.n_duplicates

    @property
    def n_dropped_tails(self) -> int:
        """Streams whose end could not be read."""
        return self.stored.n_dropped_tails

    @cached_property
    def rows(self) -> list[Reply]:
        """All columns, as Replies; in stored order, a key at the place where it first came."""
        replies = REPLY_ROWS.to_rows(self.stored.batches)
        return [replies[place] for place in self.stored.chosen.values()]

    def column(self, name: str) -> list[object]:
        """One column as a list, in the order of `rows`."""
        values = lists(self.stored.batches, name)
        return [values[place] for place in self.stored.chosen.values()]

    @property
    def keys(self) -> list[Key]:
        """The keys, in the order of `rows`."""
        return [self.stored.keys[place] for place in self.stored.chosen.values()]


@dataclass(frozen=True)
class Answers:
    """What scoring reads.

    Attributes:
        by_doc: doc_id -> [(index, text, status)] by index. A text is None where no answer was
            given.
        by_status: rows per status.
        metadata: of the newest file.
        n_duplicates: answers that a later answer displaced.
        n_dropped_tails: streams whose end could not be read.
    """

    by_doc: dict[str, list[tuple[int, str | None, str]]]
    by_status: dict[str, int]
    metadata: Metadata
    n_duplicates: int
    n_dropped_tails: int

    @property
    def n_error(self) -> int:
        """Rows whose request failed for good (error, timeout or incomplete)."""
        return sum(self.by_status.get(status, 0) for status in _FAILURES)

    @property
    def n_truncated(self) -> int:
        """Rows cut off at max_tokens."""
        return self.by_status.get(Status.TRUNCATED, 0)

    @property
    def n_filtered(self) -> int:
        """Rows that a content filter stopped."""
        return self.by_status.get(Status.FILTERED, 0)

    @property
    def n_empty(self) -> int:
        """Rows with no text."""
        return self.by_status.get(Status.EMPTY, 0)


def open_writer(files: CellFiles, metadata: Mapping[str, str]) -> RowWriter[Reply]:
    """The one writer of a cell's predictions, to be used as a context manager.

    Args:
        files: of the cell.
        metadata: ask_id, content (JSON) and n, as far as they are known.
    """
    return RowWriter(files.predictions, REPLY_ROWS, metadata)


def read(files: CellFiles) -> Predictions:
    """The rows of a cell from file and streams.

    Fault where there are none, or a file is not sound.
    """
    return Predictions(_load(files))


def read_file(path: Path) -> Predictions:
    """The rows of a bare predictions file (`.arrow`) or stream (`.arrows`).

    Fault where it is not sound.
    """
    return Predictions(stored_rows.load_file(path, REPLY_ROWS))


def read_answers(files: CellFiles, kind: str = Kind.GENERATE.value, turn: int = 0) -> Answers:
    """Texts and states of one kind and turn, without building rows. Fault as `read`."""
    loaded = _load(files)
    texts, statuses = lists(loaded.batches, "text"), loaded.statuses
    by_doc: dict[str, list[tuple[int, str | None, str]]] = {}
    by_status: Counter[str] = Counter()
    for (doc_id, row_kind, index, row_turn), place in loaded.chosen.items():
        if row_kind == kind and row_turn == turn:
            by_doc.setdefault(doc_id, []).append((index, texts[place], statuses[place]))
            by_status[statuses[place]] += 1
    for answers in by_doc.values():
        answers.sort(key=lambda answer: answer[0])
    n_tails = loaded.n_dropped_tails
    return Answers(by_doc, dict(by_status), loaded.metadata, loaded.n_duplicates, n_tails)


def content_of(files: CellFiles, metadata: Metadata) -> dict[str, str]:
    """What the rows of `metadata` were made of: dataset, model, engine; empty where none says so.

    Fault where the entry was not written by evalrun.
    """
    try:
        content = from_object(metadata.get("content", "{}"))
    except Misfit as misfit:
        raise Fault(
            f"The predictions {files.predictions.file} have no sound content in their metadata: "
            f"{visible(str(misfit))}. Infer again into a new run."
        ) from misfit
    return {name: str(text) for name, text in content.items()}


def n_of(metadata: Metadata) -> int | None:
    """Samples per document that the rows were asked for; None where the file does not say."""
    text = metadata.get("n", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def load_cell(files: CellFiles) -> StoredRows:
    """File and streams of a cell as they are read; empty where there is no file."""
    return stored_rows.load(files.predictions, REPLY_ROWS)


def count(files: CellFiles) -> int:
    """How many keys have a row, 0 where there is no file.

    Cheap: the footer where the run is final, else keys.
    """
    return stored_rows.count(files.predictions, REPLY_ROWS)


def is_final(files: CellFiles) -> bool:
    """True where the sorted file is there and no stream waits to be merged."""
    return stored_rows.is_final(files.predictions)


def _load(files: CellFiles) -> StoredRows:
    loaded = load_cell(files)
    if loaded.is_empty:
        raise Fault(
            f"There are no predictions of model {visible(files.model)!r} for task "
            f"{visible(files.task)!r}: no file {files.predictions.file}."
        )
    return loaded
