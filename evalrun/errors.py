"""What can go wrong, and the exit code of each kind.

EvalrunError
├── Fault          2    what was asked for cannot be done; raised before any request is sent
├── TaskFailure    3    one task cannot go on (hub unreachable, engine died); the other tasks do
└── Stopped        130 / 143    SIGINT or SIGTERM; the rows so far are kept
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EvalrunError(Exception):
    """Root of all errors that evalrun raises on purpose.

    Its text is shown to the user as it stands.
    """

    exit_code = 1


class Fault(EvalrunError):
    """A fault in what was asked.

    The text names what was got, what is allowed, where, and the way out.
    """

    exit_code = 2


class TaskFailure(EvalrunError):
    """One task failed for good. The run goes on with the others and ends with exit code 3."""

    exit_code = 3


class Stopped(EvalrunError):
    """SIGINT (130) or SIGTERM (143) ended the run. Rows that were finished are on disk."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name most like `name` (difflib ratio at least 0.5, case ignored), or None."""
    by_fold: dict[str, str] = {}
    for candidate in allowed:
        by_fold.setdefault(candidate.casefold(), candidate)
    hits = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=0.5)
    return by_fold[hits[0]] if hits else None


def unknown(what: str, got: str, allowed: Iterable[str], where: str = "") -> Fault:
    """A Fault for a name that does not exist: names it, the place, the nearest valid name and
    all valid ones.
    """
    names = sorted(set(allowed))
    place = f" in {where}" if where else ""
    hint = nearest(got, names)
    guess = f" Did you mean {hint!r}?" if hint else ""
    shown = ", ".join(names[:40]) + (f", ... ({len(names)} in all)" if len(names) > 40 else "")
    return Fault(f"There is no {what} {visible(got)!r}{place}.{guess} Allowed: {shown or 'none'}.")


def visible(text: str) -> str:
    """`text` with control characters written as escapes, so that foreign text cannot drive a
    terminal.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
