"""Saved predictions served again: the model whose answers are known beforehand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from evalrun.backends.base import Sink, answered, failed
from evalrun.backends.cancelling import Cancellation
from evalrun.backends.replay.library import Library, load
from evalrun.backends.replay.saved_rows import Entry, SavedReply, is_logprob
from evalrun.errors import Fault, TaskFailure, unknown, visible
from evalrun.types import (
    Generate,
    Kind,
    Loglikelihood,
    Message,
    ModelPlan,
    Reply,
    Request,
    Rolling,
    Status,
)

SETTINGS = ("delay_s", "fail_first", "die_after")


class ReplayBackend:
    """The backend `replay`. model.path: a run folder, a predictions file (.arrow, .arrows) or a
    .jsonl file.

    A document is found by its id, else by its query: the one that the last user message (rolling:
    the text) is, ends with, or contains last; then its reply by kind and index (of a
    log-likelihood: the choice). model.engine: delay_s (seconds per reply), fail_first (that many
    replies of this backend become failures), die_after (TaskFailure after that many).
    """

    def __init__(self, model: ModelPlan) -> None:
        self.model = model
        self._library: Library | None = None
        self._n_replies = 0
        self._cancellation = Cancellation()
        settings = dict(model.engine)
        for key in settings:
            if key not in SETTINGS:
                raise unknown(
                    "setting",
                    key,
                    SETTINGS,
                    f"model.engine of model {visible(model.name)!r} (replay)",
                )
        self._delay_s = float(_number(settings.get("delay_s", 0), "delay_s", (int, float)))
        self._n_to_fail = int(_number(settings.get("fail_first", 0), "fail_first", (int,)))
        die_after = settings.get("die_after")
        self._die_after = (
            None if die_after is None else int(_number(die_after, "die_after", (int,)))
        )

    def start(self) -> None:
        """Read the saved predictions. Fault where there are none, or a line is malformed."""
        self._loaded()

    def facts(self) -> dict[str, str]:
        """engine, is_deterministic, and as revision the SHA-256 of what is served."""
        return {"engine": "replay", "is_deterministic": "yes", "revision": self._loaded().digest}

    def render(self, request: Request) -> str:
        """The messages as JSON; of a whole text, the text."""
        if isinstance(request, Rolling):
            return request.text
        messages = [
            {"role": message.role, "content": message.content} for message in request.messages
        ]
        return json.dumps(messages, ensure_ascii=False)

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """Serve every key in order; one that was not saved is a failure row of type not_saved."""
        library = self._loaded()
        of_doc: dict[str, Entry] = {}  # an unconditioned request does not hold the question
        with self._cancellation.run():
            for request in requests:
                is_bare = isinstance(request, Loglikelihood) and not request.is_conditioned
                found: Entry | str | None = of_doc.get(request.doc_id) if is_bare else None
                if found is None:
                    found = library.find(request.doc_id, _question(request))
                if isinstance(found, Entry):
                    of_doc[request.doc_id] = found
                for base in _bases(request):
                    self._cancellation.check()
                    sink(self._reply(base, request, found))

    def _reply(self, base: Reply, request: Request, found: Entry | str) -> Reply:
        """The next reply, after the delay and with the faults that model.engine asks for."""
        if self._die_after is not None and self._n_replies >= self._die_after:
            raise TaskFailure(
                f"The replayed engine died after {self._die_after} replies (die_after)."
            )
        if self._delay_s:
            time.sleep(self._delay_s)
        self._n_replies += 1
        if self._n_replies <= self._n_to_fail:
            return failed(
                base, Status.ERROR, "fail_first", "this reply was told to fail (fail_first)"
            )
        if isinstance(found, str):
            return failed(base, Status.ERROR, "not_saved", found)
        return self._row(base, request, found)

    def cancel(self) -> None:
        """End the run before its next reply."""
        self._cancellation.request()

    def close(self) -> None:
        """Forget what was read."""
        self._library = None

    def _row(self, base: Reply, request: Request, entry: Entry) -> Reply:
        """The saved reply as a new row, or a failure that says what is not there."""
        saved = entry.replies.get((base.kind, base.index))
        if saved is None:
            return failed(
                base, Status.ERROR, "not_saved", _missing(base, entry, str(self.model.path))
            )
        base = replace(
            base,
            prompt_tokens=saved.prompt_tokens,
            http_status=saved.http_status,
            ended_s=time.time(),
        )
        if saved.status is not None and saved.status.is_failure:
            base = replace(
                base, completion_tokens=saved.completion_tokens, finish_reason=saved.finish_reason
            )
            message = saved.error_message or "the saved reply is a failure"
            return failed(base, saved.status, saved.error_type or "saved_failure", message)
        if isinstance(request, Generate):
            return _text_row(base, saved, request)
        if not is_logprob(saved.logprob):
            message = (
                f"the {base.kind} row of document {base.doc_id!r} in {self.model.path} has logprob "
                f"{saved.logprob}"
            )
            return failed(
                base, Status.ERROR, "not_saved", f"{message}: a number of at most 0 is needed"
            )
        return replace(
            base,
            logprob=saved.logprob,
            n_tokens=saved.n_tokens,
            is_greedy=saved.is_greedy,
            extra=saved.extra,
        )

    def _loaded(self) -> Library:
        if self._library is None:
            if not self.model.path:
                raise Fault(
                    f"model.path of {visible(self.model.name)!r} is not set: the backend replay "
                    "needs a file."
                )
            self._library = load(self.model.path)
        return self._library


def _number(value: object, key: str, kinds: tuple[type, ...]) -> float:
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= 0:  # type: ignore[operator]
        word = "number" if float in kinds else "whole number"
        raise Fault(f"model.engine.{key}={value!r} is not allowed: a {word} of at least 0 is.")
    return float(value)  # type: ignore[arg-type]


def _question(request: Request) -> str:
    """The text in which the query is looked for; empty where there is none."""
    match request:
        case Generate() | Loglikelihood():
            return _last_user_text(request.messages)
        case Rolling():
            return request.text
        case _:
            assert_never(request)


def _last_user_text(messages: tuple[Message, ...]) -> str:
    return next((m.content for m in reversed(messages) if m.role == "user"), "")


def _bases(request: Request) -> Iterator[Reply]:
    """The rows of a request before anything was found: key, seed and times, each made when it is
    asked for.
    """
    keys = request.keys()
    for doc_id, kind, index, turn in keys:
        now = time.time()
        row = Reply(doc_id, kind, index, turn, started_s=now, ended_s=now)
        if isinstance(request, Generate):
            row = replace(row, seed=request.seed + index, first_token_s=now)
        yield row


def _missing(base: Reply, entry: Entry, path: str) -> str:
    """What a saved document does not hold."""
    if base.kind == Kind.GENERATE:
        what = f"sample {base.index}"
    else:
        what = (
            f"{base.kind} reply" if base.kind == Kind.ROLLING else f"{base.kind} reply {base.index}"
        )
    kinds = "" if base.kind in entry.kinds else f" (saved there: {', '.join(entry.kinds)})"
    return f"document {base.doc_id!r} has no saved {what} in {path}{kinds}"


def _text_row(base: Reply, saved: SavedReply, request: Generate) -> Reply:
    """The saved answer as a new row.

    It was split when it was saved; what comes unsplit is split now.
    """
    row = answered(
        replace(base, completion_tokens=saved.completion_tokens),
        saved.text,
        stop=request.sampling.stop,
        reasoning=saved.reasoning,
        finish_reason=saved.finish_reason,
    )
    if saved.raw_text is not None:
        row = replace(row, raw_text=saved.raw_text)
    if saved.text is None and saved.reasoning is None:
        row = replace(row, text=None)
    return row
