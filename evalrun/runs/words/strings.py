"""Splitting and quoting of values on the command line."""

from __future__ import annotations

import re
from typing import Any

from evalrun.config.quoting import quoted
from evalrun.errors import Fault

_PAIRS = {"[": "]", "(": ")", "{": "}"}


def split(text: str, separator: str = ",") -> list[str]:
    """`text` cut at separators that stand outside of brackets and quotes.

    Blanks around the parts are dropped.

    A quote opens only where a value may begin, so that the apostrophe of it's is none.
    """
    parts, depth, quote, start, i = [], 0, "", 0, 0
    while i < len(text):
        char = text[i]
        if quote:
            i += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"" and (i == start or text[i - 1] in "[({,:= "):
            quote = char
        elif char in _PAIRS:
            depth += 1
        elif char in _PAIRS.values():
            depth = max(0, depth - 1)
        elif char == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
        i += 1
    return [*parts, text[start:].strip()]


def elements(value: str, key: str) -> tuple[list[str], bool]:
    """(the names in the `value` of `key`, whether it was written as a list): a, [a,b], "a" and
    'a' are read.
    """
    inner = unquote(value.strip())
    is_list = inner.startswith("[")
    if is_list:
        if not inner.endswith("]"):
            raise Fault(f"{key}={value} opens a list and does not close it. Write {key}=[a,b].")
        inner = inner[1:-1]
    names = [unquote(part) for part in split(inner)]
    if not all(names):
        example = "gsm8k,demo_math" if key == "task" else "accuracy,exact_match"
        raise Fault(
            f"{key}={value} holds an empty name. Write one name, or a list such as "
            f"{key}=[{example}]."
        )
    return names, is_list


def unquote(text: str) -> str:
    """`text` without one pair of quotes around it, escapes undone; unchanged where there is
    none.
    """
    if _is_quoted(text):
        # Backslashes count only before a quote and at the end; see config.quoting.
        return re.sub(rf"(\\+)({text[0]}|\Z)", lambda m: "\\" * (len(m[1]) // 2) + m[2], text[1:-1])
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
    """The value of a key whose type is text, quoted so that Hydra keeps 1.10, 007, true, blanks
    and = as text.
    """
    if value in ("null", "") or _is_quoted(value):
        return value
    return quoted(value)


def quoted_texts(value: str) -> str:
    """The value of a key that holds a list of texts: [a,b], or one text, which makes a list of
    one.
    """
    if value == "null":
        return value
    is_list = value.startswith("[") and value.endswith("]")
    parts = split(value[1:-1]) if is_list and value[1:-1].strip() else [] if is_list else [value]
    return "[" + ",".join(p if _is_quoted(p) else quoted(p) for p in parts) + "]"


def _is_quoted(value: str) -> bool:
    return len(value) >= 2 and value[0] in "'\"" and value[-1] == value[0] and _is_one_string(value)


def hydra_value(value: Any) -> str:
    """A Python literal in Hydra's grammar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(hydra_value(v) for v in value) + "]"
    return quoted(value) if isinstance(value, str) else repr(value)
