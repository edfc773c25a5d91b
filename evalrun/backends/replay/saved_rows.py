"""Saved replies, row by row: what a row holds, and .jsonl files of them with every line checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from evalrun.errors import Fault, nearest, visible
from evalrun.types import Kind, Reply, Status

KINDS = tuple(kind.value for kind in Kind)
STATUSES = (None, *(status.value for status in Status))
HIGHEST_LOGPROB = 1e-6  # a sum of rounded log-probabilities may end a little above 0

_TEXTS = (
    "text",
    "reasoning",
    "raw_text",
    "finish_reason",
    "error_type",
    "error_message",
    "doc_id",
    "query",
    "extra",
)
_COUNTS = ("prompt_tokens", "completion_tokens", "http_status", "index", "n_tokens")
_KEYS = ("query", "texts", *(column.name for column in fields(Reply)))


Place: TypeAlias = tuple[str, int]
"""(kind, index): which reply of a document. The index of a log-likelihood is its choice."""


@dataclass(frozen=True, slots=True)
class SavedReply:
    """One saved reply: the text of a sample, or the log-probability of a choice or a text."""

    text: str | None
    reasoning: str | None = None
    raw_text: str | None = None
    finish_reason: str | None = None
    status: Status | None = None
    error_type: str | None = None
    error_message: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    http_status: int | None = None
    logprob: float | None = None
    n_tokens: int | None = None
    is_greedy: bool | None = None
    extra: str | None = None


@dataclass(slots=True)
class Entry:
    """All replies to one document of one file."""

    source: str
    doc_id: str | None
    query: str | None
    replies: dict[Place, SavedReply] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of reply that are there."""
        return tuple(sorted({kind for kind, _ in self.replies}))


def saved_reply(row: Mapping[str, Any]) -> SavedReply:
    """What is kept of a row."""
    status = row.get("status")
    return SavedReply(
        text=row.get("text"),
        reasoning=row.get("reasoning"),
        raw_text=row.get("raw_text"),
        finish_reason=row.get("finish_reason"),
        status=Status(status) if status else (Status.ERROR if row.get("error_type") else None),
        error_type=row.get("error_type"),
        error_message=row.get("error_message"),
        prompt_tokens=row.get("prompt_tokens"),
        completion_tokens=row.get("completion_tokens"),
        http_status=row.get("http_status"),
        logprob=row.get("logprob"),
        n_tokens=row.get("n_tokens"),
        is_greedy=row.get("is_greedy"),
        extra=row.get("extra"),
    )


def is_logprob(value: Any) -> bool:
    """True for a finite number that is at most 0 (but for rounding): a log-probability in nats."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value <= HIGHEST_LOGPROB


def jsonl_entries(file: Path) -> Iterator[Entry]:
    """Entries of a .jsonl file: a row is one reply (kind says which), one with `texts` all samples
    of a document.

    Without an index, rows of one document and kind are counted in their order. Fault for a
    malformed line.
    """
    entries: dict[tuple[str, str], Entry] = {}
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as fault:
        raise Fault(f"{visible(str(file))} is not UTF-8: {fault}.") from fault
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{visible(str(file))}:{number}"
        row = _checked(line, where)
        key = (
            ("doc_id", row["doc_id"]) if row.get("doc_id") is not None else ("query", row["query"])
        )
        entry = entries.get(key)
        if entry is None:
            entry = entries[key] = Entry(where, row.get("doc_id"), row.get("query"))
        rows = [{**row, "text": text} for text in row["texts"]] if "texts" in row else [row]
        for each in rows:
            kind = each.get("kind") or Kind.GENERATE.value
            index = each.get("index")
            index = sum(1 for of, _ in entry.replies if of == kind) if index is None else index
            if (kind, index) in entry.replies:
                what = "sample" if kind == Kind.GENERATE else f"{kind} reply"
                raise Fault(
                    f"{where}: {what} {index} of {key[0]} {visible(key[1])!r} is there twice."
                )
            entry.replies[kind, index] = saved_reply(each)
    yield from entries.values()


def _checked(line: str, where: str) -> dict[str, Any]:
    """One line as a row with known keys of the right types, else a Fault naming file and line."""
    try:
        row = json.loads(line)
    except ValueError as fault:
        raise Fault(f"{where} is not JSON: {fault}.") from fault
    if not isinstance(row, dict):
        raise Fault(f"{where} is no JSON object but {visible(line[:80])!r}.")
    for key in row:
        if key not in _KEYS:
            hint = nearest(key, _KEYS)
            guess = f" Did you mean {hint!r}?" if hint else ""
            raise Fault(
                f"{where} has an unknown key {visible(key)!r}.{guess} Allowed: {', '.join(_KEYS)}."
            )
    _check_types(row, where)
    if row.get("doc_id") is None and not row.get("query"):
        raise Fault(f"{where} has neither doc_id nor query.")
    if row.get("kind") in (None, Kind.GENERATE):
        _check_text(row, where)
    elif not {"logprob", "error_type"} & {key for key, value in row.items() if value is not None}:
        raise Fault(
            f"{where}: a row of kind {row['kind']} needs logprob (in nats), or error_type where it "
            "failed."
        )
    return row


def _check_types(row: Mapping[str, Any], where: str) -> None:
    wrong = [key for key in _TEXTS if not isinstance(row.get(key), str | None)]
    wrong += [key for key in _COUNTS if key in row and not _is_count(row[key])]
    wrong += ["texts"] if "texts" in row and not _is_texts(row["texts"]) else []
    if wrong:
        raise Fault(
            f"{where}: {', '.join(wrong)} must be text (texts: a list of it; index and counts: "
            "whole numbers)."
        )
    for key, allowed in (("status", STATUSES), ("kind", (None, *KINDS))):
        if row.get(key) not in allowed:
            names = ", ".join(str(name) for name in allowed if name is not None)
            raise Fault(f"{where}: {key} {row[key]!r} is not one of {names}.")
    _check_logprob(row, where)


def _check_logprob(row: Mapping[str, Any], where: str) -> None:
    logprob, is_greedy = row.get("logprob"), row.get("is_greedy")
    if logprob is not None and not is_logprob(logprob):
        raise Fault(
            f"{where}: logprob {logprob!r} is no log-probability: a number of at most 0, in nats."
        )
    if not isinstance(is_greedy, bool | None):
        raise Fault(f"{where}: is_greedy {is_greedy!r} must be true, false or null.")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str | None) for text in value)


def _check_text(row: Mapping[str, Any], where: str) -> None:
    """A row of a sample: its text, or all texts of a document."""
    if not {"text", "texts", "error_type", "status"} & set(row):
        hint = ""
        if "logprob" in row:
            hint = (
                " A row with logprob says its kind: "
                f"{', '.join(kind for kind in KINDS if kind != Kind.GENERATE)}."
            )
        raise Fault(f"{where} has no text (null where there is none) and no texts.{hint}")
    if "texts" in row and {"text", "index"} & set(row):
        raise Fault(
            f"{where} has texts together with text or index: texts holds all samples of the "
            "document."
        )


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
