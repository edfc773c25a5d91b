"""Calls that workers are given: good ones, and all ways to go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def add(one: int, other: int) -> int:
    """The sum."""
    return one + other


def act(what: str) -> object:
    """Do as told."""
    if what == "power":  # one operation of C that never ends and never lets another thread run
        return 9**9**9**9
    if what == "sleep":
        time.sleep(60)
    if what == "exit":
        os._exit(3)
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "raise":
        raise ValueError("no such thing")
    if what == "quit":
        sys.exit(4)
    if what == "unsendable":
        return lambda: 1
    if what == "hungry":
        return len(b"x" * (8 << 30))
    if what == "deep":
        return act_deep(1)
    return what


def act_deep(level: int) -> int:
    """Never comes back."""
    return act_deep(level + 1)


def note_and_hang(folder: str, how: str) -> None:
    """Leave the worker's process id in a file, then never end."""
    (Path(folder) / str(os.getpid())).touch()
    act(how)


def hang_with_child(folder: str) -> None:
    """As `note_and_hang`, with a process of its own that hangs too."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (Path(folder) / str(child.pid)).touch()
    time.sleep(60)


def pid() -> int:
    """The worker's process id."""
    return os.getpid()


def slowly() -> None:
    """A preparation that takes longer than the calls may."""
    time.sleep(0.5)


def badly() -> None:
    """A preparation that fails."""
    raise ImportError("no module named x")
