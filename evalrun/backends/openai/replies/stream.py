"""A streamed completion put together from its events: of the chat API, or of the plain one."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from evalrun.backends.openai.http.retry import AttemptFailed
from evalrun.backends.openai.replies.error_objects import error_event, whole
from evalrun.backends.openai.replies.sse import Event
from evalrun.types import Status


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


TEXT_PARTS = ("text", "output_text", "refusal")
THOUGHT_PARTS = ("thinking", "reasoning", "reasoning_text", "summary_text", "thought")


class AnswerStream(ABC):
    """The state of one attempt: choices by index, usage, whether the end was announced.

    Where the text of an event stands is what the two APIs differ in: see `_take_text`.
    """

    __slots__ = ("choices", "has_token", "is_done", "n_events", "usage")

    def __init__(self) -> None:
        self.choices: dict[int, Choice] = {}
        self.usage: dict[str, Any] = {}
        self.is_done = False
        self.has_token = False
        self.n_events = 0

    def take_all(self, events: list[Event]) -> None:
        """Take events in, in order."""
        for event in events:
            self.take(event)

    def take_lines(self, lines: list[bytes]) -> bool:
        """Take in the data of unnamed events of one line each, decoded together, which is cheaper
        than one by one.

        False, and nothing is taken, where they are not all JSON objects (and perhaps [DONE] at the
        end).
        """
        if self.is_done:
            return False
        has_end = lines[-1] == b"[DONE]"
        n_chunks = len(lines) - has_end
        try:
            chunks = json.loads(b"[%b]" % b",".join(lines[:-1] if has_end else lines))
        except (ValueError, RecursionError):
            return False
        if len(chunks) != n_chunks or set(map(type, chunks)) - {dict}:
            return False
        for chunk in chunks:
            self.n_events += 1
            self._take_chunk(chunk)
        if has_end:
            self.n_events += 1
            self.is_done = True
        return True

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
        except (ValueError, RecursionError) as fault:  # the latter: nested a thousand deep
            if event.name == "error":
                raise error_event(data) from fault
            raise AttemptFailed(
                "malformed", f"a data line of the stream is not JSON: {data[:300]}"
            ) from fault
        if event.name == "error":
            raise error_event(chunk.get("error", chunk) if isinstance(chunk, dict) else chunk)
        if not isinstance(chunk, dict):
            raise AttemptFailed(
                "malformed", f"a data line of the stream is not a JSON object: {data[:300]}"
            )
        self._take_chunk(chunk)

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        if chunk.get("error"):
            raise error_event(chunk["error"])
        if chunk.get("object") == "error":
            raise error_event(chunk)
        usage = chunk.get("usage")
        if usage and isinstance(usage, dict):
            self.usage = usage
        try:
            for part in chunk.get("choices") or ():
                index = part.get("index") or 0
                choice = self.choices.get(index)
                if choice is None:
                    choice = self.choices[index] = Choice()
                self._take_text(choice, part)
                if part.get("finish_reason"):
                    choice.finish_reason = str(part["finish_reason"])
        except (
            AttributeError,
            TypeError,
        ) as fault:  # a list, an object or an index that is something else
            shown = f"{chunk.get('choices')!r:.300}"
            raise AttemptFailed(
                "malformed", f"the choices of an event are not JSON objects: {shown}"
            ) from fault

    @abstractmethod
    def _take_text(self, choice: Choice, part: dict[str, Any]) -> None:
        """Add what a part of an event brings to its choice."""

    def is_complete(self, index: int = 0) -> bool:
        """True where answer `index` has come whole: it has a finish_reason, or [DONE] came after
        content and the server gives no finish_reason at all.
        """
        choice = self.choices.get(index)
        if choice is None:
            return False
        if choice.finish_reason is not None:
            return True
        is_server_silent = all(other.finish_reason is None for other in self.choices.values())
        return self.is_done and is_server_silent and any(choice.content + choice.thought)

    def require_complete(self, index: int = 0) -> Choice:
        """Answer `index`. AttemptFailed where it has not come whole."""
        if self.is_complete(index):
            return self.choices[index]
        n_chars = sum(map(len, self.choices[index].content)) if index in self.choices else 0
        how = "said [DONE]" if self.is_done else "ended"
        raise AttemptFailed(
            "incomplete",
            f"the stream {how} after {self.n_events} events and {n_chars} characters, without a "
            "finish_reason",
            status=Status.INCOMPLETE,
        )

    def is_whole(self, n: int) -> bool:
        """True where exactly the answers 0 to n - 1 have come, each whole."""
        return len(self.choices) == n and all(map(self.is_complete, range(n)))

    def require_whole(self, n: int) -> None:
        """AttemptFailed where an answer of 0 to n - 1 is missing or not whole, or where there
        are others.
        """
        if self.is_whole(n):
            return
        if not self.choices or (n == 1 and set(self.choices) == {0}):
            self.require_complete()
        got = sorted(self.choices, key=str)
        is_said = self.is_done or len(got) > n or any(index not in range(n) for index in got)
        if is_said and all(map(self.is_complete, got)):  # a broken stream would say so otherwise
            raise AttemptFailed(
                "wrong_n",
                f"{n} choices were asked for in one request, and the server sent {_listed(got)}. "
                "Where it does not know n, leave model.n_per_request at 1.",
                http_status=200,
                is_final=True,
                is_refusal=True,
            )
        open_ones = [index for index in range(n) if not self.is_complete(index)]
        raise AttemptFailed(
            "incomplete",
            f"the stream ended after {self.n_events} events; of {n} choices those without a "
            f"finish_reason are {_listed(open_ones)}",
            status=Status.INCOMPLETE,
        )


class ChatStream(AnswerStream):
    """Of /v1/chat/completions: choices[].delta, with content and perhaps a thought."""

    __slots__ = ()

    def _take_text(self, choice: Choice, part: dict[str, Any]) -> None:
        delta = part.get("delta")
        if not delta and not choice.content and not choice.thought:
            delta = part.get("message")  # some servers send the whole answer as one event
        if not isinstance(delta, dict):
            return
        content = delta.get("content")
        if content.__class__ is str:
            self._add(choice.content, content)
        elif content is not None:
            self._take_parts(choice, content)
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought is not None and isinstance(thought, str):
            self._add(choice.thought, thought)

    def _take_parts(self, choice: Choice, content: Any) -> None:
        """Content as a list of typed parts (Magistral, Databricks): texts and thoughts.

        AttemptFailed for any other form: what cannot be read must not look like an empty answer.
        """
        for part in content if isinstance(content, list) else [content]:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in THOUGHT_PARTS:
                self._add(choice.thought, _part_text(part, THOUGHT_PARTS))
            elif kind in TEXT_PARTS:
                self._add(choice.content, _part_text(part, TEXT_PARTS))
            else:
                raise _unreadable(part)

    def _add(self, texts: list[str], text: str) -> None:
        texts.append(text)
        if text:
            self.has_token = True


class TextStream(AnswerStream):
    """Of /v1/completions: choices[].text."""

    __slots__ = ()

    def _take_text(self, choice: Choice, part: dict[str, Any]) -> None:
        text = part.get("text")
        if isinstance(text, str):
            choice.content.append(text)
            if text:
                self.has_token = True


def _part_text(part: dict[str, Any], keys: tuple[str, ...]) -> str:
    """The text of a typed part: under its type, or `text`; a list of parts is read in order."""
    for key in (part["type"], "text", "content", *keys):
        inner = part.get(key)
        if isinstance(inner, str):
            return inner
        if isinstance(inner, list):
            return "".join(
                one if isinstance(one, str) else _part_text({"type": "text", **one}, keys)
                for one in inner
                if isinstance(one, str | dict)
            )
    raise _unreadable(part)


def _unreadable(part: Any) -> AttemptFailed:
    raw = json.dumps(part)
    return AttemptFailed(
        "malformed", f"a part of the content cannot be read: {raw[:300]}", raw_text=raw
    )


def _listed(indices: list[int]) -> str:
    shown = ", ".join(str(index) for index in indices[:10]) + (", ..." if len(indices) > 10 else "")
    return f"{len(indices)} (index {shown})" if indices else "none"
