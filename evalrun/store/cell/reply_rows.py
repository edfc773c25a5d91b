"""Row version 1 of predictions: the fields of Reply, in that order, and the way there and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

import pyarrow as pa

from evalrun.store.arrow.arrowfile import Batch, Table, lists
from evalrun.store.arrow.columns import BOOL, FLOAT, INT, TEXT
from evalrun.types import Key, Reply, Status

_REQUIRED = ("doc_id", "kind", "index", "turn", "status", "attempts")

_TYPES = {
    **dict.fromkeys(
        ("doc_id", "kind", "status", "text", "reasoning", "raw_text", "finish_reason"), TEXT
    ),
    **dict.fromkeys(("error_type", "error_message", "extra"), TEXT),
    **dict.fromkeys(("index", "turn", "n_tokens", "prompt_tokens", "completion_tokens"), INT),
    **dict.fromkeys(("http_status", "attempts", "seed"), INT),
    **dict.fromkeys(("logprob", "started_s", "first_token_s", "ended_s"), FLOAT),
    "is_greedy": BOOL,
    "token_ids": pa.large_list(pa.int32()),
}

COLUMNS = tuple(field.name for field in fields(Reply))
_values = attrgetter(*COLUMNS)

PREDICTIONS = Table(
    "predictions",
    1,
    pa.schema([pa.field(name, _TYPES[name], nullable=name not in _REQUIRED) for name in COLUMNS]),
)

_STATUSES = frozenset(status.value for status in Status)
FAILURES = frozenset(status.value for status in Status if status.is_failure)


def to_batch(replies: Sequence[Reply]) -> Batch:
    """Replies as one Arrow batch.

    TypeError or OverflowError where a value does not fit its column.
    """
    columns = list(zip(*map(_values, replies), strict=True))
    return PREDICTIONS.batch(columns or [()] * len(COLUMNS))


def to_replies(batches: Sequence[Batch]) -> list[Reply]:
    """All rows as Replies, in stored order."""
    columns = [lists(batches, name) for name in COLUMNS]
    at = COLUMNS.index("token_ids")
    columns[at] = [None if ids is None else tuple(ids) for ids in columns[at]]
    return [Reply(*row) for row in zip(*columns, strict=True)]


def check_statuses(batch: Batch) -> Batch:
    """`batch` as it is. ValueError on a status that does not exist."""
    unknown = set(batch.column("status").to_pylist()) - _STATUSES
    if unknown:
        raise ValueError(f"there is no status {sorted(unknown)[0]!r}")
    return batch


def keys(batches: Sequence[Batch]) -> list[Key]:
    """(doc_id, kind, index, turn) of every row."""
    return list(
        zip(*(lists(batches, name) for name in ("doc_id", "kind", "index", "turn")), strict=True)
    )


def winners(row_keys: Sequence[Key], statuses: Sequence[str]) -> tuple[dict[Key, int], int]:
    """Which row stands for each key, and how many rows were duplicates.

    The last row wins, but a failure never displaces an answer. Failures that were asked again are
    no duplicates.
    """
    chosen: dict[Key, int] = {}
    n_duplicates = 0
    for place, key in enumerate(row_keys):
        before = chosen.setdefault(key, place)
        if before == place:
            continue
        if statuses[place] in FAILURES and statuses[before] not in FAILURES:
            continue
        n_duplicates += statuses[before] not in FAILURES
        chosen[key] = place
    return chosen, n_duplicates
