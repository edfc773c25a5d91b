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

UNREADABLE = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError, RuntimeError)
"""What the libraries raise on texts that are no formulas, such as numbers of thousands of
digits.
"""
_OR = re.compile(r"\\text\s?\{\s?(or|and)\s?\}|\b(or|and)\b|\\(lor|land|vee|wedge)(?![A-Za-z])")
_BUILDER = re.compile(
    r"(?:\\left)?\\\{\s?[a-z]\s?(?:\||:|\\mid(?![A-Za-z]))\s?([^|{}]{1,200}?)\s?(?:\\right)?\\\}"
)
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

    if not text.strip():
        return ()
    if builder := _BUILDER.fullmatch(text):
        relation = parse(f"${builder[1]}$", parsing_timeout=None)
        values = _solutions(relation[0]) if relation else None
        return (text,) if values is None else (values, text)
    return tuple(parse(f"${text}$", parsing_timeout=None))


@lru_cache(maxsize=512)
def described(text: str) -> tuple[Any, ...]:
    """The set of values that the inequalities of a gold describe, joined by "or" or "and"."""
    return tuple(_joined_relations(text))


def _joined_relations(text: str) -> Iterator[Any]:
    from math_verify import parse
    from sympy import Intersection, Union

    joints = [next(filter(None, found)) for found in _OR.findall(text)]
    if not joints or len(joints) > MAX_JOINTS:
        return
    parts = [part for part in _OR.split(text) if part and part not in joints]
    read = [tuple(parse(f"${part.strip(' ,')}$", parsing_timeout=None)) for part in parts]
    sets = [_first_solutions(each) for each in read]
    is_one_joint = len({kind in _ANDS for kind in joints}) == 1
    if is_one_joint and None not in sets:
        yield (Intersection if joints[0] in _ANDS else Union)(*sets)


def _first_solutions(read: tuple[Any, ...]) -> Any:
    """The values that solve what a part was read as first; None where it is no relation."""
    from sympy.core.relational import Relational

    return _solutions(read[0]) if read and isinstance(read[0], Relational) else None


def _solutions(relation: Any) -> Any:
    """The real values that solve a relation in one unknown; None where they are not found."""
    if isinstance(relation, str) or len(relation.free_symbols) != 1:
        return None
    try:
        return relation.as_set()
    except UNREADABLE:
        return None


def is_equal(gold: Iterable[Any], answer: Iterable[Any], precision: int) -> bool:
    """Whether any expression of the answer equals any of the gold.

    Not symmetric: the gold decides the form asked for.

    Args:
        precision: decimals to which floats are compared.
    """
    answers = tuple(answer)
    pairs = [(g, a) for g in gold for a in answers]
    return any(_is_same(g, a, precision) for g, a in pairs) or any(
        _is_same_read_again(g, a, precision) for g, a in pairs
    )


def _is_same(gold: Any, answer: Any, precision: int) -> bool:
    from math_verify import verify

    try:
        is_equal = is_near(gold, answer, precision) or verify(
            [gold], [answer], float_rounding=precision, timeout_seconds=None
        )
        return bool(is_equal) and not differs(gold, answer)
    except UNREADABLE:
        return False


def _is_same_read_again(gold: Any, answer: Any, precision: int) -> bool:
    try:
        return any(_is_same(*read, precision) for read in _read_again(gold, answer))
    except UNREADABLE:
        return False


def _read_again(gold: Any, answer: Any) -> Iterator[tuple[Any, Any]]:
    """The pair with what the library leaves as it stands: i as the unit of complex numbers, sets
    worked out, inequalities solved.
    """
    from sympy import Basic, Complement, I, Intersection, Product, Sum
    from sympy.core.relational import Equality, Relational

    if not (isinstance(gold, Basic) and isinstance(answer, Basic)):
        return
    sides = (_alike(gold), _alike(answer))
    if sides != (gold, answer):
        yield sides
    if any(side.has(I, Intersection, Complement, Sum, Product) for side in sides):
        yield sides[0].doit(), sides[1].doit()
    if all(isinstance(side, Relational) and not isinstance(side, Equality) for side in sides):
        sets = [_solutions(side) for side in sides]
        if None not in sets and sides[0].free_symbols == sides[1].free_symbols:
            yield sets[0], sets[1]


def _alike(side: Any) -> Any:
    """With one symbol per name, and i as the imaginary unit.

    The library takes the symbols of a text for complex where it sees an i, else for real.
    """
    from sympy import I, Symbol

    return side.xreplace(
        {
            name: I if str(name) == "i" else Symbol(str(name), real=True)
            for name in side.free_symbols
            if str(name) == "i" or name.is_real is False
        }
    )
