"""Server-sent events by the standard (WHATWG HTML, 9.2.6 "Interpreting an event stream"), fed
bytes as they come.
"""

from __future__ import annotations

from typing import NamedTuple

BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One dispatched event: its data lines joined by a line feed, and its name."""

    data: str
    name: str = "message"


class EventParser:
    """Bytes in, events out; where the bytes are cut makes no difference.

    Lines end in LF, CR or CRLF and in nothing else (U+2028 and U+0085 are text). Lines that begin
    with a colon are comments; `id` and `retry` are read and dropped, since a broken stream is never
    taken up again. Bytes that are not UTF-8 become U+FFFD. An event without its blank line is not
    dispatched.
    """

    __slots__ = ("_at_start", "_data", "_ended_in_cr", "_name", "_tail")

    def __init__(self) -> None:
        # the pieces of a line whose end has not come: joined once, however long
        self._tail: list[bytes] = []
        self._data: list[bytes] = []
        self._name = ""
        self._at_start = True
        self._ended_in_cr = False

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes, in order."""
        if self._at_start:
            chunk = self._without_bom(chunk)
        if self._ended_in_cr and chunk:
            self._ended_in_cr = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._ended_in_cr = chunk[-1] == 0x0D
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self._tail and not self._data and not self._name:
            events, chunk = _plain_events(chunk)
            if not chunk:
                return events
        else:
            events = []
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._tail:
                self._tail.append(lines[0])
                lines[0] = b"".join(self._tail)
                self._tail.clear()
            for line in lines:
                self._take(line, events)
        if rest:
            self._tail.append(rest)
        return events

    def lines_of(self, chunk: bytes) -> list[bytes] | None:
        """The data of `chunk` where it is whole unnamed events of one line each, which is what
        servers send.

        None, and nothing is taken, where it is anything else or the middle of an event; then `feed`
        it.
        """
        if (
            not chunk.startswith(b"data: ")
            or not chunk.endswith(b"\n\n")
            or self._tail
            or self._data
            or self._name
        ):
            return None
        lines = chunk[6:-2].split(b"\n\ndata: ")
        if chunk.count(b"\n") != 2 * len(lines) or b"\r" in chunk:
            return None
        self._at_start = self._ended_in_cr = False
        return lines

    def _without_bom(self, chunk: bytes) -> bytes:
        """Drop a byte order mark at the very start, which may come in pieces."""
        head = b"".join(self._tail) + chunk
        self._tail.clear()
        if len(head) < len(BOM) and BOM.startswith(head):
            if head:
                self._tail.append(head)
            return b""
        self._at_start = False
        return head[len(BOM) :] if head.startswith(BOM) else head

    def _take(self, line: bytes, events: list[Event]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif not line:
            if self._data:
                whole = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(Event(whole.decode("utf-8", "replace"), self._name or "message"))
                self._data.clear()
            self._name = ""
        elif line == b"data":
            self._data.append(b"")
        elif line.startswith(b"event:"):
            self._name = line[6:].removeprefix(b" ").decode("utf-8", "replace")
        elif line == b"event":
            self._name = ""


def _plain_events(chunk: bytes) -> tuple[list[Event], bytes]:
    """The leading events of one data line each, which is what servers send, and the bytes after
    them.
    """
    events: list[Event] = []
    start = 0
    while chunk.startswith(b"data: ", start):
        end = chunk.find(b"\n", start)
        if end < 0 or chunk[end + 1 : end + 2] != b"\n":
            break
        events.append(Event(chunk[start + 6 : end].decode("utf-8", "replace")))
        start = end + 2
    return events, chunk[start:]
