"""A pool of worker processes: fresh interpreters, one call at a time each, killed at the deadline
and replaced.

Workers are started anew, not forked, so that no thread, engine or lock of the parent comes along.
They end with the parent, also where that is killed. Linux and macOS.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection, Pipe, wait
from time import monotonic
from typing import Any

START_S = 120.0
"""A worker that has not loaded its function by then is taken for broken."""
MAX_STARTS = 3
"""So many workers in a row that end before they are ready: the rest of the items fails."""
MAX_BATCH = 32
MAX_WORKERS = 16
MEMORY_BYTES = 4 << 30
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A numerical library takes address space for each thread; on a large machine more than a worker
has.
"""


class Ending(StrEnum):
    """How one call ended."""

    DONE = "done"
    RAISED = "raised"
    TIMEOUT = "timeout"
    DIED = "died"  # the worker process ended during the call


@dataclass(frozen=True, slots=True)
class Outcome:
    """One call.

    Attributes:
        value: what the function gave, where it is done.
        note: why not, elsewhere.
    """

    ending: Ending
    value: Any = None
    note: str | None = None


class _Worker:
    """One process with its pipe, and what it is at work on."""

    def __init__(self, memory_bytes: int) -> None:
        self.pipe, theirs = Pipe()
        watched, self.lifeline = os.pipe()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from evalrun.workers.child import serve; "
            f"serve({theirs.fileno()}, {watched}, {memory_bytes})"
        )
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), watched),
                process_group=0,
                env={**os.environ, **ONE_THREAD},
            )
        except OSError:
            self.forget()
            raise
        finally:
            theirs.close()
            os.close(watched)
        self.places: deque[int] = deque()
        self.is_ready = False
        self.limit = 0.0

    def give(self, message: bytes, places: Sequence[int]) -> None:
        """Send a batch."""
        self.places, self.is_ready, self.limit = deque(places), False, monotonic() + START_S
        with contextlib.suppress(OSError):  # it has ended: seen when it is read from
            self.pipe.send_bytes(message)

    def end(self) -> int:
        """Kill it with all that it started; its exit code, negative for a signal."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.forget()
        return code

    def forget(self) -> None:
        """Close the parent's ends."""
        self.pipe.close()
        with contextlib.suppress(OSError):
            os.close(self.lifeline)


@dataclass
class _Job:
    """One call of `Pool.run`."""

    head: bytes
    items: list[bytes]
    deadline_s: float
    outcomes: list[Outcome | None]
    pending: deque[list[int]]
    busy: dict[Connection, _Worker] = field(default_factory=dict)
    n_failed_starts: int = 0


class Pool:
    """Up to `size` workers (default: the processors this process may use).

    Workers start when there is work.

    memory_bytes: address space of a worker. Use as a context, or call `close`. One thread at a time
    runs.
    """

    def __init__(self, size: int | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self.size = size or min(MAX_WORKERS, _n_processors())
        self._memory_bytes = memory_bytes
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that wait for work."""
        return tuple(worker.process.pid for worker in self._idle)

    def run(
        self,
        function: Callable[..., Any],
        items: Sequence[tuple[Any, ...]],
        deadline_s: float,
        prepare: Callable[[], None] | None = None,
    ) -> list[Outcome]:
        """function(*item) for every item, in the order of the items.

        Args:
            deadline_s: seconds of one call; the worker is killed then, that item ends as timeout,
                the others go on.
            prepare: called in a worker before its first item, outside the deadline (imports). Both
                functions must be importable by name, items and values picklable.

        Raises only what ends the run as a whole (Ctrl-C, or an argument that cannot be pickled);
        the workers at work are killed then.
        """
        if not items:
            return []
        head = pickle.dumps((function, prepare, 2 * deadline_s + 10))
        batch = max(1, min(MAX_BATCH, len(items) // (4 * self.size)))
        pending = deque(
            list(range(at, min(at + batch, len(items)))) for at in range(0, len(items), batch)
        )
        job = _Job(
            head, [pickle.dumps(item) for item in items], deadline_s, [None] * len(items), pending
        )
        with self._lock:
            try:
                while job.pending or job.busy:
                    self._assign(job)
                    self._advance(job)
            except BaseException:
                for worker in job.busy.values():
                    worker.end()
                raise
        return [
            outcome or Outcome(Ending.DIED, note="no worker could start")
            for outcome in job.outcomes
        ]

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def forget(self) -> None:
        """In a forked child: the workers belong to the parent."""
        self._lock = threading.Lock()
        for worker in self._idle:
            worker.forget()
        self._idle.clear()

    def _assign(self, job: _Job) -> None:
        while job.pending and len(job.busy) < self.size:
            if job.n_failed_starts >= MAX_STARTS:
                job.pending.clear()
                return
            worker = self._idle.pop() if self._idle else _Worker(self._memory_bytes)
            places = job.pending.popleft()
            job.busy[worker.pipe] = worker
            worker.give(
                pickle.dumps((sys.path, job.head, [job.items[place] for place in places])), places
            )

    def _advance(self, job: _Job) -> None:
        """Wait for the next answers or the next deadline."""
        if not job.busy:
            return
        pause_s = max(0.0, min(worker.limit for worker in job.busy.values()) - monotonic())
        spoken = set(wait(list(job.busy), pause_s))
        for pipe, worker in list(job.busy.items()):
            if pipe in spoken:
                self._hear(job, worker)
            elif monotonic() >= worker.limit and not pipe.poll(0):
                place = (
                    f"{job.deadline_s:g} s" if worker.is_ready else f"{START_S:g} s for the start"
                )
                self._lose(job, worker, Ending.TIMEOUT, f"not finished within {place}")

    def _hear(self, job: _Job, worker: _Worker) -> None:
        try:
            message = worker.pipe.recv_bytes()
        except (EOFError, OSError):
            self._lose(job, worker, Ending.DIED, "the worker process ended")
            return
        worker.limit = monotonic() + job.deadline_s
        if not worker.is_ready:
            worker.is_ready, job.n_failed_starts = True, 0
            return
        job.outcomes[worker.places.popleft()] = _outcome(message)
        if not worker.places:
            del job.busy[worker.pipe]
            self._idle.append(worker)

    def _lose(self, job: _Job, worker: _Worker, ending: Ending, why: str) -> None:
        """Kill a worker.

        The item it was at has this outcome; what it had not begun goes to another.
        """
        del job.busy[worker.pipe]
        code = worker.end()
        if worker.is_ready:
            note = why if ending is Ending.TIMEOUT else f"{why} ({_ended(code)})"
            job.outcomes[worker.places.popleft()] = Outcome(ending, note=note)
        else:
            job.n_failed_starts += 1
        if worker.places:
            job.pending.appendleft(list(worker.places))


def _outcome(message: bytes) -> Outcome:
    try:
        is_done, value = pickle.loads(message)
    except (
        pickle.PickleError,
        ImportError,
        AttributeError,
        TypeError,
        ValueError,
        LookupError,
        EOFError,
    ) as error:
        return Outcome(
            Ending.RAISED, note=f"the value cannot be read: {type(error).__name__}: {error}"
        )
    return Outcome(Ending.DONE, value) if is_done else Outcome(Ending.RAISED, note=value)


def _ended(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _n_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_shared: Pool | None = None


def run(
    function: Callable[..., Any],
    items: Sequence[tuple[Any, ...]],
    deadline_s: float,
    prepare: Callable[[], None] | None = None,
) -> list[Outcome]:
    """As `Pool.run`, in the pool of this process, whose workers stay warm until `close` or the
    end of the process.
    """
    global _shared
    if _shared is None:
        _shared = Pool()
    return _shared.run(function, items, deadline_s, prepare)


def close() -> None:
    """End the workers of this process's pool; the next `run` starts new ones."""
    if _shared is not None:
        _shared.close()


def _forget() -> None:
    global _shared
    if _shared is not None:
        _shared.forget()
        _shared = None


atexit.register(close)
os.register_at_fork(after_in_child=_forget)
