"""Formulas read and compared with math-verify and sympy.

May take for ever on hostile input: run it under a deadline.

math-verify takes some different numbers for equal (differences below 15 digits become 0, decimals
are rounded); `differs` tells these apart.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

from evalrun.text.extract import Extraction
from evalrun.text.formulas import is_with_unit, sequence

_EXACT = 1e-12
_ROUNDED = 1e-4
_DIGITS = 30
_RULES = (
    (0, "final_answer"),
    (50, "final_answer"),
    (100, "answer"),
    (200, "answer"),
    (300, "last"),
)
_PARTS = re.compile(r"(?:first_|next\d_)?(?:latex|integer|decimal|expr|percent)\w*")
_LONG_SPACE = re.compile(r"\s{64,}")
_UNREADABLE = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError, RuntimeError)
"""What the libraries raise on texts that are no formulas, such as numbers of thousands of
digits.
"""
_DELIMITED = re.compile(r"\$|\\[(\[]|\\boxed")


@cache
def load() -> None:
    """Import the libraries (about a second), and keep their warnings out of the log."""
    import math_verify

    for name in ("math_verify", "latex2sympy2_extended"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    math_verify.parse("$1$", parsing_timeout=None)


@lru_cache(maxsize=256)
def read_gold(gold: str) -> tuple[Any, ...]:
    """The expressions that a gold stands for; () where it is none.

    LaTeX with or without delimiters, or a number.
    """
    from math_verify import ExprExtractionConfig, parse

    if _DELIMITED.search(gold.replace("\\$", "")):
        return tuple(parse(gold, parsing_timeout=None))
    if is_with_unit(gold):
        return tuple(
            parse(gold, [ExprExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
        )
    return tuple(parse(f"${gold.strip()}$", parsing_timeout=None))


def read_boxes(found: Sequence[Extraction]) -> tuple[Any, ...]:
    """The expressions in the texts of boxes; several boxes are one set."""
    from math_verify import parse

    one_line = [" ".join(box.text.split()) for box in found]
    joined = " and ".join(f"$\\boxed{{{body}}}$" for body in one_line)
    return tuple(parse(joined, parsing_timeout=None))


def read_text(text: str) -> tuple[Extraction, tuple[Any, ...]] | None:
    """The formula or number that a text without a box gives as its answer, and its expressions;
    None without one.

    The rightmost one after "final answer is", else after "answer", else at all. The search patterns
    are math-verify's.
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
                value, written = extract_match(match, kind)
            except _UNREADABLE:
                value, written = None, ""
            found = _extraction(text, match, rule)
            if value is not None:
                return found, (value, written) if written else (value,)
            if sequence(found.text):  # compared term by term; no number inside it is the answer
                return found, ()
            first = first or found
    return None if first is None else (first, ())


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
    from math_verify import verify

    answers = tuple(answer)
    return any(
        verify([g], [a], float_rounding=precision, timeout_seconds=None) and not differs(g, a)
        for g in gold
        for a in answers
    )


def differs(gold: Any, answer: Any) -> bool:
    """True where two expressions, or members of theirs at the same place, are different numbers
    beyond doubt.

    Rationals are compared exactly, other numbers by their relative error with 30 digits (at most
    1e-12; 1e-4 where one is a float); expressions with unknowns at two points. Texts never differ.
    """
    return any(_differ(one, other) for one, other in _members(gold, answer))


def _members(gold: Any, answer: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of plain expressions that must be equal where the two wholes are."""
    from sympy import Expr, Interval, MatrixBase, Set, Tuple
    from sympy.core.relational import Eq, Relational

    if isinstance(gold, Eq) and not isinstance(answer, Relational):
        gold = gold.rhs
    if isinstance(answer, Eq) and not isinstance(gold, Relational):
        answer = answer.rhs
    if isinstance(gold, Relational) and isinstance(answer, Relational):
        if gold.lhs == answer.lhs and gold.func is answer.func:
            yield from _members(gold.rhs, answer.rhs)
    elif isinstance(gold, Interval) and isinstance(answer, Interval):
        yield from ((gold.start, answer.start), (gold.end, answer.end))
    elif isinstance(gold, Set | Tuple) or isinstance(answer, Set | Tuple):
        yield from _listed(gold, answer)
    elif isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        if gold.shape == answer.shape:
            yield from zip(gold.flat(), answer.flat(), strict=True)
    elif isinstance(gold, Expr) and isinstance(answer, Expr):
        yield gold, answer


def _listed(gold: Any, answer: Any) -> Iterator[tuple[Any, Any]]:
    """Members of two finite sets by size, of two tuples by place; only where all are numbers."""
    from sympy import FiniteSet, Interval, Tuple

    sides = []
    for side in (gold, answer):
        if isinstance(side, Interval):  # (1, 2) may be read as an interval or as a pair
            sides.append([side.start, side.end])
        elif isinstance(side, FiniteSet | Tuple):
            sides.append(list(getattr(side, "_unsorted_args", side.args)))
        else:
            sides.append([side])
    if len(sides[0]) != len(sides[1]):
        return
    if isinstance(gold, FiniteSet) or isinstance(answer, FiniteSet):
        if not all(
            getattr(member, "is_real", None) and not member.free_symbols
            for s in sides
            for member in s
        ):
            return
        sides = [sorted(side, key=lambda member: member.evalf(_DIGITS)) for side in sides]
    yield from zip(*sides, strict=True)


def _differ(gold: Any, answer: Any) -> bool:
    from sympy import Expr, Float

    if not (isinstance(gold, Expr) and isinstance(answer, Expr)):
        return differs(gold, answer) if type(gold) is type(answer) and gold.args else False
    unknowns = sorted(gold.free_symbols | answer.free_symbols, key=str)
    if not unknowns:
        is_rounded = gold.has(Float) or answer.has(Float)
        pairs = [(_plain(gold), _plain(answer)), (gold.doit(), answer.doit())]
        return all(
            _is_apart(one, other, _ROUNDED if is_rounded else _EXACT) for one, other in pairs
        )
    points = [{name: _point(i, start) for i, name in enumerate(unknowns)} for start in (3, 11)]
    return all(_is_apart(gold.doit().subs(at), answer.doit().subs(at), _ROUNDED) for at in points)


def _plain(value: Any) -> Any:
    """A percentage without its hundredth: 9% = 9."""
    from sympy import Mul, Rational, UnevaluatedExpr

    percent = UnevaluatedExpr(Rational(1, 100))
    is_percent = isinstance(value, Mul) and len(value.args) == 2 and value.args[1] == percent
    return value.args[0].doit() if is_percent else value.doit()


def _point(place: int, start: int) -> Any:
    from sympy import Rational

    return Rational(start + 2 * place, 7 + 3 * place)


def _is_apart(one: Any, other: Any, tolerance: float) -> bool:
    from sympy import Rational

    if isinstance(one, Rational) and isinstance(other, Rational):
        return bool(one != other)
    sizes = []
    for value in (one, other):
        number = value.evalf(_DIGITS)
        if (
            not number.is_number
            or not number.is_finite
            or any(getattr(p, "_prec", 2) == 1 for p in number.args or [number])
        ):
            return False  # no value, or no digit of it is certain
        sizes.append(number)
    largest = max(abs(sizes[0]), abs(sizes[1]))
    return bool(largest != 0 and abs(sizes[0] - sizes[1]) > tolerance * largest)
