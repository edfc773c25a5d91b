"""Whether a text ends before it is finished, judged from the text alone."""

from __future__ import annotations

import re
from collections import Counter

_TAIL = 4000
"""Characters at the end that are looked at."""
_REPEATS = 4
"""A line of words that stands so often among the last ones is a loop that only the length limit
ended."""
_MANY = _REPEATS + 2
_OPENERS = frozenset("=+×÷([{,;:&^\\<≈、，；：（")
_OPEN_SIGN = re.compile(r"\s[-*/_]$|[\w)]-$|[=+/*<>-]\s?\$$|\(-?\d{0,12}\.$")
_SIGN_ENDS = frozenset("-*/_$.")
_OPEN_COMMAND = re.compile(r"\\(?:times|cdot|frac|text|left|sqrt|div|pm|approx|boxed)$")
_LAST_WORD = re.compile(r"(?<!\w)[A-Za-z]{1,9}$")
_OPEN_WORDS = frozenset({
    "the", "a", "an", "is", "are", "was", "were", "of", "to", "and", "or", "by", "with", "for",
    "in", "at", "on", "from", "that", "which", "than", "as", "if", "we", "so", "be", "has", "have",
    "had", "will", "can", "his", "her", "their", "its", "this", "each", "per", "therefore", "then",
    "because", "since", "let", "when",
})  # fmt: skip
_OPEN_CHINESE = ("的", "是", "为", "和", "与", "在", "得", "则", "即", "有", "因为", "所以")
_OPEN_ITEM = re.compile(r"\n[ \t*#]{0,8}(?:(?:\d{1,3}|[A-J])[.)、]|[-*•#]{1,4})[ \t*]{0,4}$")
_ITEM = re.compile(r"(?:^|\n)[ \t*#]{0,8}(?:\d{1,3}|[A-J])[.)、][ \t*]{1,4}\S")
_DONE = frozenset(".!?。！？)]}】」》>\"'”’`$|*~%°…✅√_")
_SHORT = 160
_MAX_PERIOD = 160
_RESULT = re.compile(
    r"(?:=|\bis|\bare|:|】|####)\s{0,3}[-$€£\\ ]{0,4}[\d.,/]{1,30}\s{0,2}(?:[^\W\d]{1,20}"
    r"[\s/]{0,2}){0,4}$"
    r"|^\D{0,4}[\d.,/%]{1,30}$"
)
_NUMBERED = re.compile(r"(?:\d{1,3}[.):]|[-*•])\s{1,3}")
_ENDED = re.compile(r"[^\W\d_][.!?]\s|[)\]$%][.!?]\s{1,2}[A-Z]|[。！？]|[.!?:]\s{0,3}\n")
_PARTS = re.compile(r"(?<=[.。])\s{0,3}|\s=\s")
_DOLLARS = re.compile(r"(?<!\\)\$\$?")
_GAP = re.compile(r"[ \t][ \t]+")  # a set of first letters makes the search fast
_CURRENCY = re.compile(r"\$\s{0,40}-?[\d.]|\d\$")


def looks_cut(text: str) -> bool:
    """True where `text` ends in the middle of a sentence, a formula, a list or an endless
    repetition. Linear time."""
    tail = text[-_TAIL:].rstrip()
    if "  " in tail:
        tail = _GAP.sub(" ", tail) if "\t" in tail else _single_spaced(tail)
    if not tail:
        return False
    if _is_open_end(tail[-20:]) or _is_open_item(tail):
        return True
    lines = [line.strip() for line in tail.split("\n")]
    last = lines[-1]
    if _is_loop(lines) or _is_periodic(tail):
        return True
    if last[-1] not in ".!?。" and _has_open_formula(last, tail):
        return True
    if last[-1] in _DONE or len(text.strip()) <= _SHORT:
        return False
    return _stops_in_prose(text, tail, last)


def _stops_in_prose(text: str, tail: str, last: str) -> bool:
    """The last line has no end, though sentences before it have one."""
    is_prose = _ENDED.search(last) is not None and len(text) > 2 * _SHORT
    if _RESULT.search(last[-120:]) and not is_prose:
        return False
    return is_prose or _ENDED.search(tail[: -len(last)]) is not None


def _single_spaced(text: str) -> str:
    """With single spaces; five times as fast as a regular expression, in linear time."""
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _is_open_end(end: str) -> bool:
    """Whether the last characters leave a calculation, a bracket, a command or a phrase open.

    Chosen by the very last one, since most texts end with a full stop or a digit.
    """
    last = end[-1]
    if last in _OPENERS:
        return True
    if last in _SIGN_ENDS:
        return _OPEN_SIGN.search(end) is not None
    if not last.isalpha():
        return False
    word = _LAST_WORD.search(end[-10:])
    if word and word[0].lower() in _OPEN_WORDS:
        return True
    return end.endswith(_OPEN_CHINESE) or ("\\" in end and _OPEN_COMMAND.search(end) is not None)


def _is_open_item(tail: str) -> bool:
    """The end is the mark of an item that never came; a number alone is one only behind others."""
    item = _OPEN_ITEM.search(tail[-40:])
    return item is not None and (not any(map(str.isalnum, item[0])) or bool(_ITEM.search(tail)))


def _is_periodic(tail: str) -> bool:
    """The end is one piece again and again: 0000..., "1.8 m = 1800 mm = 1.8 m = "."""
    piece = tail[-12:]
    place = tail.rfind(piece, max(0, len(tail) - 12 - _MAX_PERIOD), len(tail) - 1)
    period = len(tail) - 12 - place
    if place < 0:
        return False
    size = max(4 * period, 60)
    return len(tail) >= size + period and tail[-size:] == tail[-size - period : -period]


def _is_loop(lines: list[str]) -> bool:
    """The last whole line, or the last sentence, stands again and again."""
    whole = [bare for line in lines if len(bare := _unnumbered(line)) > 6]
    if not whole:
        return False
    last = whole[-1]
    if len(set(whole)) < len(whole):
        recent = whole[-24:]
        if whole.count(last) >= _REPEATS - 1 or any(
            recent.count(line) >= _REPEATS for line in whole[-2:]
        ):
            return True
    elif len(last) < 80:
        return False
    return _repeats_a_sentence(last)


def _unnumbered(line: str) -> str:
    """The line without the mark of an item before it."""
    if not line or (line[0] not in "-*•" and not line[0].isdigit()):
        return line
    mark = _NUMBERED.match(line)
    return line[mark.end() :] if mark else line


def _repeats_a_sentence(line: str) -> bool:
    """One of the sentences, or members of a chain of equations, stands very often in a line."""
    marks = line.count(".") + line.count("。") + line.count("=")
    if len(line) < 8 * _MANY or marks < _MANY - 1:
        return False
    # a finer cut that costs less: what stands seldom in it stands seldom in the exact one
    rough = line.replace("。", ".").replace("=", ".").split(".")
    if len(rough) - len(set(map(str.strip, rough))) < _MANY - 1:
        return False
    known = Counter([part for part in _PARTS.split(line) if len(part) > 7])
    return bool(known) and max(known.values()) >= _MANY


def _has_open_dollar(last: str) -> bool:
    """An odd number of dollar signs, none of them a currency's."""
    if "$" not in last or "$$" in last or _CURRENCY.search(last):
        return False
    return len(_DOLLARS.findall(last)) % 2 == 1


def _has_open_formula(last: str, tail: str) -> bool:
    """The end opens a formula that is not closed."""
    if _has_open_dollar(last):
        return True
    if last.count("{") > last.count("}") or last.count("(") > last.count(")"):
        return True
    if "\\" not in tail:
        return False
    for opening, closing in (("\\(", "\\)"), ("\\[", "\\]"), ("\\boxed{", "}")):
        place = tail.rfind(opening)
        if place >= 0 and closing not in tail[place:]:
            return True
    return False
