"""The contract of a backend, and what all of them share: seeds, reasoning split, stop strings,
status.

A backend turns Requests into Replies, in any order. It knows nothing of gold answers or metrics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from evalrun.types import ModelPlan, Reply, Request, Status

Sink: TypeAlias = Callable[[Reply], None]
"""Where a backend puts each reply the moment it is there. Called from one thread."""

OPEN, CLOSE = "<think>", "</think>"


class Backend(Protocol):
    """What a model is to the runner.

    Made by `backends.create(ModelPlan)`, which loads nothing heavy.
    """

    model: ModelPlan

    def start(self) -> None:
        """Load the engine. Fault: the model does not exist, or a package is missing."""

    def facts(self) -> dict[str, str]:
        """Digests and versions that belong to the answers' content; may need `start`.

        engine, engine_version, dtype, revision, tokenizer, chat_template, is_deterministic
        ("yes"/"no"): what the backend can know of them.
        """

    def render(self, request: Request) -> str:
        """The final prompt as text, exactly as the model gets it (a chat server: the messages as
        JSON).

        Of a log-likelihood: its context; of a rolling request: the text.
        """

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """Every key of every request reaches `sink` exactly once, as an answer or as a failure row.

        One bad request never ends the others. TaskFailure: the engine died, or `cancel` was
        called; keys not yet answered stay missing. KeyboardInterrupt and Stopped pass through.
        """

    def cancel(self) -> None:
        """End the requests in flight, from any thread: the run at work, or the next one where none
        is, raises `cancelling.Cancelled`. Rows that reached the sink are kept.
        """

    def close(self) -> None:
        """Free the engine; may be called twice."""


@runtime_checkable
class ScoreProbe(Protocol):
    """A backend that must be asked whether it gives log-probabilities at all: a server."""

    def check_scores(self, is_single_token: bool) -> None:
        """Call after `start`. Fault where it gives none.

        Args:
            is_single_token: only choices of one token are asked.
        """


def document_seed(seed: int, doc_id: str) -> int:
    """Base seed of a document, in [0, 2^31 - 2^20): a hash of the run's seed and the id, free of
    any order.

    Sample i of the document is drawn with the base seed + i, as vLLM seeds the n children of one
    call.
    """
    digest = hashlib.sha256(f"{seed}\x00{doc_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (2**31 - 2**20)


def split_reasoning(text: str, is_open: bool = False) -> tuple[str | None, str | None]:
    """(reasoning, answer) of a text that may begin with a thought.

    A text that opens with <think>, whose template opened it (`is_open`), or that holds </think>
    with no <think> before it, is cut after the last </think>; never closed: the answer is None.
    Else (None, text).
    """
    opens = text.lstrip().startswith(OPEN)
    first_close = text.find(CLOSE)
    has_lone_close = first_close >= 0 and OPEN not in text[:first_close]
    if not (opens or is_open or has_lone_close):
        return None, text
    body = text.lstrip()[len(OPEN) :] if opens else text
    thought, closed, answer = body.rpartition(CLOSE)
    if not closed:
        return body.strip(), None
    return thought.strip(), answer.lstrip("\n")


def cut_at_stop(text: str, stop: tuple[str, ...]) -> tuple[str, bool]:
    """(`text` before the first stop string, whether one was found)."""
    places = [place for s in stop if s and (place := text.find(s)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


def answered(
    base: Reply,
    raw: str | None,
    *,
    stop: tuple[str, ...] = (),
    reasoning: str | None = None,
    is_open: bool = False,
    finish_reason: str | None = None,
) -> Reply:
    """The row of a request that came back: reasoning split off, stop strings applied, status set.

    Args:
        base: key, seed, times, counts.
        raw: the text as it came.
        reasoning: the server's own field, if it has one.
    """
    thought, text = (
        (reasoning, raw) if reasoning is not None else split_reasoning(raw or "", is_open)
    )
    was_stopped = False
    if text is not None:
        text, was_stopped = cut_at_stop(text, stop)
    if reasoning is not None and not text:
        text = None
    is_whole = thought is None and text == raw
    return replace(
        base,
        status=_status(text, finish_reason, was_stopped).value,
        text=text,
        reasoning=thought,
        raw_text=None if is_whole or (reasoning is not None and text == raw) else raw,
        finish_reason=finish_reason,
    )


def _status(text: str | None, finish_reason: str | None, was_stopped: bool) -> Status:
    if finish_reason == "content_filter":
        return Status.FILTERED
    if finish_reason == "length" and not was_stopped:
        return Status.TRUNCATED
    return Status.OK if text and text.strip() else Status.EMPTY


def failed(base: Reply, status: Status, error_type: str, message: str) -> Reply:
    """The row of a request that failed for good.

    Args:
        status: error, timeout or incomplete.
    """
    return replace(
        base, status=status.value, error_type=error_type, error_message=message[:4000], text=None
    )
