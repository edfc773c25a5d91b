"""A backend for tests, and about the least that one can be: it answers each prompt by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from evalrun.backends.base import Sink, answered
from evalrun.backends.cancelling import Cancellation
from evalrun.errors import Fault
from evalrun.types import Generate, ModelPlan, Reply, Request


@dataclass
class FakeBackend:
    """Answers with the last message in capitals.

    Attributes:
        log: what was called, in order.
        problem: start raises it.
        delay_s: per reply.
    """

    model: ModelPlan
    log: list[str] = field(default_factory=list)
    problem: str | None = None
    delay_s: float = 0.0
    cancellation: Cancellation = field(default_factory=Cancellation)

    def start(self) -> None:
        """Fault where there is a problem."""
        self.log.append(f"start {self.model.path}")
        if self.problem is not None:
            raise Fault(self.problem)

    def facts(self) -> dict[str, str]:
        """The least that is asked for."""
        return {"engine": "fake", "is_deterministic": "yes"}

    def render(self, request: Request) -> str:
        """The last message."""
        assert isinstance(request, Generate)
        return request.messages[-1].content

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """One reply per key, in order."""
        with self.cancellation.run():
            for request in requests:
                for doc_id, kind, index, turn in [*request.keys()]:
                    self.cancellation.check()
                    time.sleep(self.delay_s)
                    row = Reply(doc_id, kind, index, turn, ended_s=time.time())
                    sink(answered(row, self.render(request).upper(), finish_reason="stop"))

    def cancel(self) -> None:
        """End the run before its next reply."""
        self.cancellation.request()

    def close(self) -> None:
        """Noted in the log."""
        self.log.append(f"close {self.model.path}")


def fakes(log: list[str], problem: str | None = None) -> Callable[[ModelPlan], FakeBackend]:
    """A maker of fakes for `Engines`, which all write into one log."""

    def make(model: ModelPlan) -> FakeBackend:
        log.append(f"make {model.path}")
        return FakeBackend(model, log, problem)

    return make
