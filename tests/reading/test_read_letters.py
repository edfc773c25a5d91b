"""The option that a text states: cases for and against each rule, laws, linear time."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.errors import Fault
from evalrun.reading.base import Reason
from evalrun.reading.cues import LANGUAGES, SCRIPTED
from evalrun.reading.letters import EVIDENCE, RULES, WEAK_RULES, find_statements, read_letter
from evalrun.reading.run_on import run_on

CASES = Path(__file__).parents[1] / "cases"
OPTIONS = [
    *("Paris", "the Seine", "42 m/s", "Both A and C", "none of the above", "glucose"),
    *("$1,385", "mitochondria", "I and II only", "photosynthesis"),
]
INVENTED = "\n\nQuestion: What is 2 + 2?\nOptions:\nA. 3\nB. 4\nAnswer: The answer is (B)."
LETTERS = {ord(a): b for a, b in zip("ＡＢＣＤ", "ABCD", strict=True)}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


ROWS = rows("reading_letters.jsonl")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['rule']}-{row['text'][:30]!r}")
def test_cases(row: dict[str, Any]) -> None:
    reading = read_letter(row["text"], row.get("options", 10))
    assert reading.value == row["expected"], row["why"]
    if row["rule"] in RULES:
        assert (reading.rule == row["rule"]) is (row["side"] == "for")
    assert reading.is_weak is (reading.rule in WEAK_RULES)
    assert (reading.reason is None) is (reading.value is not None)


def test_every_rule_has_cases_for_and_against() -> None:
    sides = {(row["rule"], row["side"]) for row in ROWS}
    assert sides == {(rule, side) for rule in RULES + EVIDENCE for side in ("for", "against")}
    assert set(RULES) >= WEAK_RULES


STATED = [row for row in ROWS if row["expected"] is not None]


@pytest.mark.parametrize("row", STATED, ids=lambda row: row["text"][:40])
def test_laws_of_a_stated_answer(row: dict[str, Any]) -> None:
    text, options = row["text"], row.get("options", 10)
    reading = read_letter(text, options)
    assert reading.span is not None
    stands = text[slice(*reading.span)]
    assert reading.rule == "text" or stands.translate(LETTERS).upper() == reading.value
    other = reading.runner_up
    assert other is None or (other.value != reading.value and other.end <= len(text))
    padded = read_letter(f" \n{text}\n\n ", options)
    assert (padded.value, padded.rule) == (reading.value, reading.rule)
    assert padded.span == (reading.span[0] + 2, reading.span[1] + 2)
    if "</think>" not in text and run_on(text) is None:
        assert read_letter(text.rstrip() + INVENTED, options).value == reading.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\\boxed{\\mathbf{B}}", "B"),
        ("$\\boxed{\\text{(B)}}$", "B"),
        ("The answer is `C`", "C"),
        ('The answer is "C. 42 m/s".', "C"),
        ("The answer is «C»", "C"),
        ("**Correct Answer: C**\n\n**Explanation:**\n- A is wrong\n- B is wrong", "C"),
        ("The answer is:\n\n**C. 42 m/s**", "C"),
        ("The answer is $\\boxed{\\text{C}}$.", "C"),
        ("Ans. (C)", "C"),
        ("| Answer | D |", "D"),
        ("✅ **D. Both A and C**", "D"),
        ("Correct answer → D", "D"),
        ("I select option D.", "D"),
        ("Vitamin A is fat soluble. Vitamin C is not.", None),
        ("It boils at 25 °C, so E = hf.", None),
        ("We are 95 % confident.", None),
        ("Let A be the event and B its complement. P(A) = 0.3.", None),
        ("The answer is B12.", None),
        ("The answer is C++.", None),
        ("The answer is U.S. law.", None),
        ("The answer is A + B.", None),
        ("The answer is I and II only.", "I"),
        ("The answer is (III).", None),
        ("B\n\nHuman: next one\n\nAssistant: C", "B"),
        ("B<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>C", "B"),
        ("", None),
        (" \n ", None),
    ],
)
def test_further_forms(text: str, value: str | None) -> None:
    assert read_letter(text, OPTIONS).value == value


@pytest.mark.parametrize("row", rows("letters.jsonl"), ids=lambda row: row["id"])
def test_published_cases(row: dict[str, Any]) -> None:
    assert read_letter(row["prediction"], row["n_letters"]).value == row["expected"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The answer is (A) and (C).", Reason.SEVERAL),
        ("There is no correct answer.", Reason.NONE),
        ("The wheel turns.", Reason.NONE),
        (
            "The energy is given by the sum of all the kinetic terms, and it follows that the",
            Reason.CUT,
        ),
        ("<think>The answer is A", Reason.CUT),
    ],
)
def test_reasons(text: str, reason: Reason) -> None:
    reading = read_letter(text, 4)
    assert (reading.value, reading.reason, reading.span, reading.rule) == (None, reason, None, None)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("The answer is (D), (A) and (C).", "D", "C"),
        ("(a) The answer is (A). (b) The answer is (C).", "A", "C"),
        ("The answer is (B).", "B", "B"),
    ],
)
def test_several_answers(text: str, first: str, last: str) -> None:
    assert read_letter(text, 4, several="first").value == first
    assert read_letter(text, 4, several="last").value == last


def test_a_cut_text_gives_no_hints() -> None:
    text = "The speed is 606 Hz, which is option E."
    assert read_letter(text, 5, truncated=False).value == "E"
    assert read_letter(text, 5, truncated=True).reason is Reason.CUT
    assert read_letter("The answer is (B). Then", 5, truncated=True).value == "B"


def test_a_letter_outside_the_options_is_no_answer() -> None:
    assert read_letter("The answer is (E).", 4).value is None
    assert read_letter("The answer is (E).", 5).value == "E"
    assert read_letter("The answer is (E).").value == "E"


@pytest.mark.parametrize("options", [0, 27, []])
def test_number_of_options(options: Any) -> None:
    with pytest.raises(ValueError, match="options must be 1 to 26"):
        read_letter("A", options)


def test_unknown_word_for_several() -> None:
    with pytest.raises(Fault, match=r"no choice 'all' in several\. Allowed: first, last, wrong"):
        read_letter("A", 4, several="all")


def test_languages() -> None:
    assert len(LANGUAGES) >= 12
    assert {"en", "zh", *SCRIPTED} <= set(LANGUAGES)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("B\n\nQuestion: next", "Question: next"),
        ("The answer is (B).\n\nQ: next", "Q: next"),
        ("答案是B。\n\n问题：下一题", "问题：下一题"),
        ("C</s> more", "</s> more"),
        ("The answer is B.\n\nOptions:\nA. 1\nB. 2", "Options:\nA. 1\nB. 2"),
        ("Let me repeat it:\n\nQ: What?\nA: 3", None),
        ("Question: What is 2 + 2?\nAnswer: 4", None),
        ("Here are the choices.\nOptions:\nA. one is wrong\nB. two. The answer is B", None),
        ("* Q: a charge\nThe answer is B", None),
    ],
)
def test_where_an_invented_question_begins(text: str, rest: str | None) -> None:
    place = run_on(text)
    assert (None if place is None else text[place:]) == rest


@given(st.text(alphabet="ABCDEab is.:()*\n答案选，answer${}", max_size=60), st.integers(1, 5))
def test_what_is_found_stands_there_and_is_an_option(text: str, count: int) -> None:
    reading = read_letter(text, count)
    if reading.span is not None:
        assert text[slice(*reading.span)].upper() == reading.value
        assert "A" <= str(reading.value) <= "ABCDE"[count - 1]


PIECES = [
    *(
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
    ),
    *("A_", "```\n", "(A), ", "The answer is (A). ", "not A but ", "if the answer is ", "correct "),
    *("Option A is correct. ", "best of the ", "\n", "\n\nQ", "wait, it is ", "\nA. x", "A and "),
    *(
        "<think>",
        "因此选A，",
        "**",
        "closest option ",
        "(a) so ",
        "x = 5 is ",
        "✓",
        "the answer is a ",
    ),
]


def seconds(text: str) -> float:
    best = float("inf")
    for _ in range(2):
        started = time.process_time()
        read_letter(text, OPTIONS)
        best = min(best, time.process_time() - started)
    return best


@pytest.mark.parametrize("piece", PIECES)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    short, long = piece * (10_000 // len(piece)), piece * (100_000 // len(piece))
    took = seconds(long)
    assert took < 2
    assert took < 0.05 or took < 25 * seconds(short)  # 12 on a quiet machine


def test_statements_come_in_order() -> None:
    found = find_statements("The answer is (A). (B) is correct. Wait, it is (C).")
    assert [each.names[0].letter for each in found] == ["A", "B", "C"]
    assert [each.rule for each in found] == ["answer", "called_right", "correction"]
