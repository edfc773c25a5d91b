"""Files that are whole or not there: write beside, fsync, rename, fsync the folder."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evalrun.errors import TaskFailure


def cannot_write(path: Path, cause: BaseException, hint: str = "") -> TaskFailure:
    """The TaskFailure for a write that failed: path, cause, and what became of the rows."""
    return TaskFailure(f"Cannot write {path}: {cause}.{' ' + hint if hint else ''}")


def read_small(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file of at most `most_bytes`; of a pipe, a device, or a larger one
    ValueError.

    Opened without waiting, as a pipe in a foreign folder would never answer. OSError as usual.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes:,} bytes")
    return content


def fsync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` durable.

    File systems that cannot fsync a folder are left alone.
    """
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a path beside `path` to write to; renamed over `path` when the block ends well, removed
    otherwise.

    The name begins with a dot, so that no reader takes it for a file of the run. OSError becomes
    TaskFailure.
    """
    beside = path.parent / f".{path.name[:180]}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        fd = os.open(beside, os.O_RDWR)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(beside, path)
        fsync_folder(path.parent)
    except OSError as cause:
        raise cannot_write(path, cause) from cause
    finally:
        with suppress(OSError):
            beside.unlink()


def write_text_atomic(path: Path, text: str) -> None:
    """Write `text` as UTF-8 (line ends untouched) so that `path` is old or new, never half.

    A lone surrogate, which UTF-8 cannot hold, is written as its escape \\udXXX. TaskFailure on
    OSError.
    """
    with replacing(path) as beside:
        beside.write_bytes(text.encode("utf-8", "backslashreplace"))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold `folder` for a short read-change-write; other processes wait.

    The kernel frees it when we die.

    File systems without such locks give no protection, and no error.
    """
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY)
    except OSError as cause:
        raise cannot_write(folder, cause) from cause
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(fd)
