"""Arrow IPC files with a format version: written whole or not at all, read with every check that
Arrow has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from evalrun.errors import Fault, visible
from evalrun.store.arrow.columns import column
from evalrun.store.disk import replacing
from evalrun.version import __version__

Batch: TypeAlias = Any
"""A pyarrow RecordBatch."""

Metadata: TypeAlias = dict[str, str]


@dataclass(frozen=True)
class ArrowTable:
    """What a file of one kind must look like.

    Attributes:
        name: the `table` entry of its metadata. columns: name -> type.
    """

    name: str
    version: int
    schema: pa.Schema

    def with_metadata(self, given: Mapping[str, str]) -> pa.Schema:
        """The schema with format_version, table, evalrun_version and what the caller gives."""
        ours = {
            "format_version": str(self.version),
            "table": self.name,
            "evalrun_version": __version__,
        }
        pairs = {**given, **ours}
        return self.schema.with_metadata(
            {_bytes(key): _bytes(value) for key, value in pairs.items()}
        )

    def check(self, schema: pa.Schema, path: Path) -> Metadata:
        """The metadata of a file's schema.

        Fault where it is foreign, newer than we are, or has other columns.
        """
        given = {
            k.decode("utf-8", "replace"): v.decode("utf-8", "replace")
            for k, v in (schema.metadata or {}).items()
        }
        self._check_version(given, path)
        if given.get("table", self.name) != self.name:
            raise Fault(f"{path} holds {visible(given['table'])}, not {self.name}.")
        theirs = {field.name: field.type for field in schema}
        if len(theirs) != len(schema):
            raise Fault(f"{path} has two columns of one name: {visible(', '.join(schema.names))}.")
        for field in self.schema:
            got = theirs.get(field.name)
            if got != field.type:
                what = f"is {got}" if got is not None else "is missing"
                raise Fault(
                    f"{path} is no {self.name} file: column {field.name!r} {what}; it must be "
                    f"{field.type}."
                )
        surplus = sorted(set(theirs) - set(self.schema.names))
        if surplus:
            raise Fault(
                f"{path} is no {self.name} file: there is no column {visible(surplus[0])!r} in it."
            )
        return given

    def _check_version(self, given: Metadata, path: Path) -> None:
        version = given.get("format_version")
        if version is None:
            raise Fault(
                f"{path} is no {self.name} file of evalrun: its schema metadata has no "
                "format_version. Files of other tools come in with `evalrun import`."
            )
        if not version.isascii() or not version.isdigit() or int(version) < 1:
            raise Fault(
                f"{path} has format_version {visible(version)!r}; a whole number from 1 on is "
                "allowed."
            )
        if int(version) > self.version:
            maker = visible(given.get("evalrun_version", "unknown"))
            raise Fault(
                f"{path} has format_version {version} (written by evalrun {maker}); evalrun "
                f"{__version__} reads {self.name} up to format_version {self.version}. Use a newer "
                "evalrun."
            )

    def check_batch(self, batch: Batch) -> Batch:
        """`batch` in our column order, after `validate(full=True)`.

        ValueError on nulls where none may be.
        """
        batch.validate(full=True)
        if batch.schema.names != self.schema.names:
            batch = batch.select(self.schema.names)
        for field in self.schema:
            if not field.nullable and batch.column(field.name).null_count:
                raise ValueError(f"column {field.name!r} has empty cells")
        return batch

    def batch(self, columns: Sequence[Sequence[Any]]) -> Batch:
        """Lists of values, in the order of the schema, as one batch.

        TypeError where a value is not of its column's type, or a cell is empty that may not be.
        """
        arrays = [
            column(values, field.type) for values, field in zip(columns, self.schema, strict=True)
        ]
        for field, array in zip(self.schema, arrays, strict=True):
            if not field.nullable and array.null_count:
                raise TypeError(f"column {field.name!r} got None")
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def write_file(path: Path, schema: pa.Schema, batches: Iterable[Batch]) -> None:
    """Write an Arrow IPC file beside, fsync, rename.

    TaskFailure on OSError, the old file then still there.
    """
    with (
        replacing(path) as beside,
        pa.OSFile(str(beside), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def read_file(path: Path, table: ArrowTable) -> tuple[list[Batch], Metadata]:
    """All batches, mapped not copied, and the metadata.

    FileNotFoundError if it is not there; Fault if not sound.
    """
    try:
        with open(path, "rb"):
            pass
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        metadata = table.check(reader.schema, path)
        return [
            table.check_batch(reader.get_batch(i)) for i in range(reader.num_record_batches)
        ], metadata
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as cause:
        raise unsound(path, table, cause) from cause


def count_rows(path: Path, table: ArrowTable) -> int:
    """Rows of a file, from its footer and the headers of its batches.

    Raises as `read_file` does.
    """
    try:
        with open(path, "rb"):
            pass
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        table.check(reader.schema, path)
        return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as cause:
        raise unsound(path, table, cause) from cause


def unsound(path: Path, table: ArrowTable, cause: BaseException) -> Fault:
    """The Fault for a file that is not what it should be. The file is left as it is."""
    return Fault(
        f"{path} is not a sound {table.name} file: {visible(str(cause))}. It was left as it is."
    )


def lists(batches: Sequence[Batch], name: str) -> list[Any]:
    """One column over all batches as a Python list."""
    if len(batches) == 1:
        return _list(batches[0].column(name))
    return [value for batch in batches for value in _list(batch.column(name))]


def _list(array: pa.Array) -> list[Any]:
    if array.null_count == len(array):
        return [None] * len(array)
    values: list[Any] = array.to_pylist()
    return values


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
