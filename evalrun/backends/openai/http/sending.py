"""What is sent: a call, and what is known of it on its way."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from evalrun.backends.openai.http.concurrency import Endpoint
from evalrun.backends.openai.replies.body import Reader
from evalrun.types import Reply


class Times:
    """Of one attempt: started, first token, headers there. Seconds since the epoch."""

    __slots__ = ("first_s", "is_open", "started_s")

    def __init__(self) -> None:
        self.started_s = time.time()
        self.first_s: float | None = None
        self.is_open = False


class SendAgain(Exception):
    """An answer shows that the call must be sent in another form; the attempt does not count.

    Args:
        call: in its new form.
    """

    def __init__(self, call: ServerCall) -> None:
        super().__init__("to be sent in another form")
        self.call = call


class ServerCall(Protocol):
    """One body to send, and the rows that its answer, or its failure, becomes."""

    @property
    def body(self) -> bytes:
        """The body as it is sent."""

    def reader(self) -> Reader:
        """A new reader for one attempt."""

    def answers(self, reader: Reader, n_attempts: int, times: Times) -> Iterable[Reply]:
        """The rows of a whole answer.

        AttemptFailed where it is not what was asked for, SendAgain where another form is needed.
        """

    def bases(self, n_attempts: int) -> Iterable[Reply]:
        """The rows without an answer: keys and seeds."""


@dataclass(slots=True)
class Sending:
    """A call on its way.

    Attributes:
        call: what is sent.
        body: its bytes.
        total_at: when it must be done, with all its attempts, on the loop's clock.
        n_attempts: that were begun.
        endpoint: of the last attempt.
        times: of the last attempt.
    """

    call: ServerCall
    body: bytes
    total_at: float
    n_attempts: int = 0
    endpoint: Endpoint | None = None
    times: Times = field(default_factory=Times)
