"""The one writer of a cell's rows of one kind: it survives kill -9 and goes on where it stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic

import numpy as np
import pyarrow as pa

from evalrun.errors import EvalrunError
from evalrun.store.arrow import arrowfile
from evalrun.store.arrow.arrowfile import Batch, Metadata
from evalrun.store.arrow.columns import INT, column, stored_text
from evalrun.store.cell.files import RowFiles
from evalrun.store.disk import cannot_write, fsync_folder
from evalrun.store.lock import Lock
from evalrun.store.rows.row_schema import STATUS, KeyValues, Row, RowSchema
from evalrun.store.rows.shard_reader import Shard
from evalrun.store.rows.shard_writer import ShardWriter
from evalrun.store.rows.stored_rows import StoredRows, load, refuse_mixed

_BLOCK_ROWS = 4096
_BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found on start.

    Attributes:
        n_rows: distinct keys.
        n_duplicates: answers that a later answer displaced.
        n_dropped_tails: streams whose end could not be read.
        dropped_bytes: the size of those ends.
    """

    n_rows: int = 0
    n_duplicates: int = 0
    n_dropped_tails: int = 0
    dropped_bytes: int = 0


class RowWriter(Generic[Row]):
    """Appends rows of one kind to the files of one cell; a context manager.

    Entering takes the lock, and reads file and streams (keys and states are kept, texts are not).
    Leaving without finalize() keeps what was appended in the stream.

    Args:
        files: where the rows lie.
        schema: what they are.
        metadata: ask_id, content (JSON) and n, as far as they are known; what `files` names (model
            and task) is added.

    Attributes:
        recovery: what was found on start.
        stored_metadata: of the newest file that was found.
        notes: what a person should know (a lock taken over, tails dropped).
    """

    def __init__(
        self, files: RowFiles, schema: RowSchema[Row], metadata: Mapping[str, str]
    ) -> None:
        self.files, self.schema = files, schema
        self.metadata: Metadata = {**metadata, **dict(files.names)}
        self.recovery = Recovery()
        self.stored_metadata: Metadata = {}
        self.notes: list[str] = []
        self._is_answered: dict[KeyValues, bool] = {}
        self._shard: ShardWriter[Row] | None = None
        self._lock: Lock | None = None

    def __enter__(self) -> RowWriter[Row]:
        self._lock = Lock(self.files.lock_file)
        try:
            self._recover()
            self._shard = ShardWriter(self.files.new_shard(), self.schema, self.metadata)
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
            if error is None:  # else the first fault is the one to tell
                raise
        finally:
            self._shard = None
            if self._lock is not None:
                self._lock.release()

    def describe(self, metadata: Mapping[str, str]) -> None:
        """Add metadata for the rows to come and for the final file.

        Call before the first append.
        """
        self.metadata.update(metadata)
        if self._shard is not None:
            self._shard.describe(self.metadata)

    def stored_keys(self) -> set[KeyValues]:
        """All keys that have a row, failures too."""
        return set(self._is_answered)

    def failed_keys(self) -> set[KeyValues]:
        """The keys whose row is a failure."""
        return {key for key, is_answered in self._is_answered.items() if not is_answered}

    def missing(self, wanted: Iterable[KeyValues]) -> list[KeyValues]:
        """Those of `wanted` that have no answer: never stored, or a failure. Order is kept."""
        stored_key = self.schema.stored_key
        return [key for key in wanted if not self._is_answered.get(stored_key(key), False)]

    def append(self, row: Row) -> None:
        """Take one row; on the disk within 64 rows or a second.

        Thread-safe. TaskFailure when a write failed; ValueError on a status that does not exist.
        """
        if self._shard is None:
            raise ValueError("this writer is not open")
        self.schema.refuse_unknown([getattr(row, STATUS)])  # a reader would drop its whole batch
        self._shard.append(row)
        # Only after the shard took it: a row that was refused must count as missing.
        key = self.schema.key_of(row)
        was_answered = self._is_answered.get(key, False)
        self._is_answered[key] = was_answered or not self.schema.is_failure(row)

    def flush(self) -> None:
        """Put every row on the disk now. TaskFailure when that failed."""
        if self._shard is not None:
            self._shard.flush()

    def finalize(self, order: Sequence[str], metadata: Mapping[str, str] | None = None) -> None:
        """Merge file and streams into one sorted file, then delete the streams.

        A stream that was damaged, not just cut, is set aside as `.damaged`. TaskFailure on
        OSError; everything is then where it was.

        Args:
            order: document ids. Rows are sorted by it, then by the rest of their key; documents
                that are not in it come last, by id.
            metadata: more for the file (a content that was completed while running).
        """
        if self._shard is not None:
            self._shard.close()
            self._shard = None
        self.metadata.update(metadata or {})
        stored = load(self.files, self.schema)
        table, path = self.schema.table, self.files.file
        arrow_schema = table.with_metadata(self.metadata)
        places = _sorted_places(stored, order)
        is_same = stored.is_final and places == list(range(stored.n_rows))
        if not is_same or table.check(arrow_schema, path) != stored.metadata:
            arrowfile.write_file(path, arrow_schema, _reordered(stored.batches, places))
        # Only now: until the sorted file is in place, the streams are the rows.
        _remove(stored.shards)

    def _recover(self) -> None:
        stored = load(self.files, self.schema)
        self.stored_metadata = stored.metadata
        ours = {name: stored_text(text) for name, text in self.metadata.items()}
        refuse_mixed(self.files.file, self.files, stored.metadata, ours)
        failures = self.schema.failures
        self._is_answered = {
            key: stored.statuses[place] not in failures for key, place in stored.chosen.items()
        }
        self.recovery = Recovery(
            len(stored.chosen), stored.n_duplicates, stored.n_dropped_tails, stored.dropped_bytes
        )
        if self._lock is not None and self._lock.note:
            self.notes.append(self._lock.note)
        self.notes += _notes(stored)


def _notes(stored: StoredRows) -> Iterator[str]:
    for shard in stored.shards:
        if shard.dropped_bytes:
            what = "an unfinished batch" if shard.is_cut else "damaged data"
            yield f"Dropped {what} ({shard.dropped_bytes} bytes) at the end of {shard.path}."
    if stored.n_duplicates:
        yield f"{stored.n_duplicates} rows were stored twice; the last of each key counts."


def _remove(shards: Sequence[Shard]) -> None:
    for shard in shards:
        try:
            if shard.is_cut:
                shard.path.unlink()
            else:  # a person may want to look at it
                shard.path.rename(shard.path.with_name(shard.path.name + ".damaged"))
        except OSError as cause:
            raise cannot_write(shard.path, cause) from cause
    if shards:
        fsync_folder(shards[0].path.parent)


def _sorted_places(stored: StoredRows, order: Collection[str]) -> list[int]:
    """Places of the winning rows, sorted by document order, then by the rest of the key."""
    rank = {stored_text(doc_id): i for i, doc_id in enumerate(order)}
    last = len(rank) + len(order)
    ranked = [((rank.get(key[0], last), *key), place) for key, place in stored.chosen.items()]
    return [place for _, place in sorted(ranked)]


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
        # Take from each source batch once, then bring the rows of the block into their order.
        by_source = np.argsort(source, kind="stable")
        parts = []
        for number in np.unique(source).tolist():
            within = block[by_source][source[by_source] == number] - starts[number]
            parts.append(batches[number].take(column(within.tolist(), INT)))
        joined = pa.Table.from_batches(parts).combine_chunks()
        back = np.argsort(by_source, kind="stable")
        yield from joined.take(column(back.tolist(), INT)).combine_chunks().to_batches()
