"""What one attempt reads: a stream of events, or one JSON body. Each attempt has its own."""

from __future__ import annotations

import json
from typing import Any, Protocol

from evalrun.backends.openai.http.retry import AttemptFailed
from evalrun.backends.openai.http.server import body_text
from evalrun.backends.openai.replies.error_objects import error_event
from evalrun.backends.openai.replies.sse import EventParser
from evalrun.backends.openai.replies.stream import AnswerStream

FIRST_BYTES = 300


class Reader(Protocol):
    """Bytes of a body of HTTP status 200 in, state out."""

    @property
    def has_token(self) -> bool:
        """Whether the answer has begun."""

    @property
    def is_done(self) -> bool:
        """Whether its end was announced, so that what follows need not be read."""

    def feed(self, chunk: bytes) -> None:
        """Take bytes in. AttemptFailed where they are an error."""

    def is_complete(self) -> bool:
        """Whether the answer is whole, though the connection may have broken."""

    def finish(self, content_type: str) -> None:
        """The body has ended. AttemptFailed where the answer is not whole."""


class StreamReader:
    """Events of a stream into `stream`, whose n choices must all come whole."""

    __slots__ = ("_first", "_parser", "n", "stream")

    def __init__(self, stream: AnswerStream, n: int) -> None:
        self.stream = stream
        self.n = n
        self._parser = EventParser()
        self._first = b""

    @property
    def has_token(self) -> bool:
        """True once a character of an answer or a thought has come."""
        return self.stream.has_token

    @property
    def is_done(self) -> bool:
        """True once the end was announced."""
        return self.stream.is_done

    def feed(self, chunk: bytes) -> None:
        """Take bytes in. AttemptFailed where an event is an error or not JSON."""
        stream = self.stream
        if not stream.n_events and len(self._first) < FIRST_BYTES:
            self._first += chunk[:FIRST_BYTES]
        lines = self._parser.lines_of(chunk)
        if lines is None or not stream.take_lines(lines):
            stream.take_all(self._parser.feed(chunk))

    def is_complete(self) -> bool:
        """Whether every choice has come whole."""
        return self.stream.is_whole(self.n)

    def finish(self, content_type: str) -> None:
        """AttemptFailed where no event came, or a choice is missing or not whole."""
        if not self.stream.n_events:
            shown = body_text(self._first) or "an empty body"
            raise AttemptFailed(
                "no_stream",
                f"HTTP 200 without one event (content type {content_type}): {shown}",
                http_status=200,
            )
        self.stream.require_whole(self.n)


class JsonReader:
    """One JSON object, sent whole."""

    __slots__ = ("_parts", "found", "has_token", "is_done")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.found: dict[str, Any] | None = None
        self.has_token = False
        self.is_done = False

    def feed(self, chunk: bytes) -> None:
        """Take bytes in."""
        self._parts.append(chunk)

    def is_complete(self) -> bool:
        """Whether the object was read."""
        return self.found is not None

    def finish(self, content_type: str) -> None:
        """AttemptFailed where the body is empty, no JSON object, or an error."""
        body = b"".join(self._parts)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as fault:
            shown = body_text(body[:FIRST_BYTES]) or "an empty body"
            raise AttemptFailed(
                "malformed",
                f"HTTP 200 without JSON (content type {content_type}): {shown}",
                http_status=200,
            ) from fault
        if not isinstance(found, dict):
            raise AttemptFailed(
                "malformed", f"the body is no JSON object: {body_text(body)[:FIRST_BYTES]}"
            )
        if found.get("error") or found.get("object") == "error":
            raise error_event(found.get("error") or found)
        self.found = found
        self.has_token = self.is_done = True
