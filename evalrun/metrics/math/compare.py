"""Whether two extracted formulas are the same mathematical object.

Apart from extraction: an answer comes from wherever it was read. May take for ever on hostile
input; run `equal` under a deadline. `equal_plainly` is quick and evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from evalrun.metrics.math import notations, symbolic
from evalrun.metrics.math.spelling import spelled, unit_letter
from evalrun.metrics.math.stated import formula_of
from evalrun.text.formulas import (
    has_formula,
    is_equal_quantity,
    is_words,
    quantity,
    sequence,
    squeezed,
)


def equal(gold: str, answer: str, precision: int = 5, known: Sequence[Any] = ()) -> bool:
    r"""Whether `answer` is the mathematical object that `gold` is. Not symmetric: the gold decides
    the form asked for.

    Args:
        gold: a formula in LaTeX, with or without delimiters, or a number.
        answer: the formula of the answer, alike; several boxes are joined by commas.
        precision: decimals to which written decimals are compared.
        known: expressions that the answer was already read as.
    """
    plainly = equal_plainly(gold, answer, precision)
    if plainly is not None:
        return plainly
    terms, others = sequence(gold), sequence(answer)
    if terms is not None or others is not None:
        return terms is not None and others is not None and _same_terms(terms, others, precision)
    gold = formula_of(gold)
    one, other = _spelled(gold), _spelled(answer)
    decided = notations.decide(one, other, precision, partial(equal, precision=precision))
    if decided is not None:
        return decided
    units = {unit_letter(one), unit_letter(other)} - {""}
    if len(units) > 1:  # 3m is not 3s
        return False
    golds = [*symbolic.expressions(one), *symbolic.described(one)]
    return symbolic.is_equal(golds, [*known, *symbolic.expressions(other)], precision)


def equal_plainly(gold: str, answer: str, precision: int) -> bool | None:
    """Equality where it shows without algebra; None where it does not."""
    if is_words(gold) and not has_formula(gold):
        return False
    if squeezed(gold) == squeezed(answer):
        return True
    one = quantity(gold) or quantity(_spelled(gold))
    other = one and (quantity(answer) or quantity(_spelled(answer)))
    return None if one is None or other is None else is_equal_quantity(one, other, precision)


@lru_cache(maxsize=1 << 10)
def _spelled(text: str) -> str:
    return spelled(text)


def _same_terms(golds: Sequence[str], answers: Sequence[str], precision: int) -> bool:
    """Sequences with an ellipsis are equal term by term."""
    return len(golds) == len(answers) and all(
        squeezed(gold) == squeezed(answer)
        if "..." in gold + answer
        else equal(gold, answer, precision)
        for gold, answer in zip(golds, answers, strict=True)
    )
