"""Rates of the number and formula readers over the open labelled rows, held by bounds."""

from __future__ import annotations

import json
import os
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evalrun.metrics.math.equality import MathScorer
from evalrun.reading.formulas import expressions
from evalrun.reading.numbers import number_reader as numbers
from evalrun.types import Doc

FOLDER = Path(os.environ.get("EVALRUN_SHARED") or Path(__file__).parents[3] / "shared") / "reading"
pytestmark = pytest.mark.skipif(
    not (FOLDER / "numbers.jsonl").exists(), reason=f"{FOLDER} is not here"
)
WEAK_BELOW = 0.95


@cache
def labelled() -> list[dict[str, Any]]:
    lines = (FOLDER / "numbers.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def exact(text: str) -> Fraction | str:
    try:
        return Fraction(text.replace(",", "").replace(" ", "").strip("$%"))
    except (ValueError, ZeroDivisionError):
        return text.strip()


def is_right_number(row: dict[str, Any], value: str | None) -> bool:
    if row["label"] is None or value is None:
        return row["label"] is None and value is None
    one, other = exact(row["label"]), exact(value)
    is_percent = row["percent"] and isinstance(one, Fraction) and isinstance(other, Fraction)
    return one == other or (is_percent and one == 100 * other)  # type: ignore[operator]


def is_right_formula(row: dict[str, Any], value: str | None) -> bool:
    if row["label"] is None or value is None:
        return row["label"] is None and value is None
    doc = Doc(id="d", task="t", row=0, query="q", gold=(row["label"],))
    return MathScorer().judge_text(doc, f"\\boxed{{{value}}}").value == 1.0


def rate(counts: Counter[bool]) -> float:
    return counts[True] / max(1, counts.total())


@pytest.mark.parametrize(("part", "bound"), [("random", 0.99), ("disagree", 0.97)])
def test_numbers(part: str, bound: float) -> None:
    rows = [row for row in labelled() if row["part"] == part and row["label_kind"] != "expression"]
    right = Counter(is_right_number(row, numbers.read_number(row["text"]).value) for row in rows)
    false = sum(
        row["label"] is None and numbers.read_number(row["text"]).value is not None for row in rows
    )
    print(
        f"\nnumbers, {part}: {rate(right):.1%} of {len(rows)} as labelled, {false} false readings"
    )
    assert rate(right) >= bound


def test_expressions() -> None:
    rows = [row for row in labelled() if row["label_kind"] == "expression"]
    right = Counter(
        is_right_formula(row, expressions.read_expression(row["text"]).value) for row in rows
    )
    print(f"\nexpressions: {rate(right):.1%} of {len(rows)} as labelled")
    assert rate(right) >= 0.97


def test_weak_rules_are_those_that_are_wrong_too_often() -> None:
    for reader, is_right in (
        (numbers.read_number, is_right_number),
        (expressions.read_expression, is_right_formula),
    ):
        by_rule: dict[str, Counter[bool]] = {}
        for row in labelled():
            if reader is numbers.read_number and row["label_kind"] == "expression":
                continue
            reading = reader(row["text"])
            if reading.rule is not None:
                by_rule.setdefault(reading.rule, Counter())[is_right(row, reading.value)] += 1
                assert reading.is_weak is (reading.rule in numbers.WEAK_RULES)
        print(f"\n{reader.__name__}: rule, rows decided, right")
        for rule, counts in sorted(by_rule.items(), key=lambda item: -item[1].total()):
            print(f"  {rule:14} {counts.total():4d}  {rate(counts):.1%}")
        weak = {rule for rule, counts in by_rule.items() if rate(counts) < WEAK_BELOW}
        assert weak == numbers.WEAK_RULES == expressions.WEAK_RULES
