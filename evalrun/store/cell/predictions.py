"""Predictions of one cell: a writer that survives kill -9, and reading them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from evalrun.errors import EvalrunError, Fault, visible
from evalrun.store.arrow import arrowfile
from evalrun.store.arrow.arrowfile import Batch, Metadata, lists
from evalrun.store.arrow.columns import INT, column, stored_text
from evalrun.store.arrow.shards import Shard, ShardWriter, mismatch, read_shard
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.reply_rows import (
    FAILURES,
    PREDICTIONS,
    check_statuses,
    keys,
    to_replies,
    winners,
)
from evalrun.store.disk import cannot_write, fsync_folder
from evalrun.store.lock import Lock
from evalrun.types import Key, Kind, Reply, Status

_BLOCK_ROWS = 4096
_BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found on start.

    Attributes:
        n_rows: distinct keys.
        n_duplicates: answers that a later answer displaced.
    """

    n_rows: int = 0
    n_duplicates: int = 0
    n_dropped_tails: int = 0
    dropped_bytes: int = 0


@dataclass(frozen=True)
class Predictions:
    """Rows of one cell, one per key (the last whole row of a key; a failure never displaces an
    answer).

    Attributes:
        metadata: of the newest file.
        n_duplicates, n_dropped_tails, dropped_bytes: as in Recovery.
    """

    metadata: Metadata
    n_duplicates: int
    n_dropped_tails: int
    dropped_bytes: int
    _batches: list[Batch] = field(repr=False)
    _places: list[int] = field(repr=False)

    def __len__(self) -> int:
        return len(self._places)

    @cached_property
    def rows(self) -> list[Reply]:
        """All columns, as Replies; in stored order, a key at the place where it first came."""
        replies = to_replies(self._batches)
        return [replies[place] for place in self._places]

    def column(self, name: str) -> list[object]:
        """One column as a list, in the order of `rows`."""
        values = lists(self._batches, name)
        return [values[place] for place in self._places]

    @property
    def keys(self) -> list[Key]:
        """The keys, in the order of `rows`."""
        every = keys(self._batches)
        return [every[place] for place in self._places]


@dataclass(frozen=True)
class Answers:
    """What scoring reads.

    Attributes:
        by_doc: doc_id -> [(index, text, status)] by index.
        by_status: rows per status.

    A text is None where no answer was given.
    """

    by_doc: dict[str, list[tuple[int, str | None, str]]]
    by_status: dict[str, int]
    metadata: Metadata
    n_duplicates: int
    n_dropped_tails: int

    @property
    def n_error(self) -> int:
        """Rows whose request failed for good (error, timeout or incomplete)."""
        return sum(self.by_status.get(status, 0) for status in FAILURES)

    @property
    def n_truncated(self) -> int:
        """Rows cut off at max_tokens."""
        return self.by_status.get(Status.TRUNCATED.value, 0)

    @property
    def n_filtered(self) -> int:
        """Rows that a content filter stopped."""
        return self.by_status.get(Status.FILTERED.value, 0)

    @property
    def n_empty(self) -> int:
        """Rows with no text."""
        return self.by_status.get(Status.EMPTY.value, 0)


class Writer:
    """The one writer of a cell; a context manager.

    Entering takes the lock, and reads final and shards (keys and states are kept, texts are not).
    `metadata` should hold ask_id, content (JSON) and n; model and task are added. Leaving without
    finalize() keeps what was appended in the shard. notes: what a person should know (a lock taken
    over, tails dropped).
    """

    def __init__(self, files: CellFiles, metadata: Mapping[str, str]) -> None:
        self.files = files
        self.metadata: Metadata = {**metadata, **files.names}
        self.recovery = Recovery()
        self.stored_metadata: Metadata = {}
        self.notes: list[str] = []
        self._is_answered: dict[Key, bool] = {}
        self._shard: ShardWriter | None = None
        self._lock: Lock | None = None

    @property
    def recovered(self) -> Recovery:
        """What was found on start."""
        return self.recovery

    def __enter__(self) -> Writer:
        self._lock = Lock(self.files.predictions.lock_file)
        try:
            self._recover()
            path = self.files.predictions.new_shard()
            self._shard = ShardWriter(path, PREDICTIONS.with_metadata(self.metadata))
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if self._shard is not None:
                self._shard.close()
        except EvalrunError:
            if error is None:
                raise
        finally:
            self._shard = None
            if self._lock is not None:
                self._lock.release()

    def describe(self, metadata: Mapping[str, str]) -> None:
        """More metadata, for the rows to come and for the final file.

        To be said before the first append.
        """
        self.metadata.update(metadata)
        if self._shard is not None:
            self._shard.describe(PREDICTIONS.with_metadata(self.metadata))

    def stored_keys(self) -> set[Key]:
        """All keys that have a row, failures too."""
        return set(self._is_answered)

    def failed_keys(self) -> set[Key]:
        """The keys whose row is a failure (status error, timeout or incomplete)."""
        return {key for key, is_answered in self._is_answered.items() if not is_answered}

    def missing(self, wanted: Iterable[Key]) -> list[Key]:
        """Those of `wanted` that have no answer: never stored, or a failure. Order is kept."""
        return [
            key
            for key in wanted
            if not self._is_answered.get((stored_text(key[0]), *key[1:]), False)
        ]

    def append(self, reply: Reply) -> None:
        """Take one row; on the disk within 64 rows or a second.

        Thread-safe. TaskFailure when a write failed.
        """
        is_answer = not reply.is_failure
        if self._shard is None:
            raise ValueError("this writer is not open")
        self._shard.append(reply)
        key = (stored_text(reply.doc_id), *reply.key[1:])
        self._is_answered[key] = self._is_answered.get(key, False) or is_answer

    def flush(self) -> None:
        """Put every row on the disk now. TaskFailure when that failed."""
        if self._shard is not None:
            self._shard.flush()

    def finalize(self, order: Sequence[str], metadata: Mapping[str, str] | None = None) -> None:
        """Merge final and shards into one sorted file, then delete the shards.

        Args:
            order: document ids; rows are sorted by it, then kind, index, turn; documents not in it
                come last, by id.
            metadata: more for the file (a content that was completed while running). A stream that
                was damaged, not just cut, is set aside as `.damaged`. TaskFailure on OSError.
                everything is then where it was.
        """
        if self._shard is not None:
            self._shard.close()
            self._shard = None
        self.metadata.update(metadata or {})
        loaded = _load(self.files)
        path = self.files.predictions.file
        schema = PREDICTIONS.with_metadata(self.metadata)
        order_of_rows = _sorted_places(loaded, order)
        is_same = loaded.is_final and order_of_rows == list(range(loaded.n_rows))
        if not is_same or PREDICTIONS.check(schema, path) != loaded.metadata:
            arrowfile.write_file(path, schema, _reordered(loaded.batches, order_of_rows))
        self._remove(loaded.shards)

    def _recover(self) -> None:
        loaded = _load(self.files)
        self.stored_metadata = loaded.metadata
        for name in ("model", "task", "ask_id"):
            theirs, ours = loaded.metadata.get(name), self.metadata.get(name)
            if theirs is not None and ours is not None and theirs != stored_text(ours):
                raise mismatch(self.files.predictions.file, name, theirs, ours)
        every = keys(loaded.batches)
        statuses = lists(loaded.batches, "status")
        chosen, n_duplicates = winners(every, statuses)
        self._is_answered = {key: statuses[place] not in FAILURES for key, place in chosen.items()}
        self.recovery = Recovery(
            len(chosen), n_duplicates, loaded.n_dropped_tails, loaded.dropped_bytes
        )
        if self._lock is not None and self._lock.note:
            self.notes.append(self._lock.note)
        for shard in loaded.shards:
            if shard.dropped_bytes:
                what = "an unfinished batch" if shard.is_cut else "damaged data"
                self.notes.append(
                    f"Dropped {what} ({shard.dropped_bytes} bytes) at the end of {shard.path}."
                )
        if n_duplicates:
            self.notes.append(
                f"{n_duplicates} rows were stored twice; the last of each key counts."
            )

    def _remove(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            try:
                if shard.is_cut:
                    shard.path.unlink()
                else:
                    shard.path.rename(shard.path.with_name(shard.path.name + ".damaged"))
            except OSError as cause:
                raise cannot_write(shard.path, cause) from cause
        if shards:
            fsync_folder(shards[0].path.parent)


@dataclass(frozen=True)
class _Loaded:
    """Final and shards together, oldest first."""

    batches: list[Batch]
    metadata: Metadata
    shards: list[Shard]
    is_final: bool

    @property
    def n_rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def n_dropped_tails(self) -> int:
        return sum(shard.dropped_bytes > 0 for shard in self.shards)

    @property
    def dropped_bytes(self) -> int:
        return sum(shard.dropped_bytes for shard in self.shards)


def _load(files: CellFiles) -> _Loaded:
    """Final and shards. A writer may finish meanwhile and remove its shards: then once more."""
    for _ in range(5):
        try:
            shards = [read_shard(path) for path in files.predictions.shards()]
            break
        except FileNotFoundError:
            continue
    else:
        shards = []
    path = files.predictions.file
    try:
        batches, metadata = _checked_file(path)
        is_final = True
    except FileNotFoundError:
        batches, metadata, is_final = [], {}, False
    for shard in shards:
        for name in ("model", "task", "ask_id"):
            if (
                name in metadata
                and name in shard.metadata
                and metadata[name] != shard.metadata[name]
            ):
                raise mismatch(shard.path, name, shard.metadata[name], metadata[name])
        batches = batches + shard.batches
        metadata = shard.metadata or metadata
    return _Loaded(batches, metadata, shards, is_final and not shards)


def _checked_file(path: Path) -> tuple[list[Batch], Metadata]:
    batches, metadata = arrowfile.read_file(path, PREDICTIONS)
    try:
        return [check_statuses(batch) for batch in batches], metadata
    except ValueError as cause:
        raise arrowfile.unsound(path, PREDICTIONS, cause) from cause


def read(files: CellFiles) -> Predictions:
    """The rows of a cell from final and shards.

    Fault where there are none, or a file is not sound.
    """
    loaded = _load(files)
    _refuse_none(loaded, files)
    return _predictions(loaded)


def read_file(path: Path) -> Predictions:
    """The rows of a bare predictions file (`.arrow`) or stream (`.arrows`).

    Fault where it is not sound.
    """
    try:
        if path.name.endswith(".arrows"):
            shard = read_shard(path)
            return _predictions(_Loaded(shard.batches, shard.metadata, [shard], False))
        return _predictions(_Loaded(*_checked_file(path), [], True))
    except OSError as cause:
        raise Fault(f"There is no predictions file {path} that can be read ({cause}).") from cause


def read_answers(files: CellFiles, kind: str = Kind.GENERATE.value, turn: int = 0) -> Answers:
    """Texts and states of one kind and turn, without building rows. Fault as `read`."""
    loaded = _load(files)
    _refuse_none(loaded, files)
    every = keys(loaded.batches)
    texts, statuses = lists(loaded.batches, "text"), lists(loaded.batches, "status")
    chosen, n_duplicates = winners(every, statuses)
    by_doc: dict[str, list[tuple[int, str | None, str]]] = {}
    by_status: Counter[str] = Counter()
    for (doc_id, row_kind, index, row_turn), place in chosen.items():
        if row_kind == kind and row_turn == turn:
            by_doc.setdefault(doc_id, []).append((index, texts[place], statuses[place]))
            by_status[statuses[place]] += 1
    for answers in by_doc.values():
        answers.sort(key=lambda answer: answer[0])
    return Answers(by_doc, dict(by_status), loaded.metadata, n_duplicates, loaded.n_dropped_tails)


def load_cell(files: CellFiles) -> list[Batch]:
    """Every stored batch of a cell, final and shards, oldest first; none where there is no file."""
    return _load(files).batches


def count(files: CellFiles) -> int:
    """How many keys have a row, 0 where there is no file.

    Cheap: the footer where the run is final, else keys.
    """
    if is_final(files):
        try:
            return arrowfile.count_rows(files.predictions.file, PREDICTIONS)
        except FileNotFoundError:
            return 0
    batches = _load(files).batches
    return len(set(keys(batches)))


def is_final(files: CellFiles) -> bool:
    """True where the sorted file is there and no shard waits to be merged."""
    return files.predictions.file.exists() and not files.predictions.shards()


def _predictions(loaded: _Loaded) -> Predictions:
    chosen, n_duplicates = winners(keys(loaded.batches), lists(loaded.batches, "status"))
    places = list(chosen.values())
    tails, dropped = loaded.n_dropped_tails, loaded.dropped_bytes
    return Predictions(loaded.metadata, n_duplicates, tails, dropped, loaded.batches, places)


def _refuse_none(loaded: _Loaded, files: CellFiles) -> None:
    if not loaded.batches and not loaded.is_final and not loaded.shards:
        path = files.predictions.file
        raise Fault(
            f"There are no predictions of model {visible(files.model)!r} for task "
            f"{visible(files.task)!r}: no file {path}."
        )


def _sorted_places(loaded: _Loaded, order: Collection[str]) -> list[int]:
    """Places of the winning rows, sorted by document order, kind, index, turn."""
    every = keys(loaded.batches)
    chosen, _ = winners(every, lists(loaded.batches, "status"))
    rank = {stored_text(doc_id): i for i, doc_id in enumerate(order)}
    last = len(rank) + len(order)
    return [
        place
        for _, place in sorted(
            ((rank.get(key[0], last), *key), place) for key, place in chosen.items()
        )
    ]


def _reordered(batches: Sequence[Batch], places: Sequence[int]) -> Iterator[Batch]:
    """The rows at `places` as batches of bounded size.

    Sources stay mapped; only one block is in memory.
    """
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    n_bytes = sum(batch.nbytes for batch in batches) // max(1, int(starts[-1]))
    size = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // max(1, n_bytes)))
    for start in range(0, len(places), size):
        block = np.asarray(places[start : start + size], dtype=np.int64)
        source = np.searchsorted(starts, block, side="right") - 1
        by_source = np.argsort(source, kind="stable")
        parts = []
        for number in np.unique(source).tolist():
            within = block[by_source][source[by_source] == number] - starts[number]
            parts.append(batches[number].take(column(within.tolist(), INT)))
        joined = pa.Table.from_batches(parts).combine_chunks()
        back = np.argsort(by_source, kind="stable")
        yield from joined.take(column(back.tolist(), INT)).combine_chunks().to_batches()
