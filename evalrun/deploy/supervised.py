"""A command under a supervisor, as evalrun sees it: started, watched, ended with all that came
of it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evalrun.deploy import leftover, supervisor
from evalrun.errors import TaskFailure, visible

LAST_LINES = 15
LONGEST_TAIL_BYTES = 65536
_CREDENTIALS = re.compile(r"://[^/\s@'\"]+@")
START_LIMIT_S = 30.0
SPARE_S = 5.0


class Supervised:
    """A running command. `ended` is set when it has ended by itself; `how` then says how, in words.

    name: what the command is called in messages. log: its output is appended to this file. on_end:
    called once, from another thread, when the command ends by itself.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        stop_timeout_s: float,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.log = log
        self.pid: int | None = None
        self.code: int | None = None
        self.how = ""
        self.ended = threading.Event()
        self._home = Path(env["HOME"]) if "HOME" in env else None
        self._limit_s = stop_timeout_s + supervisor.KILL_LIMIT_S + SPARE_S
        self._on_end = on_end
        self._started = threading.Event()
        self._left: list[int] = []
        self._is_orderly = self._is_stopping = False
        log.parent.mkdir(parents=True, exist_ok=True)
        self._offset = log.stat().st_size if log.exists() else 0
        passed = ("PATH", "LANG", "LD_LIBRARY_PATH")
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", supervisor.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={key: os.environ[key] for key in passed if key in os.environ},
                start_new_session=True,
            )
        order = {"argv": list(argv), "env": dict(env), "cwd": str(cwd), "log": str(log.resolve())}
        self._tell(json.dumps({**order, "stop_timeout_s": stop_timeout_s}) + "\n")
        self._reader = threading.Thread(target=self._read, name="supervisor", daemon=True)
        self._reader.start()

    @property
    def supervisor_pid(self) -> int:
        """The process that ends the command when evalrun is gone."""
        return self._process.pid

    def wait_started(self) -> None:
        """Until the command has its process, or it is known that it will have none."""
        self._started.wait(START_LIMIT_S)

    def stop(self) -> list[int]:
        """End the command and all its descendants.

        The pids that could not be ended. May be called twice.
        """
        self._is_stopping = True
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            self._process.wait(self._limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(SPARE_S)
        return self._left

    def tail(self) -> str:
        """The last lines that the command wrote, control characters shown; a word where it wrote
        none.

        Credentials inside URLs are masked: this text goes into reports.
        """
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._offset, size - LONGEST_TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError as cause:
            return f"its output {self.log} cannot be read: {cause}"
        text = _CREDENTIALS.sub("://***@", text)
        lines = [visible(line.rstrip())[:500] for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-LAST_LINES:]) or "(it wrote nothing)"

    def failure(self) -> TaskFailure:
        """What to raise where the command has ended: how, and its last lines."""
        return TaskFailure(f"{self.name} {self.how}. Its last lines ({self.log}):\n{self.tail()}")

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died: seen by the reader

    def _read(self) -> None:
        """The supervisor's events, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "started":
                self.pid = int(event["pid"])
                self._started.set()
            elif event["event"] in ("exited", "ended"):
                self._is_orderly = self._is_orderly or event["event"] == "ended"
                self._over(event["code"])
            else:
                self._is_orderly = True
                self._left = [int(pid) for pid in event["left"]]
        if not self._is_orderly:
            if self.pid is not None:
                kill_session(self.pid)
                if self._home is not None:
                    self._left = leftover.end(self._home, 0.0)
            self._over(None)
        self._started.set()

    def _over(self, code: int | None) -> None:
        if self.ended.is_set():
            return
        self.code, self.how = code, ended_text(code)
        self.ended.set()
        if not self._is_stopping:
            self._on_end()


def ended_text(code: int | None) -> str:
    """How a command ended, by its exit code (negative: a signal; None: its supervisor was
    killed).
    """
    if code is None:
        return "was ended, as its supervisor was killed"
    if code == 0:
        return "ended with exit code 0, and no process of it is left"
    if code < 0:
        number = -code
        known = {item.value for item in signal.Signals}
        return f"was ended by signal {signal.Signals(number).name if number in known else number}"
    return f"ended with exit code {code}"


def kill_session(session: int) -> None:
    """KILL to all processes of a session whose supervisor is gone.

    A session's number is given to no other process while a member lives.
    """
    found = [(pid, row[2]) for pid, row in supervisor.processes().items() if row[1] == session]
    for pid, start in found:
        supervisor.signal_exactly(pid, start, signal.SIGKILL)


def run_to_end(command: Supervised, limit_s: float, limit: str) -> None:
    """Wait for a command that should end well.

    TaskFailure where it does not, or not within `limit_s` (in words).
    """
    try:
        if not command.ended.wait(limit_s):
            raise TaskFailure(
                f"{command.name} has not ended within {limit}. Its last lines "
                f"({command.log}):\n{command.tail()}"
            )
        if command.code != 0:
            raise command.failure()
    finally:
        command.stop()
