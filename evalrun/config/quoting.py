"""Text as one quoted string of Hydra's override grammar."""

from __future__ import annotations


def quoted(text: str) -> str:
    """`text` in single quotes: quotes are escaped, backslashes before a quote (or at the end)
    doubled.
    """
    out, run = [], 0
    for char in text:
        if char == "\\":
            run += 1
            continue
        out.append("\\" * (run * 2 if char == "'" else run))
        out.append("\\'" if char == "'" else char)
        run = 0
    out.append("\\" * (run * 2))
    return "'" + "".join(out) + "'"
