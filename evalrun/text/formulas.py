r"""Formulas in running text, as far as plain text processing goes: boxes, percent signs, numbers,
sequences.

Symbolic reading is in evalrun.metrics.math.symbolic. Definitions here are evalrun's own, after the
rules of Hendrycks et al. 2021 (MATH, arXiv 2103.03874: the last \boxed is the answer).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from evalrun.text.extract import Extraction
from evalrun.text.numbers import parse_number

_TOKENS = re.compile(r"\\(?:boxed|fbox)\s{0,4}\{|\\[{}\\]|[{}]")
_CLOSERS = r"(?:\s|\\[\])]|[$*])*"
_OPENERS = r"(?:\s|\\[\[(]|[$*])*"
_PERCENT = r"(?:\\?%|[Pp]er\s?cent(?:age)?\b|[Pp]ct\b)"
_PERCENT_NEXT = re.compile(_CLOSERS + _PERCENT)
_PERCENT_LAST = re.compile(rf"\s*{_PERCENT}\s*$")
_JOINED = re.compile(rf"{_CLOSERS}(?:,|;|and\b|or\b|,\s*and\b|,\s*or\b){_OPENERS}")
_DOTS = re.compile(r"\\(?:[ldc]?dots)(?![A-Za-z])|\.\.\.|…")
_REPEATING = re.compile(r"\d\s*(?:\\[lc]?dots|\.\.\.|…)[\s$.]*$")
_COMMAND = re.compile(
    r"\\(?:triangle|angle|odot|square|parallel)\s?[A-Z]{2,6}|"  # points, no word
    r"\\{1,2}[A-Za-z]+\*?\s*\{[^{}\\]*\}|\\{1,2}[A-Za-z]+|\\."
)
_UNIT = (
    r"(?:[mcdk]?m/s|km/h|mi/h|[mcdk]m|[mk]g|m[lL]|lbs?|oz|ft|in|yd|mi|mins?|secs?|hrs?|days?|men|pcs"
    r"|mph|kph|kmh|rpm|kW|kWh|[kMG]?Hz|[kKMG]B|k?Pa|kJ|kN|°[CF]?|pts?|USD|sq|cu|cc|gal|pt|qt|doz)"
)
_MORE = r"(?:[\s/.][A-Za-z]{0,40}(?:\^?[23])?){0,12}"
_WITH_UNIT = re.compile(
    rf"([^A-Za-z\\\u4e00-\u9fff]{{0,60}}\d)(?:"
    rf"\s?{_UNIT}(?:\s?\^?\{{?[23]\}}?|[²³])?(?![A-Za-z]){_MORE}"
    rf"|\s+(?P<word>[A-Za-z]{{4,40}}){_MORE}"
    r"|(?:\\[ ,;]|\s)?\\(?:text|mathrm|mbox|textrm)\s?"
    r"\{[\s~]{0,4}(?![\s~]|and\b|or\b|[AaPp]\.?[Mm]\b)[A-Za-z./ ]{1,40}\}"
    r"(?:\s?\^\s?\{?[23]\}?)?"
    r"|\s?[\u4e00-\u9fff]{1,12})[.。]?"
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_FUNCTIONS = re.compile(
    r"(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|exp|sqrt|max|min|gcd|lcm|mod|det|abs|and",
    re.IGNORECASE,
)
_FONT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt)?|math(?:bf|it|rm|sf|tt)|boldsymbol|bm|pmb|emph|displaystyle)\s{0,4}\{"
)
_BRACKETED = re.compile(r"\(\s*([^(),]*[^(),\s])\s*\)")  # (1,250) is a pair
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
_DELIMITED = re.compile(r"\$[^$]+\$|\\[(\[]|\\boxed")
_BARE_WORD = re.compile(
    r"[^\W\d_]{3,}|(?<![^\W\d_])(?i:is|no|to|of|it|in|an|at|as|if|so|we|by|on|he|ok)(?![^\W\d_])"
)
_LISTED = re.compile(r"(?:\\left\s?)?[(\[](.*[,;].*)(?:\\right\s?)?[)\]][.。]?")
_GLUED = re.compile(r"[\d.,]+\s?(?:°[CF]?|[LmgshVWNJKA]\d?)[.。]?")
_ARITHMETIC = re.compile(r"(?:[A-Za-z]\w?|[\d\s.,+*/^()×÷-]+)\s?=[^=A-Za-z\\,]+|[\d\s.,+*/^()×÷-]+")
_SYMBOL = re.compile(r"[A-Za-z_:|√π∞≤≥∪∩±²³]|\\[A-Za-z{]")
_DRESS = " $\n\t"

MAX_BARE = 300
"""Characters of a text that may be one bare formula."""
MAX_QUANTITY = 2000
"""Characters of a plain number; a longer text is none."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A plain number.

    Attributes:
        value: exact, without its percent sign.
        is_decimal: it is written with a decimal point.
    """

    value: Fraction
    is_percent: bool
    is_decimal: bool


def boxes(text: str) -> list[tuple[int, int]]:
    r"""Characters [start, end) inside every balanced, outermost \boxed{} or \fbox{}, in order.

    Linear time.
    """
    opened: list[int | None] = []
    found: list[tuple[int, int]] = []
    for match in _TOKENS.finditer(text):
        token = match[0]
        if token == "}":
            start = opened.pop() if opened else None
            if start is not None:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, match.start()))
        elif token == "{" or len(token) > 2:
            opened.append(match.end() if len(token) > 2 else None)
    return found


def boxed_answers(text: str) -> tuple[Extraction, ...]:
    r"""What the last \boxed{} or \fbox{} holds; with the boxes joined to it by a comma, "and",
    "or". () without one.

    A percent sign or word behind a box belongs to its text. Boxes without content are passed over.
    """
    filled = [(start, end) for start, end in boxes(text) if text[start:end].strip(_DRESS)]
    last = filled[-1:]
    while len(last) < len(filled):
        start = filled[-len(last) - 1]
        if not _JOINED.fullmatch(text, start[1] + 1, _box_start(text, last[0][0])):
            break
        last.insert(0, start)
    return tuple(_boxed(text, start, end) for start, end in last)


def _box_start(text: str, inside: int) -> int:
    return max(text.rfind("\\boxed", 0, inside), text.rfind("\\fbox", 0, inside))


def _boxed(text: str, start: int, end: int) -> Extraction:
    left, right = _peeled(text, start, end)
    body = text[left:right]
    has_percent = _PERCENT_NEXT.match(text, end + 1) is not None and not _PERCENT_LAST.search(body)
    return Extraction(body + "\\%" * has_percent, (left, right), "boxed")


def _peeled(text: str, start: int, end: int) -> tuple[int, int]:
    r"""Where the formula stands within white space, dollar signs and commands for a font:
    \textbf{5}, not \text{no}.
    """
    for _ in range(8):
        body = text[start:end]
        start += len(body) - len(body.lstrip(_DRESS))
        end = start + len(body.strip(_DRESS))
        font = _FONT.match(text, start, end)
        if font is None or text[end - 1] != "}" or is_words(text[font.end() : end - 1]):
            break
        if not _is_balanced(text[font.end() : end - 1]):
            break
        start, end = font.end(), end - 1
    return start, end


def _is_balanced(text: str) -> bool:
    depth = 0
    for match in _TOKENS.finditer(text):
        depth += (match[0][-1] == "{" and match[0] != "\\{") - (match[0] == "}")
        if depth < 0:
            return False
    return depth == 0


@lru_cache(maxsize=1 << 12)
def stated_gold(gold: str) -> str:
    r"""The formula of a gold that is a whole solution: what its last boxes hold, else what
    follows its last ####.
    """
    if found := boxed_answers(gold):
        return ", ".join(each.text for each in found)
    _, hashes, tail = gold.rpartition("####")
    return tail.strip() if hashes and tail.strip() else gold


def quantity(text: str) -> Quantity | None:
    r"""The plain number that `text` is, with nothing but dressing ($, %, "percent", a full
    stop); else None.
    """
    body = text.strip().strip("$").strip()
    if len(body) > MAX_QUANTITY:
        return None
    if bracketed := _BRACKETED.fullmatch(body):
        body = bracketed[1]
    bare = _PERCENT_LAST.sub("", body.rstrip(". "))
    value = parse_number(bare) if bare and "%" not in bare else None
    return None if value is None else Quantity(value, bare != body.rstrip(". "), "." in bare)


def is_equal_quantity(one: Quantity, other: Quantity, precision: int) -> bool:
    """Whether two numbers are the same: exactly, or where one is a decimal, to `precision` decimals
    and one part in 10,000 (1/3 = 0.333333, not 0.33; 0.0000003 is not 0.0000004).

    Equal to the decimals means that both round to the same, or that they lie within half a unit of
    the last one (rounding alone tells 0.1234549 from 0.1234551).

    A percentage equals its number with and without the sign: 50 = 50% = 0.5.
    """
    is_rounded = one.is_decimal or other.is_decimal
    pairs = [(one.value, other.value)]
    if one.is_percent != other.is_percent:
        pairs.append(
            (one.value / 100, other.value) if one.is_percent else (one.value, other.value / 100)
        )
    return any(a == b or (is_rounded and _is_near(a, b, precision)) for a, b in pairs)


def _is_near(one: Fraction, other: Fraction, precision: int) -> bool:
    gap = abs(one - other)
    is_same = round(one, precision) == round(other, precision)
    is_same = is_same or gap * 2 * 10**precision <= 1
    return is_same and gap * 10_000 <= max(abs(one), abs(other))


def squeezed(text: str) -> str:
    """`text` without white space (between digits one stays: 1 2 is not 12), the dollar signs around
    it and a full stop at its end.
    """
    return _SPACE.sub("", text).strip("$").rstrip(".").strip("$")


def is_words(text: str) -> bool:
    r"""True for prose ("Friday"), which is no mathematics: a word of three letters or more before
    the first digit.

    Names of functions and LaTeX commands are no words, \text{...} is no prose.
    """
    bare = _COMMAND.sub(" ", text)
    digit = re.search(r"\d", bare)
    head = bare[: digit.start()] if digit else bare
    return any(not _FUNCTIONS.fullmatch(word) for word in _WORD.findall(head))


def has_formula(text: str) -> bool:
    r"""Whether a text sets off a formula by $...$, \(...\), \[...\] or a box."""
    return _DELIMITED.search(text.replace("\\$", "")) is not None


def is_bare_formula(text: str) -> bool:
    r"""Whether a text is one formula and nothing else: 16\pi, (1,2), x=2, x=3; no plain number.

    Arithmetic (3 * 3 = 9), a name with its number (x = 5) and a number with its unit (5 L) are
    running text: their last number is the answer.
    """
    body = text.strip()
    if len(body) > MAX_BARE or "\n" in body or has_formula(body) or quantity(body) is not None:
        return False
    if _is_list(body):
        return True
    if _ARITHMETIC.fullmatch(body) or _GLUED.fullmatch(body) or measured(body):
        return False
    words = _BARE_WORD.findall(_COMMAND.sub(" ", body))
    is_prose = any(not _FUNCTIONS.fullmatch(word) for word in words)
    return not is_prose and _SYMBOL.search(body) is not None


def _is_list(body: str) -> bool:
    """Numbers apart from each other, a pair or an interval. 1,2 may be a decimal: it is none."""
    parts = [part.strip() for part in re.split(r"[,;]", body)]
    if bracketed := _LISTED.fullmatch(body):
        return not _BARE_WORD.search(_COMMAND.sub(" ", bracketed[1]))
    is_apart = len(parts) > 2 or re.search(r", |;|,-", body) is not None
    return len(parts) > 1 and is_apart and all(quantity(part) for part in parts)


def measured(text: str) -> str | None:
    """The number of a number with its unit: 12 apples, 5cm, 60 km/h, 99颗弹珠; else None.

    2 ab and 2 sin x are no units: words of three letters or fewer must be known units.
    """
    found = _WITH_UNIT.fullmatch(text.strip())
    if found is None or (found["word"] and _FUNCTIONS.fullmatch(found["word"])):
        return None
    return found[1] if quantity(found[1]) is not None else None


def sequence(text: str) -> list[str] | None:
    r"""The terms of a sequence with an ellipsis (2, 4, \ldots, 2n), the ellipsis as "..."; None
    without one.
    """
    if not _DOTS.search(text) or _REPEATING.search(text):  # 0.333... is one number
        return None
    terms = [term.strip() for term in split_list(_DOTS.sub(" ... ", text.strip().strip("$")))]
    return [term for term in terms if term]


def split_list(text: str) -> list[str]:
    """Parts between the commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
