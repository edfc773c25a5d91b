"""A streamed chat completion put together from its events."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from evalrun.backends.retry import AttemptFailed, is_worth_repeating
from evalrun.backends.sse import Event
from evalrun.types import Status

_PERMANENT = ("invalid_request", "badrequest", "bad_request", "authentication", "permission", "notfound", "not_found")


@dataclass(slots=True)
class Choice:
    """One of the n answers of a stream, as far as it has come."""

    content: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    finish_reason: str | None = None

    @property
    def text(self) -> str | None:
        """The content; None where no content came."""
        return whole(self.content) if self.content else None

    @property
    def reasoning(self) -> str | None:
        """What came in `reasoning_content` or `reasoning`; None where nothing came."""
        return whole(self.thought) if self.thought else None


class ChatStream:
    """The state of one attempt: choices by index, usage, whether the end was announced."""

    __slots__ = ("choices", "has_token", "is_done", "n_events", "usage")

    def __init__(self) -> None:
        self.choices: dict[int, Choice] = {}
        self.usage: dict[str, Any] = {}
        self.is_done = False
        self.has_token = False
        self.n_events = 0

    def take_all(self, events: list[Event]) -> None:
        """Take events in, in order. Those of one read are decoded together, which is cheaper than one by one."""
        if len(events) > 2 and not self.is_done and all(event.name == "message" for event in events):
            n_chunks = len(events) - (events[-1].data == "[DONE]")
            try:
                chunks = json.loads(f"[{','.join([event.data for event in events[:n_chunks]])}]")
            except ValueError:
                chunks = []
            if len(chunks) == n_chunks and all(type(chunk) is dict for chunk in chunks):
                self.n_events += n_chunks
                for chunk in chunks:
                    self._take_chunk(chunk)
                events = events[n_chunks:]
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Take one event in. AttemptFailed where it is an error or not JSON."""
        data = event.data
        if self.is_done or not data:
            return
        self.n_events += 1
        if data.strip() == "[DONE]":
            self.is_done = True
            return
        try:
            chunk = json.loads(data)
        except ValueError as fault:
            if event.name == "error":
                raise _error_event(data) from fault
            raise AttemptFailed("malformed", f"a data line of the stream is not JSON: {data[:300]}") from fault
        if event.name == "error":
            raise _error_event(chunk.get("error", chunk) if isinstance(chunk, dict) else chunk)
        if not isinstance(chunk, dict):
            raise AttemptFailed("malformed", f"a data line of the stream is not a JSON object: {data[:300]}")
        self._take_chunk(chunk)

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        if chunk.get("error"):
            raise _error_event(chunk["error"])
        if chunk.get("object") == "error":
            raise _error_event(chunk)
        usage = chunk.get("usage")
        if usage and isinstance(usage, dict):
            self.usage = usage
        for part in chunk.get("choices") or ():
            if not isinstance(part, dict):
                raise AttemptFailed("malformed", f"a choice of the stream is not a JSON object: {part!r:.300}")
            index = part.get("index") or 0
            choice = self.choices.get(index)
            if choice is None:
                choice = self.choices[index] = Choice()
            self._take_delta(choice, part.get("delta"))
            if part.get("finish_reason"):
                choice.finish_reason = str(part["finish_reason"])

    def _take_delta(self, choice: Choice, delta: Any) -> None:
        if not isinstance(delta, dict):
            return
        content = delta.get("content")
        if isinstance(content, str):
            choice.content.append(content)
            if content:
                self.has_token = True
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str):
            choice.thought.append(thought)
            self.has_token = True

    def is_complete(self, index: int = 0) -> bool:
        """True where answer `index` has come whole: it has a finish_reason, or [DONE] came after content."""
        choice = self.choices.get(index)
        if choice is None:
            return False
        return choice.finish_reason is not None or (self.is_done and any(choice.content + choice.thought))

    def require_complete(self, index: int = 0) -> Choice:
        """Answer `index`. AttemptFailed where it has not come whole."""
        if self.is_complete(index):
            return self.choices[index]
        n_chars = sum(map(len, self.choices[index].content)) if index in self.choices else 0
        how = "said [DONE]" if self.is_done else "ended"
        raise AttemptFailed(
            "incomplete",
            f"the stream {how} after {self.n_events} events and {n_chars} characters, without a finish_reason",
            status=Status.INCOMPLETE,
        )


def whole(parts: list[str]) -> str:
    """The parts as one text: surrogate pairs cut between two parts are joined, a lone half becomes U+FFFD."""
    text = "".join(parts)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def error_text(error: Any) -> str:
    """The message inside an error object of any of the usual shapes; the JSON itself where there is none."""
    if isinstance(error, str):
        return whole([error])
    if isinstance(error, dict):
        for key in ("message", "error", "detail", "msg"):
            if error.get(key):
                return error_text(error[key])
    return json.dumps(error)


def _error_event(error: Any) -> AttemptFailed:
    """An error that came inside a stream of HTTP status 200. Its code says whether to try again."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599:
        is_final = not is_worth_repeating(code)
    else:
        kind = str(error.get("type") or "").lower() if isinstance(error, dict) else ""
        is_final = any(word in kind for word in _PERMANENT)
    return AttemptFailed("error_event", error_text(error), http_status=200, is_final=is_final, is_refusal=is_final)
