"""An event loop inside a synchronous run: bounded workers over a lazy stream of jobs, and
signals that end it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from evalrun.backends.cancelling import Cancellation

T = TypeVar("T")


class _Carried(Exception):
    """Brings KeyboardInterrupt or SystemExit through the loop, which would end in disorder if it
    saw them.
    """

    def __init__(self, stop: BaseException) -> None:
        super().__init__(str(stop))
        self.stop = stop


async def work_through(
    jobs: Iterable[T], work: Callable[[T], Awaitable[None]], concurrency: int
) -> None:
    """Run `work` on every job, at most `concurrency` at once.

    A job is taken from `jobs` when a worker is free for it and never earlier, so memory does not
    grow with their number. The first exception, of a job or of `jobs` itself, cancels what is in
    flight and is raised.
    """
    source = iter(jobs)
    n_workers = 1

    async def worker() -> None:
        nonlocal n_workers
        for job in source:
            if n_workers < concurrency:  # one worker more for each job found, up to the bound
                n_workers += 1
                group.create_task(worker())
            try:
                await work(job)
            except (KeyboardInterrupt, SystemExit) as stop:
                raise _Carried(stop) from stop

    first: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker())
    except BaseExceptionGroup as faults:
        first = faults.exceptions[0]
    if first is not None:
        raise first


def run_loop(main: Coroutine[Any, Any, T], cancellation: Cancellation | None = None) -> T:
    """Run `main` in an event loop of its own, also where this thread runs one already (a notebook).

    Args:
        main: what is run; cancelled and cleaned up before anything is raised.
        cancellation: another thread's way to end it; then Cancelled is raised.

    What a Python signal handler raises (KeyboardInterrupt, Stopped) is kept, `main` is cancelled
    and cleaned up, and then it is raised; raised inside a callback of the loop it would be logged
    and lost. A second signal whose handler raises ends the loop where it stands.
    """
    cancellation = cancellation or Cancellation()
    with _no_loop_running(), asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        caught: list[BaseException] = []

        async def guarded() -> T:
            task = asyncio.current_task()
            assert task is not None

            def wake() -> None:
                loop.call_soon_threadsafe(task.cancel)

            with _signals_caught(loop, task, caught), cancellation.waking(wake):
                return await main

        try:
            result = runner.run(guarded())
        except _Carried as carried:
            caught.append(carried.stop)
        except asyncio.CancelledError:
            if not caught:
                cancellation.check()
                raise
    if caught:
        raise caught[0]
    return result


@contextmanager
def _no_loop_running() -> Iterator[None]:
    """Within the block this thread counts as one without a running loop.

    asyncio refuses a loop inside another one, since the outer one stands still meanwhile. That is
    what a call in a notebook's cell does anyway; and only in this thread do Ctrl-C and signals
    reach the requests.
    """
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)


@contextmanager
def _signals_caught(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], caught: list[BaseException]
) -> Iterator[None]:
    """Within the block, what the handlers of SIGINT and SIGTERM raise goes to `caught` and
    cancels `task`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if callable(handler):
            before[number] = handler
            signal.signal(number, _catching(handler, loop, task, caught))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _catching(
    handler: Callable[[int, FrameType | None], Any],
    loop: asyncio.AbstractEventLoop,
    task: asyncio.Task[Any],
    caught: list[BaseException],
) -> Callable[[int, FrameType | None], None]:
    def on_signal(number: int, frame: FrameType | None) -> None:
        if caught:
            handler(number, frame)
            return
        try:
            handler(number, frame)
        except BaseException as stop:  # noqa: BLE001 - whatever it is, it is raised again when the loop has ended
            caught.append(stop)
            loop.call_soon_threadsafe(task.cancel)

    return on_signal
