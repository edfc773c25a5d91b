"""Formulas read and compared with math-verify and sympy.

May take for ever on hostile input: run it under a deadline.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Any

from evalrun.metrics.math.guard import differs, is_near
from evalrun.metrics.math.spelling import body, spelled
from evalrun.text.extract import Extraction, extract_number
from evalrun.text.formulas import has_formula, quantity, sequence
from evalrun.text.numbers import find_numbers, plain

_RULES = (
    (0, "final_answer"),
    (50, "final_answer"),
    (100, "answer"),
    (200, "answer"),
    (300, "last"),
)
_PARTS = re.compile(r"(?:first_|next\d_)?(?:latex|integer|decimal|expr|percent)\w*")
_PLAIN_PARTS = ("integer1", "integer2", "integer3", "decimal3", "expr")
_LONG_SPACE = re.compile(r"\s{64,}")
_UNREADABLE = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError, RuntimeError)
"""What the libraries raise on texts that are no formulas, such as numbers of thousands of
digits.
"""
_FORMULA = re.compile(r"\$[^$]*\$|\\\(.*?\\\)|\\\[.*?\\\]", re.DOTALL)
_WORD = re.compile(r"(?!(?:and|or|percent)\b)[A-Za-z]{3,}|\d")
_OR = re.compile(r"\\text\s?\{\s?(or|and)\s?\}|\b(or|and)\b|\\(lor|land|vee|wedge)(?![A-Za-z])")
_ANDS = frozenset({"and", "land", "wedge"})
MAX_JOINTS = 6
"""Inequalities joined more often are left to the library."""


@cache
def load() -> None:
    """Import the libraries (about a second), and keep their warnings out of the log."""
    import math_verify

    for name in ("math_verify", "latex2sympy2_extended"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    math_verify.parse("$1$", parsing_timeout=None)


@lru_cache(maxsize=512)
def expressions(text: str) -> tuple[Any, ...]:
    """What a spelled formula stands for, and its text; () where it is none."""
    from math_verify import parse

    return tuple(parse(f"${text}$", parsing_timeout=None)) if text.strip() else ()


@lru_cache(maxsize=512)
def described(text: str) -> tuple[Any, ...]:
    """The set of values that the inequalities of a gold describe, joined by "or" or "and"."""
    return tuple(_joined_relations(text))


def _joined_relations(text: str) -> Iterator[Any]:
    from math_verify import parse
    from sympy import Intersection, Union
    from sympy.core.relational import Relational

    joints = [next(filter(None, found)) for found in _OR.findall(text)]
    if not joints or len(joints) > MAX_JOINTS:
        return
    parts = [part for part in _OR.split(text) if part and part not in joints]
    read = [tuple(parse(f"${part.strip(' ,')}$", parsing_timeout=None)) for part in parts]
    firsts = [each[0] for each in read if each and isinstance(each[0], Relational)]
    if len(firsts) != len(parts) or len({kind in _ANDS for kind in joints}) != 1:
        return
    sets = [_solutions(each) for each in firsts]
    if all(each is not None for each in sets):
        yield (Intersection if joints[0] in _ANDS else Union)(*sets)


def _solutions(relation: Any) -> Any:
    """The real values that solve a relation in one unknown; None where they are not found."""
    if len(relation.free_symbols) != 1:
        return None
    try:
        return relation.as_set()
    except _UNREADABLE:
        return None


@lru_cache(maxsize=512)
def formula_of(gold: str) -> str:
    """The formula of a gold that sets it off in a sentence; any other gold as it is."""
    if not has_formula(gold) or not _WORD.search(_FORMULA.sub(" ", gold)):
        return gold
    found = read_text(gold)
    return gold if found is None else found[0].text


def read_text(text: str) -> tuple[Extraction, tuple[Any, ...]] | None:
    """The formula or number that a text without a box gives as its answer, and what the library
    reads it as where it is a plain number; None without one.

    The rightmost one after "final answer is", else after "answer", else at all. The search patterns
    are math-verify's; where they see nothing (所以答案是5。), it is the number that
    `extract_number` reads.
    """
    from math_verify import ExprExtractionConfig, LatexExtractionConfig
    from math_verify.parser import extract_match, get_extraction_regexes

    text = _LONG_SPACE.sub(_shaded, text)
    known = get_extraction_regexes((LatexExtractionConfig(), ExprExtractionConfig()))
    first: Extraction | None = None
    for priority, rule in _RULES:
        hits = [
            (match, kind)
            for patterns, kind in known
            for pattern, level in patterns
            if level == priority
            for match in pattern.finditer(text)
        ]
        for match, kind in sorted(hits, key=lambda hit: (-hit[0].end(), hit[0].start())):
            try:
                value = extract_match(match, kind)[0]
            except _UNREADABLE:
                value = None
            found = _extraction(text, match, rule)
            if value is not None:
                return _whole_number(text, match, found, value)
            if _is_read(found.text):
                return found, ()
            if sequence(found.text):  # compared term by term; no number inside it is the answer
                return found, ()
            first = first or found
    number = extract_number(text) if first is None else None
    first = first or (number and Extraction(text[slice(*number.span)], number.span, number.rule))
    return None if first is None else (first, ())


def _is_read(text: str) -> bool:
    r"""Whether a formula that the library does not read is a number (35\%), or is read once it is
    spelled for it.
    """
    bare, better = body(text), spelled(text)
    return quantity(bare) is not None or (
        better != bare and any(not isinstance(each, str) for each in expressions(better))
    )


def _whole_number(
    text: str, match: re.Match[str], found: Extraction, value: Any
) -> tuple[Extraction, tuple[Any, ...]]:
    """A plain number keeps what the library reads it as, a formula is read from its text.

    The library stops at the 1 of 1/2杯; the number goes on.
    """
    groups = match.groupdict()
    if not any(groups.get(name) for name in _PLAIN_PARTS):
        return found, ()
    start, end = found.span
    stop = min(len(text), end + 40)
    hit = next(find_numbers(plain(text[start:stop]), 0), None)
    if (
        hit
        and not groups.get("expr")
        and hit.start == 0
        and hit.denominator
        and hit.end > end - start
    ):
        end = start + hit.end
        return Extraction(text[start:end], (start, end), found.rule), ()
    return found, (value,)


def _shaded(space: re.Match[str]) -> str:
    """White space that keeps its length, with a middle that the search patterns do not try again
    and again.
    """
    return space[0][:8] + "\0" * (len(space[0]) - 16) + space[0][-8:]


def _extraction(text: str, match: re.Match[str], rule: str) -> Extraction:
    spans = [
        match.span(name)
        for name, part in match.groupdict().items()
        if part and _PARTS.fullmatch(name)
    ]
    start, end = min(s for s, _ in spans), max(e for _, e in spans)
    return Extraction(text[start:end], (start, end), rule)


def is_equal(gold: Iterable[Any], answer: Iterable[Any], precision: int) -> bool:
    """Whether any expression of the answer equals any of the gold.

    Not symmetric: the gold decides the form asked for.

    Args:
        precision: decimals to which floats are compared.
    """
    answers = tuple(answer)
    pairs = [(g, a) for g in gold for a in answers]
    return any(_is_same(g, a, precision) for g, a in pairs) or any(
        _is_same(*read, precision) for g, a in pairs for read in _read_again(g, a)
    )


def _is_same(gold: Any, answer: Any, precision: int) -> bool:
    from math_verify import verify

    try:
        is_equal = is_near(gold, answer, precision) or verify(
            [gold], [answer], float_rounding=precision, timeout_seconds=None
        )
        return bool(is_equal) and not differs(gold, answer)
    except _UNREADABLE:
        return False


def _read_again(gold: Any, answer: Any) -> Iterator[tuple[Any, Any]]:
    """The pair with what the library leaves as it stands: i as the unit of complex numbers, sets
    worked out, inequalities solved.
    """
    from sympy import Basic, Complement, I, Intersection, Set
    from sympy.core.relational import Equality, Relational

    sides = (gold, answer)
    if not all(isinstance(side, Basic) for side in sides):
        return
    units = {name for side in sides for name in side.free_symbols if str(name) == "i"}
    if units:
        yield tuple(side.xreplace(dict.fromkeys(units, I)) for side in sides)
    elif any(side.has(I) for side in sides):
        yield gold.doit(), answer.doit()
    if all(isinstance(side, Set) for side in sides) and any(
        side.has(Intersection, Complement) for side in sides
    ):
        yield gold.doit(), answer.doit()
    if all(isinstance(side, Relational) and not isinstance(side, Equality) for side in sides):
        sets = [_solutions(side) for side in sides]
        if None not in sets and gold.free_symbols == answer.free_symbols:
            yield sets[0], sets[1]
