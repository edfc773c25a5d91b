"""evalrun stop RUN: end the process of a run in order.

Its rows are kept, its state is terminated, --resume goes on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from evalrun.commands.parser import RunParser
from evalrun.deploy import leftover
from evalrun.errors import Fault, TaskFailure, visible
from evalrun.runs.inspect import Seen, named, seen
from evalrun.store import state
from evalrun.store.state import Phase, RunState

WAIT_S = 60.0
KILL_WAIT_S = 10.0
POLL_S = 0.05


def main(argv: list[str]) -> int:
    """Stop one run. Returns 0 where it has ended, also where there was nothing to stop.

    TaskFailure (exit code 3) where it has not ended in time. Fault where it runs on another
    machine.
    """
    parser = RunParser("stop", __doc__)
    parser.add_argument(
        "run", metavar="RUN", help="a run folder, its time stamp, or latest; a sweep stops whole"
    )
    parser.add_argument(
        "--wait", type=float, default=WAIT_S, metavar="SECONDS", help="how long to wait (60)"
    )
    parser.add_argument(
        "--kill",
        action="store_true",
        help="end it by force (SIGKILL) when it has not ended by then",
    )
    args = parser.read(argv)
    if not 0 <= args.wait < float("inf"):
        parser.error(f"--wait {args.wait}: seconds from 0 up")
    runs = named(args.run, Path(args.output_dir), "evalrun stop")
    # Of a sweep only the job that runs now has a process to stop; stopping it ends the jobs after
    # it too.
    alive = [run for run in runs if run.current is not None and not run.current.phase.is_end]
    for run in alive or runs[:1]:
        print(f"evalrun: {visible(_stop(run, Path(args.output_dir), args.wait, args.kill))}")
    return 0


def _stop(run: Seen, output_dir: Path, wait_s: float, is_forced: bool) -> str:
    """End the processes of a run; what happened, in one paragraph."""
    stored = run.state if run.state is not None else run.current
    if stored is None:
        raise Fault(f"The state of {run.name} is not known, so nothing was stopped: {run.problem}")
    if stored.is_elsewhere and not stored.phase.is_end:
        raise Fault(
            f"{run.name} is kept by pid {stored.pid} on {stored.host}, which cannot be seen from "
            "here. Run `evalrun stop` there. Nothing was stopped."
        )
    was_running = not stored.phase.is_end and stored.is_alive
    if was_running:
        _end_process(run, stored, wait_s, is_forced)
    left = _end_server(run, stored, wait_s)
    if not was_running:
        return _nothing(run, stored, left)
    return _report(seen(run.run, output_dir), stored, left)


def _end_process(run: Seen, stored: RunState, wait_s: float, is_forced: bool) -> None:
    """SIGTERM to the evalrun process, and SIGKILL after `wait_s` where that was asked for."""
    send(stored.pid, stored.pid_start, stored.boot_id, signal.SIGTERM)
    if _ended(lambda: stored.is_alive, wait_s):
        _settle(run, "stopped by evalrun stop")
        return
    if not is_forced:
        raise TaskFailure(
            f"{run.name}: pid {stored.pid} was asked to stop and has not ended within {wait_s:g} "
            "s. It may still be ending its server or a long computation: look again with `evalrun "
            f"status {run.name}`, or end it by force with `evalrun stop {run.name} --kill`. Rows "
            "that are on disk are kept either way."
        )
    send(stored.pid, stored.pid_start, stored.boot_id, signal.SIGKILL)
    if not _ended(lambda: stored.is_alive, KILL_WAIT_S):
        raise TaskFailure(
            f"{run.name}: pid {stored.pid} does not end, not even killed; the system holds it."
        )
    _settle(run, "killed by evalrun stop --kill")


def _end_server(run: Seen, stored: RunState, wait_s: float) -> str:
    """End what a gone evalrun process left: supervisor and server.

    What was done, empty where nothing was left.

    The supervisor ends the server by itself when evalrun is gone, and when it is asked to. Only
    where it does not, the server is ended from here.
    """
    home = leftover.home_of(run.run.path)
    if stored.is_alive or not (
        stored.is_supervisor_alive or stored.is_server_alive or leftover.found(home)
    ):
        return ""
    was_ended = False
    if not _ended(lambda: stored.is_supervisor_alive, min(wait_s, KILL_WAIT_S)):
        was_ended = send(
            stored.supervisor_pid, stored.supervisor_start, stored.boot_id, signal.SIGTERM
        )
        _ended(lambda: stored.is_supervisor_alive, wait_s)
    for number, limit_s in ((signal.SIGTERM, wait_s), (signal.SIGKILL, KILL_WAIT_S)):
        if stored.is_server_alive and stored.server_pid is not None:
            was_ended = True
            _send_group(stored.server_pid, number)
            _ended(lambda: stored.is_server_alive, limit_s)
    if stored.is_supervisor_alive:
        send(stored.supervisor_pid, stored.supervisor_start, stored.boot_id, signal.SIGKILL)
        _ended(lambda: stored.is_supervisor_alive, KILL_WAIT_S)
    if leftover.found(home):  # the supervisor was killed, and so could not see to them
        was_ended = True
        leftover.end(home, wait_s)
    if stored.is_server_alive or stored.is_supervisor_alive or leftover.found(home):
        raise TaskFailure(
            "The server that the run had started does not end, not even killed; the system holds "
            "it."
        )
    return " The server that it had left was ended." if was_ended else " Its server has ended."


def send(pid: int | None, pid_start: str | None, boot_id: str | None, number: int) -> bool:
    """Send a signal to exactly that process; False where it is gone or its number belongs to
    another one now.

    The process is held by a descriptor while it is compared, so that its number cannot pass on in
    between. Fault where it belongs to another user.
    """
    if pid is None or not state.is_alive(pid, pid_start, boot_id):
        return False
    try:
        held = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        held = None  # gone meanwhile, or a kernel without such descriptors
    try:
        if not state.is_alive(pid, pid_start, boot_id):
            return False
        if held is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(held, number)
    except ProcessLookupError:
        return False
    except PermissionError as cause:
        raise Fault(
            f"pid {pid} belongs to another user, who can stop it; nothing was stopped ({cause})."
        ) from cause
    finally:
        if held is not None:
            os.close(held)
    return True


def _send_group(leader: int, number: int) -> None:
    """Signal the process group that `leader`, just seen alive, leads; only the process where it
    leads none.
    """
    with suppress(ProcessLookupError):
        if os.getpgid(leader) == leader:
            os.killpg(leader, number)
        else:
            os.kill(leader, number)


def _ended(is_there: Callable[[], bool], limit_s: float) -> bool:
    """Wait until it is not there any more; False where it still is after `limit_s` seconds."""
    end = time.monotonic() + limit_s
    while is_there():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_S)
    return True


def _settle(run: Seen, reason: str) -> None:
    """Write the end of a process that could not write it itself."""
    with suppress(Fault):
        left = state.read(run.run)
        if left is not None and not left.phase.is_end and not left.is_alive:
            ended = replace(left, phase=Phase.TERMINATED, reason=reason, updated_s=time.time())
            state.write(run.run, ended)


def _nothing(run: Seen, stored: RunState, left: str) -> str:
    if stored.phase.is_end:
        return f"{run.name} is {stored.phase}; there was nothing to stop.{left}"
    _settle(run, state.GONE)
    return (
        f"{run.name}: its process (pid {stored.pid}) was gone already. State: "
        f"terminated.{left}{_way_on(run, stored)}"
    )


def _report(after: Seen, before: RunState, left: str) -> str:
    now = after.current or before
    if now.phase is Phase.FINISHED:
        return f"{after.name} had just finished; nothing was cut short.{left}"
    return (
        f"Stopped {after.name} (pid {before.pid}). State: {now.phase}.{left}{_way_on(after, now)}"
    )


def _way_on(run: Seen, now: RunState) -> str:
    rows = (
        f"{now.done} of {now.total} rows"
        if now.done is not None and now.total is not None
        else "Rows so far"
    )
    return (
        f" {rows} are saved; the same command with --resume goes on from there, or evalrun --reuse "
        f"{run.name}."
    )
