"""Rows as they lie on the disk: the sorted file and the streams of writers that did not finish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evalrun.errors import Fault
from evalrun.store.arrow import arrowfile
from evalrun.store.arrow.arrowfile import Batch, Metadata, lists
from evalrun.store.cell.files import RowFiles
from evalrun.store.rows.row_schema import STATUS, KeyValues, RowSchema
from evalrun.store.rows.shard_reader import Shard, read_shard

ADDRESS = "ask_id"
_MOST_TRIES = 5


@dataclass(frozen=True)
class StoredRows:
    """File and streams together, oldest first.

    Attributes:
        schema: of the rows.
        batches: every row, those that a later one displaced included.
        metadata: of the newest file.
        shards: the streams that were read.
        is_final: there is a sorted file, and no stream waits to be merged into it.
    """

    schema: RowSchema[Any]
    batches: list[Batch]
    metadata: Metadata
    shards: list[Shard]
    is_final: bool

    @property
    def is_empty(self) -> bool:
        """True where there is neither a file nor a stream."""
        return not self.batches and not self.is_final and not self.shards

    @cached_property
    def keys(self) -> list[KeyValues]:
        """The key of every row."""
        return self.schema.keys(self.batches)

    @cached_property
    def statuses(self) -> list[str]:
        """The status of every row."""
        return lists(self.batches, STATUS)

    @cached_property
    def _winners(self) -> tuple[dict[KeyValues, int], int]:
        return self.schema.winners(self.keys, self.statuses)

    @property
    def chosen(self) -> dict[KeyValues, int]:
        """Key -> the place of the row that stands for it, in the order in which keys first came."""
        return self._winners[0]

    @property
    def n_duplicates(self) -> int:
        """Answers that a later answer displaced."""
        return self._winners[1]

    @property
    def n_rows(self) -> int:
        """Rows, displaced ones included."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def n_dropped_tails(self) -> int:
        """Streams whose end could not be read."""
        return sum(shard.dropped_bytes > 0 for shard in self.shards)

    @property
    def dropped_bytes(self) -> int:
        """Bytes at the ends of streams that could not be read."""
        return sum(shard.dropped_bytes for shard in self.shards)


def load(files: RowFiles, schema: RowSchema[Any]) -> StoredRows:
    """What is stored; nothing where there are no files.

    Fault where a file is not sound, or two of them belong to different models, tasks or addresses.
    """
    shards = _shards(files, schema)
    try:
        batches, metadata = _checked_file(files.file, schema)
        has_file = True
    except FileNotFoundError:
        batches, metadata, has_file = [], {}, False
    for shard in shards:
        refuse_mixed(shard.path, files, shard.metadata, metadata)
        batches = batches + shard.batches
        metadata = shard.metadata or metadata
    return StoredRows(schema, batches, metadata, shards, has_file and not shards)


def load_file(path: Path, schema: RowSchema[Any]) -> StoredRows:
    """The rows of a bare file (`.arrow`) or stream (`.arrows`).

    Fault where it cannot be read or is not sound.
    """
    try:
        if path.name.endswith(".arrows"):
            shard = read_shard(path, schema)
            return StoredRows(schema, shard.batches, shard.metadata, [shard], False)
        return StoredRows(schema, *_checked_file(path, schema), [], True)
    except OSError as cause:
        name = schema.table.name
        raise Fault(f"There is no {name} file {path} that can be read ({cause}).") from cause


def refuse_mixed(path: Path, files: RowFiles, theirs: Metadata, ours: Metadata) -> None:
    """Fault where the file at `path` was written for another model, task or address than ours."""
    for name in (*dict(files.names), ADDRESS):
        if name in theirs and name in ours and theirs[name] != ours[name]:
            raise Fault(
                f"{path} was written for {name} {theirs[name]!r}, not {ours[name]!r}; rows of two "
                "are never mixed."
            )


def count(files: RowFiles, schema: RowSchema[Any]) -> int:
    """How many keys have a row, 0 where there is no file.

    Cheap: the footer where the rows are final, else keys.
    """
    if is_final(files):
        try:
            return arrowfile.count_rows(files.file, schema.table)
        except FileNotFoundError:
            return 0
    return len(set(load(files, schema).keys))


def is_final(files: RowFiles) -> bool:
    """True where the sorted file is there and no stream waits to be merged."""
    return files.file.exists() and not files.shards()


def _shards(files: RowFiles, schema: RowSchema[Any]) -> list[Shard]:
    # A writer may finish while we read, and remove its streams: their rows are then in the file,
    # and the list of streams is made anew.
    for _ in range(_MOST_TRIES):
        try:
            return [read_shard(path, schema) for path in files.shards()]
        except FileNotFoundError:
            continue
    return []


def _checked_file(path: Path, schema: RowSchema[Any]) -> tuple[list[Batch], Metadata]:
    batches, metadata = arrowfile.read_file(path, schema.table)
    try:
        # read_file has checked what every table has; this adds what only rows have.
        return [schema.check_status(batch) for batch in batches], metadata
    except ValueError as cause:
        raise arrowfile.unsound(path, schema.table, cause) from cause
