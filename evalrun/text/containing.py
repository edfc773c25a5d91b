"""Where a text stands inside another as whole words."""

from __future__ import annotations

import re
import unicodedata

# Scripts whose words are not set apart by blanks, or carry particles without one (Korean): there a
# word may begin and end anywhere.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


def whole_words(part: str, text: str, is_case_ignored: bool = True) -> tuple[int, int] | None:
    """(start, end) of the first place where `part` stands in `text` as whole words; None where it
    does not, and for a part without any character.

    Blanks at the ends of `part` do not count, and any run of white space equals another. Letters
    and digits beside the place belong to other words, except in scripts without blanks; a digit
    after a decimal point or a comma, and a minus sign, belong to the number.
    """
    pieces = part.split()
    if not pieces:
        return None
    flags = re.IGNORECASE if is_case_ignored else 0
    pattern = re.compile(r"\s+".join(map(re.escape, pieces)), flags)
    match = pattern.search(text)
    while match is not None:
        if _is_free_before(text, match.start()) and _is_free_after(text, match.end()):
            return match.span()
        match = pattern.search(text, match.start() + 1)
    return None


def _is_free_before(text: str, start: int) -> bool:
    if start == 0 or not _is_word(text[start]):
        return True
    before, first = text[start - 1], text[start]
    earlier = text[start - 2] if start > 1 else " "
    if first.isdigit() and before in ".,":
        return not earlier.isdigit()
    if first.isdigit() and before in "-\u2212":  # -5 is another number than 5; 3-5 is a range
        return _is_word(earlier)
    return not _is_one_word(before, first)


def _is_free_after(text: str, end: int) -> bool:
    if end == len(text):
        return True
    last, after = text[end - 1], text[end]
    if last.isdigit() and after in ".,":
        return not text[end + 1 : end + 2].isdigit()
    return not _is_one_word(last, after)


def _is_one_word(left: str, right: str) -> bool:
    """Whether two neighbouring characters belong to one word."""
    is_joined = _is_word(left) and _is_word(right)
    return is_joined and not (_UNSPACED.match(left) or _UNSPACED.match(right))


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] == "M"
