"""The small grammar of names and parameters. Each form has one writer and one reader, and they are
inverse.

    list     a, [b,c], 'd,e'            split, elements
    text     'as Hydra quotes it'       quoted, unquote
    value    3  0.5  true  [1,2]  word  write_value, read_value
    pairs    k=10&n=16                  write_pairs, read_pairs
    call     NAME.v2(key=value,...)     write_call, read_call

Two kinds of quoted text exist side by side: values of names are Python literals, values of
overrides follow Hydra, where a backslash counts only before a quote and at the end.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from evalrun.errors import Fault, visible

_KEY = re.compile(r"[A-Za-z_]\w*")
_BARE = re.compile(r"[A-Za-z_][\w./-]*")
_CALL = re.compile(r"(?P<name>\w+)(?:\.v(?P<version>\d+))?(?:\((?P<inner>.*)\))?", re.DOTALL)
_CONSTANTS = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}
_OPEN, _CLOSE, _QUOTES = "([{", ")]}", "'\""
_BEFORE_VALUE = "[({,:= \t\n"
"""After these, and at the start of a part, a quote opens a text; the apostrophe of it's is text."""


class WrittenForm(NamedTuple):
    """A text that is read, for its errors.

    Attributes:
        what: what it should be: a metric, a task, a scorer, a signature.
        text: the whole text.
        form: the right form.
    """

    what: str
    text: str
    form: str

    def broken(self, why: str = "") -> Fault:
        """The fault of a text that is not of this form."""
        detail = f": {why}" if why else ""
        return Fault(
            f"The {self.what} {visible(self.text)!r} cannot be read{detail}. Write {self.form}."
        )


class NamedCall(NamedTuple):
    """NAME.vVERSION(key=value,...), read.

    Attributes:
        version: None where it is not written.
    """

    name: str
    version: int | None
    params: dict[str, Any]


# ---- lists ---------------------------------------------------------------------------------------


def split(text: str, separator: str = ",") -> list[str]:
    """`text` cut at every `separator` outside of brackets and quotes; blanks around parts dropped.

    An unknown closing bracket is text; a quote that never closes reaches to the end.
    """
    parts, depth, quote, start, i = [], 0, "", 0, 0
    while i < len(text):
        char = text[i]
        if quote:
            i += char == "\\"  # an escaped quote does not close
            quote = "" if char == quote else quote
        elif char in _QUOTES and (i == start or text[i - 1] in _BEFORE_VALUE):
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
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


# ---- texts of Hydra's grammar --------------------------------------------------------------------


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


def unquote(text: str) -> str:
    """`text` without one pair of quotes around it, escapes undone; unchanged where there is
    none.
    """
    if is_quoted(text):
        # Hydra's rule: backslashes count only before a quote and at the end.
        return re.sub(rf"(\\+)({text[0]}|\Z)", lambda m: "\\" * (len(m[1]) // 2) + m[2], text[1:-1])
    return text


def is_quoted(text: str) -> bool:
    """Whether `text` is one quoted text: the quote at its start closes at its end, not before."""
    if len(text) < 2 or text[0] not in _QUOTES or text[-1] != text[0]:
        return False
    i = 1
    while i < len(text) - 1:
        if text[i] == "\\":
            i += 1
        elif text[i] == text[0]:
            return False
        i += 1
    return True


def quoted_text(value: str) -> str:
    """The value of a key whose type is text, quoted so that Hydra keeps 1.10, 007, true, blanks
    and = as text.
    """
    return value if value in ("null", "") or is_quoted(value) else quoted(value)


def quoted_texts(value: str) -> str:
    """The value of a key that holds a list of texts: [a,b], or one text, which makes a list of
    one.
    """
    if value == "null":
        return value
    is_list = value.startswith("[") and value.endswith("]")
    parts = split(value[1:-1]) if is_list and value[1:-1].strip() else [] if is_list else [value]
    return "[" + ",".join(p if is_quoted(p) else quoted(p) for p in parts) + "]"


def hydra_value(value: Any) -> str:
    """A Python literal in Hydra's grammar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(hydra_value(v) for v in value) + "]"
    return quoted(value) if isinstance(value, str) else repr(value)


# ---- values and parameters -----------------------------------------------------------------------


def read_value(text: str, form: WrittenForm, is_bare_text_allowed: bool = False) -> Any:
    """A number, a truth value, null, a quoted text, a list of them, or a bare word, which is text.

    Args:
        is_bare_text_allowed: any text without quotes stands for itself (`indicator=####`). Else it
            is a fault.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _BARE.fullmatch(text):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = ...
    if _is_value(value):
        return value
    if is_bare_text_allowed and not any(quote in text for quote in _QUOTES):
        return text
    raise form.broken(f"{visible(text)!r} is neither a Python literal nor a bare word")


def _is_value(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_value, value))
    return value is None or isinstance(value, bool | int | float | str)


def write_value(value: Any) -> str:
    """The text that `read_value` reads as `value`; a tuple is written as a list.

    ValueError for NaN and for anything but numbers, truth values, None, texts and lists.
    """
    if isinstance(value, list | tuple):
        # Inside a list every text is quoted: the whole list is one Python literal.
        inner = (repr(each) if isinstance(each, str) else write_value(each) for each in value)
        return "[" + ",".join(inner) + "]"
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value not in _CONSTANTS else repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise ValueError("NaN is no parameter value")
        return "1e999" if value > 0 else "-1e999"  # a Python literal, unlike inf
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float):
        return float.__repr__(value)  # numpy's own repr names its type
    raise ValueError(
        f"a parameter value must be a number, a truth value, a text or a list, got {value!r}"
    )


def read_pairs(
    parts: Sequence[str], form: WrittenForm, is_bare_text_allowed: bool = False
) -> list[tuple[str, Any]]:
    """PARAMETER=VALUE of every part, in their order. Fault for another form or a name twice."""
    pairs: list[tuple[str, Any]] = []
    for part in parts:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not _KEY.fullmatch(key) or not value:
            raise form.broken(f"{visible(part)!r} is not PARAMETER=VALUE")
        if any(key == seen for seen, _ in pairs):
            raise form.broken(f"{key!r} is given twice")
        pairs.append((key, read_value(value, form, is_bare_text_allowed)))
    return pairs


def write_pairs(pairs: Iterable[tuple[str, Any]], separator: str = "&") -> str:
    """The text that `read_pairs` reads as `pairs` once it is split at `separator`."""
    return separator.join(f"{name}={write_value(value)}" for name, value in pairs)


def name_of_call(text: str) -> str:
    """The name in a call, as far as it can be seen; the whole text where there is none."""
    match = _CALL.fullmatch(text.strip())
    return text if match is None else match["name"]


def read_call(text: str, form: WrittenForm) -> NamedCall:
    """NAME, NAME.v2, NAME(key=value,...) or both. Fault for another form."""
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise form.broken()
    parts = split(match["inner"] or "")
    if parts[-1] == "":  # no parameter, or a comma after the last
        parts.pop()
    params = dict(read_pairs(parts, form, is_bare_text_allowed=True))
    return NamedCall(match["name"], int(match["version"]) if match["version"] else None, params)


def write_call(name: str, version: int | None, pairs: Iterable[tuple[str, Any]]) -> str:
    """The text that `read_call` reads; without parameters there are no brackets."""
    inner = write_pairs(pairs, ",")
    return name + (f".v{version}" if version is not None else "") + (f"({inner})" if inner else "")
