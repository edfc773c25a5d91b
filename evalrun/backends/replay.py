"""Saved predictions served again: the model whose answers are known beforehand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace

from evalrun.backends.base import Sink, answered, failed
from evalrun.backends.saved import Library, Saved, load
from evalrun.errors import Fault, TaskFailure, unknown, visible
from evalrun.types import Kind, ModelPlan, Reply, Request, Status

SETTINGS = ("delay_s", "fail_first", "die_after")


class ReplayBackend:
    """The backend `replay`. model.path: a run folder, a predictions file (.arrow, .arrows) or a .jsonl file.

    A document is found by its id, else by its query: the one that the last user message is, ends with, or
    contains last. model.engine: delay_s (seconds per reply), fail_first (that many replies of this backend
    become failures), die_after (TaskFailure after that many).
    """

    def __init__(self, model: ModelPlan) -> None:
        self.model = model
        self._library: Library | None = None
        self._n_replies = 0
        settings = dict(model.engine)
        for key in settings:
            if key not in SETTINGS:
                raise unknown("setting", key, SETTINGS, f"model.engine of model {visible(model.name)!r} (replay)")
        self._delay_s = float(_number(settings.get("delay_s", 0), "delay_s", (int, float)))
        self._n_to_fail = int(_number(settings.get("fail_first", 0), "fail_first", (int,)))
        die_after = settings.get("die_after")
        self._die_after = None if die_after is None else int(_number(die_after, "die_after", (int,)))

    def start(self) -> None:
        """Read the saved predictions. Fault where there are none, or a line is malformed."""
        self._loaded()

    def facts(self) -> dict[str, str]:
        """engine, is_deterministic, and as revision the SHA-256 of what is served."""
        return {"engine": "replay", "is_deterministic": "yes", "revision": self._loaded().digest}

    def render(self, request: Request) -> str:
        """The messages as JSON."""
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        return json.dumps(messages, ensure_ascii=False)

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """Serve every key in order; one that was not saved is a failure row of type not_saved."""
        library = self._loaded()
        for request in requests:
            found = library.find(request.doc_id, _last_question(request))
            for index in request.indices:
                if self._die_after is not None and self._n_replies >= self._die_after:
                    raise TaskFailure(f"The replayed engine died after {self._die_after} replies (die_after).")
                if self._delay_s:
                    time.sleep(self._delay_s)
                self._n_replies += 1
                base = _base(request, index)
                if self._n_replies <= self._n_to_fail:
                    row = failed(base, Status.ERROR, "fail_first", "this reply was told to fail (fail_first)")
                elif isinstance(found, str):
                    row = failed(base, Status.ERROR, "not_saved", found)
                elif index not in found.samples:
                    message = f"document {request.doc_id!r} has no saved sample {index} in {self.model.path}"
                    row = failed(base, Status.ERROR, "not_saved", message)
                else:
                    row = _served(base, found.samples[index], request)
                sink(row)

    def close(self) -> None:
        """Forget what was read."""
        self._library = None

    def _loaded(self) -> Library:
        if self._library is None:
            if not self.model.path:
                raise Fault(
                    f"model.path of {visible(self.model.name)!r} is not set: the backend replay needs a file."
                )
            self._library = load(self.model.path)
        return self._library


def _number(value: object, key: str, kinds: tuple[type, ...]) -> float:
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= 0:  # type: ignore[operator]
        word = "number" if float in kinds else "whole number"
        raise Fault(f"model.engine.{key}={value!r} is not allowed: a {word} of at least 0 is.")
    return float(value)  # type: ignore[arg-type]


def _last_question(request: Request) -> str:
    """The content of the last user message; empty where there is none."""
    return next((m.content for m in reversed(request.messages) if m.role == "user"), "")


def _base(request: Request, index: int) -> Reply:
    now = time.time()
    return Reply(
        request.doc_id,
        Kind.GENERATE.value,
        index,
        request.turn,
        seed=request.seed + index,
        started_s=now,
        first_token_s=now,
        ended_s=now,
    )


def _served(base: Reply, saved: Saved, request: Request) -> Reply:
    """The saved answer as a new row. It was split when it was saved; what comes unsplit is split now."""
    base = replace(
        base,
        prompt_tokens=saved.prompt_tokens,
        completion_tokens=saved.completion_tokens,
        http_status=saved.http_status,
        ended_s=time.time(),
    )
    if saved.status is not None and saved.status.is_failure:
        return failed(
            replace(base, finish_reason=saved.finish_reason),
            saved.status,
            saved.error_type or "saved_failure",
            saved.error_message or "the saved reply is a failure",
        )
    row = answered(
        base,
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
