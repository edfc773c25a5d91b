"""Short formulas that texts state: cases for and against each rule, spellings, equality."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from evalrun.metrics.math.equality import MathScorer
from evalrun.reading.base import Reason
from evalrun.reading.formulas.expression_text import spelled
from evalrun.reading.formulas.expressions import WEAK_RULES, read_expression
from evalrun.reading.numbers.number_place import RULES
from evalrun.types import Doc

CASES = Path(__file__).parents[1] / "cases" / "reading_expressions.jsonl"
ROWS = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['rule']}-{row['text'][:30]!r}")
def test_cases(row: dict[str, Any]) -> None:
    reading = read_expression(row["text"])
    assert reading.value == row["expected"], row["why"]
    assert (reading.rule == row["rule"]) is (row["side"] == "for")


def test_weak_rules_are_rules() -> None:
    assert set(RULES) >= WEAK_RULES


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (r"x=\dfrac{\sqrt{2}}{2}", r"\frac{\sqrt{2}}{2}"),
        (r"x \in \left[1, 2\right)", "[1, 2)"),
        (r"5\text{ cm}^2", "5"),
        ("5cm^2", "5"),
        ("12 apples", "12"),
        ("99颗弹珠", "99"),
        (r"\$1,234.50", "1234.5"),
        ("50%", r"50\%"),
        ("y=-2x+5", "y=-2x+5"),
        ("f(x) = 2x+1", "f(x) = 2x+1"),
        (r"f\!\left(\frac{2\pi}{3}\right)=1", "1"),
        (r"|CD|=4\sqrt{3}", r"4\sqrt{3}"),
        (r"2\sqrt{12}=4\sqrt{3}", r"4\sqrt{3}"),
        (r"x_1=1,\quad x_2=\pi", r"1, \pi"),
        (r"3 \text{ and } \pi", r"3, \pi"),
        ("√20", r"\sqrt{20}"),
        ("2√(5)", r"2\sqrt{5}"),
        ("sqrt(5)", r"\sqrt{5}"),
        ("\\\\frac{\\\\pi}{2}", r"\frac{\pi}{2}"),
        ("\times 2\text{x}", r"\times 2"),
        (r"\boxed{\text{odd}}", "odd"),
        ("(0, \\sqrt{20})", "(0, \\sqrt{20})"),
        ("12,000", "12000"),
        ("1, 2, 3", "1, 2, 3"),
        ("$\\{1, 2\\}$", "\\{1, 2\\}"),
        ("**x^2**", "x^2"),
        ("x \\geq 3", "x \\geq 3"),
        ("30^\\circ", "30^\\circ"),
    ],
)
def test_one_spelling(written: str, plain: str) -> None:
    assert spelled(written) == plain
    assert spelled(plain) == plain


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        (r"So \boxed{\theta=\dfrac{3\pi}{2}\quad\text{且}\quad f(0)=1}", r"\frac{3\pi}{2}, 1"),
        ("The answer is 2 * (3y-1)", "2(3y-1)"),
        ("【答案】$N_{1}/N$<eoa>", r"\frac{N_{1}}{N}"),
        ("【答案】y=-2x+5<eoa>", "y=-2x+5"),
        ("【答案】2√5<eoa>", r"2\sqrt{5}"),
        (r"The answer is $\infty$", r"\infty"),
        (r"\boxed{3} and \boxed{4}", "3, 4"),
        ("Therefore, x = 5 or x = -3.", "-3, 5"),
        (r"答案为：$(-\infty,-2)\cup(3,+\infty)$", r"(-\infty,-2)\cup(3,\infty)"),
        ("#### 1/3", r"\frac{1}{3}"),
        ("A: 0.5", r"\frac12"),
    ],
)
def test_equal_by_the_maths_scorer(text: str, gold: str) -> None:
    reading = read_expression(text)
    doc = Doc(id="d", task="t", row=0, query="q", gold=(gold,))
    assert MathScorer().judge_text(doc, f"\\boxed{{{reading.value}}}").value == 1.0


def test_cuts_and_thoughts() -> None:
    assert read_expression("<think>\\boxed{3}").reason is Reason.CUT
    assert read_expression("<think>\\boxed{3}</think>\\boxed{x}").value == "x"
    assert read_expression("So we have $x = 2", truncated=True).reason is Reason.CUT
    assert read_expression("").reason is Reason.NONE


def test_the_span_stands_in_the_text() -> None:
    text = "The final answer is $\\frac{\\pi}{2}$."
    reading = read_expression(text)
    assert reading.span is not None
    assert text[slice(*reading.span)] == "$\\frac{\\pi}{2}$"


HOSTILE = [
    "$",
    "$1$ ",
    "\\(",
    "\\[",
    "x = 1 or ",
    "\\boxed{1}, ",
    "#### ",
    "\\frac",
    "√",
    "sqrt(",
    "{",
    "5 cm ",
    "= ",
    "答案是",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = (piece * (100_000 // len(piece) + 1))[:100_000]
    start = time.process_time()
    read_expression(text)
    assert time.process_time() - start < 1
