"""Orphaned processes of a run's deploy.sh, found by the HOME that only this run sets (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

from evalrun.deploy import supervisor

HOME = Path("deploy", "home")
"""HOME of the server within the run folder."""


def home_of(run_folder: Path) -> Path:
    """The HOME that the server of a run has."""
    return run_folder.resolve() / HOME


def found(home: Path) -> dict[int, str]:
    """pid -> start time of every living process of this user whose environment has that HOME."""
    mark = b"\0HOME=" + os.fsencode(home) + b"\0"
    return {
        pid: row[2]
        for pid, row in supervisor.processes().items()
        if row[3] not in "ZXx" and mark in _environment(pid)
    }


def _environment(pid: int) -> bytes:
    try:
        return b"\0" + Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
    except OSError:
        return b""


def end(home: Path, term_s: float, kill_s: float = supervisor.KILL_LIMIT_S) -> list[int]:
    """TERM to what is found, KILL after `term_s` seconds to what is then left; the pids that
    even that did not end.
    """
    return supervisor.end_all(lambda: found(home), supervisor.signal_exactly, term_s, kill_s)
