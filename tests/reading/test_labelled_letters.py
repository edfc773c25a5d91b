"""Rates of the letter reader over the open labelled rows, held by bounds."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evalrun.reading.base import Reading
from evalrun.reading.letters import RULES, WEAK_RULES, read_letter

FOLDER = Path(os.environ.get("EVALRUN_SHARED") or Path(__file__).parents[3] / "shared") / "reading"
pytestmark = pytest.mark.skipif(
    not (FOLDER / "letters.jsonl").exists(), reason=f"{FOLDER} is not here"
)
WEAK_BELOW = 0.95
HINTS = {"conclusion", "called_true", "so", "fits", "tick"}


@cache
def read_all() -> list[tuple[dict[str, Any], Reading]]:
    lines = (FOLDER / "letters.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row, read_letter(row["text"], row["options"])) for row in map(json.loads, lines)]


@pytest.mark.parametrize(("kind", "bound", "false"), [("random", 0.99, 0), ("disagree", 0.98, 2)])
def test_rates(kind: str, bound: float, false: int) -> None:
    verdicts = Counter(
        "right"
        if reading.value == row["label"]
        else "false"
        if row["label"] is None
        else "missed"
        if reading.value is None
        else "wrong"
        for row, reading in read_all()
        if row["kind"] == kind
    )
    print(kind, dict(verdicts))
    assert verdicts["right"] >= bound * verdicts.total()
    assert verdicts["false"] <= false


def test_weak_rules_are_those_that_the_rows_show() -> None:
    decided: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for row, reading in read_all():
        if reading.rule is not None:
            decided[reading.rule][reading.value == row["label"]] += 1
    for rule, counts in sorted(decided.items()):
        print(f"{rule:14s} {counts[True]:4d} of {counts.total():4d}")
    weak = {
        rule
        for rule in RULES
        if (not decided[rule] and rule in HINTS)
        or decided[rule][True] < WEAK_BELOW * decided[rule].total()
    }
    assert weak == WEAK_RULES


def test_reasons_agree_with_the_labels() -> None:
    silent = [(row, got) for row, got in read_all() if row["label"] is None and got.value is None]
    agree = sum(row["reason"] == got.reason for row, got in silent)
    print(f"reason as labelled: {agree} of {len(silent)}")
    assert agree >= 0.85 * len(silent)
