"""Which option a gold answer names: by index, letter or text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def fitting_bases(rows: Iterable[tuple[Sequence[Any], Sequence[str]]], form: str) -> list[int]:
    """The bases, of 0 and 1, by which every index among the gold answers names an option.

    Both where nothing decides, and none where no answer is an index or neither base fits.

    Args:
        rows: (gold answers, options) of each document.
        form: index, or auto, where a number that is also an option's text is no index.
    """
    fitting = [0, 1]
    has_index = False
    for values, choices in rows:
        for value in values:
            if form == "auto" and _by_text(value, choices, 0):
                continue
            number = _whole_number(value)
            if number is None:
                continue
            has_index = True
            fitting = [base for base in fitting if 0 <= number - base < len(choices)]
    return fitting if has_index else []


def _whole_number(value: Any) -> int | None:
    text = (as_text(value) or "").strip()
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    is_number = text.isascii() and text.lstrip("-").isdigit() and len(text) < 10
    return int(text) if is_number else None


def _by_index(value: Any, choices: Sequence[str], base: int) -> tuple[int, ...]:
    number = _whole_number(value)
    if number is None:
        return ()
    return (number - base,) if 0 <= number - base < len(choices) else ()


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
