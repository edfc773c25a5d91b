"""Numbers that texts state: cases for and against each rule, laws, linear time, published sets."""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.errors import Fault
from evalrun.reading.base import Reason
from evalrun.reading.numbers.number_cut import looks_cut
from evalrun.reading.numbers.number_place import RULES
from evalrun.reading.numbers.number_reader import WEAK_RULES, read_number
from evalrun.reading.numbers.number_values import chinese_at, find_values, find_words
from evalrun.text.numbers import plain

CASES = Path(__file__).parents[1] / "cases"
SHARED = Path(os.environ.get("EVALRUN_SHARED") or Path(__file__).parents[3] / "shared")
PUBLISHED = {
    "6b_finetuning": 0.216831,
    "6b_verification": 0.390447,
    "175b_finetuning": 0.347233,
    "175b_verification": 0.562547,
}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "row", rows("reading_numbers.jsonl"), ids=lambda row: f"{row['rule']}-{row['text'][:30]!r}"
)
def test_cases(row: dict[str, Any]) -> None:
    reading = read_number(row["text"])
    assert reading.value == row["expected"], row["why"]
    assert (reading.rule == row["rule"]) is (row["side"] == "for")


@pytest.mark.parametrize("name", ["reading_numbers.jsonl", "reading_expressions.jsonl"])
def test_every_rule_has_cases_for_and_against(name: str) -> None:
    sides = {(row["rule"], row["side"]) for row in rows(name)}
    assert sides == {(rule, side) for rule in RULES for side in ("for", "against")}
    assert set(RULES) >= WEAK_RULES


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer is 50%.", "50"),
        ("The answer is 2^10 = 1024.", "1024"),
        ("The answer is 6.02 x 10^23.", "602000000000000000000000"),
        ("The answer is 3/4 of the cake.", "0.75"),
        ("The answer is $18/day", "18"),
        ("Answer: \\$12", "12"),
        ("ANSWER = 7", "7"),
        ("Ans: 7", "7"),
        ("The answer, in dollars, is 7.", "7"),
        ("The correct answer is option B, which is 7.", "7"),
        ("The answer is `7`", "7"),
        ("Final Answer: The final answer is $20$. I hope it is correct.", "20"),
        ("Sarah has 3 times as many, i.e. 12 apples.", "12"),
        ("The 5-year-old boy has 12 marbles.", "12"),
        ("The area is 25 m^2.", "25"),
        ("Out of 20 students, 7 are absent.", "7"),
        ("The answer is approximately 3.14 (rounded to 2 decimal places).", "3.14"),
        ("There are no apples left, so the answer is 0.", "0"),
        ("答：小明一共有12个苹果。", "12"),
        ("因此，他每天走5公里，3天共走15公里。", "15"),
        ("答案：十二", "12"),
        ("应填：3", "3"),
        ("The answer is one half.", "0.5"),
        ("The answer is one and a half.", "1.5"),
        ("He needs two thirds of a cup.", "2/3"),
        ("So the answer is 1 and 1/2.", "1.5"),
        ("Answer: 1 and 1/2 cups", "1.5"),
        ("The roots are 1 and 1/2.", None),
        ("The answer is 3 and 4/2.", None),
        ("他需要99颗弹珠", "99"),
        ("Ответ: 7", "7"),
        ("答えは7です。", "7"),
        ("La réponse est 7.", "7"),
        ("<think>Is it 5?</think>\nThe answer is 12.", "12"),
        ("The answer is 5 because 2 + 3 = 5.", "5"),
        ("\\boxed{5 \\text{ and } 7}", None),
        ("I do not know: only 3 prices are given.", None),
        ("It is 5:30 pm.", None),
        ("", None),
        ("no digits", None),
    ],
)
def test_variants(text: str, value: str | None) -> None:
    assert read_number(text).value == value


def test_several_stated_numbers() -> None:
    text = "The answer is 3 or 5."
    wrong = read_number(text)
    assert (wrong.value, wrong.reason) == (None, Reason.SEVERAL)
    assert wrong.runner_up is not None
    assert wrong.runner_up.value == "3"
    assert read_number(text, several="first").value == "3"
    assert read_number(text, several="last").value == "5"
    with pytest.raises(Fault, match="Did you mean 'first'"):
        read_number(text, several="frist")


def test_a_cut_text_states_only_what_stood_before() -> None:
    text = "So he has 12 apples"
    assert read_number(text, truncated=False).value == "12"
    assert read_number(text, truncated=True).reason is Reason.CUT
    assert read_number("The answer is 12. To check it, we", truncated=True).value == "12"
    assert (
        read_number("The answer is 12", truncated=True).reason is Reason.CUT
    )  # 12 may be the start of 120
    assert read_number("So we get \\boxed{12}", truncated=True).value == "12"


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("The total is 5.", False),
        ("50 minutes", False),
        ("105/25 = 4.2", False),
        ("#### 12", False),
        ("\\boxed{3}", False),
        ("A: 7", False),
        ("First we add 3 and 4. Then we multiply the", True),
        ("1. Tom has 3 dogs.\n2. Ann has 2.\n3.", True),
        ("x = 5\n\nx = 4 +", True),
        ("We write $x + 3", True),
        ("The cost is:\n" * 5, True),
        ("1.8 m = 1800 mm = " * 12 + "1.8 m", True),
        ("0." + "0" * 200, True),
    ],
)
def test_whether_a_text_was_cut(text: str, is_cut: bool) -> None:
    assert looks_cut(text) is is_cut


def test_values_as_people_write_them() -> None:
    def values(text: str) -> list[str]:
        mapped = plain(text)
        return [each.value for each in find_values(mapped, 0, len(mapped))]

    assert values("1.5 million, 2 thousand, 3亿, 1.5万, $2k and 5k") == [
        "1500000",
        "2000",
        "300000000",
        "15000",
        "2000",
        "5",
    ]
    assert values("12,50,000 and 1.234,50 and 1.234.567 and 1'234.5") == [
        "1250000",
        "1234.5",
        "1234567",
        "1234.5",
    ]
    assert values("negative 5, minus 7, $-3") == ["-5", "-7", "-3"]
    assert values("\\frac{3}{4} million") == ["750000"]
    words = "one hundred and five, twenty-five, two million, negative twelve"
    assert [each.value for each in find_words(words, 0, len(words))] == [
        "105",
        "25",
        "2000000",
        "-12",
    ]
    chinese = [chinese_at(each, 0, len(each)) for each in ("十二", "一百零五", "三万二千", "x")]
    assert [each and each.value for each in chinese] == ["12", "105", "32000", None]
    words = "half a cup, one half, a third, two and three quarters"
    assert [each.value for each in find_words(words, 0, len(words))] == ["0.5", "2.75"]


STATED = ["The answer is 7.", "#### 7", "\\boxed{7}", "<answer>7</answer>", "答案是7。"]


@pytest.mark.parametrize("text", STATED)
def test_an_invented_question_changes_nothing(text: str) -> None:
    reading = read_number(text)
    longer = read_number(
        text + "\n\nQuestion: Tom has 3 dogs and buys 9.\nAnswer: 3 + 9 = 12. The answer is 12."
    )
    assert (longer.value, longer.span, longer.rule) == (reading.value, reading.span, reading.rule)


@pytest.mark.parametrize("text", STATED)
def test_white_space_around_changes_nothing(text: str) -> None:
    reading = read_number(f"\n  {text}\n\n")
    assert (reading.value, reading.rule) == ("7", read_number(text).rule)
    assert reading.span is not None
    assert f"\n  {text}\n\n"[slice(*reading.span)] == "7"


@given(
    st.text(max_size=200)
    | st.from_regex(r"(the answer is |#### |\\boxed\{|=|\$|[0-9.,]+|\n| or |<answer>|%){1,20}")
)
def test_any_text_gives_a_reading_that_holds_together(text: str) -> None:
    reading = read_number(text)
    assert (reading.value is None) == (reading.span is None) == (reading.rule is None)
    assert (reading.value is None) == (reading.reason is not None)
    if reading.span:
        assert 0 <= reading.span[0] < reading.span[1] <= len(text)
        assert reading.rule in RULES
    if reading.runner_up and reading.value:
        assert reading.runner_up.value != reading.value


HOSTILE = [
    "1",
    "1,",
    "the answer is ",
    "answer: ",
    "#### 1\n",
    "\\boxed{",
    "\\boxed{1}",
    "$",
    "So 1 ",
    "= ",
    "{",
    "<think>",
]
HOSTILE += [
    "\n",
    "1. ",
    "twenty ",
    "十",
    "12,34,",
    "1.234.",
    "答案是",
    "1/",
    "\\frac{1}{2}",
    "- ",
    " ",
    "*",
    "not ",
    "1 or ",
]
HOSTILE += [
    "## Example\n",
    "So the total is 5. ",
    "The answer is (B). ",
    "actually it is ",
    "\\text{a}",
    '{"answer": 1} ',
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = (piece * (100_000 // len(piece) + 1))[:100_000]
    start = time.process_time()
    read_number(text)
    assert time.process_time() - start < 1


def test_time_grows_with_the_length() -> None:
    piece = "Tom has 3 apples and buys 4 more, so he has 3 + 4 = 7 of them. We go on with this.\n"
    piece += "Then the answer is 7.\n"

    def seconds(times: int) -> float:
        started = [time.process_time()]
        for _ in range(3):
            read_number(piece * times)
            started.append(time.process_time())
        return min(b - a for a, b in itertools.pairwise(started))

    assert seconds(1000) < 14 * seconds(100) + 0.05


@pytest.mark.skipif(
    not (SHARED / "data" / "gsm8k_model_solutions.jsonl").exists(), reason="EVALRUN_SHARED"
)
@pytest.mark.parametrize("model", PUBLISHED)
def test_published_gsm8k_verdicts(model: str) -> None:
    path = SHARED / "data" / "gsm8k_model_solutions.jsonl"
    data = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    verdicts = [
        (value := read_number(row[model]["solution"]).value) is not None
        and value == read_number(row["ground_truth"]).value
        for row in data
    ]
    assert [i for i, row in enumerate(data) if verdicts[i] != row[model]["is_correct"]] == []
    assert round(sum(verdicts) / len(data), 6) == PUBLISHED[model]
