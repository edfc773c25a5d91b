"""Arguments of a Python call -> the words of a command line that says the same."""

from __future__ import annotations

import numbers
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evalrun.errors import Fault, visible
from evalrun.grammar import quoted
from evalrun.planning.secrets import refuse_in_overrides
from evalrun.runs.words.arguments import GROUPS, Arguments, read
from evalrun.runs.words.flags import SHOWN

ALLOWED = "str, int, float, bool, None, a path, or a list or dict of them"
_DICT_KEY = re.compile(r"[A-Za-z_][\w ./-]*(?<! )")
_BARE = re.compile(r"[A-Za-z_][\w./-]*")
_NOT_TEXT = ("null", "true", "false", "nan", "inf")  # bare words that Hydra does not read as text


def arguments_of(words: Sequence[str], settings: Mapping[str, Any], caller: str) -> Arguments:
    """The arguments that the same command line would have. Fault for what it would refuse, and
    for a sweep or a flag that only prints.

    Args:
        words: overrides as they are typed on the command line.
        settings: key -> value; keys as on the command line, `config_dir` for its flag.
        caller: the function, for errors.
    """
    typed = words_of(words, settings)
    refuse_in_overrides(typed)
    arguments = read(typed)
    if arguments.is_sweep:
        raise Fault(
            f"{caller} makes one run, and -m many. Call it once for each model and task; a sweep "
            "with its joint summary is a command: evalrun -m model=a,b task=c,d."
        )
    if shown := SHOWN & set(arguments.hydra_flags):
        raise Fault(f"{sorted(shown)[0]} only prints; it is for the command line.")
    return arguments


def words_of(words: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Overrides and settings as the words of a command line."""
    for word in words:
        if not isinstance(word, str):
            raise Fault(
                f"{visible(repr(word))} is not an override such as 'task=gsm8k@k=2&n=8'. Values go "
                "by keyword: limit=16."
            )
    found = list(words)
    for key, value in settings.items():
        if not key or "=" in key or key[0] in "+~-":
            raise Fault(f"{visible(repr(key))} is not the name of a setting, such as model.path.")
        if key == "config_dir":
            found += [] if value is None else ["--config-dir", os.fspath(value)]
        elif key in (*GROUPS, "mode"):  # names, as they are typed; None says nothing
            found += [] if value is None else [f"{key}={_name(value, key)}"]
        else:
            found.append(f"{key}={_value(value, key)}")
    return found


def _name(value: Any, key: str) -> str:
    """A choice, or a list of them."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return "[" + ",".join(quoted(name) for name in value) + "]"
    raise Fault(f"{key}={visible(repr(value))}: allowed are a name or a list of names.")


def _value(value: Any, key: str) -> str:
    """A value in Hydra's grammar. Text is quoted where it would not stay text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        is_bare = _BARE.fullmatch(value) and value.casefold() not in _NOT_TEXT
        return str(value) if is_bare else quoted(value)
    if isinstance(value, os.PathLike):
        return quoted(os.fspath(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, list | tuple):
        return "[" + ",".join(_value(each, key) for each in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_dict_key(name, key)}: {_value(v, key)}" for name, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    raise Fault(
        f"{key}={visible(repr(value))} is a {type(value).__name__}, which no setting holds. "
        f"Allowed: {ALLOWED}."
    )


def _dict_key(name: Any, key: str) -> str:
    is_text = isinstance(name, str) and _DICT_KEY.fullmatch(name)
    if not is_text or name.casefold() in _NOT_TEXT:
        raise Fault(
            f"{key} holds the key {visible(repr(name))}; allowed are letters, digits, blanks and "
            "_ . / -, a letter first."
        )
    return str(name)
