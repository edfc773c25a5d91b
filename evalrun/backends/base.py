"""The contract of a backend, and what all of them share: seeds, reasoning split, stop strings,
status.

A backend turns Requests into Replies, in any order. It knows nothing of gold answers or metrics.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from evalrun.backends.finish import ending
from evalrun.backends.reasoning import TAGS, Tag, split_reasoning
from evalrun.types import ModelPlan, Reply, Request, Status

Sink: TypeAlias = Callable[[Reply], None]
"""Where a backend puts each reply the moment it is there. Called from one thread."""

_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


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


def cut_at_stop(text: str, stop: tuple[str, ...]) -> tuple[str, bool]:
    """(`text` before the first stop string, whether one was found)."""
    places = [place for s in stop if s and (place := text.find(s)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


def without_blank_lines(text: str) -> str:
    """`text` without the blank lines that it begins with."""
    return _BLANK_LINES.sub("", text)


def cut_answer(text: str, stop: tuple[str, ...]) -> tuple[str, bool]:
    """An answer up to its first stop string, and whether there is one.

    A stop string within the blank lines that an answer begins with does not count: templates and
    parsers of thoughts leave such lines, and the stop "\n\n" would empty every answer behind them.
    """
    cut, was_stopped = cut_at_stop(text, stop)
    if was_stopped and not cut.strip():
        return cut_at_stop(without_blank_lines(text), stop)
    return cut, was_stopped


def answered(
    base: Reply,
    raw: str | None,
    *,
    stop: tuple[str, ...] = (),
    reasoning: str | None = None,
    is_open: bool = False,
    finish_reason: str | None = None,
    tags: tuple[Tag, ...] = TAGS,
) -> Reply:
    """The row of a request that came back: reasoning split off, stop strings applied, status set.

    Args:
        base: key, seed, times, counts.
        raw: the text as the model gave it; None: there is none.
        stop: strings that end the answer.
        reasoning: the server's own field. Where it is None or blank, the text is split.
        is_open: the prompt ended with an opening tag.
        finish_reason: why it ended; see `finish.ending`.
        tags: what thoughts stand between.
    """
    reasoning = reasoning if reasoning and reasoning.strip() else None
    thought, text = reasoning, raw
    if reasoning is None:
        thought, text = split_reasoning(raw or "", is_open, tags)
    was_stopped = False
    if text is not None:
        text, was_stopped = cut_answer(text, stop)
    if reasoning is not None and not text:
        text = None
    is_whole = text == raw and (thought is None or reasoning is not None)
    row = replace(
        base,
        status=_status(text, finish_reason, was_stopped).value,
        text=text,
        reasoning=thought,
        raw_text=None if is_whole else raw,
        finish_reason=finish_reason,
    )
    if row.status == Status.INCOMPLETE:
        return _broken_off(row, raw)
    return row


def _status(text: str | None, finish_reason: str | None, was_stopped: bool) -> Status:
    end = ending(finish_reason)
    if end is Status.TRUNCATED and was_stopped:  # what was cut off lies behind the stop string
        end = Status.OK
    if end is not Status.OK:
        return end
    return Status.OK if text and text.strip() else Status.EMPTY


def _broken_off(row: Reply, raw: str | None) -> Reply:
    """A failure that keeps what had come: a part of an answer is no answer."""
    message = f"the answer was broken off: finish_reason {row.finish_reason!r}"
    return replace(row, text=None, raw_text=raw, error_type="finish_reason", error_message=message)


def failed(base: Reply, status: Status, error_type: str, message: str) -> Reply:
    """The row of a request that failed for good.

    Args:
        base: key, seed, times, counts.
        status: error, timeout, incomplete, or filtered.
        error_type: a short word for the kind of failure.
        message: what happened.
    """
    return replace(
        base, status=status.value, error_type=error_type, error_message=message[:4000], text=None
    )
