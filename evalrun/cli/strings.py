"""Splitting and quoting of values on the command line."""

from __future__ import annotations

from typing import Any

from evalrun.config.quoting import quoted
from evalrun.errors import Fault

_PAIRS = {"[": "]", "(": ")", "{": "}"}


def split(text: str, separator: str = ",") -> list[str]:
    """`text` cut at separators that stand outside of brackets and quotes. Blanks around the parts are dropped."""
    parts, depth, quote, start = [], 0, "", 0
    for i, char in enumerate(text):
        if quote:
            if char == quote and text[i - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _PAIRS:
            depth += 1
        elif char in _PAIRS.values():
            depth = max(0, depth - 1)
        elif char == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def elements(value: str) -> tuple[list[str], bool]:
    """(the names in `value`, whether it was written as a list): a, [a,b], "a" and 'a' are read."""
    inner = unquote(value.strip())
    is_list = inner.startswith("[")
    if is_list:
        if not inner.endswith("]"):
            raise Fault(f"{value!r} opens a list and does not close it. Write [a,b].")
        inner = inner[1:-1]
    names = [unquote(part) for part in split(inner)]
    if not all(names):
        raise Fault(f"{value!r} holds an empty name. Write one name, or a list such as [gsm8k,demo_math].")
    return names, is_list


def unquote(text: str) -> str:
    """`text` without one pair of quotes around it, escapes undone; unchanged where there is none."""
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0] and _is_one_string(text):
        return text[1:-1].replace(f"\\{text[0]}", text[0]).replace("\\\\", "\\")
    return text


def _is_one_string(text: str) -> bool:
    quote, i = text[0], 1
    while i < len(text) - 1:
        if text[i] == "\\":
            i += 1
        elif text[i] == quote:
            return False
        i += 1
    return True


def quoted_text(value: str) -> str:
    """The value of a key whose type is text, quoted so that Hydra keeps 1.10, 007, true, blanks and = as text."""
    if value in ("null", "") or (len(value) >= 2 and value[0] in "'\"" and _is_quoted(value)):
        return value
    return quoted(value)


def _is_quoted(value: str) -> bool:
    return value[-1] == value[0] and _is_one_string(value)


def hydra_value(value: Any) -> str:
    """A Python literal in Hydra's grammar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(hydra_value(v) for v in value) + "]"
    return quoted(value) if isinstance(value, str) else repr(value)
