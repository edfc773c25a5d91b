"""Expressions that are different numbers beyond doubt, and such as are equal to the decimals asked.

math-verify takes some different numbers for equal (differences below 15 digits become 0, decimals
are rounded); `differs` tells these apart. It rounds before it compares, so that 6.283185 and 2 pi
may fall on two sides of a rounding edge; `is_near` sees that they are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_EXACT = 1e-12
_ROUNDED = 1e-4
_DIGITS = 30
MAX_DEPTH = 8
"""Sets within sets beyond this are left to the library."""

Pair = tuple[Any, Any]


def differs(gold: Any, answer: Any) -> bool:
    """True where two expressions, or members of theirs at the same place, are different numbers
    beyond doubt.

    Rationals are compared exactly, other numbers by their relative error with 30 digits (at most
    1e-12; 1e-4 where one is a float); expressions with unknowns at two points. Equations without a
    common unknown differ. Texts never differ.
    """
    return _share_no_unknown(gold, answer) or any(
        _differ(one, other) for one, other in _members(gold, answer)
    )


def is_near(gold: Any, answer: Any, precision: int) -> bool:
    """Whether two numbers, tuples or intervals agree to half a unit of the last decimal.

    Only where each pair of members that is not the same has a written decimal.
    """
    if type(gold) is not type(answer) and not _are_numbers(gold, answer):
        return False
    if not _have_same_ends(gold, answer):
        return False
    pairs = list(_members(gold, answer))
    return bool(pairs) and all(_is_close(one, other, precision) for one, other in pairs)


def _are_numbers(*sides: Any) -> bool:
    from sympy import Expr

    return all(isinstance(side, Expr) and not side.free_symbols for side in sides)


def _have_same_ends(gold: Any, answer: Any) -> bool:
    """False for intervals of which one has an end that the other leaves out, and for unlike
    shapes.
    """
    from sympy import Interval, MatrixBase, Union

    if isinstance(gold, Interval):
        return (gold.left_open, gold.right_open) == (answer.left_open, answer.right_open)
    if isinstance(gold, Union):
        parts = list(zip(_in_order(gold), _in_order(answer), strict=False))
        return len(gold.args) == len(answer.args) and all(
            type(one) is type(other) and _have_same_ends(one, other) for one, other in parts
        )
    return not isinstance(gold, MatrixBase) or gold.shape == answer.shape


def _is_close(one: Any, other: Any, precision: int) -> bool:
    from sympy import Float, Rational

    if one == other:
        return True
    if not _are_numbers(one, other) or not (one.has(Float) or other.has(Float)):
        return False
    gap = abs(one.doit() - other.doit()).evalf(_DIGITS)
    return bool(gap.is_number and gap <= Rational(1, 2 * 10**precision))


def _share_no_unknown(gold: Any, answer: Any) -> bool:
    from sympy.core.relational import Relational

    if not (isinstance(gold, Relational) and isinstance(answer, Relational)):
        return False
    unknowns = [{str(name) for name in side.free_symbols} for side in (gold, answer)]
    return all(unknowns) and not unknowns[0] & unknowns[1]


def _members(gold: Any, answer: Any, depth: int = 0) -> Iterator[Pair]:
    """Pairs of plain expressions that must be equal where the two wholes are."""
    from sympy import Expr
    from sympy.core.relational import Eq, Relational

    if isinstance(gold, Eq) and not isinstance(answer, Relational):
        gold = gold.rhs
    if isinstance(answer, Eq) and not isinstance(gold, Relational):
        answer = answer.rhs
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        yield gold, answer
    elif depth < MAX_DEPTH:
        for one, other in _parts(gold, answer):
            yield from _members(one, other, depth + 1)


def _parts(gold: Any, answer: Any) -> list[Pair]:
    """Parts of two wholes at the same place; [] where none belong together for certain."""
    from sympy import Interval, MatrixBase, Set, Tuple, Union
    from sympy.core.relational import Relational

    def are(kind: type) -> bool:
        return isinstance(gold, kind) and isinstance(answer, kind)

    if are(Relational):
        is_alike = gold.lhs == answer.lhs and gold.func is answer.func
        return [(gold.rhs, answer.rhs)] if is_alike else []
    if are(MatrixBase):
        is_alike = gold.shape == answer.shape
        return list(zip(gold.flat(), answer.flat(), strict=True)) if is_alike else []
    if are(Interval):
        return [(gold.start, answer.start), (gold.end, answer.end)]
    if are(Union):
        pairs = list(zip(_in_order(gold), _in_order(answer), strict=False))
        is_alike = len(gold.args) == len(answer.args) and len(pairs) == len(gold.args)
        return pairs if is_alike else []
    if isinstance(gold, Set | Tuple) or isinstance(answer, Set | Tuple):
        return _listed(gold, answer)
    return []


def _in_order(union: Any) -> list[Any]:
    """The parts of a union by where they begin; [] where that is not known."""
    starts = [part.inf for part in union.args]
    if not all(start.is_comparable or start.is_infinite for start in starts):
        return []
    return [part for _, part in sorted(zip(starts, union.args, strict=True), key=lambda p: p[0])]


def _listed(gold: Any, answer: Any) -> list[Pair]:
    """Members of two finite sets by size, of two tuples by place; only where all are numbers."""
    from sympy import FiniteSet, Interval, Set, Tuple

    sides = []
    for side in (gold, answer):
        if isinstance(side, Interval):  # (1, 2) may be read as an interval or as a pair
            sides.append([side.start, side.end])
        elif isinstance(side, FiniteSet | Tuple):
            sides.append(list(getattr(side, "_unsorted_args", side.args)))
        elif isinstance(side, Set):
            return []
        else:
            sides.append([side])
    if len(sides[0]) != len(sides[1]):
        return []
    if isinstance(gold, FiniteSet) or isinstance(answer, FiniteSet):
        if not all(_is_real_number(member) for side in sides for member in side):
            return []
        sides = [sorted(side, key=lambda member: member.evalf(_DIGITS)) for side in sides]
    return list(zip(*sides, strict=True))


def _is_real_number(value: Any) -> bool:
    return bool(getattr(value, "is_real", None)) and not value.free_symbols


def _differ(gold: Any, answer: Any) -> bool:
    from sympy import Float

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
