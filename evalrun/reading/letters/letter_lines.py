"""Boxes, and lines that are only an option: the whole text, the first line, the last one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evalrun.reading.letters.letter_names import Name, name_at, skip_fill, with_list
from evalrun.reading.letters.letter_statement import Force, Statement
from evalrun.reading.letters.letter_text import plain_option
from evalrun.text.formulas import boxes

_LINE = re.compile(
    r"[\s*_`\"'“‘(\[{$<>#✅✔✓☑👉→➡️-]{0,12}(?:\\[a-z]{2,10}\{){0,3}(?:(?i:option|choice|answer|ans"
    r"|a)[ \t:.]{1,3})?[*(\[]{0,3}"
    r"(?P<letter>[A-Za-z])[\s*_`\"'”’)\]}$.:。>!！?✅✔✓]{0,12}"
)
_LETTER_LINE = re.compile(r"[ \t*_#>]{0,6}[(]?(?P<item>[A-Z])[).:、]")
_NEXT_POINT = re.compile(r"[ \t*_#>]{0,6}[(]?(?P<item>[A-Z])(?:[).:、]|\s{0,3}$)")
_OPTION_LINE = re.compile(
    r"[\s*_>#\"'`✅✔✓☑👉→➡️-]{0,8}(?:(?:(?i:option|choice|answer)|选项|答案)[ \t:]{0,3})?"
    r"[*(\[]{0,3}(?P<letter>[A-Za-z])(?:[)\]*]{1,3}[.):、,]?|[.):、,]|[ \t][-–—:])"
    r"[)*_ \t]{0,4}[-–—:]?[ \t*_]{0,4}(?P<rest>[^\n]{1,300})"
)
_HEAD_MARK = re.compile(
    r"[\s*_]{0,4}(?:(?:[(]?[A-Z][).:、]|[a-z][.)](?=.{0,40}$))[ \t*_]{1,4}|(?:(?i:option|choice)"
    r"|选项|答案)\s?[(]?[A-Z][):.]?\s)"
    r"(?!(?:best|provides|matches|fits|is|are|was|does|has|can|cannot|would|states?|says?|means?"
    r"|describes?)\b)\S[^\n]{0,100}\s{0,4}"
)
_MOST = 340


_DOUBLE = re.compile(r"\[\[\s{0,2}[(]?(?P<letter>[A-Za-z])[)]?\s{0,2}\]\]")


def find_lines(text: str, low: str, options: Sequence[str] | None) -> Iterator[Statement]:
    """Statements of boxes and of lines that are only an option. Linear time."""
    yield from _boxes(text, low)
    if "[[" in text:
        for match in _DOUBLE.finditer(text):
            at = match.start("letter")
            name = Name(match["letter"].upper(), at, match.end(), "wrapped")
            yield Statement(match.start(), match.end(), (name,), "box", Force.STATED)
    yield from _lone_lines(text, options)


def _boxes(text: str, low: str) -> Iterator[Statement]:
    if "boxed" not in low and "fbox" not in low:
        return
    for start, end in boxes(text):
        if end - start > 200:
            continue
        begin = min(skip_fill(low, start), end)
        name = name_at(text, low, begin, start - 1) if begin < end else None
        if name is None or not _fills_box(text, name, end):
            continue
        names = [each for each in with_list(text, low, name) if each.at < end]
        yield Statement(start, end, tuple(names), "box", Force.STATED)


def _fills_box(text: str, name: Name, end: int) -> bool:
    """The box holds the letter alone, `B. text`, or several letters."""
    rest = text[name.at + 1 : end].strip(" )}]*_.$\\\"'")
    mark = text[name.at + 1 : name.at + 2]
    return (
        not rest
        or mark in tuple(".):")
        or (mark in tuple(", ") and re.match(r"\W{0,4}(?:and|or|[A-Z])\b", rest) is not None)
    )


def _lone_lines(text: str, options: Sequence[str] | None) -> Iterator[Statement]:
    """A line that is only a letter, or a letter and the text of its option."""
    stop = len(text.rstrip())
    begin = len(text) - len(text.lstrip())
    if begin >= stop:
        return
    whole = _alone(text, begin, stop) or _option(text, begin, stop, options, may_go_on=True)
    if whole is not None:
        yield Statement(begin, stop, (whole,), "whole", Force.STATED)
        return
    last = text.rfind("\n", 0, stop) + 1
    if last > begin:
        name = _alone(text, last, stop) or _option(text, last, stop, options)
        if name is not None and _may_be_last(text, last, name):
            yield Statement(last, stop, (name,), "last_line", Force.STATED)
    first = text.find("\n", begin, begin + _MOST)
    end = stop if first < 0 else first
    name = _alone(text, begin, end) or _option(text, begin, end, options, may_go_on=True)
    is_shown = name is not None and text[name.at].isupper()
    if name is not None and is_shown and not _goes_on(text, end, name):
        yield Statement(begin, end, (name,), "first_line", Force.CALLED)


def _goes_on(text: str, at: int, name: Name) -> bool:
    """The next line that is not empty is the next point of an enumeration: A. ..., B. ..."""
    while text[at : at + 1].isspace():
        at += 1
    match = _NEXT_POINT.match(text, at)
    return match is not None and ord(match["item"]) == ord(name.letter) + 1


def _option(
    text: str,
    start: int,
    end: int,
    options: Sequence[str] | None,
    *,
    may_go_on: bool = False,
) -> Name | None:
    """`B. its text`: the letter, where the text of that option follows.

    Where the texts of the options are not known, a short text of one line counts that begins with a
    marked capital.
    """
    if end - start > _MOST or (match := _OPTION_LINE.fullmatch(text, start, end)) is None:
        return None
    at = match.start("letter")
    name = Name(match["letter"].upper(), at, match.start("rest"), "marked")
    if options is None:
        return name if may_go_on and _HEAD_MARK.fullmatch(text, start, end) else None
    place = ord(name.letter) - 65
    own = plain_option(options[place]) if place < len(options) else ""
    if not own:
        return None
    rest = plain_option(match["rest"])
    is_equal = rest == own or (may_go_on and rest.startswith(own) and len(own) > 2)
    return name if is_equal else None


def _alone(text: str, start: int, end: int) -> Name | None:
    if end - start > 60:
        return None
    match = _LINE.fullmatch(text, start, end)
    if match is None:
        return None
    at = match.start("letter")
    form = "wrapped" if at > start and text[at - 1] in "([*{\"'" else "bare"
    if match["letter"].islower() and end - start > 6 and form == "bare":
        return None
    return Name(match["letter"].upper(), at, match.end(), form)


def _may_be_last(text: str, last: int, name: Name) -> bool:
    """A capital alone behind an unfinished line is where the text was cut."""
    if text[name.at].islower():
        return False
    if name.form == "wrapped" or text[last : last + 2] == "##":
        return True
    before = text[max(0, last - 8) : last].rstrip()[-1:]
    line = text.rfind("\n", 0, max(0, last - 8)) + 1
    if (item := _LETTER_LINE.match(text, line)) and ord(item["item"]) + 1 == ord(name.letter):
        return False  # the next point of an enumeration
    return before in tuple(".:!?。：！？)*]}") and bool(before)
