"""Statistics per document: `results/<model>/<task>.docs.arrow`, one row per document, one column
per statistic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from evalrun.errors import Fault
from evalrun.store.arrow import arrowfile
from evalrun.store.arrow.arrowfile import ArrowTable, lists
from evalrun.store.arrow.columns import FLOAT, INT, TEXT, column, stored_text
from evalrun.store.cell.files import CellFiles
from evalrun.store.disk import alone_in

DOC_ID = "doc_id"


class _Statistics(ArrowTable):
    """A table of any columns beside doc_id."""

    def check(self, schema: pa.Schema, path: Any) -> dict[str, str]:
        """As ArrowTable.check, for the columns that the file has."""
        if DOC_ID not in schema.names or schema.field(DOC_ID).type != TEXT:
            raise Fault(f"{path} is no statistics file: there is no text column doc_id.")
        return ArrowTable(self.name, self.version, schema.remove_metadata()).check(schema, path)

    def check_batch(self, batch: Any) -> Any:
        """`batch` after `validate(full=True)`."""
        batch.validate(full=True)
        return batch


STATISTICS = _Statistics("statistics", 1, pa.schema([pa.field(DOC_ID, TEXT, nullable=False)]))


def write_statistics(
    files: CellFiles,
    columns: Mapping[str, Sequence[Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Store columns, merged by name into what is stored.

    Args:
        columns: "doc_id" and, of equal length, statistics of one type each: int, float (int among
            float is float), bool (as int) or text; None where the document is not scored. Rows: the
            given documents in their order, then stored ones that are not among them; a column has
            None where it says nothing.

    ValueError on unequal lengths or an id twice; TaskFailure on OSError; Fault where the stored
    file is not sound.
    """
    given = {name: _plain(values) for name, values in columns.items()}
    if DOC_ID not in given:
        raise ValueError("statistics need the column doc_id")
    ids = given[DOC_ID] = [stored_text(doc_id) for doc_id in given[DOC_ID]]
    if len(set(ids)) != len(ids) or any(len(values) != len(ids) for values in given.values()):
        raise ValueError("statistics: an id comes twice, or columns differ in length")
    path = files.statistics_file
    with alone_in(path.parent):
        merged = _merged(read_statistics(files), given)
        arrays = {name: column(values, _kind(values)) for name, values in merged.items()}
        kinds = [
            pa.field(name, array.type, nullable=name != DOC_ID) for name, array in arrays.items()
        ]
        table = ArrowTable("statistics", 1, pa.schema(kinds))
        schema = table.with_metadata({**(metadata or {}), **files.names})
        arrowfile.write_file(
            path, schema, [pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)]
        )


def read_statistics(files: CellFiles) -> dict[str, list[Any]]:
    """Column name -> values, "doc_id" first; empty where none are stored.

    Fault where the file is not sound.
    """
    path = files.statistics_file
    try:
        batches, _ = arrowfile.read_file(path, STATISTICS)
    except FileNotFoundError:
        return {}
    names = batches[0].schema.names if batches else [DOC_ID]
    return {name: lists(batches, name) for name in names}


def _merged(old: Mapping[str, list[Any]], new: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    given = set(new[DOC_ID])
    ids = [*new[DOC_ID], *(doc_id for doc_id in old.get(DOC_ID, []) if doc_id not in given)]
    merged: dict[str, list[Any]] = {DOC_ID: ids}
    for name in [*old, *(name for name in new if name not in old)]:
        if name != DOC_ID:
            source = new if name in new else old
            by_id = dict(zip(source[DOC_ID], source[name], strict=True))
            merged[name] = [by_id.get(doc_id) for doc_id in ids]
    return merged


def _plain(values: Sequence[Any]) -> list[Any]:
    as_list = getattr(values, "tolist", None)
    return list(as_list()) if callable(as_list) else list(values)


def _kind(values: Sequence[Any]) -> pa.DataType:
    present = [value for value in values if value is not None]
    if not present:
        return FLOAT
    if isinstance(present[0], str):
        return TEXT
    return FLOAT if any(isinstance(value, float) for value in present) else INT
