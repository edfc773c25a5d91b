"""Values in a text as people write them: scale words, signs in words, groups of other countries,
number words.

Digits are read by `evalrun.text.numbers`; this adds 1.5 million, 1.5万, $2k,
"negative five", 12,50,000 (Indian groups), 1 234,5 and 1.234,50 (a decimal comma, only where the
groups leave no doubt), 1'234, "twenty-five", 十二.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from evalrun.reading.stems import Stems
from evalrun.text.numbers import Hit, find_numbers

_SCALES = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "mn": 6, "bn": 9,
    "lakh": 5, "crore": 7,
    "百": 2, "千": 3, "万": 4, "萬": 4, "十万": 5, "百万": 6, "千万": 7, "亿": 8, "億": 8,
}  # fmt: skip
_SCALE = re.compile(
    r"[ \t]{0,2}(?:\\?text\{[ \t]?|\\[,; ]|~)?[ \t]?"
    r"(?:(?P<word>hundred|thousand|million|billion|trillion|lakh|crore|mn|bn)s?\b"
    r"|(?P<sign>[十百千]?[万萬亿億]|[百千](?![\w分])))",
    re.IGNORECASE,
)
_SCALE_HEADS = frozenset(" \t\\~tThHmMbBlLcC十百千万萬亿億")
_ONE_NUMBER = re.compile(
    r"(?:\b(?:is|was|be|about|approximately|exactly|equals|takes?|needs?|requires?|has|have|answer)"
    r"[:：]?[ *$]{1,4})$",
    re.IGNORECASE,
)
"""Before 1 and 1/2: one number. Elsewhere these are two: the roots are 1 and 1/2."""
_FIGURE = re.compile(r"[0-9¼-¾⅐-⅞]")
_SIMPLE = re.compile(
    r"(?:(?<=[A-Za-z,=+:#] )|(?<=[A-Za-z,=+:#] \$)|(?<=[A-Za-z]\()|(?<=boxed\{)"
    r"|(?<=[\u4e00-\u9fff\n])|\A)"
    r"(?:0|[1-9][0-9]{0,2}(?:(?:,[0-9]{3}){1,3}+|[0-9]{0,9}+))(?:\.[0-9]{1,9}+)?"
    r"(?=[.,;:!?)%}$]?(?:\n|$| [A-WYZa-wyz=+(])|[\u4e00-\u9fff]| ?\\text)(?! and [0-9])"
)
"""A number that stands apart: nothing around it can belong to it."""
_SHORT = re.compile(r"(?P<short>[kKmMbB])(?![\w%])")
_SHORTS = {"k": 3, "m": 6, "b": 9}
_NEGATIVE = re.compile(r"(?:\b(?:negative|minus)[ \t]{1,2}[$€£]?|[负負])$", re.IGNORECASE)
_SIGN_WORDS = Stems("negative", "minus", other="负負")
_SIGN_BEFORE = frozenset("eEsS \t")
_SIGN_ENDS = frozenset(" $€£负負")
_LOCAL = re.compile(
    r"[1-9](?<![\d.,'].)(?:"
    r"(?P<indian>\d?(?:,\d\d){1,6},\d{3}(?:\.\d++)?)(?![\d,]*\d)"
    r"|(?P<comma>\d{0,2}(?:(?:\.\d{3}){1,6}"
    r"|(?:[ \u00a0\u202f\u2009]\d{3}){1,6}),\d{1,2})(?!\d)"
    r"|(?P<dots>\d{0,2}(?:\.\d{3}){2,6})(?![\d.,]*\d)"
    r"|(?P<swiss>\d{0,2}(?:['’]\d{3}){1,6}(?:\.\d++)?)(?![\d'’])"
    r"|(?P<mixed>\d{0,3} and (?P<top>\d{1,2})/(?P<bottom>\d{1,2}))(?![\d/.]*\d)"
    r")"
)  # a set of first digits makes the search fast
_ONES = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
_POWERS = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_WORD = "|".join([*_TENS, *sorted(_ONES, key=len, reverse=True)])
_WORDS = re.compile(
    rf"\b(?:{_WORD})(?:(?:-|[ ](?:and[ ])?)(?:{_WORD}|hundred|thousand|million"
    rf"|billion)\b){{0,12}}(?![\w-])"
    r"(?! (?:half|halves|thirds?|quarters?|fourths?|fifths?|tenths?)\b)",
    re.IGNORECASE,
)
_PARTS = {
    "hal": 2, "thi": 3, "qua": 4, "fou": 4, "fif": 5, "six": 6, "eig": 8, "ten": 10,
}  # fmt: skip
"""Of how many parts a fraction speaks, by the first three letters of its word."""
_FRACTION = re.compile(
    rf"\b(?:(?P<whole>{_WORD}) and )?(?P<top>an?|one|two|three|four|five|seven|nine)[ -]"
    r"(?:hal(?:f|ves)|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?)(?![\w-])",
    re.IGNORECASE,
)
"""One half, two-thirds, one and a half; "a half" alone says too little."""
_WORD_STEMS = Stems(
    "ero", "one", "two", "three", "four", "five", "six", "seven", "eigh", "nin", "ten", "elev",
    "twe", "thir", "fift", "fort",
)  # fmt: skip
"""One of them stands in every number word."""
_CHINESE = re.compile(r"[零〇一二两三四五六七八九十百千万]{1,12}")
_CHINESE_ONES = dict(
    zip("零〇一二两三四五六七八九", (0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True)
)
_CHINESE_POWERS = {"十": 10, "百": 100, "千": 1000}


class FoundNumber(NamedTuple):
    """A value in a text: its characters [start, end) and its canonical spelling. is_ordinal: 3rd,
    5th."""

    start: int
    end: int
    value: str
    is_ordinal: bool = False


def find_values(text: str, start: int, end: int) -> list[FoundNumber]:
    """All values written with digits in text[start:end], left to right; `text` comes from `plain`.
    Linear time."""
    found: list[FoundNumber] = []
    place = start
    while figure := _FIGURE.search(text, place, end):
        simple = _SIMPLE.match(text, figure.start(), end)
        if simple is None:
            return found + _find_any(text, place, end, start)
        place = simple.end()
        found.append(_simple(text, simple, end))
    return found


def _simple(text: str, match: re.Match[str], end: int) -> FoundNumber:
    """The value of a number that stands apart, perhaps with a scale or a sign word."""
    at, stop = match.span()
    written = match[0].replace(",", "")
    head = text[stop : stop + 1]
    if head == " ":
        head = text[stop + 1 : stop + 2]
    if head in _SCALE_HEADS or _sign_word(text, at):
        return _widened(text, Hit(at, stop, False, False, written), end)
    return FoundNumber(at, stop, written.rstrip("0").rstrip(".") if "." in written else written)


def _find_any(text: str, start: int, end: int, left: int) -> list[FoundNumber]:
    """All values, however they are written; left: how far back a sign is looked for."""
    found: list[FoundNumber] = []
    place = start
    for match in _LOCAL.finditer(text, start, end):
        if match["mixed"] and not _is_mixed(match):
            continue
        found += [
            _widened(text, hit, end) for hit in find_numbers(text, place, match.start(), left)
        ]
        found.append(_widened(text, _local(match), end))
        place = match.end()
    return found + [_widened(text, hit, end) for hit in find_numbers(text, place, end, left)]


def find_words(text: str, start: int, end: int) -> list[FoundNumber]:
    """All values written as English words in text[start:end]: twelve, one hundred and five,
    negative five."""
    if not _WORD_STEMS.may_match(text[start:end].lower()):
        return []
    parts = _find_fractions(text, start, end)
    found = []
    for match in _WORDS.finditer(text, start, end):
        if any(part.start <= match.start() < part.end for part in parts):
            continue
        number = _spelled(re.split(r"[ -]", match[0].lower()))
        sign = _NEGATIVE.search(text, max(start, match.start() - 12), match.start())
        if number is not None:
            found.append(
                FoundNumber(
                    sign.start() if sign else match.start(),
                    match.end(),
                    f"{'-' * bool(sign)}{number}",
                )
            )
    return sorted(found + parts) if parts else found


def _find_fractions(text: str, start: int, end: int) -> list[FoundNumber]:
    """One half, two thirds, one and a half."""
    found = []
    for match in _FRACTION.finditer(text, start, end):
        whole, top = match["whole"], match["top"].lower()
        if top in ("a", "an") and whole is None:
            continue
        size = match[0][match.end("top") - match.start() + 1 :][:3].lower()
        numerator, denominator = _ONES.get(top, 1), _PARTS[size]
        if numerator >= denominator:
            continue
        spelled = _spelled([whole.lower()]) if whole else 0
        hit = Hit(*match.span(), False, False, str(numerator), str(denominator), str(spelled or ""))
        found.append(FoundNumber(*match.span(), hit.canonical))
    return found


def chinese_at(text: str, place: int, end: int) -> FoundNumber | None:
    """The value written as Chinese numerals at `place`: 十二, 一百零五."""
    match = _CHINESE.match(text, place, end)
    if match is None:
        return None
    total = section = digit = 0
    for char in match[0]:
        if char == "万":
            total, section, digit = total + (section + digit) * 10_000, 0, 0
        elif char in _CHINESE_POWERS:
            section, digit = section + (digit or 1) * _CHINESE_POWERS[char], 0
        else:
            digit = _CHINESE_ONES[char]
    return FoundNumber(match.start(), match.end(), str(total + section + digit))


def _widened(text: str, hit: Hit, end: int) -> FoundNumber:
    """`hit` with the scale after it and the sign word before it."""
    stop = hit.end
    if not hit.is_ordinal:
        scale, stop = _scale(text, hit, end)
        if scale:
            hit = _scaled(hit, scale)
    sign = None if hit.is_negative else _sign_word(text, hit.start)
    if sign:
        hit = hit._replace(start=sign.start(), is_negative=True)
    return FoundNumber(hit.start, stop, hit.canonical, hit.is_ordinal)


def _sign_word(text: str, start: int) -> re.Match[str] | None:
    """The word before a number that makes it negative."""
    last = text[start - 1 : start]
    if last not in _SIGN_ENDS:
        return None
    if last not in "负負" and text[start - 2 : start - 1] not in _SIGN_BEFORE:
        return None
    left = max(0, start - 12)
    if not _SIGN_WORDS.may_match(text[left:start].lower()):
        return None
    return _NEGATIVE.search(text, left, start)


def _scale(text: str, hit: Hit, end: int) -> tuple[int, int]:
    """(power of ten, end of the scale word); short forms such as 2k only after a currency sign."""
    head = text[hit.end : hit.end + 1]
    if head == " ":
        head = text[hit.end + 1 : hit.end + 2]
    if head in _SCALE_HEADS and (match := _SCALE.match(text, hit.end, end)):
        return _SCALES[(match["word"] or match["sign"]).lower()], match.end()
    if hit.start and text[hit.start - 1] in "$€£¥₹" and (match := _SHORT.match(text, hit.end, end)):
        return _SHORTS[match["short"].lower()], match.end()
    return 0, hit.end


def _scaled(hit: Hit, scale: int) -> Hit:
    if not hit.denominator:
        return hit._replace(exponent=hit.exponent + scale)
    zeros = "0" * scale
    top, point, decimals = hit.numerator.partition(".")
    if point:
        decimals = decimals.ljust(scale, "0")
        top, zeros = top + decimals[:scale], "." + decimals[scale:] if decimals[scale:] else ""
    return hit._replace(numerator=top + zeros, whole=hit.whole and hit.whole + "0" * scale)


def _is_mixed(match: re.Match[str]) -> bool:
    """Whether 1 and 1/2 is one number: a proper fraction, behind a word that announces one."""
    left = match.start()
    return (
        int(match["top"]) < int(match["bottom"])
        and _ONE_NUMBER.search(match.string, max(0, left - 20), left) is not None
    )


def _local(match: re.Match[str]) -> Hit:
    """A number whose groups are those of India, of the European continent or of Switzerland, or
    with "and" before its fraction."""
    written = match[0]
    if match["mixed"]:
        whole = written.partition(" ")[0]
        return Hit(*match.span(), False, False, match["top"], match["bottom"], whole)
    if match["comma"]:
        written = re.sub(r"[.\s]", "", written).replace(",", ".")
    elif match["dots"]:
        written = written.replace(".", "")
    else:
        written = re.sub(r"[,'’]", "", written)
    before = match.string[max(0, match.start() - 1) : match.start()]
    is_negative = (
        before == "-" and not match.string[max(0, match.start() - 2) : match.start() - 1].isalnum()
    )
    return Hit(match.start() - is_negative, match.end(), is_negative, False, written)


def _spelled(words: list[str]) -> int | None:
    total = section = 0
    for word in words:
        if word in _ONES:
            section += _ONES[word]
        elif word in _TENS:
            section += _TENS[word]
        elif word == "hundred":
            section = max(section, 1) * 100
        elif word in _POWERS:
            total, section = total + max(section, 1) * _POWERS[word], 0
    return total + section
