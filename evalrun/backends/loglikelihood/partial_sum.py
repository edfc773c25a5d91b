"""The one accumulator of log-probabilities that come in parts."""

from __future__ import annotations

from typing import Protocol

from evalrun.backends.loglikelihood.spans import Score, Span
from evalrun.types import Status


class PartialSum:
    """The sum over parts that come one by one, in any order.

    Args:
        n_parts: how many there are, at least 1.
    """

    __slots__ = ("_is_greedy", "_left", "_logprob")

    def __init__(self, n_parts: int) -> None:
        self._left = n_parts
        self._logprob = 0.0
        self._is_greedy = True

    @property
    def is_over(self) -> bool:
        """Whether all parts have come, or it has failed."""
        return self._left == 0

    def add(self, logprob: float, is_greedy: bool | None) -> Score | None:
        """Add a part; the whole score with the last one. After a failure parts change nothing.

        Args:
            logprob: of the part, in nats.
            is_greedy: whether it is the likeliest.
        """
        if self._left == 0:
            return None
        self._left -= 1
        self._logprob += logprob
        self._is_greedy = self._is_greedy and bool(is_greedy)
        return Score(self._logprob, self._is_greedy) if self._left == 0 else None

    def fail(self) -> bool:
        """A part will never come. False where that was known, or all have come."""
        was_open, self._left = self._left > 0, 0
        return was_open


class SpanSum(PartialSum):
    """The sum over the scored tokens of a span, each a part."""

    __slots__ = ("span",)

    def __init__(self, span: Span) -> None:
        super().__init__(span.n_scored)
        self.span = span


class ScoreReceiver(Protocol):
    """What takes the scores of spans: `pending_rows.PendingRows`."""

    def put(self, span: Span, score: Score) -> None:
        """The score of a span."""

    def fail(
        self, span: Span, error_type: str, message: str, status: Status = Status.ERROR
    ) -> None:
        """A span that could not be scored."""


class ReportedSum(SpanSum):
    """A span's sum that reports to `receiver` exactly once: the whole score, or the failure."""

    __slots__ = ("_receiver",)

    def __init__(self, span: Span, receiver: ScoreReceiver) -> None:
        super().__init__(span)
        self._receiver = receiver

    def take(self, logprob: float, is_greedy: bool) -> None:
        """Add a token."""
        whole = self.add(logprob, is_greedy)
        if whole is not None:
            self._receiver.put(self.span, whole)

    def give_up(self, error_type: str, message: str, status: Status = Status.ERROR) -> None:
        """One of its tokens cannot be scored."""
        if self.fail():
            self._receiver.fail(self.span, error_type, message, status)
