"""The option that a text states as its answer to a multiple-choice question."""

from __future__ import annotations

from collections.abc import Sequence

from evalrun.reading.base import Reading, Reason, check_several
from evalrun.reading.cues import OTHER_SCRIPTS
from evalrun.reading.letters.letter_choice import decide, shifted
from evalrun.reading.letters.letter_cues import find_cues
from evalrun.reading.letters.letter_hints import find_hints
from evalrun.reading.letters.letter_lines import find_lines
from evalrun.reading.letters.letter_right import find_called_right
from evalrun.reading.letters.letter_statement import Force, Statement
from evalrun.reading.letters.letter_text import find_texts
from evalrun.reading.numbers.number_cut import looks_cut
from evalrun.reading.numbers.number_view import after_thought
from evalrun.reading.run_on import run_on

MAX_LETTERS = 26

# Full-width letters and marks keep their place in the text.
_ASCII = {0xFF21 + i: chr(65 + i) for i in range(26)} | {0xFF41 + i: chr(97 + i) for i in range(26)}
_ASCII |= dict(zip(map(ord, "（）：．［］＊＝／"), "():.[]*=/", strict=True))


def read_letter(
    text: str,
    options: Sequence[str] | int | None = None,
    *,
    truncated: bool | None = None,
    several: str = "wrong",
) -> Reading:
    r"""Read the option that `text` states.

    Every place that names an option is weighed; the strongest statement wins, of equals the last.
    A letter that merely stands somewhere states nothing.

    Args:
        text: the answer of a model; a thought in tags is passed over.
        options: texts of the options, or how many there are; None: 26 letters.
        truncated: whether the text was cut off; None: judged from the text.
        several: what several stated answers mean: wrong (value None, reason several), first, last.

    Raises:
        ValueError: more than 26 options or fewer than one; an unknown word for `several`.
    """
    allowed = _allowed(options)
    check_several(several)
    start, is_open = after_thought(text)
    if is_open:
        return Reading(None, reason=Reason.CUT)
    body = text[start:]
    stop = run_on(body)
    body = body if stop is None else body[:stop]
    statements = find_statements(body, _texts(options))
    is_cut = False
    if all(each.force is Force.HINT for each in statements):
        is_cut = stop is None and (looks_cut(body) if truncated is None else truncated)
    return shifted(decide(body, statements, allowed, is_cut=is_cut, several=several), start)


_LETTERS = [frozenset(chr(65 + i) for i in range(count)) for count in range(MAX_LETTERS + 1)]


def _allowed(options: Sequence[str] | int | None) -> frozenset[str]:
    """The letters of the options."""
    if options is None:
        count = MAX_LETTERS
    else:
        count = options if isinstance(options, int) else len(options)
    if not 1 <= count <= MAX_LETTERS:
        raise ValueError(f"options must be 1 to {MAX_LETTERS}, got {count}")
    return _LETTERS[count]


def _texts(options: Sequence[str] | int | None) -> Sequence[str] | None:
    """The texts of the options; None where they are not known, or are the letters themselves."""
    if options is None or isinstance(options, int):
        return None
    return options if any(len(option.strip()) > 1 for option in options) else None


def find_statements(body: str, options: Sequence[str] | None = None) -> list[Statement]:
    """All statements of a text in the order of the places that they name."""
    plain = body if body.isascii() else body.translate(_ASCII)
    low = plain.lower()
    if len(low) != len(plain):  # a few capitals have two small characters
        low = "".join(char.lower()[:1] for char in plain)
    has_scripts = not low.isascii() and OTHER_SCRIPTS.search(low) is not None
    found, opened = find_cues(plain, low, has_scripts=has_scripts)
    found += find_lines(plain, low, options)
    found += find_called_right(plain, low, has_scripts)
    last_named = max((each.end for each in found), default=-1)
    found += find_texts(plain, low, opened, options, has_scripts=has_scripts, last_named=last_named)
    if all(each.force is Force.HINT for each in found):
        found += find_hints(plain, low)
    return sorted(found, key=lambda each: (each.names[0].at if each.names else each.at, each.at))
