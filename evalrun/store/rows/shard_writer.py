"""Writing shards: the Arrow IPC stream of one process start.

Nothing can be appended to a stream that was cut, so each start writes its own. A cut one still
reads up to its last whole batch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Generic

import pyarrow as pa

from evalrun.errors import EvalrunError, TaskFailure
from evalrun.store.arrow.arrowfile import Batch, Metadata
from evalrun.store.disk import cannot_write, fsync_folder
from evalrun.store.rows.row_schema import Row, RowSchema

ROWS_PER_BATCH = 64
FLUSH_AFTER_S = 1.0
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_KEPT = "Rows flushed before are safe in the run's folder; --resume asks for the rest."


class ShardWriter(Generic[Row]):
    """Appends rows to one shard: 64 rows, or what there is after 1 s, become a batch, written
    and fsynced.

    append() may be called from any thread. It writes the 64th row's batch itself, so that a killed
    process loses at most 63 rows; fsync runs in a thread, one batch behind at most. A batch is
    written at a known offset that moves on only when it is whole: what an interrupt leaves half is
    overwritten or cut off, never read.
    """

    def __init__(self, path: Path, rows: RowSchema[Row], metadata: Metadata) -> None:
        self.path = path
        self._rows = rows
        self._metadata = dict(metadata)
        self._fd = -1
        self._offset = 0
        self._pending: list[Row] = []
        self._oldest_s = 0.0
        self._is_dirty = False  # written, not yet fsynced
        self._is_closing = False
        self._error: EvalrunError | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def describe(self, metadata: Metadata) -> None:
        """Other metadata for the file. It counts where no row has been written yet."""
        with self._changed:
            if self._fd < 0:
                self._metadata = dict(metadata)

    def append(self, row: Row) -> None:
        """Take one row. TaskFailure if it, or an earlier write in the background, failed."""
        with self._changed:
            self._raise_error()
            if self._is_closing:
                raise ValueError(f"the shard {self.path} is closed")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="evalrun-store", daemon=True
                )
                self._thread.start()
            if not self._pending:
                self._oldest_s = time.monotonic()
                self._changed.notify_all()
            self._pending.append(row)
            if len(self._pending) >= ROWS_PER_BATCH:
                self._changed.wait_for(lambda: not self._is_dirty)
                self._raise_error()
                self._write_pending()
                self._raise_error()

    def flush(self) -> None:
        """Put every row taken so far on the disk. TaskFailure if that failed."""
        with self._changed:
            self._raise_error()
            self._write_pending()
            self._changed.wait_for(lambda: not self._is_dirty)
            self._raise_error()

    def close(self) -> None:
        """Write the rest and the end mark, fsync, close.

        TaskFailure if a row was not kept. May be called twice.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._changed:
            self._write_pending()
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            try:
                os.ftruncate(fd, self._offset)
                _write_at(fd, END_OF_STREAM, self._offset)
                os.fsync(fd)
            except OSError as cause:
                self._error = self._error or cannot_write(self.path, cause, _KEPT)
            finally:
                os.close(fd)
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _write_pending(self) -> None:
        """Write what is pending as a batch.

        Sets the error, raises nothing. The caller holds the condition.
        """
        rows = list(self._pending)
        if not rows:
            return
        try:
            self._write_rows(rows)
        except OSError as cause:
            n = len(rows)
            self._error = self._error or cannot_write(
                self.path, cause, f"{n} rows were not kept. {_KEPT}"
            )

    def _write_rows(self, rows: list[Row]) -> None:
        batch, misfit = _batch_of(rows, self._rows, self.path)
        if batch is not None:
            if self._fd < 0:
                self._open()
            data = batch.serialize()
            _write_at(self._fd, data, self._offset)
            self._offset += len(data)
            self._is_dirty = True
        del self._pending[: len(rows)]
        self._error = self._error or misfit
        self._changed.notify_all()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fsync_folder(self.path.parent)
        header = self._rows.table.with_metadata(self._metadata).serialize()
        _write_at(self._fd, header, 0)
        self._offset = len(header)

    def _work(self) -> None:
        """The thread: fsyncs what was written, writes what has waited for a second."""
        with self._changed:
            while True:
                if self._is_dirty:
                    self._sync()
                elif self._is_closing or self._error is not None:
                    return
                elif not self._pending:
                    self._changed.wait()
                elif (left_s := self._oldest_s + FLUSH_AFTER_S - time.monotonic()) > 0:
                    self._changed.wait(left_s)
                else:
                    self._write_pending()

    def _sync(self) -> None:
        self._changed.release()
        failure: OSError | None = None
        try:
            os.fsync(self._fd)
        except OSError as cause:
            failure = cause
        finally:
            self._changed.acquire()
        if failure is not None:
            self._error = self._error or cannot_write(self.path, failure, _KEPT)
        self._is_dirty = False
        self._changed.notify_all()


def _batch_of(
    rows: Sequence[Row], schema: RowSchema[Row], path: Path
) -> tuple[Batch | None, EvalrunError | None]:
    """A batch of the rows that fit their columns, and the failure that names the first that does
    not.
    """
    try:
        return schema.to_batch(rows), None
    except (TypeError, OverflowError):
        pass
    fitting: list[Row] = []
    misfit: EvalrunError | None = None
    for row in rows:
        try:
            schema.to_batch([row])
            fitting.append(row)
        except (TypeError, OverflowError) as cause:
            text = (
                f"The row {schema.key_of(row)!r} cannot be stored in {path}: {cause}. The rows "
                "beside it are kept."
            )
            misfit = misfit or TaskFailure(text)
    return (schema.to_batch(fitting) if fitting else None), misfit


def _write_at(fd: int, data: bytes | pa.Buffer, offset: int) -> None:
    view = memoryview(data)
    while view:
        n_written = os.pwrite(fd, view, offset)
        offset += n_written
        view = view[n_written:]
