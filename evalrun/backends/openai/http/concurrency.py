"""How many requests a server may have in flight (more while it keeps up, half when it says that it
is busy), and how many a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalrun.backends.openai.http.timeouts import ServerActivity

if TYPE_CHECKING:
    from yarl import URL

FIRST_LIMIT = 32
# factor after a round of answers that began well, until the server first says that it is busy
OPENING = 8
ROUNDS_TO_FULL = 16  # after that: rounds of answers from nothing to the bound
BUSY = frozenset({429, 503})
SLOW_FIRST_TOKEN_S = 2.0  # a typical wait for the first token below this never holds growth
SLOWER_THAN_BEST = 10.0
AVOIDED_S = 5.0
LONGEST_AVOIDED_S = 60.0


class Endpoint:
    """One address of the model. limit: requests allowed in flight now, 1 to `most`. Times are
    the loop's clock.
    """

    __slots__ = (
        "_avoided_s",
        "_best_s",
        "_halved_at",
        "_is_opening",
        "_n_well",
        "_typical_s",
        "activity",
        "avoided_until",
        "in_flight",
        "limit",
        "most",
        "n_taken",
        "proxy",
        "url",
    )

    def __init__(self, url: URL, most: int, proxy: str | None = None) -> None:
        self.url = url
        self.most = most
        self.proxy = proxy
        self.limit = min(most, FIRST_LIMIT)
        self.in_flight = 0
        self.n_taken = 0
        self.avoided_until = 0.0
        self.activity = ServerActivity()
        self._avoided_s = AVOIDED_S
        self._halved_at = 0.0
        self._n_well = 0
        self._is_opening = True
        self._best_s: float | None = None
        self._typical_s = 0.0

    def began(self, wait_s: float) -> None:
        """An answer began `wait_s` seconds after its request was sent.

        After a round of them the limit grows.
        """
        self._avoided_s = AVOIDED_S
        if self._best_s is None:
            self._best_s = self._typical_s = wait_s
        elif wait_s < self._best_s:
            self._best_s = wait_s
        self._typical_s += 0.1 * (wait_s - self._typical_s)
        if self.limit >= self.most or self.in_flight < self.limit:
            return
        if self._typical_s > max(SLOW_FIRST_TOKEN_S, SLOWER_THAN_BEST * self._best_s):
            self._n_well = 0
            return
        self._n_well += 1
        if self._n_well >= self.limit:
            step = max(1, self.most // ROUNDS_TO_FULL)
            self.limit = min(
                self.limit * OPENING if self._is_opening else self.limit + step, self.most
            )
            self._n_well = 0

    def failed(
        self, http_status: int | None, is_unreachable: bool, sent_at: float, now: float
    ) -> None:
        """An attempt that was sent at `sent_at` failed.

        Many refusals of one burst halve the limit once.
        """
        if is_unreachable:
            self.avoided_until = now + self._avoided_s
            self._avoided_s = min(2 * self._avoided_s, LONGEST_AVOIDED_S)
        elif http_status in BUSY:
            if sent_at >= self._halved_at:
                self.limit = max(1, self.limit // 2)
                self._halved_at = now
            self._is_opening = False
        self._n_well = 0  # a whole round must begin well before it grows again


class EndpointPool:
    """The endpoints of one model.

    A request takes the one with the fewest in flight and gives it back.
    """

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._waiting: deque[asyncio.Future[Endpoint]] = deque()

    async def take(self, rather_not: Endpoint | None = None) -> Endpoint:
        """An endpoint with a free place, as soon as there is one; another than `rather_not`
        where one is free.
        """
        endpoint = None if self._waiting else self._free(rather_not)
        if endpoint is not None:
            endpoint.in_flight += 1
            return endpoint
        future: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give_back(future.result())
            raise

    def give_back(self, endpoint: Endpoint) -> None:
        """End of an attempt at `endpoint`."""
        endpoint.in_flight -= 1
        self.wake()

    def wake(self) -> None:
        """Let those that wait go on where there is room now."""
        while self._waiting:
            endpoint = self._free(None)
            if endpoint is None:
                return
            future = self._waiting.popleft()
            if not future.done():
                endpoint.in_flight += 1
                future.set_result(endpoint)

    def has_another(self, endpoint: Endpoint) -> bool:
        """Whether an endpoint besides this one is not avoided now."""
        now = asyncio.get_running_loop().time()
        return any(e is not endpoint and e.avoided_until <= now for e in self.endpoints)

    def _free(self, rather_not: Endpoint | None) -> Endpoint | None:
        if len(self.endpoints) == 1:
            (only,) = self.endpoints
            return only if only.in_flight < only.limit else None
        now = asyncio.get_running_loop().time()
        open_ones = [e for e in self.endpoints if e.avoided_until <= now]
        if not open_ones:  # all were unreachable: the one that was left alone longest
            open_ones = [min(self.endpoints, key=lambda e: e.avoided_until)]
        free = [e for e in open_ones if e.in_flight < e.limit]
        free = [e for e in free if e is not rather_not] or free
        if not free:
            return None
        chosen = min(free, key=lambda e: (e.in_flight, e.n_taken))
        chosen.n_taken += 1
        return chosen


class RequestRate:
    """A token bucket, kept as the moment of the next token. Whoever takes a token reserves its
    moment and sleeps until then, so a late wake-up is not lost time for the next.

    Args:
        per_s: requests a second in the long run.
        burst: requests at once after a pause.
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
