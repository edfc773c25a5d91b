"""One writer per cell: a lock file with pid, start time and boot id, held by a kernel lock where
there is one.

Two proofs of life. The kernel's record lock (fcntl) ends with its process however it dies, is not
inherited by its children, and works between containers and over NFS. Where the file system has
none, the text of the file decides: the writer lives if its boot, its pid and that process's start
time are all still there. POSIX only.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

from evalrun.errors import Fault
from evalrun.store.disk import cannot_write, read_small

_HELD: set[Path] = set()  # by this process: a second look at the file would free its kernel lock
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class Lock:
    """The right to write one cell. `note` says what was taken over, None if nothing.

    Fault, naming the pid, while another writer lives. TaskFailure where the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note: str | None = None
        self._key = path.resolve()
        self._fd = -1
        if self._key in _HELD:
            raise self._busy({"pid": os.getpid()})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = self._take()
        except OSError as cause:
            raise cannot_write(path, cause) from cause
        _HELD.add(self._key)

    def release(self) -> None:
        """Remove the file and give the lock up. May be called twice."""
        if self._fd < 0:
            return
        _HELD.discard(self._key)
        self.path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1

    def _take(self) -> int:
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if self._is_ours(fd):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def _is_ours(self, fd: int) -> bool:
        """True when the file behind `fd` is locked, ours, and still the one at the path."""
        is_free = _kernel_lock(fd)
        owner = _parsed(os.pread(fd, 4096, 0))
        if not is_free:
            raise self._busy(owner)
        try:
            if os.stat(self.path).st_ino != os.fstat(fd).st_ino:
                return False
        except FileNotFoundError:
            return False
        if owner and is_alive(owner):
            raise self._busy(owner)
        if owner:
            self.note = (
                f"Took over the lock {self.path} of pid {owner.get('pid')}, which no longer runs."
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(identity(os.getpid())).encode(), 0)
        os.fsync(fd)
        return True

    def _busy(self, owner: dict[str, Any]) -> Fault:
        who = f"pid {owner['pid']}" if "pid" in owner else "another process"
        host = f" on {owner['host']}" if "host" in owner else ""
        return Fault(
            f"Another writer ({who}{host}) is at work on {self.path.with_suffix('.arrow')}; one "
            "run has one writer. Wait for it or end it, or start without --resume for a new "
            f"folder. Its lock is {self.path}."
        )


def owner_of(path: Path) -> dict[str, Any]:
    """The `identity` in a lock file; empty where there is no lock, or none that can be read."""
    try:
        return _parsed(read_small(path, 4096))
    except (OSError, ValueError):
        return {}


def identity(pid: int) -> dict[str, Any]:
    """What tells a process from all others: pid, start time (None where unknown), boot id, host
    name.
    """
    return {
        "pid": pid,
        "started": start_time(pid),
        "boot_id": boot_id(),
        "host": socket.gethostname(),
    }


def is_alive(owner: dict[str, Any]) -> bool:
    """True while the process of an `identity` runs: same boot, pid there and no zombie, same
    start time.
    """
    pid = owner.get("pid")
    if not isinstance(pid, int) or pid <= 0 or owner.get("boot_id") != boot_id():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    started = start_time(pid)
    return started is None or (started != "ended" and started == owner.get("started"))


def start_time(pid: int) -> str | None:
    """Start of a process as its system writes it: clock ticks since boot on Linux. "ended" for a
    zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "ended" if fields[0] in "ZXx" else fields[19]
    except (OSError, IndexError):
        pass
    try:
        asked = ["ps", "-o", "lstart=", "-p", str(pid)]
        return (
            subprocess.run(asked, capture_output=True, text=True, timeout=5).stdout.strip() or None
        )
    except (OSError, subprocess.SubprocessError):
        return None


def boot_id() -> str | None:
    """The id of this boot of the kernel; None where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _kernel_lock(fd: int) -> bool:
    """False where another process holds the file.

    True also where the file system knows no locks.
    """
    import fcntl

    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        if cause.errno in _NO_LOCKS:
            return True
        if cause.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        owner = json.loads(raw)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}
