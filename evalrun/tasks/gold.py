"""Which option a gold answer names: by index, letter or text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalrun.tasks.values import as_text

GOLD_FORMS = ("auto", "index", "letter", "text", "flags")


def gold_places(
    value: Any, choices: Sequence[str], form: str, base: int
) -> dict[str, tuple[int, ...]]:
    """Reading -> the options (from 0) that a gold answer names by it; a whole number is an index in
    `auto`.

    Args:
        form: index (a whole number or its digits, counted from `base`), letter (A, a, (A), A.),
            text (equal to the option; every equal option is named), or auto (all of them; readings
            that agree count once).
    """
    is_whole = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and float(value).is_integer()
    )
    forms = (form,) if form != "auto" else ("index",) if is_whole else ("index", "letter", "text")
    readers = {"index": _by_index, "letter": _by_letter, "text": _by_text}
    found: dict[str, tuple[int, ...]] = {}
    for name in forms:
        places = readers[name](value, choices, base)
        if places and places not in found.values():
            found[name] = places
    return found


def _by_index(value: Any, choices: Sequence[str], base: int) -> tuple[int, ...]:
    text = (as_text(value) or "").strip()
    if isinstance(value, bool):
        return ()
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    if not (text.isascii() and text.lstrip("-").isdigit() and len(text) < 10):
        return ()
    place = int(text) - base
    return (place,) if 0 <= place < len(choices) else ()


def _by_letter(value: Any, choices: Sequence[str], base: int) -> tuple[int, ...]:
    if not isinstance(value, str):
        return ()
    text = value.strip()
    bare = text[1:-1] if text[:1] == "(" and text[-1:] == ")" else text.rstrip(".)")
    place = (
        ord(bare.upper()) - ord("A") if len(bare) == 1 and bare.isascii() and bare.isalpha() else -1
    )
    return (place,) if 0 <= place < len(choices) else ()


def _by_text(value: Any, choices: Sequence[str], base: int) -> tuple[int, ...]:
    text = as_text(value)
    if text is None:
        return ()
    if isinstance(value, bool):
        choices = [each.strip().lower() for each in choices]
    exact = tuple(i for i, each in enumerate(choices) if each == text)
    return exact or tuple(i for i, each in enumerate(choices) if each.strip() == text.strip())


def letters_of(n: int) -> tuple[str, ...]:
    """A, B, ... Z, AA, AB, ...: one per option."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return tuple(
        alphabet[i] if i < 26 else alphabet[i // 26 - 1] + alphabet[i % 26] for i in range(n)
    )
