r"""Notations that a text shows and symbols lose: clock times, ratios, numbers in a base, words,
lists of named values.

Each is decided here by its own meaning; the library reads 1:2:3 as 1/6, 101_2 as 101 and 3 am as 3.
Texts are spelled (evalrun.metrics.math.spelling). Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from evalrun.text.formulas import Quantity, is_equal_quantity, quantity, split_list

Equal = Callable[[str, str], bool]
"""Whether two formulas are equal: for the members of a list."""
Named = tuple[str, str, str]

_FONT = r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:bf|it|rm|sf|tt)|operatorname|mbox)"
_CLOCK = re.compile(
    rf"(\d{{1,2}})(?::(\d{{2}}))?\s?(?:{_FONT}\s?\{{\s?)?([AaPp])\.?\s?[Mm]\.?\s?\}}?"
)
_TIME = re.compile(r"(\d{1,2}):(\d{2})")
_COLON = re.compile(r"\s?:\s?|\s?\\mathbin\{:\}\s?")
_BASED = re.compile(
    r"\(?\s?(?:\\text\{)?([0-9A-Za-z]{1,60})\}?\s?\)?\s?_\s?"
    r"(?:\{\s?(?:\\text\{)?(\w{1,10})\}?\s?\}|(\d))"
)
_BASE_NAMES = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "sixteen": 16,
}
_WRAPPED = re.compile(rf"{_FONT}\s?\{{([^{{}}]*)\}}[.。]?")
_WORDS = re.compile(r"\(?[^\W\d_][^\d\\{}$=<>_^]{0,80}")
_DRESS = " $*.\n\t"
_NAMED = re.compile(
    r"\s?(\\?[A-Za-z]{1,10}'?(?:\s?\([^()=]{1,20}\))?)(?:_\{?(\w{1,4})\}?)?"
    r"\s?=\s?([^=]{1,200})"
)
_AND_OR = re.compile(
    r",?\s?(?:\\text\s?\{\s?(?:and|or)\s?\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])),?"
)
_BRACKET = re.compile(r"[(]\s?(.*?)\s?[)]|\\left\s?\(\s?(.*?)\s?\\right\s?\)")


def decide(gold: str, answer: str, precision: int, equal: Equal) -> bool | None:
    """Whether two spelled formulas are equal, where a notation decides it; else None."""
    for rule in (_clocks, _ratios, _bases, _words):
        verdict = rule(gold, answer, precision)
        if verdict is not None:
            return verdict
    return _named(gold, answer, equal)


def _clocks(gold: str, answer: str, _precision: int) -> bool | None:
    """3:15 PM is not 3:15 AM; without its half of the day a time is right."""
    times = [_CLOCK.fullmatch(text) for text in (gold, answer)]
    if not any(times):
        return None
    plain = [_TIME.fullmatch(text) for text in (gold, answer)]
    read = [
        (int(found[1]), int(found[2] or 0)) if (found := time or clock) else None
        for time, clock in zip(times, plain, strict=True)
    ]
    if None in read:
        return None
    halves = {time[3].lower() for time in times if time}
    return read[0] == read[1] and len(halves) == 1


def _ratios(gold: str, answer: str, precision: int) -> bool | None:
    """Ratios are equal up to a factor; one of two terms is its quotient, too."""
    terms = [_terms(text) for text in (gold, answer)]
    if terms[0] is None or terms[1] is None:
        longest = max(len(each or ()) for each in terms)
        return False if longest > 2 else None
    if len(terms[0]) != len(terms[1]):
        return False
    if any(0 in each for each in terms if each):  # 8:00
        return terms[0] == terms[1]
    return all(
        _is_same(a * terms[1][0], b * terms[0][0], precision) for a, b in zip(*terms, strict=True)
    )


def _terms(text: str) -> list[Fraction] | None:
    parts = _COLON.split(text.strip())
    values = [quantity(part) for part in parts]
    found = [value.value for value in values if value is not None]
    return found if 1 < len(found) == len(parts) and found[0] else None


def _is_same(one: Fraction, other: Fraction, precision: int) -> bool:
    return is_equal_quantity(
        Quantity(one, False, True), Quantity(other, False, True), max(precision, 9)
    )


def _bases(gold: str, answer: str, _precision: int) -> bool | None:
    """101_2 = 5 = 12_3. A number without its base has that of the other side or is decimal."""
    read = [_based(text) for text in (gold, answer)]
    if read == [None, None]:
        return None
    values = []
    for text, own in zip((gold, answer), read, strict=True):
        plain = text.replace(" ", "").lstrip("0").upper()
        if own is None and any(other and other[0] == plain for other in read):
            return True
        number = quantity(text)
        values.append(own[1] if own else number.value if number else None)
    return None not in values and values[0] == values[1]


def _based(text: str) -> tuple[str, int] | None:
    """(digits, value) of a number with its base as an index."""
    found = _BASED.fullmatch(text.strip())
    if found is None:
        return None
    index = (found[2] or found[3]).lower()
    base = _BASE_NAMES.get(index, int(index) if index.isdecimal() else 0)
    is_number = any(char.isdigit() for char in found[1]) or (base == 16 and found[1].isupper())
    if not 2 <= base <= 36 or not is_number:
        return None
    try:
        return found[1].lstrip("0").upper(), int(found[1], base)
    except ValueError:  # x1_2: no digits of that base
        return None


def _words(gold: str, answer: str, _precision: int) -> bool | None:
    return True if is_same_word(gold, answer) else None


def is_same_word(gold: str, answer: str) -> bool:
    r"""Whether a gold of words is the answer: \text{odd} is odd, \text{(B)} is B.

    Letters are compared without case. A gold of bare words (Friday) is no formula.
    """
    wrapped = _WRAPPED.fullmatch(gold.strip(_DRESS))
    if wrapped is None:
        return False
    given = _WRAPPED.fullmatch(answer.strip(_DRESS))
    texts = [wrapped[1], given[1] if given else answer]
    if not all(_WORDS.fullmatch(text.strip(_DRESS)) for text in texts):
        return False
    bare = ["".join(filter(str.isalnum, text)).casefold() for text in texts]
    return bare[0] == bare[1] != ""


def _named(gold: str, answer: str, equal: Equal) -> bool | None:
    """x = 1, y = 2 against values without names: they stand in the same order.

    Roots of one unknown (x_1 = 1, x_2 = 2) against x = 1 or x = 2 are two sets of values; against
    bare values the library compares them.
    """
    names, others = _names(gold), _names(answer)
    if names is None:
        return None
    if others is not None:
        return equal(*map(_roots, (names, others))) if _are_roots(names, others) else None
    if "=" in answer or len({name for name, _, _ in names}) < len(names):
        return None
    bracketed = _BRACKET.fullmatch(answer.strip())
    values = _parts((bracketed[1] or bracketed[2] or "") if bracketed else answer)
    if len(values) != len(names):
        return None
    return all(equal(own, other) for (_, _, own), other in zip(names, values, strict=True))


def _are_roots(names: list[Named], others: list[Named]) -> bool:
    """Whether both are values of one unknown and only one of them numbers these."""
    letters = {name for name, _, _ in [*names, *others]}
    numbered = [all(index for _, index, _ in each) for each in (names, others)]
    return len(letters) == 1 and numbered[0] != numbered[1]


def _roots(names: list[Named]) -> str:
    return ", ".join(value for _, _, value in names)


def _names(text: str) -> list[Named] | None:
    """(name, index, value) of every part of a list of equations; else None."""
    parts = [_NAMED.fullmatch(part) for part in _parts(text)]
    found = [(part[1], part[2] or "", part[3].strip()) for part in parts if part is not None]
    return found if 1 < len(found) == len(parts) else None


def _parts(text: str) -> list[str]:
    """The members of a list joined by commas, "and", "or"."""
    return [part.strip() for part in split_list(_AND_OR.sub(", ", text))]
