"""A steady rate of requests: a token bucket, kept as the moment of the next token."""

from __future__ import annotations

import asyncio


class Rate:
    """At most `per_s` requests a second in the long run, up to `burst` of them at once after a
    pause.

    Who takes a token reserves its moment and sleeps until then, so a late wake-up is not lost time
    for the next.
    """

    __slots__ = ("_gap_s", "_next_at", "_slack_s")

    def __init__(self, per_s: float, burst: int = 1) -> None:
        self._gap_s = 1.0 / per_s
        self._slack_s = (burst - 1) * self._gap_s
        self._next_at: float | None = None  # when the bucket is full again, on the loop's clock

    def reserve_s(self, now: float) -> float:
        """Take the next token; seconds from `now` until it is there (0: now)."""
        full_at = now if self._next_at is None else max(self._next_at, now)
        self._next_at = full_at + self._gap_s
        return max(0.0, full_at - self._slack_s - now)

    async def take(self) -> None:
        """Return when a request may be sent."""
        wait = self.reserve_s(asyncio.get_running_loop().time())
        if wait > 0:
            await asyncio.sleep(wait)
