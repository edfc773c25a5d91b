"""The port of the server under test: whether it is free, and who holds it."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path

LISTEN = "0A"


def problem(port: int) -> str | None:
    """Why no server could listen on the port of this machine; None where one could."""
    for host in ("127.0.0.1", "0.0.0.0"):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: no wait for old connections
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


def pids_on(port: int) -> list[int]:
    """The processes that listen on the port, as far as they can be seen (Linux; those of other users cannot)."""
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
    return sorted(pid for pid in _pids() if inodes & _open_files(pid)) if inodes else []


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
