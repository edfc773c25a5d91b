"""Files with types of their own, Arrow and Parquet: values shown as a person writes them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from evalrun.errors import Fault, visible
from evalrun.tasks.values import Number, as_written


def read_table(path: Path, form: str) -> list[dict[str, Any]]:
    """The rows of one file.

    Text and whole numbers stay as they are. A float of 16 or 32 bits is the shortest number that
    means it (0.1, not 0.10000000149). Times that Python cannot hold, such as the year 10000, are
    text. A column that has no Python value at all is absent, which matters only where it is read.

    Args:
        form: arrow (a file or a stream of Arrow IPC) or parquet.

    Fault: the file is damaged, or a column stands twice.
    """
    import pyarrow as pa

    try:
        table = _table(path, form)
        table.validate(full=True)
        names = table.column_names
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Fault(
                f"{path}: column {visible(twice)!r} is there twice. Names of columns are unique."
            )
        columns = [_values(table.column(i)) for i in range(table.num_columns)]
    except (pa.ArrowException, ValueError, EOFError) as error:
        kind = "Parquet" if form == "parquet" else "Arrow IPC"
        raise Fault(
            f"{path}: not a whole, valid {kind} file: {visible(first_line(error))}"
        ) from error
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _table(path: Path, form: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if form == "parquet":
        return pq.ParquetFile(path).read()
    with pa.OSFile(str(path), "rb") as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source).read_all()


def _values(column: Any) -> list[Any]:
    """The cells of a column as Python values."""
    import pyarrow as pa

    try:
        values = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        # Python's dates end with the year 9999, Arrow's do not.
        try:
            return list(column.cast(pa.string()).to_pylist())
        except (ValueError, pa.ArrowException):
            return [None] * len(column)
    return [_short(value, column.type) for value in values] if _has_short(column.type) else values


def _has_short(kind: Any) -> bool:
    """Whether a type is, or holds, floats of 16 or 32 bits."""
    import pyarrow as pa

    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return True
    return any(_has_short(kind.field(i).type) for i in range(kind.num_fields))


def _short(value: Any, kind: Any) -> Any:
    """The value with every short float in it as the shortest decimal that means it."""
    import numpy as np
    import pyarrow as pa

    if value is None or not _has_short(kind):
        return value
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        short = np.float16(value) if pa.types.is_float16(kind) else np.float32(value)
        return Number(as_written(Decimal(str(short)))) if np.isfinite(short) else float(value)
    if pa.types.is_struct(kind):
        fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        return {name: _short(each, fields[name]) for name, each in value.items()}
    if isinstance(value, list) and not pa.types.is_map(kind):
        return [_short(each, kind.value_type) for each in value]
    return value


def first_line(error: BaseException) -> str:
    """The first line of what an error says, else its type's name."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
