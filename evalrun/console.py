"""What evalrun tells the person at the terminal: short lines on stderr, never on stdout."""

from __future__ import annotations

import sys

from evalrun.errors import visible


def say(message: str) -> None:
    """Print one paragraph for the user to stderr, control characters shown as escapes."""
    print(f"evalrun: {visible(message)}", file=sys.stderr, flush=True)
