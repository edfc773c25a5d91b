"""Names of models and tasks as path components."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from evalrun.errors import Fault, visible

MAX_NAME_BYTES = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_OURS = re.compile(r"(\.docs|\.times|\.\d+|-[0-9a-f]{6})$", re.IGNORECASE)
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def safe_name(name: str) -> str:
    """One path component for `name`: only A-Z a-z 0-9 . _ -, at most 100 bytes, no leading or last
    dot.

    A name that is safe stays as it is. Otherwise what is unsafe becomes `_`, the rest is cut, and
    the first 6 hex digits of sha256(name) are appended; so do names that look like ours (`x.docs`,
    `x.times`, `x.3`, `x-0a1b2c`) and Windows devices. Distinct names give distinct results (but for
    a 1 in 2^24 chance per pair of hashed names). Names that were hashed stay distinct where case is
    ignored; two plain names that differ in case only (`Qwen`, `qwen`) do not: `refuse_clashes`
    names them before a run, and files carry the original name.
    """
    safe = _UNSAFE.sub("_", name)
    if safe.startswith("."):
        safe = "_" + safe[1:]
    if _DEVICE.match(safe):
        safe = "_" + safe
    is_plain = bool(name) and safe == name and len(safe) <= MAX_NAME_BYTES
    if is_plain and not name.endswith(".") and not _OURS.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{safe[: MAX_NAME_BYTES - 7] or '_'}-{digest}"


def refuse_clashes(names: Iterable[str], what: str) -> None:
    """Fault where two of `names` are equal, or would share files on a disk that ignores case."""
    seen: dict[str, str] = {}
    for name in names:
        path = safe_name(name).casefold()
        if path in seen:
            other = seen[path]
            how = (
                "is given twice"
                if other == name
                else f"and {visible(other)!r} would share the file name {path!r}"
            )
            raise Fault(
                f"The {what} {visible(name)!r} {how}. Names of a run must differ, also with case "
                "ignored."
            )
        seen[path] = name
