"""Row version 1 of predictions: the fields of Reply, in that order."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa

from evalrun.store.arrow.arrowfile import ArrowTable
from evalrun.store.arrow.columns import BOOL, FLOAT, INT, TEXT
from evalrun.store.rows.row_schema import RowSchema
from evalrun.types import Reply, Status

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

PREDICTIONS = ArrowTable(
    "predictions",
    1,
    pa.schema(
        [
            pa.field(field.name, _TYPES[field.name], nullable=field.name not in _REQUIRED)
            for field in fields(Reply)
        ]
    ),
)

REPLY_ROWS = RowSchema(
    PREDICTIONS,
    Reply,
    ("doc_id", "kind", "index", "turn"),
    frozenset(status.value for status in Status),
    frozenset(status.value for status in Status if status.is_failure),
)
