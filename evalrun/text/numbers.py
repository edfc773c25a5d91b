r"""Numbers in running text: where they stand, and one canonical spelling for each value.

What is read: 1234 · 1,234,567 · 9{,}500 · 9\,500 · 1 000 (plain, thin or no-break space) · .5 ·
0.50 · 1e3 · 1.5\times 10^3 · 2^{10} · 3/4 · \frac{3}{4} · 3 1/2 · 3\frac12 · ½ · full-width digits.
Sign: -, the Unicode minus. Currency signs, percent signs, units and scale words (million) are
dressing: 50% is 50, $5/hour is 5.

What is not: the hyphen of 10-20 is no sign; digits glued to a word (x1, H2O, step2), exponents of a
word (m^2), clock times (5:30), dates (2024-05-03, 3/4/2024), versions (1.2.3), roots and multiples
of pi. Groups of digits that are no proper thousands stay apart: (1,2) and 12,345,67 are lists. The
decimal comma is not read: 3,5 is two numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from evalrun.text.number_spelling import Hit

__all__ = ["Hit", "find_numbers", "parse_number", "plain"]

MAX_EXPONENT = 400
"""A power of ten beyond this is no number that a question asks for; the token is passed over."""
MAX_RATIO_DIGITS = 120
"""Fractions with longer parts are not reduced (they would cost quadratic time); their parts stay
apart.
"""
MAX_FRACTION_DIGITS = 600
"""`parse_number` gives up beyond this; canonical texts compare numbers of any length exactly."""

_VULGAR = {
    "½": (1, 2),
    "⅓": (1, 3),
    "⅔": (2, 3),
    "¼": (1, 4),
    "¾": (3, 4),
    "⅕": (1, 5),
    "⅖": (2, 5),
    "⅗": (3, 5),
    "⅘": (4, 5),
    "⅙": (1, 6),
    "⅚": (5, 6),
    "⅛": (1, 8),
    "⅜": (3, 8),
    "⅝": (5, 8),
    "⅞": (7, 8),
}
# alphabets that set words apart by spaces
_LETTER = r"A-Za-z\u00aa-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0370-\u052f"
_SPACES = "\u00a0\u2007\u2008\u2009\u202f"
_CURRENCY = "$€£¥₹₩"
_CODES = frozenset(
    {"USD", "EUR", "GBP", "CNY", "RMB", "JPY", "INR", "Rs", "US", "HK", "CAD", "AUD"}
)
_OPENERS = "=(:[{#≈$"
_OPERAND_ENDS = ")]}%-_!°"


def _table() -> dict[str, str]:
    # full-width, Arabic, Persian, Indic, Thai
    zeros = (0xFF10, 0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50)
    table = {chr(zero + digit): str(digit) for zero in zeros for digit in range(10)}
    table |= dict.fromkeys("−－﹣‑–", "-")
    table |= dict(zip("，．／：＝＄％￥（）＃＊٫٬", ",./:=$%¥()#*.,", strict=True))
    return table


_ASCII = _table()
_FOREIGN = re.compile(f"[{''.join(_ASCII)}]")
"""Ten times as fast as `str.translate`, which asks its table for every character."""
_SEP = rf"(?:,(?:\\!)?|\{{,\}}|\\[,;]|[{_SPACES}_])"
_CHUNK = rf"[0-9]++(?:{_SEP}[0-9]++)*+"
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")

_NEXT = re.compile(
    rf"\\[dtc]?frac(?![A-Za-z])|[0-9]|(?<![0-9.{_LETTER}])\.(?=[0-9])|[{''.join(_VULGAR)}]"
)
_SKIP = re.compile(
    r"[0-9]{1,2}:[0-5][0-9](?::[0-5][0-9])?(?![0-9:])"  # a clock time
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])"  # a date
    r"|[0-9]++(?:\.[0-9]++){2,}+|[0-9]++(?:/[0-9]++){2,}+"  # 1.2.3, 3/4/2024
)
_PLAIN = re.compile(rf"(?P<int>{_CHUNK})?(?P<dec>\.[0-9]++)?")
_SPACED = re.compile(
    rf"(?: [0-9]{{3}}(?![0-9]))++(?P<dec>\.[0-9]++)?(?P<bad>[{_LETTER}/-]| ?[0-9]|{_SEP}[0-9])?"
)
_SPLIT = re.compile(_SEP)
_E = re.compile(rf"[eE]([+-]?[0-9]++)(?![0-9{_LETTER}])")
_POWER_OF = (
    r"[ \t]?(?:\^|\*\*)[ \t]?(?:\{[ \t]?([+-]?[0-9]++)[ "
    r"\t]?\}|\(([+-]?[0-9]++)\)|([+-]?[0-9]++))|([⁻⁺]?[⁰¹²³⁴-⁹]+)"
)
_TIMES_TEN = re.compile(rf"[ \t]{{0,2}}(?:×|\\times|\\cdot|·|⋅|[xX*])[ \t]{{0,2}}10(?:{_POWER_OF})")
_POWER = re.compile(_POWER_OF.replace(r"\^|\*\*", r"\^"))
_SLASH = re.compile(rf"[ \t]?/[ \t]?({_CHUNK}(?:\.[0-9]++)?|\.[0-9]++)(?!\^)")
_SMALL = re.compile(r" ([0-9]{1,4})/([0-9]{1,4})(?![0-9/.^])")
_PART = rf"[ \t]?([+-]?(?:{_CHUNK}(?:\.[0-9]++)?|\.[0-9]++))[ \t]?"
_FRAC = re.compile(rf"\\[dtc]?frac[ \t]?(?:\{{{_PART}\}}|([0-9]))[ \t]?(?:\{{{_PART}\}}|([0-9]))")
_ORDINAL = re.compile(rf"(?:\^\{{?)?(?:st|nd|rd|th)(?![{_LETTER}])", re.IGNORECASE)
_IRRATIONAL = re.compile(r"[ \t]?(?:\\sqrt|\\pi(?![A-Za-z])|[π√])")


def plain(text: str) -> str:
    """`text` with foreign digits, minus signs and full-width signs in ASCII; every character
    keeps its place.
    """
    return text if text.isascii() else _FOREIGN.sub(lambda match: _ASCII[match[0]], text)


def find_numbers(
    text: str, start: int = 0, end: int | None = None, left: int | None = None
) -> Iterator[Hit]:
    """All numbers of text[start:end] from left to right; `text` must come from `plain`.

    Linear time.

    Args:
        left: how far back a sign is looked for (default: start).
    """
    stop = len(text) if end is None else end
    low = start if left is None else left
    place, unspaced_until = start, 0
    while match := _NEXT.search(text, place, stop):
        at = match.start()
        if skipped := _SKIP.match(text, at, stop):
            place = skipped.end()
            continue
        if text[at] in _VULGAR:
            place, hit = at + 1, _ratio(at, at + 1, *map(str, _VULGAR[text[at]]))
        elif text[at] == "\\":
            place, hit = _read_frac(text, at, stop)
        else:
            place, hits, unspaced_until = _read_digits(text, at, stop, unspaced_until)
            if _is_glued(text, at):
                continue
            yield from (
                _signed(text, found, low)
                for found in hits[:1]
                if not _is_irrational(text, found, stop)
            )
            yield from (found for found in hits[1:] if not _is_irrational(text, found, stop))
            continue
        if hit and not _is_irrational(text, hit, stop):
            yield _signed(text, hit, low)


def parse_number(text: str) -> Fraction | None:
    """The exact value of a text that is one number and nothing else but dressing ($, %, a full
    stop); else None.

    None also where it has more than MAX_FRACTION_DIGITS digits.
    """
    mapped = plain(text).strip()
    hits = list(find_numbers(mapped))
    if len(hits) != 1:
        return None
    hit = hits[0]
    around = mapped[: hit.start] + mapped[hit.end :]
    size = len(hit.numerator) + len(hit.denominator) + len(hit.whole)
    if around.strip(f"{_CURRENCY}%\\.+ \t") or size > MAX_FRACTION_DIGITS:
        return None
    value = Fraction(hit.numerator) / Fraction(hit.denominator or 1) * Fraction(10) ** hit.exponent
    value += Fraction(hit.whole or 0)
    return -value if hit.is_negative else value


def _read_digits(text: str, at: int, stop: int, unspaced_until: int) -> tuple[int, list[Hit], int]:
    """(where reading goes on, the numbers that begin at the digit or point `at`, end of a list
    of spaced groups).
    """
    match = _PLAIN.match(text, at, stop)
    assert match is not None
    chunk, decimals, end = match["int"] or "", match["dec"] or "", match.end()
    groups = [chunk]
    if chunk and not chunk.isdigit():
        groups = _SPLIT.split(chunk)
        if not _is_grouped(groups, _SPLIT.findall(chunk)):
            return _apart(chunk, at, groups, unspaced_until)
    number = "".join(groups)
    if len(groups) == 1 and not decimals:
        if mixed := _read_mixed(text, at, end, stop, number):
            return mixed.end, [mixed], unspaced_until
        if (
            at >= unspaced_until
            and len(number) <= 3
            and number[0] != "0"
            and (spaced := _SPACED.match(text, end, stop))
        ):
            if spaced["bad"] is None:
                return _read_tail(
                    text,
                    at,
                    spaced.end(),
                    stop,
                    text[at : spaced.end()].replace(" ", ""),
                    unspaced_until,
                )
            unspaced_until = spaced.end()
    return _read_tail(text, at, end, stop, number + decimals, unspaced_until)


def _apart(
    chunk: str, at: int, groups: list[str], unspaced_until: int
) -> tuple[int, list[Hit], int]:
    """A list such as 1,2,30: all but the last group, which may yet have decimals or a
    denominator.
    """
    hits, place = [], 0
    for group in groups[:-1]:
        place = chunk.index(group, place)
        hits.append(Hit(at + place, at + place + len(group), False, False, group))
        place += len(group)
    return at + len(chunk) - len(groups[-1]), hits, unspaced_until


def _is_grouped(groups: list[str], separators: list[str]) -> bool:
    lead = groups[0]
    is_lead = len(lead) <= 3 and lead[0] != "0"
    return is_lead and len(set(separators)) == 1 and all(len(group) == 3 for group in groups[1:])


def _read_tail(
    text: str, at: int, end: int, stop: int, number: str, until: int
) -> tuple[int, list[Hit], int]:
    """What may follow digits: an exponent, a power, a denominator, the ending of an ordinal."""
    for pattern in (_E, _TIMES_TEN):
        if match := pattern.match(text, end, stop):
            exponent = _small_int(match)
            hits = (
                []
                if exponent is None
                else [Hit(at, match.end(), False, False, number, exponent=exponent)]
            )
            return match.end(), hits, until
    if match := _POWER.match(text, end, stop):
        return match.end(), _power(at, match.end(), number, _small_int(match)), until
    if (match := _SLASH.match(text, end, stop)) and (
        hit := _ratio(at, match.end(), number, match[1])
    ):
        return hit.end, [hit], until
    is_ordinal = number.isdigit() and _ORDINAL.match(text, end, stop) is not None
    return end, [Hit(at, end, False, is_ordinal, number)], until


def _small_int(match: re.Match[str]) -> int | None:
    written = next(group for group in match.groups() if group is not None).translate(_SUPER)
    sign, digits = written[0] == "-", written.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 4 or int(digits) > MAX_EXPONENT:
        return None
    return -int(digits) if sign else int(digits)


def _power(at: int, end: int, number: str, exponent: int | None) -> list[Hit]:
    if exponent is None or len(number) * max(1, abs(exponent)) > MAX_FRACTION_DIGITS:
        return []
    base = Fraction(number)
    if base == 0 and exponent < 0:
        return []
    value = base**exponent
    if max(abs(value.numerator), value.denominator) < 10**MAX_RATIO_DIGITS:
        return [Hit(at, end, False, False, str(value.numerator), str(value.denominator))]
    return [Hit(at, end, False, False, str(value.numerator))] if value.denominator == 1 else []


def _read_mixed(text: str, at: int, end: int, stop: int, whole: str) -> Hit | None:
    """3 1/2, 3\\frac{1}{2}, 3½: an integer and a proper fraction."""
    if len(whole) > MAX_RATIO_DIGITS:
        return None
    after = end + (text[end : end + 1] == " ")
    if after < stop and text[after] in _VULGAR:
        top, bottom = map(str, _VULGAR[text[after]])
        return Hit(at, after + 1, False, False, top, bottom, whole)
    if match := _SMALL.match(text, end, stop):
        top, bottom = match[1], match[2]
    elif match := _FRAC.match(text, after, stop):
        top, bottom = match[1] or match[2], match[3] or match[4]
    else:
        return None
    if not (
        top.isdigit() and bottom.isdigit() and len(top + bottom) <= 8 and int(top) < int(bottom)
    ):
        return None
    return Hit(at, match.end(), False, False, top, bottom, whole)


def _read_frac(text: str, at: int, stop: int) -> tuple[int, Hit | None]:
    match = _FRAC.match(text, at, stop)
    if match is None:
        return at + 5, None  # \frac of something that is no number: read on inside
    top, bottom = match[1] or match[2], match[3] or match[4]
    hit = _ratio(at, match.end(), top.lstrip("+-"), bottom.lstrip("+-"))
    is_negative = (top[0] == "-") != (bottom[0] == "-")
    return (match.end(), hit._replace(is_negative=is_negative)) if hit else (at + 5, None)


def _ratio(at: int, end: int, top: str, bottom: str) -> Hit | None:
    top, bottom = _ungrouped(top), _ungrouped(bottom)
    if not top or not bottom or len(top) > MAX_RATIO_DIGITS or len(bottom) > MAX_RATIO_DIGITS:
        return None
    return Hit(at, end, False, False, top, bottom) if bottom.strip("0.") else None


def _ungrouped(number: str) -> str:
    """Digits without separators; empty where the groups are no thousands."""
    integer, point, decimals = number.partition(".")
    groups = _SPLIT.split(integer)
    if len(groups) > 1 and not _is_grouped(groups, _SPLIT.findall(integer)):
        return ""
    return "".join(groups) + point + decimals


def _is_glued(text: str, at: int) -> bool:
    """True where the digits at `at` belong to a word, an index or an exponent: x1, H2O, a_1,
    x^{2}, &#39;.
    """
    before = text[at - 1] if at else " "
    if before == "{":
        return text[max(0, at - 6) : at - 1].endswith(("_", "^", "\\sqrt"))
    if before in "^√":
        return True
    if before == "_":
        return at >= 2 and text[at - 2].isalnum()
    if before == "#":
        return text[max(0, at - 2)] == "&"
    if not _is_letter(before):
        return False
    run = at - 1
    while run and _is_letter(text[run - 1]):
        run -= 1
    word, ahead = text[run:at], text[run - 1] if run else " "
    if ahead == "\\":
        return word == "sqrt"
    return word not in _CODES and not (word in "xX" and ahead.isdigit())


def _is_letter(char: str) -> bool:
    return char.isalpha() and (char < "\u02b0" or "\u0370" <= char <= "\u052f")


def _is_irrational(text: str, hit: Hit, stop: int) -> bool:
    return _IRRATIONAL.match(text, hit.end, stop) is not None


def _signed(text: str, hit: Hit, low: int) -> Hit:
    """`hit` with the minus before it, where that is a sign. Currency signs may stand between."""
    at = hit.start
    if at - 2 >= low and text[at - 1] == " " and text[at - 2] in _CURRENCY:
        at -= 1
    if at > low and text[at - 1] in _CURRENCY:
        at -= 1
        at -= at > low and text[at - 1] == "\\"
    is_spaced = at - 2 >= low and text[at - 1] == " "
    minus = at - 1 - is_spaced
    if minus < low or text[minus] != "-" or not _is_sign(text, minus, low, is_spaced):
        return hit
    return hit._replace(start=minus, is_negative=not hit.is_negative)


def _is_sign(text: str, minus: int, low: int, is_spaced: bool) -> bool:
    """True where the - at `minus` has no left operand.

    `- 5` is signed only after an opener: it may be a bullet.
    """
    before = minus - 1
    while before >= low and text[before] in " \t":
        before -= 1
    if before < low:
        return not is_spaced or low > 0
    char = text[before]
    if is_spaced:
        return char in _OPENERS
    if before < minus - 1:
        return not (char.isdigit() or char in _OPERAND_ENDS)
    if char.isalpha() and not _is_letter(char):  # 是-5 is signed, 10元-20元 is a range
        return not any(c.isdigit() for c in text[max(low, before - 2) : before])
    return not (char.isdigit() or _is_letter(char) or char in _OPERAND_ENDS)
