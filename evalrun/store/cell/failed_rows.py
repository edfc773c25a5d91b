"""Why requests of a cell failed, in words for people."""

from __future__ import annotations

from evalrun.errors import visible
from evalrun.store.cell import predictions
from evalrun.store.cell.files import CellFiles
from evalrun.types import Reply, Status

LONGEST_TEXT = 300


def failure_text(row: Reply) -> str:
    """A failed row in one line: its document, the HTTP status, what was said."""
    status = "" if row.http_status in (None, 200) else f"HTTP {row.http_status}, "
    message = " ".join(visible(row.error_message or "no reason was given").split())
    short = message[:LONGEST_TEXT] + ("..." if len(message) > LONGEST_TEXT else "")
    return f"document {visible(row.doc_id)}: {status}{row.error_type}: {short}"


def first_failure(files: CellFiles) -> str | None:
    """The first failed row of a cell in stored order, in words; None where none failed."""
    found = predictions.read(files)
    statuses = found.column("status")
    place = next((i for i, status in enumerate(statuses) if Status(str(status)).is_failure), None)
    return None if place is None else failure_text(found.rows[place])
