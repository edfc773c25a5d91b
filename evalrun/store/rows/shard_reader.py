"""Reading the stream of one process start, which a kill may have cut anywhere."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evalrun.store.arrow.arrowfile import Batch, Metadata, unsound
from evalrun.store.rows.row_schema import RowSchema


@dataclass(frozen=True)
class Shard:
    """What a stream gave back.

    Attributes:
        is_cut: what was dropped is the start of a batch, or zeros; else it is damage.
    """

    path: Path
    batches: list[Batch]
    metadata: Metadata
    dropped_bytes: int
    is_cut: bool


def read_shard(path: Path, rows: RowSchema[Any]) -> Shard:
    """All whole batches of a stream that may end anywhere. FileNotFoundError if it is not there.

    Fault where its header is whole but foreign, of a newer format, or garbage.
    """
    size = path.stat().st_size
    with open(path, "rb") as raw:
        if _is_torn(raw.read(8), size):
            return Shard(path, [], {}, size, is_cut=True)
    batches: list[Batch] = []
    good = 0
    try:
        source = pa.memory_map(str(path))
        reader = pa.ipc.open_stream(source)
        good = source.tell()
    except (pa.ArrowException, OSError, ValueError) as cause:
        if _is_rest_cut(path, 0):
            return Shard(path, [], {}, size, is_cut=True)
        raise unsound(path, rows.table, cause) from cause
    metadata = rows.table.check(reader.schema, path)
    try:
        while True:
            batches.append(rows.check_batch(reader.read_next_batch()))
            good = source.tell()
    except StopIteration:  # the end mark was read, and belongs to what is good
        good = max(good, min(source.tell(), size))
    except (pa.ArrowException, OSError, ValueError):
        pass  # cut or damaged from here on: what came before is whole
    dropped = size - good
    return Shard(path, batches, metadata, dropped, is_cut=dropped == 0 or _is_rest_cut(path, good))


def _is_torn(prefix: bytes, size: int) -> bool:
    """True where the file ends within the first message's frame, or is all zeros there."""
    return size < 8 or prefix == b"\x00" * 8


def _is_rest_cut(path: Path, start: int) -> bool:
    """True where the bytes from `start` on are the beginning of a message that the file does not
    hold whole.
    """
    with open(path, "rb") as raw:
        raw.seek(start)
        frame = raw.read(8)
        size = path.stat().st_size - start
        if _is_torn(frame, size):
            return True
        mark, n_header = struct.unpack("<Ii", frame)
        if mark != 0xFFFFFFFF or n_header < 0:
            return False
        if size < 8 + n_header:
            return True
        try:
            return bool(size < 8 + n_header + _body_bytes(raw.read(n_header)))
        except struct.error:
            return False


def _body_bytes(header: bytes) -> int:
    """bodyLength of an Arrow Message: field 3 of its flatbuffer (Arrow columnar format,
    Message.fbs).
    """
    (root,) = struct.unpack_from("<I", header, 0)
    (back,) = struct.unpack_from("<i", header, root)
    (n_vtable,) = struct.unpack_from("<H", header, root - back)
    if n_vtable < 12:
        return 0
    (place,) = struct.unpack_from("<H", header, root - back + 10)
    if place == 0:
        return 0
    (length,) = struct.unpack_from("<q", header, root + place)
    return int(length)
