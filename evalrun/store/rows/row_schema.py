"""What the rows of one kind are: a frozen dataclass, its columns, its key, its failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from evalrun.store.arrow.arrowfile import ArrowTable, Batch, lists
from evalrun.store.arrow.columns import stored_text

Row = TypeVar("Row")
"""A frozen dataclass whose fields are the columns, in order."""

KeyValues: TypeAlias = tuple[Any, ...]
"""The values of the key columns; the first is the document's id."""

STATUS = "status"


@dataclass(frozen=True)
class RowSchema(Generic[Row]):
    """One kind of appended rows. Every kind has a text column `status`.

    Attributes:
        table: name, version and columns of its files; the name is also the folder of the files.
        row: the dataclass of one row. A list column holds tuples there.
        key: the columns that tell rows apart, two at least; the first holds the document's id.
        statuses: every status that may stand in a file.
        failures: the statuses of rows that bring no answer and may be asked again.
    """

    table: ArrowTable
    row: type[Row]
    key: tuple[str, ...]
    statuses: frozenset[str]
    failures: frozenset[str]

    def __post_init__(self) -> None:
        columns = tuple(field.name for field in fields(self.row))  # type: ignore[arg-type]
        if columns != tuple(self.table.schema.names):
            raise ValueError(f"{self.row.__name__} has other fields than {self.table.name} columns")
        if len(self.key) < 2 or not {*self.key, STATUS} <= {*columns}:
            raise ValueError(f"{self.table.name}: no key of two columns and a status")

    @cached_property
    def _values(self) -> attrgetter[tuple[Any, ...]]:
        return attrgetter(*self.table.schema.names)

    @cached_property
    def _key_values(self) -> attrgetter[KeyValues]:
        return attrgetter(*self.key)

    def key_of(self, row: Row) -> KeyValues:
        """The key of a row, as it will come back from a file."""
        return self.stored_key(self._key_values(row))

    def stored_key(self, key: KeyValues) -> KeyValues:
        """`key` as it comes back from a file, where lone surrogates are escaped."""
        return tuple(stored_text(part) if isinstance(part, str) else part for part in key)

    def is_failure(self, row: Row) -> bool:
        """True where the row brings no answer."""
        return getattr(row, STATUS) in self.failures

    def to_batch(self, rows: Sequence[Row]) -> Batch:
        """Rows as one Arrow batch.

        TypeError or OverflowError where a value does not fit its column.
        """
        columns = list(zip(*map(self._values, rows), strict=True))
        return self.table.batch(columns or [()] * len(self.table.schema))

    def to_rows(self, batches: Sequence[Batch]) -> list[Row]:
        """All rows, in stored order."""
        columns = [lists(batches, field.name) for field in self.table.schema]
        for place, field in enumerate(self.table.schema):
            if pa.types.is_large_list(field.type):
                columns[place] = [None if v is None else tuple(v) for v in columns[place]]
        return [self.row(*values) for values in zip(*columns, strict=True)]

    def keys(self, batches: Sequence[Batch]) -> list[KeyValues]:
        """The key of every row, in stored order."""
        return list(zip(*(lists(batches, name) for name in self.key), strict=True))

    def check_batch(self, batch: Batch) -> Batch:
        """`batch` in our column order, once everything in it is sound. ValueError if it is not."""
        return self.check_status(self.table.check_batch(batch))

    def check_status(self, batch: Batch) -> Batch:
        """`batch` itself. ValueError on a status that does not exist."""
        self.refuse_unknown(batch.column(STATUS).to_pylist())
        return batch

    def refuse_unknown(self, statuses: Iterable[str]) -> None:
        """ValueError on a status that does not exist."""
        unknown = set(statuses) - self.statuses
        if unknown:
            raise ValueError(f"there is no status {sorted(unknown)[0]!r}")

    def winners(
        self, keys: Sequence[KeyValues], statuses: Sequence[str]
    ) -> tuple[dict[KeyValues, int], int]:
        """Which row stands for each key, and how many rows were duplicates.

        The last row of a key wins, but a failure never displaces an answer. A failure that was
        asked again is no duplicate.
        """
        chosen: dict[KeyValues, int] = {}
        n_duplicates = 0
        for place, key in enumerate(keys):
            before = chosen.setdefault(key, place)
            if before == place:
                continue
            if statuses[place] in self.failures and statuses[before] not in self.failures:
                continue
            n_duplicates += statuses[before] not in self.failures
            chosen[key] = place
        return chosen, n_duplicates
