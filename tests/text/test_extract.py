"""Numbers in text: a table of texts, laws of the canonical form, hostile sizes, published
verdicts.
"""

from __future__ import annotations

import json
import os
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workspace import ROOT

from evalrun.backends.base import cut_at_stop
from evalrun.errors import Fault
from evalrun.metrics import make_scorer
from evalrun.text import extract
from evalrun.text.extract import EXTRACTORS, extract_number, extract_whole
from evalrun.text.numbers import find_numbers, parse_number, plain
from evalrun.types import Doc

CASES = ROOT / "tests" / "cases"
SHARED = Path(os.environ.get("EVALRUN_SHARED") or ROOT.parent / "shared")
PUBLISHED = {
    "6b_finetuning": 0.216831,
    "6b_verification": 0.390447,
    "175b_finetuning": 0.347233,
    "175b_verification": 0.562547,
}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


def shared(name: str) -> list[dict[str, Any]]:
    path = SHARED / "data" / name
    if not path.exists():
        pytest.skip(f"{path} is not here (EVALRUN_SHARED)")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def doc(*gold: str) -> Doc:
    return Doc(id="d1", task="t", row=0, query="q", gold=gold)


@pytest.mark.parametrize("row", rows("numbers.jsonl"), ids=lambda row: repr(row["text"][:40]))
def test_number_table(row: dict[str, Any]) -> None:
    found = extract_number(row["text"])
    assert (found and found.text, found and found.rule) == (row["expected"], row["rule"])


@pytest.mark.parametrize("row", rows("number_verdicts.jsonl"), ids=lambda row: row["id"])
def test_reported_verdicts(row: dict[str, Any]) -> None:
    text, _ = cut_at_stop(row["prediction"], tuple(row["stop"]))
    assert make_scorer(None, "number").judge_text(doc(row["gold"]), text).value == row["expected"]


@pytest.mark.parametrize(
    ("text", "span_text"),
    [
        ("so −1,234.50 dollars", "−1,234.50"),
        ("答案：７２元", "７２"),
        ("He pays -$5.", "-$5"),
        ("\\boxed{ 3\\frac{1}{2} }", "3\\frac{1}{2}"),
    ],
)
def test_span_is_where_it_stands_in_the_original(text: str, span_text: str) -> None:
    found = extract_number(text)
    assert found is not None
    assert text[slice(*found.span)] == span_text


def test_all_numbers_of_a_text() -> None:
    text = plain("(1,2) and 1,234 of 5-3, 10% at 5:30 on 2024-05-03; x2 = -7/2")
    assert [hit.canonical for hit in find_numbers(text)] == [
        "1",
        "2",
        "1234",
        "5",
        "3",
        "10",
        "-3.5",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.50", Fraction(2469, 2)),
        ("-1/3", Fraction(-1, 3)),
        ("$72.", Fraction(72)),
        ("3 1/2", Fraction(7, 2)),
        ("1.5e-3", Fraction(3, 2000)),
        ("50%", Fraction(50)),
        ("72 apples", None),
        ("1,2", None),
        ("", None),
        ("7" * 5000, None),
    ],
)
def test_parse_number(text: str, value: Fraction | None) -> None:
    assert parse_number(text) == value


@st.composite
def written_numbers(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A spelling and its value."""
    sign = draw(st.sampled_from(["", "-", "−"]))
    whole, digits = draw(st.integers(0, 10**7)), draw(st.text("0123456789", max_size=4))
    kind = draw(st.sampled_from(["plain", "grouped", "ratio", "frac", "exp"]))
    bottom = draw(st.integers(1, 10**4))
    if kind in ("ratio", "frac"):
        text = f"{whole}/{bottom}" if kind == "ratio" else f"\\frac{{{whole}}}{{{bottom}}}"
        value = Fraction(whole, bottom)
    else:
        text = f"{whole:,}" if kind == "grouped" else str(whole)
        text += f".{digits}" if digits else ""
        value = Fraction(f"{whole}.{digits or 0}")
        if kind == "exp":
            power = draw(st.integers(-20, 20))
            text, value = f"{text}e{power}", value * Fraction(10) ** power
    return sign + text, -value if sign else value


@given(written_numbers(), written_numbers())
def test_canonical_texts_are_equal_just_where_the_numbers_are(
    one: tuple[str, Fraction], two: tuple[str, Fraction]
) -> None:
    first, second = extract_number(one[0]), extract_number(f"The answer is {two[0]}.")
    assert first is not None
    assert second is not None
    assert (first.text == second.text) == (one[1] == two[1])
    assert Fraction(first.text) == one[1] == parse_number(one[0]) == parse_number(first.text)


@given(st.text("0123456789 ,.-/$%:=(){}\\^e#Aanswr\nié答案是", max_size=60))
def test_any_text_is_read_without_a_fault(text: str) -> None:
    found = extract_number(text)
    if found is not None:
        assert extract_number(found.text) is not None
        assert 0 <= found.span[0] < found.span[1] <= len(text)


@given(
    st.lists(
        st.sampled_from(["12", "-3", ", ", " - ", ")", "; ", " 1/2", "3rd ", "x", " 000"]),
        max_size=40,
    )
)
def test_windows_change_nothing(parts: list[str]) -> None:
    text = "".join(parts)
    whole = extract._last_number(text)
    before = extract._WINDOW
    extract._WINDOW = 8
    try:
        assert extract._last_number(text) == whole
    finally:
        extract._WINDOW = before


HOSTILE = [
    "1",
    "1,",
    "(1)",
    "111,",
    "111 ",
    "1/",
    "1.1",
    "1e",
    "1^",
    "1 - ",
    "- ",
    "-",
    " ",
    "(",
    "{",
    "a1",
    "=1 ",
    "½",
    "\\boxed{",
    "\\frac{1}",
    "answer:",
    "answer is ",
    "A:\n",
    "####",
    "#### a\n",
    "#### 1. a\n",
    "1 1/",
    "$$",
    "1:30",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_reading_takes_linear_time(unit: str) -> None:
    """Ten times the text may take some ten times as long; a quadratic rule would take a hundred."""
    took = []
    for size in (20_000, 200_000):
        text = unit * (size // len(unit))
        started = time.process_time()
        extract_number(text)
        took.append(time.process_time() - started)
    assert took[1] < 0.5 + 25 * took[0]


@pytest.mark.parametrize("unit", ["1", "111,", "(1)", ",", "("])
def test_a_megabyte_is_read_in_linear_time(unit: str) -> None:
    took = []
    for size in (100_000, 1_000_000):
        started = time.process_time()
        extract_number(unit * (size // len(unit)))
        took.append(time.process_time() - started)
    assert took[1] < 0.5 + 30 * took[0]


def test_numbers_of_any_length_compare_exactly() -> None:
    scorer = make_scorer("number", None)
    long = "7" * 5000
    assert scorer.judge_text(doc(long), f"It is {long}.000").value == 1.0
    assert scorer.judge_text(doc(long), f"It is {long[:-1]}8").value == 0.0
    assert scorer.judge_text(doc("1"), f"{long}/{long}").value == 0.0
    assert scorer.judge_text(doc("1"), "1e999999999").value == 0.0


def test_whole_text_extractor() -> None:
    assert extract_whole("  a b\n") == extract.Extraction("a b", (2, 5), "whole")
    assert extract_whole(" \n") == extract.Extraction("", (0, 0), "whole")


def test_an_unknown_extractor_names_the_nearest() -> None:
    with pytest.raises(Fault, match=r"There is no extractor 'numbr'\. Did you mean 'number'\?"):
        EXTRACTORS.get("numbr")


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_gsm8k_verdicts(model: str) -> None:
    scorer = make_scorer(None, "number")
    data = shared("gsm8k_model_solutions.jsonl")
    verdicts = scorer.judge_batch(
        [(doc(row["ground_truth"]), row[model]["solution"]) for row in data]
    )
    wrong = [
        i for i, row in enumerate(data) if verdicts[i].value != float(row[model]["is_correct"])
    ]
    assert wrong == []
    assert round(sum(v.value or 0 for v in verdicts) / len(data), 6) == PUBLISHED[model]


def test_gsm8k_golds() -> None:
    data = shared("gsm8k_test.jsonl")
    for row in data:
        found = extract_number(row["answer"])
        assert found is not None
        assert (found.text, found.rule) == (
            row["answer"].rsplit("#### ", 1)[1].replace(",", ""),
            "hashes",
        )
    assert len(data) == 1319
