"""A run folder as a zip archive: what the report consists of, and nothing that leads out of the
folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalrun.errors import Fault
from evalrun.store.disk import replacing
from evalrun.store.layout import Run, archive_files

PARTS = (
    "configs",
    "logs",
    "predictions",
    "judgements",
    "verdicts",
    "results",
    "summary",
    "state.json",
)
"""What a report consists of.

Anything else in the folder (the home of a server, an environment) stays out.
"""

_CHUNK_BYTES = 1 << 20
_SETTLE = 5


@dataclass(frozen=True)
class Packed:
    """What was written.

    Attributes:
        left_out: names of the folder that are not in the archive, with the reason.
    """

    archive: Path
    logs: Path
    n_files: int
    left_out: tuple[str, ...]


class _Gone(Exception):
    """A file went away, or became a link, while it was packed: a running run had put its rows
    together.
    """


def digits(identity: Sequence[str]) -> str:
    """32 hex digits of what makes a run this run: the same each time it is packed, also after a
    resume.
    """
    return hashlib.sha256("\0".join(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def pack(run: Run, folder: Path, name: str, secrets: Sequence[tuple[str, str]] = ()) -> Packed:
    """Write folder/<name>.zip (everything) and <name>_logs.zip (logs only), with <name>/ as the top
    folder of both.

    Args:
        secrets: (where it comes from, value).

    Fault where a file holds such a value. TaskFailure on OSError. Archives are renamed into place
    when both are whole.
    """
    archive, logs = archive_files(folder, name)
    needles = [(label, value.encode()) for label, value in secrets if value]
    for _ in range(_SETTLE):
        try:
            left_out: list[str] = []
            files = list(_files(run.path, left_out))
            only_logs = [path for path in files if path.relative_to(run.path).parts[0] == "logs"]
            with replacing(archive) as whole, replacing(logs) as part:
                _write(whole, run.path, files, name, needles)
                _write(part, run.path, only_logs, name, needles)
            n_files = sum(not path.is_dir() for path in files)
            return Packed(archive, logs, n_files, tuple(left_out))
        except _Gone:
            continue
    raise Fault(
        f"{run.path} changes faster than it can be packed. Try again, or wait until the run has "
        "ended."
    )


def _files(root: Path, left_out: list[str]) -> Iterator[Path]:
    """Folders and regular files of the parts, in a fixed order. What is left out is listed."""
    for path in sorted(_listed(root)):
        if path.name in PARTS:
            yield from _below(path, root, left_out)
        elif not _is_ours_for_now(path):
            left_out.append(f"{path.name} (no part of the report)")


def _below(path: Path, root: Path, left_out: list[str]) -> Iterator[Path]:
    mode = _mode(path)
    if stat.S_ISLNK(mode):
        left_out.append(f"{path.relative_to(root)} (a link, which is not followed)")
    elif stat.S_ISDIR(mode):
        yield path
        for inner in sorted(_listed(path)):
            yield from _below(inner, root, left_out)
    elif not stat.S_ISREG(mode):
        left_out.append(f"{path.relative_to(root)} (no regular file)")
    elif not _is_ours_for_now(path):
        yield path


def _is_ours_for_now(path: Path) -> bool:
    """A lock, or a file that is being written beside its place."""
    return path.suffix == ".lock" or (path.name.startswith(".") and path.suffix == ".tmp")


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError as cause:
        raise _Gone from cause


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError as cause:
        raise _Gone from cause


def _write(
    beside: Path, root: Path, files: Sequence[Path], name: str, needles: Sequence[tuple[str, bytes]]
) -> None:
    with zipfile.ZipFile(
        beside, "w", zipfile.ZIP_DEFLATED, allowZip64=True, strict_timestamps=False
    ) as archive:
        for path in [root, *files]:
            inner = (
                (Path(name) / path.relative_to(root))
                .as_posix()
                .encode("utf-8", "backslashreplace")
                .decode()
            )
            try:
                info = zipfile.ZipInfo.from_file(path, inner, strict_timestamps=False)
                if info.is_dir():
                    archive.writestr(info, b"")
                else:
                    info.compress_type = zipfile.ZIP_DEFLATED
                    _copy(path, archive, info, needles)
            except OSError as cause:
                if cause.errno in (errno.ENOENT, errno.ELOOP):
                    raise _Gone from cause
                raise


def _copy(
    path: Path,
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    needles: Sequence[tuple[str, bytes]],
) -> None:
    """One file, in pieces. O_NOFOLLOW: it may have become a link since it was listed."""
    overlap = max((len(value) for _, value in needles), default=1) - 1
    with (
        os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source,
        archive.open(info, "w", force_zip64=True) as target,
    ):
        tail = b""
        while chunk := source.read(_CHUNK_BYTES):
            seen = tail + chunk
            for label, value in needles:
                if value in seen:
                    raise Fault(
                        f"{path} holds the value of {label}, so it was not packed. Take it out of "
                        "the file."
                    )
            tail = seen[len(seen) - overlap :] if overlap else b""
            target.write(chunk)
