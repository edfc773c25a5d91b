"""The process that starts a command and ends all of it: on request, when the command ends, when
evalrun is gone.

Run as a script, so that it loads the standard library only. Its order is one JSON line on stdin:
argv, env, cwd, log (a file to append to), stop_timeout_s. Stdin then stays open; its end is the
word to stop, whether it was closed or evalrun was killed. Events are JSON lines on stdout: started
(pid), exited (code), ended (code: the command and all its descendants are gone by themselves),
stopped (left: what could not be killed).

On Linux it is a child subreaper: a daemon (nohup, setsid, double fork) of the command becomes its
child and is found.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
POLL_S = 1.0
KILL_LIMIT_S = 10.0


def process_row(pid: int) -> tuple[int, int, str, str] | None:
    """(parent, session, start time in ticks, state letter) of a process; None where it is gone,
    or there is no /proc.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[1]), int(fields[3]), fields[19], fields[0]
    except (OSError, IndexError, ValueError):
        return None


def processes() -> dict[int, tuple[int, int, str, str]]:
    """pid -> row of all processes; empty where there is no /proc."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    return {pid: row for pid in pids if (row := process_row(pid)) is not None}


def descendants(root: int) -> dict[int, str]:
    """pid -> start time of every process below `root` that is no zombie."""
    table = processes()
    below: set[int] = {root}
    while True:
        more = {pid for pid, row in table.items() if row[0] in below} - below
        if not more:
            break
        below |= more
    return {
        pid: table[pid][2] for pid in below - {root} if pid in table and table[pid][3] not in "ZXx"
    }


def signal_exactly(pid: int, start: str, number: int) -> None:
    """Send a signal to the process of that pid and start time, never to a later one of the same
    pid.
    """
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return
    try:
        row = process_row(pid)
        if row is not None and row[2] == start:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        os.close(handle)


def end_all(
    left: Callable[[], dict[int, str]],
    send: Callable[[int, str, int], None],
    term_s: float,
    kill_s: float = KILL_LIMIT_S,
) -> list[int]:
    """TERM to what is left, KILL after `term_s` seconds to what then is; the pids left `kill_s`
    seconds after that.

    Args:
        left: pid -> start time of what still runs, asked again and again.
        send: (pid, start time, signal) -> None.
    """
    signalled: set[tuple[int, str]] = set()
    start = time.monotonic()
    while running := left():
        elapsed = time.monotonic() - start
        if elapsed > term_s + kill_s:
            return sorted(running)
        for pid, begun in running.items():
            if elapsed >= term_s:
                send(pid, begun, signal.SIGKILL)
            elif (pid, begun) not in signalled:
                send(pid, begun, signal.SIGTERM)
                signalled.add((pid, begun))
        time.sleep(0.02)
    return []


class Supervisor:
    """One command and everything that comes of it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.parent = os.getppid()
        self.code: int | None = None
        self.child: subprocess.Popen[bytes] | None = None
        self.has_children = True
        self.is_told = False

    def run(self) -> None:
        """Start the command, wait for its end or the word to stop, leave nothing behind."""
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._start()
        while not self._is_over():
            self._wait(POLL_S)
            self._reap()
            if os.getppid() != self.parent:
                self.is_told = True
        if not self.is_told and not self.code and not self.has_children:
            say(event="ended", code=self.code)
            return
        if self.code is not None:
            say(event="exited", code=self.code)
        say(event="stopped", left=self._end_all())

    def _start(self) -> None:
        self._wake, wakeup = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._told)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        with open(self.order["log"], "ab") as log:
            try:
                self.child = subprocess.Popen(
                    self.order["argv"],
                    env=self.order["env"],
                    cwd=self.order["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            except OSError as cause:
                log.write(f"{self.order['argv'][0]}: {cause}\n".encode())
                self.code, self.has_children = 127, False
                return
        say(event="started", pid=self.child.pid)

    def _told(self, number: int, frame: object) -> None:
        self.is_told = True

    def _is_over(self) -> bool:
        if self.is_told or self.code:
            return True
        return self.code == 0 and not self.has_children

    def _wait(self, seconds: float) -> None:
        """Until a child ends, a signal comes, or stdin does."""
        ready, _, _ = select.select([0, self._wake], [], [], seconds)
        if self._wake in ready:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
        if 0 in ready and not os.read(0, 4096):
            self.is_told = True

    def _reap(self) -> None:
        """Take in every child that has ended, the adopted ones too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if pid == 0:
                self.has_children = True
                return
            if self.child is not None and pid == self.child.pid:
                self.code = self.child.returncode = os.waitstatus_to_exitcode(status)

    def _end_all(self) -> list[int]:
        """End everything that came of the command; the pids that even KILL did not end."""
        return end_all(self._left, self._send, float(self.order["stop_timeout_s"]))

    def _left(self) -> dict[int, str]:
        self._reap()
        if os.path.isdir("/proc/self"):
            return descendants(os.getpid())
        # No /proc: the group of the command is all that can be seen.
        try:
            if self.child is not None:
                os.killpg(self.child.pid, 0)
                return {self.child.pid: ""}
        except OSError:
            pass
        return {}

    def _send(self, pid: int, begun: str, number: int) -> None:
        if begun:
            signal_exactly(pid, begun, number)
        else:
            with suppress(OSError):
                os.killpg(pid, number)


def _die_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def say(**event: Any) -> None:
    """One event for evalrun, which may be gone."""
    with suppress(OSError):
        os.write(1, (json.dumps(event) + "\n").encode())


def main() -> None:
    """Read the order and carry it out."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)  # unbuffered: what comes after belongs to select
        if not byte:
            return
        line += byte
    Supervisor(json.loads(line)).run()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    main()
