"""The time limits of one attempt, by one timer that is moved lazily."""

from __future__ import annotations

import asyncio
from types import TracebackType

from evalrun.types import ModelPlan


class Pulse:
    """When any stream of the server last brought bytes (the loop's clock)."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0.0


class Watch:
    """Ends the block with TimeoutError when a limit passes; `expired` then names it.

    first_token: from the start of the attempt until the first text. idle: silence after the headers; before the
    first text it counts only while the whole server is silent, since a request may stand in the server's queue.
    total: the moment until which the request, with all its attempts, must be done.
    """

    __slots__ = (
        "_first_at",
        "_guard",
        "_idle_s",
        "_last",
        "_loop",
        "_pulse",
        "_timer",
        "_total_at",
        "expired",
        "has_token",
    )

    def __init__(self, model: ModelPlan, pulse: Pulse, total_at: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._pulse = pulse
        self._first_at = self._loop.time() + model.first_token_timeout_s
        self._idle_s = model.idle_timeout_s
        self._total_at = total_at
        self._last: float | None = None
        self.has_token = False
        self.expired: str | None = None

    def heard(self) -> None:
        """Bytes came (the headers count)."""
        self._last = self._pulse.last = self._loop.time()

    def _end(self) -> tuple[float, str]:
        """The next moment at which a limit passes if nothing comes, and which limit."""
        ends = [(self._total_at, "total_timeout")]
        if not self.has_token:
            ends.append((self._first_at, "first_token_timeout"))
        if self._last is not None:
            last = self._last if self.has_token else max(self._last, self._pulse.last)
            ends.append((last + self._idle_s, "idle_timeout"))
        return min(ends)

    def _check(self) -> None:
        at, name = self._end()
        if at <= self._loop.time():
            self.expired = name
            self._guard.reschedule(at)
        else:
            self._timer = self._loop.call_at(min(at, self._loop.time() + self._idle_s), self._check)

    async def __aenter__(self) -> Watch:
        self._guard = asyncio.timeout(None)
        await self._guard.__aenter__()
        self._timer = self._loop.call_at(min(self._end()[0], self._loop.time() + self._idle_s), self._check)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._guard.__aexit__(kind, fault, trace)
