"""The option letter of a text, the box and the program in it: published cases, Chinese forms,
what must not count.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workspace import ROOT

from evalrun.metrics import make_scorer
from evalrun.text.extract import extract_boxed, extract_code
from evalrun.text.letters import extract_letter
from evalrun.types import Doc, State

ROWS = [
    json.loads(line)
    for line in (ROOT / "tests" / "cases" / "letters.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_published_cases(row: dict[str, Any]) -> None:
    found = extract_letter(row["prediction"], row["n_letters"])
    assert found is not None
    assert found.text == row["expected"]
    assert row["prediction"][slice(*found.span)].upper() == row["expected"]


@pytest.mark.parametrize(
    ("text", "letter", "rule"),
    [
        ("(b)", "B", "whole"),
        (" **C**. ", "C", "whole"),
        ("\\boxed{\\text{C}}", "C", "boxed"),
        ("Answer: B\nwait, \\boxed{C}", "C", "boxed"),
        ("\\boxed{C}\nAnswer: B", "B", "cue"),
        ("The answer is not A. The answer is B", "B", "cue"),
        ("The answer is A because it fits", "A", "cue"),
        ("The correct answer is option (D).", "D", "cue"),
        ("Final answer\n\n**C**", "C", "cue"),
        ("I'd go with C here", "C", "cue"),
        ("R\u00e9ponse : C", "C", "cue"),
        ("\u041e\u0442\u0432\u0435\u0442: B", "B", "cue"),
        ("答案选C", "C", "cue"),
        ("应选（B）", "B", "cue"),
        ("答案：Ｂ", "B", "cue"),
        ("选D。", "D", "cue"),
        ("正确选项是B，A不对", "B", "cue"),
        ("所以选择A选项。", "A", "cue"),
        ("答案为A。解析：B选项不对", "A", "cue"),
        ("选项A错误，选项B正确，选项C错误", "B", "stated"),
        ("C是正确答案", "C", "stated"),
        ("B is not correct, D is correct", "D", "stated"),
        ("Option A is wrong. Option B is the right choice.", "B", "stated"),
        ("c) seven", "C", "head"),
        ("A. foo\nB. bar\n\n**C**", "C", "last_line"),
        ("It must be (C), I think", "C", "only"),
    ],
)
def test_letters_and_their_rules(text: str, letter: str, rule: str) -> None:
    found = extract_letter(text, 4)
    assert found is not None
    assert (found.text, found.rule) == (letter, rule)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I don't know",
        "Answer: A bird flies south",
        "Answer: I think so",
        "The answer is A or B.",
        "答案是A或B",
        "the answer is b",
        "answer is A's cat",
        "If the answer is A, then x = 3",
        "Answer: E",
        "Answer: E, though A was close",
        "A. foo\nB. bar\nso nothing",
        "不选A",
        "It is not C",
        "A和B都不对",
        "Many pick A, some take B",
        "D-day came, U.S.A. too",
    ],
)
def test_texts_that_state_no_letter(text: str) -> None:
    assert extract_letter(text, 4) is None


@pytest.mark.parametrize("n_letters", [0, 27])
def test_number_of_letters_is_checked(n_letters: int) -> None:
    with pytest.raises(ValueError, match=r"1\.\.26"):
        extract_letter("A", n_letters)


@given(st.text(alphabet="ABCDEab is.:()*\n答案选，answer", max_size=60), st.integers(1, 5))
def test_what_is_found_stands_there_and_is_an_option(text: str, n_letters: int) -> None:
    found = extract_letter(text, n_letters)
    if found is not None:
        assert text[slice(*found.span)].upper() == found.text
        assert "A" <= found.text <= "ABCDE"[n_letters - 1]


@pytest.mark.parametrize(
    "piece",
    [
        "A ",
        "答案",
        "the answer is ",
        " ",
        "(",
        "\\boxed{",
        "A.\n",
        "选",
        "I will ",
        "answer",
        "*",
        "_",
        "A_",
        "```\n",
    ],
)
def test_long_texts_take_linear_time(piece: str) -> None:
    started = time.process_time()
    extract_letter(piece * (200_000 // len(piece)))
    extract_code(piece * (200_000 // len(piece)))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("gold", "choices", "text", "value"),
    [
        ((1,), ("red", "blue"), "The answer is B.", 1.0),
        ((1,), ("red", "blue"), "The answer is A.", 0.0),
        (("blue",), ("red", "blue"), "B", 1.0),
        (("B",), (), "B", 1.0),
        (("(b).",), (), "B", 1.0),
        ((0, 1), ("red", "blue", "green"), "Answer: B", 1.0),
    ],
)
def test_letter_scorer(gold: Any, choices: tuple[str, ...], text: str, value: float) -> None:
    doc = Doc(id="d", task="t", row=0, query="q", gold=gold, choices=choices)
    for scorer in (
        make_scorer(None, "letter"),
        make_scorer("exact_match", "letter"),
        make_scorer("letter", None),
    ):
        assert scorer.check_doc(doc) is None
        assert scorer.judge_text(doc, text).value == value


def test_letter_scorer_without_a_letter() -> None:
    scorer, doc = (
        make_scorer("letter", None),
        Doc(id="d7", task="t", row=0, query="q", gold=(1,), choices=("x", "y")),
    )
    verdict = scorer.judge_text(doc, "Answer: C")
    assert (verdict.value, verdict.state, verdict.extracted) == (0.0, State.UNPARSED, None)
    bad = Doc(id="d7", task="t", row=0, query="q", gold=("purple",), choices=("x", "y"))
    assert (
        scorer.check_doc(bad)
        == "letter.v1: a gold of document 'd7' is neither an option letter nor one of its choices"
    )
    with pytest.raises(ValueError, match="'d7'"):
        scorer.judge_text(bad, "A")


@pytest.mark.parametrize(
    ("text", "expected", "rule"),
    [
        (
            "Here you go:\n```\ndef add(a, b):\n    return a + b\n```\nDone.",
            "def add(a, b):\n    return a + b",
            "fence",
        ),
        (
            "```python\ndef add(a, b):\n    return a + b\n```",
            "def add(a, b):\n    return a + b",
            "fence",
        ),
        ("```\n\n```\n```py\nx = 1\n```\n```\ny\n```", "x = 1", "fence"),
        ("~~~c\nint x;\n~~~", "int x;", "fence"),
        ("```python\n    return 1\n\n", "    return 1", "open_fence"),
        ("\n    return 1\n", "    return 1", "whole"),
        ("", "", "whole"),
    ],
)
def test_programs(text: str, expected: str, rule: str) -> None:
    found = extract_code(text)
    assert (found.text, found.rule) == (expected, rule)
    assert text[slice(*found.span)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{1} \\boxed{ {2} }", "{2}"),
        ("\\fbox{x\\}}", "x\\}"),
        ("\\boxed{1} \\boxed{2", "1"),
        ("none", None),
    ],
)
def test_boxes(text: str, expected: str | None) -> None:
    found = extract_boxed(text)
    assert (found and found.text) == expected
    assert found is None or text[slice(*found.span)] == expected
