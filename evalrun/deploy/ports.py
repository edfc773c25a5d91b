"""The port of the server under test: whether it is free, and who holds it."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from pathlib import Path

LISTEN = "0A"
_CLAIM = "evalrun.deploy.port."


def problem(port: int) -> str | None:
    """Why no server could listen on the port of this machine; None where one could."""
    for host in ("127.0.0.1", "0.0.0.0"):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            # as servers do: no wait for old connections
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, port))
            except OSError as cause:
                if cause.errno == errno.EADDRINUSE:
                    holders = pids_on(port)
                    by = f" by pid {', '.join(map(str, holders))}" if holders else ""
                    return f"is taken{by}"
                return f"cannot be used ({cause.strerror})"
    return None


def wait_free(port: int, seconds: float) -> str | None:
    """Like `problem`, after waiting up to `seconds` for the port to become free."""
    until = time.monotonic() + seconds
    while (found := problem(port)) is not None and time.monotonic() < until:
        time.sleep(0.05)
    return found


def claim(port: int) -> socket.socket | None:
    """The right to start a server on the port, among all runs of this machine; None where another
    run has it.

    It lasts until the socket is closed, or its process ends, however that ends. Systems without
    abstract socket names (all but Linux) give no protection.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if sys.platform == "linux":
            sock.bind(f"\0{_CLAIM}{port}")
    except OSError as cause:
        sock.close()
        if cause.errno == errno.EADDRINUSE:
            return None
        raise
    return sock


def claimed_text(port: int) -> str:
    """Who has the claim on the port, to follow "Port N"."""
    holders = _claimed_by(port)
    return "is kept by another run" + (f" (pid {', '.join(map(str, holders))})" if holders else "")


def _claimed_by(port: int) -> list[int]:
    """The processes that have the claim, as far as they can be seen."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError:
        return []
    rows = (line.split() for line in lines)
    return _holding({f"socket:[{row[6]}]" for row in rows if row[7:] == [f"@{_CLAIM}{port}"]})


def pids_on(port: int) -> list[int]:
    """The processes that listen on the port, as far as they can be seen (Linux; those of other
    users cannot).
    """
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return _holding(inodes)


def _holding(sockets: set[str]) -> list[int]:
    """The processes that hold one of these open files."""
    return sorted(pid for pid in _pids() if sockets & _open_files(pid)) if sockets else []


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _open_files(pid: int) -> set[str]:
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    except OSError:
        pass
    return found
