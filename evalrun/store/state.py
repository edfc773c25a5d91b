"""state.json of a run: what it is doing, how far it is and whose process does it; readable at any
time.

A job makes a `Keeper` once the run is its own and uses it as a context manager:

    with state.Keeper(run) as keeper:
        keeper.enter(Phase.TESTING)
        infer.run(plan, prepared, is_debug=..., keeper=keeper)      # counts done of total
        keeper.enter(Phase.FINISHED)                                # or FAILED, with the reason

What leaves the block as an exception becomes terminated (a stop) or failed. A process that is
killed writes nothing more: `RunState.shown` sees that it is gone. Whoever reads never waits, and
never sees half a file.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from evalrun.errors import EvalrunError, Fault, Stopped, visible
from evalrun.json_types import structured
from evalrun.store import lock
from evalrun.store.disk import read_small, write_text_atomic
from evalrun.store.layout import Run
from evalrun.strict_json import Misfit, from_object, to_json

FORMAT_VERSION = 1
INTERVAL_S = 1.0
LONGEST_BYTES = 1_000_000
LATEST_S = 1e11  # in the year 5138: a time that no calendar holds is damage
GONE = "the process is gone (killed?)"


class Phase(StrEnum):
    """Where a run is. The last three are ends."""

    WAITING = "waiting"
    INSTALLING = "installing"
    STARTING = "starting"
    TESTING = "testing"
    TERMINATED = "terminated"
    FAILED = "failed"
    FINISHED = "finished"

    @property
    def is_end(self) -> bool:
        """True for terminated, failed and finished."""
        return self in (Phase.TERMINATED, Phase.FAILED, Phase.FINISHED)


@dataclass(frozen=True, slots=True)
class RunState:
    """The content of state.json. Absent is None.

    Attributes:
        reason: why it ended, or what it waits for.
        done, total: rows of all cells, those stored before included.
        task: the cell that moved last. pid, pid_start (field 22 of /proc/PID/stat), boot_id, host:
            the evalrun process. supervisor_*: the process that ends the server when evalrun is
            gone. server_*: the leader of the server's process group.
        started_s: when this process took the run.
        updated_s: when this was written (seconds since 1970).
    """

    phase: Phase
    reason: str | None = None
    done: int | None = None
    total: int | None = None
    task: str | None = None
    pid: int | None = None
    pid_start: str | None = None
    boot_id: str | None = None
    host: str | None = None
    supervisor_pid: int | None = None
    supervisor_start: str | None = None
    server_pid: int | None = None
    server_start: str | None = None
    started_s: float | None = None
    updated_s: float | None = None

    @property
    def is_alive(self) -> bool:
        """True while the evalrun process that wrote this runs on this machine."""
        return is_alive(self.pid, self.pid_start, self.boot_id)

    @property
    def is_elsewhere(self) -> bool:
        """True where another machine (or container) wrote this: its processes cannot be seen
        from here.
        """
        return self.host is not None and self.host != socket.gethostname() and not self.is_alive

    @property
    def is_supervisor_alive(self) -> bool:
        """True while the supervisor of the server runs on this machine."""
        return is_alive(self.supervisor_pid, self.supervisor_start, self.boot_id)

    @property
    def is_server_alive(self) -> bool:
        """True while the leader of the server's process group runs on this machine."""
        return is_alive(self.server_pid, self.server_start, self.boot_id)

    @property
    def shown(self) -> RunState:
        """As people should see it: a state that is no end, and whose process is gone, is
        terminated.
        """
        if self.phase.is_end or self.is_alive or self.is_elsewhere:
            return self
        return replace(self, phase=Phase.TERMINATED, reason=GONE)


def is_alive(pid: int | None, pid_start: str | None, boot_id: str | None) -> bool:
    """True while exactly that process runs: same boot of the machine, pid there and no zombie,
    same start time.
    """
    return pid is not None and lock.is_alive({"pid": pid, "started": pid_start, "boot_id": boot_id})


def write(run: Run, state: RunState, is_durable: bool = True) -> None:
    """Replace state.json as one piece, old or new. TaskFailure on OSError.

    is_durable=False: without fsync and without an error, for counters (at most a second of them can
    be lost).
    """
    content = {"format_version": FORMAT_VERSION, **asdict(state)}
    text = to_json(content, indent=1, is_ascii=True) + "\n"
    if is_durable:
        write_text_atomic(run.state_file, text)
        return
    beside = run.path / f".{run.state_file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    with suppress(OSError):
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(run.state_file)
        finally:
            beside.unlink(missing_ok=True)


def read(run: Run) -> RunState | None:
    """The state as it was written; None where there is no state.json.

    Fault where it cannot be read.
    """
    path = run.state_file
    try:
        return _checked(from_object(read_small(path, LONGEST_BYTES)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as cause:
        raise Fault(
            f"{path} cannot be read ({visible(str(cause))}). The run's rows are apart from it: "
            "remove the file, and the state is derived from the plan and the predictions."
        ) from cause


def _checked(loaded: Mapping[str, Any]) -> RunState:
    """The state behind a JSON object. Misfit where it is none. Keys of later versions are passed
    over.
    """
    version = loaded.get("format_version")
    if version != FORMAT_VERSION:
        raise Misfit(f"format_version {version!r:.100}, and this evalrun reads {FORMAT_VERSION}")
    found = structured(RunState, loaded, has_more=True)
    for name in ("started_s", "updated_s"):
        value = getattr(found, name)
        if value is not None and not 0 <= value <= LATEST_S:  # NaN is none of them
            raise Misfit(f"is {value!r:.100}, which is no time", name)
    return found


class Keeper:
    """Keeps state.json of one run for the process that works on it. Thread-safe.

    Fault where another process that lives keeps it: one run has one writer. TaskFailure where it
    cannot be written.
    """

    def __init__(
        self, run: Run, phase: Phase = Phase.WAITING, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.run = run
        _refuse_other_owner(run)
        owner = lock.identity(os.getpid())
        self.state = RunState(
            phase,
            pid=owner["pid"],
            pid_start=owner["started"],
            boot_id=owner["boot_id"],
            host=owner["host"],
            started_s=time.time(),
        )
        self._clock = clock
        self._next_s = clock()
        self._cells: dict[str, tuple[int, int]] = {}
        self._mutex = threading.RLock()
        self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        done, total = self.state.done, self.state.total
        if isinstance(error, BrokenPipeError) and done is not None and done == total:
            self.enter(Phase.FINISHED)  # nobody read the table (`| head`), and all else was done
        elif isinstance(error, (KeyboardInterrupt, Stopped)):
            self._end(
                Phase.TERMINATED,
                "stopped by SIGINT" if isinstance(error, KeyboardInterrupt) else str(error),
            )
        elif error is not None:
            text = (
                str(error)
                if isinstance(error, (EvalrunError, OSError))
                else f"{type(error).__name__}: {error}"
            )
            self._end(Phase.FAILED, text)
        elif not self.state.phase.is_end:
            self.enter(Phase.FINISHED)

    def enter(self, phase: Phase, reason: str | None = None) -> None:
        """Say what the run does from now on.

        Args:
            reason: why it ended, or what it waits for.
        """
        with self._mutex:
            self.state = replace(self.state, phase=phase, reason=reason)
            self._write()

    def supervise(self, supervisor_pid: int | None, server_pid: int | None = None) -> None:
        """Note the supervisor and the leader of the server's group, so that a stop can end them.

        None: they ended.
        """
        with self._mutex:
            self.state = replace(
                self.state,
                supervisor_pid=supervisor_pid,
                supervisor_start=None
                if supervisor_pid is None
                else lock.start_time(supervisor_pid),
                server_pid=server_pid,
                server_start=None if server_pid is None else lock.start_time(server_pid),
            )
            self._write()

    def expect(self, cells: Mapping[str, tuple[int, int]]) -> None:
        """Cell -> (rows that are stored already, rows wanted), for all cells of this command."""
        with self._mutex:
            self._cells = dict(cells)
            self._write()

    def count(self, task: str, done: int, total: int) -> None:
        """How far one cell is.

        On the disk at most once a second, so cheap enough to call after each row.
        """
        self._cells[task] = (done, total)
        if self._clock() < self._next_s and done < total:
            return
        with self._mutex:
            self.state = replace(self.state, task=task)
            self._write(is_durable=False)

    def _end(self, phase: Phase, reason: str) -> None:
        """An end while an exception is on its way: a disk that takes no file must not hide it."""
        with suppress(EvalrunError):
            self.enter(phase, reason)

    def _write(self, is_durable: bool = True) -> None:
        if counts := list(self._cells.values()):
            self.state = replace(
                self.state, done=sum(done for done, _ in counts), total=sum(n for _, n in counts)
            )
        self._next_s = self._clock() + INTERVAL_S
        self.state = replace(self.state, updated_s=time.time())
        write(self.run, self.state, is_durable)


def _refuse_other_owner(run: Run) -> None:
    try:
        state = read(run)
    except Fault:
        return  # a damaged state is replaced: the rows are apart from it
    if state is not None and state.is_alive and state.pid != os.getpid() and not state.phase.is_end:
        raise Fault(
            f"Another writer (pid {state.pid}) is at work on {run.path} ({state.phase}); one run "
            f"has one writer. Wait for it, end it with `evalrun stop {run.path}`, or start without "
            "--resume for a new folder."
        )
