"""A folder of weights: its size, each file once, and a digest that tells two sets of weights
apart.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from evalrun.errors import Fault

BYTES_PER_GB = 1e9
TENSORS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".npz")


@dataclass(frozen=True, slots=True)
class Weights:
    """What lies in a folder.

    Attributes:
        digest: SHA-256 over names and sizes of the files that hold tensors; None without any.
    """

    path: Path
    n_files: int
    n_bytes: int
    digest: str | None

    @property
    def size_text(self) -> str:
        """The size for people."""
        return f"{self.n_bytes / BYTES_PER_GB:,.2f} GB ({self.n_bytes:,} bytes)"


def read(path: Path) -> Weights:
    """Walk the folder, symbolic links followed; a file or folder that is reached twice counts once.

    Fault where it is no folder, holds no file, or a part of it cannot be read.
    """
    if not path.is_dir():
        what = "is a file, not a folder" if path.exists() else "does not exist"
        raise Fault(f"model.weights={path} {what}. Name the folder that holds the model's weights.")
    seen: set[tuple[int, int]] = set()
    named: list[tuple[str, int]] = []
    n_bytes = 0
    folders = [path]
    try:
        while folders:
            folder = folders.pop()
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            for entry in sorted(os.scandir(folder), key=lambda e: e.name):
                size = _size(entry, seen, folders)
                if size is not None:
                    n_bytes += size[1]
                    named.append((str(Path(entry.path).relative_to(path)), size[0]))
    except OSError as cause:
        raise Fault(f"model.weights={path} cannot be read through: {cause}.") from cause
    if not named:
        raise Fault(
            f"model.weights={path} holds no file. Name the folder that holds the model's weights."
        )
    # Other files come and go: servers put caches beside the weights.
    tensors = sorted(
        (name, size) for name, size in named if name.endswith(TENSORS) and not _is_hidden(name)
    )
    digest = (
        hashlib.sha256(repr(tensors).encode("utf-8", "surrogatepass")).hexdigest()
        if tensors
        else None
    )
    return Weights(path, len(named), n_bytes, digest)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def _size(
    entry: os.DirEntry[str], seen: set[tuple[int, int]], folders: list[Path]
) -> tuple[int, int] | None:
    """(size of the file, what it adds to the sum); None for a folder, which is put off, and for
    a broken link.
    """
    try:
        if entry.is_dir():
            folders.append(Path(entry.path))
            return None
        status = os.stat(entry.path)
    except FileNotFoundError:
        return None
    key = (status.st_dev, status.st_ino)
    is_new = key not in seen
    seen.add(key)
    return status.st_size, status.st_size if is_new else 0


def check_size(weights: Weights, max_gb: float) -> None:
    """Fault above the limit. 1 GB is 1,000,000,000 bytes."""
    if weights.n_bytes > max_gb * BYTES_PER_GB:
        raise Fault(
            f"model.weights={weights.path} holds {weights.size_text} in {weights.n_files:,} files, "
            f"more than deploy.max_weights_gb={max_gb:g} allows. Nothing was installed or started."
        )
