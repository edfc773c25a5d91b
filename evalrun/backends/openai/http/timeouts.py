"""The time limits of attempts, looked after by one timer for all of them."""

from __future__ import annotations

import asyncio
from types import TracebackType

from evalrun.types import ModelPlan

LONGEST_ROUND_S = 1.0


class ServerActivity:
    """When any stream of the server last brought bytes (the loop's clock)."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0.0


class TimeoutWatcher:
    """Looks at every open AttemptTimer again and again, and ends those whose limit has passed.

    A round takes a tenth of the shortest limit, at most a second, so a limit is kept to that much.
    """

    def __init__(self, model: ModelPlan) -> None:
        self.loop = asyncio.get_running_loop()
        self.first_token_s, self.idle_s = model.first_token_timeout_s, model.idle_timeout_s
        shortest = min(model.first_token_timeout_s, model.idle_timeout_s, model.total_timeout_s)
        self._round_s = min(LONGEST_ROUND_S, shortest / 10)
        self._open: set[AttemptTimer] = set()
        self._is_walking = False

    def add(self, timer: AttemptTimer) -> None:
        """Begin to look after a timer."""
        self._open.add(timer)
        if not self._is_walking:
            self._is_walking = True
            self.loop.call_later(self._round_s, self._walk)

    def drop(self, timer: AttemptTimer) -> None:
        """No longer look after it."""
        self._open.discard(timer)

    def _walk(self) -> None:
        self._is_walking = bool(self._open)
        if not self._open:
            return
        now = self.loop.time()
        for timer in [t for t in self._open if t.end()[0] <= now]:
            timer.expire()
        self.loop.call_later(self._round_s, self._walk)


class AttemptTimer:
    """Ends the block with TimeoutError when a limit passes; `expired` then names it.

    first_token: from the start of the attempt until the first text. idle: silence after the
    headers; before the first text it counts only while the whole server is silent, since a request
    may stand in the server's queue. total: the moment until which the request, with all its
    attempts, must be done.
    """

    __slots__ = (
        "_activity",
        "_first_at",
        "_last",
        "_n_cancels",
        "_task",
        "_time",
        "_total_at",
        "_watcher",
        "expired",
        "has_token",
    )

    def __init__(self, watcher: TimeoutWatcher, activity: ServerActivity, total_at: float) -> None:
        self._watcher = watcher
        self._activity = activity
        self._time = watcher.loop.time
        self._first_at = self._time() + watcher.first_token_s
        self._total_at = total_at
        self._last: float | None = None
        self._task: asyncio.Task[object] | None = None
        self._n_cancels = 0
        self.has_token = False
        self.expired: str | None = None

    def heard(self) -> None:
        """Bytes came (the headers count)."""
        self._last = self._activity.last = self._time()

    def end(self) -> tuple[float, str]:
        """The next moment at which a limit passes if nothing comes, and which limit."""
        ends = [(self._total_at, "total_timeout")]
        if not self.has_token:
            ends.append((self._first_at, "first_token_timeout"))
        if self._last is not None:
            last = self._last if self.has_token else max(self._last, self._activity.last)
            ends.append((last + self._watcher.idle_s, "idle_timeout"))
        return min(ends)

    def expire(self) -> None:
        """End the block now."""
        self._watcher.drop(self)
        if self._task is not None:
            self.expired = self.end()[1]
            self._task.cancel()

    def __enter__(self) -> AttemptTimer:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._n_cancels = self._task.cancelling()
        self._watcher.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watcher.drop(self)
        task, self._task = self._task, None
        if self.expired is None or task is None:
            return
        # else somebody else has cancelled the task besides
        is_ours = task.uncancel() <= self._n_cancels
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from fault
