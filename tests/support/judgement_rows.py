"""A second kind of rows, with a key of other columns: what a judge said of a sample."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from evalrun.store.arrow.arrowfile import ArrowTable
from evalrun.store.arrow.columns import INT, TEXT
from evalrun.store.rows.row_schema import RowSchema


@dataclass(frozen=True)
class Judgement:
    """The answer to one question about one sample."""

    doc_id: str
    index: int
    asker: str
    part: int = 0
    turn: int = 0
    asking: int = 0
    ask_hash: str = "h0"
    status: str = "ok"
    text: str | None = None
    evidence: tuple[str, ...] | None = None


KEY = ("doc_id", "index", "asker", "part", "turn", "asking")

JUDGEMENTS = RowSchema(
    ArrowTable(
        "judgements",
        1,
        pa.schema(
            [
                *(
                    pa.field(name, TEXT if name in ("doc_id", "asker") else INT, False)
                    for name in KEY
                ),
                pa.field("ask_hash", TEXT, nullable=False),
                pa.field("status", TEXT, nullable=False),
                pa.field("text", TEXT),
                pa.field("evidence", pa.large_list(TEXT)),
            ]
        ),
    ),
    Judgement,
    KEY,
    frozenset({"ok", "unreadable", "error"}),
    frozenset({"error"}),
)
