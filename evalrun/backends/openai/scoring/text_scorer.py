"""Log-likelihoods from a server whose tokens are not known: an echoed text, cut where context and
continuation meet.

A token that spans the border is scored with the continuation (the boundary `joint`), and the row
says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

from evalrun.backends.base import failed
from evalrun.backends.loglikelihood.spans import ScoredRequest
from evalrun.backends.openai.http.retry import AttemptFailed
from evalrun.backends.openai.http.sending import ServerCall, Times
from evalrun.backends.openai.replies.body import JsonReader, Reader
from evalrun.backends.openai.scoring.calls import Way
from evalrun.backends.openai.scoring.responses import Echo
from evalrun.types import Loglikelihood, Reply, Rolling, Status


@dataclass(frozen=True, slots=True)
class TextCall:
    """A text whose end `continuation` is scored, for all requests of a block that ask the same."""

    base: Mapping[str, Any]
    way: Way
    text: str
    continuation: str
    is_single_token: bool
    rows: tuple[Reply, ...]

    @property
    def body(self) -> bytes:
        """The body as it is sent."""
        return json.dumps({**self.base, **self.way.fields(self.text)}).encode()

    def reader(self) -> Reader:
        """A reader of one JSON object."""
        return JsonReader()

    def answers(self, reader: Reader, n_attempts: int, times: Times) -> list[Reply]:
        """A row for each request.

        AttemptFailed where the echo does not spell the text, or has no value of it.
        """
        assert isinstance(reader, JsonReader)
        echo = Echo.of(reader.found or {}, self.way.n_generated)
        found = echo.border(self.text, self.continuation)
        if found is None:
            raise _final(
                "unaligned",
                "the echoed tokens do not spell the text that was sent. Set model.tokenizer",
            )
        places, is_spanning = found
        if places[0] == 0 and echo.values[0] is None:
            raise _final(
                "no_start_token",
                "the text has no context, and the server does not score a first token. Set "
                "model.tokenizer, so that BOS can be sent before it",
            )
        if self.is_single_token and len(places) != 1:
            tokens = [echo.tokens[place] for place in places]
            raise _final(
                "not_one_token",
                f"{self.continuation!r} must be one token after its context; it is {tokens}",
            )
        logprob, is_greedy = echo.scored(places)
        columns: dict[str, Any] = {
            "logprob": logprob,
            "n_tokens": len(places),
            "is_greedy": is_greedy,
            "prompt_tokens": places[0],
            "attempts": n_attempts,
            "http_status": 200,
            "started_s": times.started_s,
            "ended_s": time.time(),
            "extra": json.dumps({"spanning": True}) if is_spanning else None,
        }
        return [replace(row, **columns) for row in self.rows]

    def bases(self, n_attempts: int) -> list[Reply]:
        """The rows that fail with this call."""
        return [replace(row, attempts=n_attempts) for row in self.rows]


def text_calls(
    base: Mapping[str, Any], way: Way, requests: Iterable[ScoredRequest]
) -> Iterator[ServerCall | Reply]:
    """The calls of a block, each distinct text once; a request that cannot be asked is its
    failure row.
    """
    by_text: dict[tuple[str, str, bool], list[Reply]] = {}
    for request in requests:
        ((doc_id, kind, index, turn),) = request.keys()
        row = Reply(doc_id, kind, index, turn)
        context, scored, is_single = _parts(request)
        if not scored:
            what = (
                f"choice {index} has an empty continuation"
                if isinstance(request, Loglikelihood)
                else "no text"
            )
            error_type = (
                "empty_continuation" if isinstance(request, Loglikelihood) else "empty_text"
            )
            yield failed(row, Status.ERROR, error_type, f"{what}: nothing to score")
            continue
        by_text.setdefault((context, scored, is_single), []).append(row)
    for (context, scored, is_single), rows in by_text.items():
        yield TextCall(base, way, context + scored, scored, is_single, tuple(rows))


def _parts(request: ScoredRequest) -> tuple[str, str, bool]:
    """(context, what is scored, whether it must be one token).

    Blanks that end the context are scored.
    """
    match request:
        case Loglikelihood():
            text = "\n\n".join(message.content for message in request.messages)
            context = text.rstrip()
            blanks = text[len(context) :] if request.continuation else ""
            return context, blanks + request.continuation, request.is_single_token
        case Rolling():
            return "", request.text, False
        case _:
            assert_never(request)


def _final(error_type: str, message: str) -> AttemptFailed:
    return AttemptFailed(error_type, message, http_status=200, is_final=True)
