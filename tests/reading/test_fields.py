"""Answers at a named place: JSON field, tag, regular expression, box, program; and `read`."""

from __future__ import annotations

import time
from typing import Any

import pytest

from evalrun.errors import Fault
from evalrun.reading.base import Reason
from evalrun.reading.boxed import read_boxed
from evalrun.reading.code import read_code
from evalrun.reading.kinds import KINDS, read
from evalrun.reading.marked import read_json, read_regex, read_tag, read_whole


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ('{"answer": "B"}', "B", "json"),
        ('```json\n{"why": "x {y}", "answer": 5.10}\n```', "5.10", "json"),
        ('{"out": {"answer": true}}', "true", "json"),
        ('{"answer": ["a", 1]}', '["a", 1]', "json"),
        ('{"answer": 1} then {"answer": 2}', "2", "json"),
        ('{"answer": "\\frac{1}{2}"}', "\\frac{1}{2}", "json"),
        ('{"answer": "one\\ntwo"}', "one\ntwo", "json"),
        ("{'answer': 'B',}", "B", "json_text"),
        ('{"why": "he said "no"", "answer": "B"}', "B", "json_text"),
        ('{"answer": null}', None, None),
        ('{"answer": ""}', None, None),
        ('{"other": 1}', None, None),
        ("answer: 5", None, None),
        ('<think>{"answer": 1}</think>{"answer": 2}', "2", "json"),
    ],
)
def test_json(text: str, value: str | None, rule: str | None) -> None:
    reading = read_json(text, "answer")
    assert (reading.value, reading.rule) == (value, rule)


def test_json_span_and_cut() -> None:
    text = '{"answer": "abc"}'
    span = read_json(text, "answer").span
    assert span is not None
    assert text[slice(*span)] == "abc"
    assert read_json('{"answer": 12', "answer", truncated=True).reason is Reason.CUT
    runner_up = read_json('{"answer": 1} {"answer": 2}', "answer").runner_up
    assert runner_up is not None
    assert runner_up.value == "1"


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("<answer> 5 </answer>", "5", "tag"),
        ("<ANSWER>5</Answer>", "5", "tag"),
        ('<answer type="x">5</answer>', "5", "tag"),
        ("<answer>5</answer><answer>6</answer>", "6", "tag"),
        ("<answer>5", "5", "open_tag"),
        ("<answer></answer>", None, None),
        ("<answers>5</answers>", None, None),
        ("<think><answer>1</answer></think>", None, None),
    ],
)
def test_tag(text: str, value: str | None, rule: str | None) -> None:
    reading = read_tag(text, "answer")
    assert (reading.value, reading.rule) == (value, rule)


def test_a_tag_that_was_cut_and_a_name_that_is_none() -> None:
    assert read_tag("<answer>5", "answer", truncated=True).reason is Reason.CUT
    with pytest.raises(Fault, match="letters, digits"):
        read_tag("x", "a b")


def test_regex() -> None:
    text = "x=1 x=22"
    assert read_regex(text, r"x=(\d+)").value == "22"
    assert read_regex(text, r"x=(\d+)", which="first").value == "1"
    assert read_regex(text, r"x=\d+").value == "x=22"
    assert read_regex(text, r"(?P<n>\d+)", group="n").span == (6, 8)
    assert read_regex(text, r"y=(\d+)").reason is Reason.NONE
    assert read_regex(text, r"y=(\d+)", truncated=True).reason is Reason.CUT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "a", "group": 2}, "has no group 2"),
        ({"pattern": "(a)", "group": "n"}, "has no group 'n'"),
        ({"pattern": "a", "which": "lst"}, "Did you mean 'last'"),
    ],
)
def test_regex_faults(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Fault, match=message):
        read_regex("a", **arguments)


def test_a_regex_that_would_take_for_ever_is_stopped() -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match="Nested repetitions"):
        read_regex("a" * 60 + "b", "(a|aa)+$", timeout_s=0.2)
    assert time.monotonic() - start < 5


def test_boxed() -> None:
    text = "First \\boxed{3}, then \\boxed{ x^2 } and \\boxed{}."
    reading = read_boxed(text)
    assert (reading.value, reading.rule) == ("x^2", "boxed")
    assert text[slice(*reading.span or (0, 0))] == "x^2"
    assert reading.runner_up is not None
    assert reading.runner_up.value == "3"
    assert read_boxed("none").reason is Reason.NONE
    assert read_boxed("\\boxed{3", truncated=True).reason is Reason.CUT


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("```python\n\n    x = 1\n```\nIt works.", "    x = 1", "fence"),
        ("```\n```\n~~~\ny\n~~~", "y", "fence"),
        ("Here:\n```python\nx = 1\ny =", "x = 1\ny =", "open_fence"),
        ("x = 1\n", "x = 1", "whole"),
        ("<think>\n```\nz\n```\n</think>\n```\nx\n```", "x", "fence"),
        (" \n", None, None),
    ],
)
def test_code(text: str, value: str | None, rule: str | None) -> None:
    reading = read_code(text)
    assert (reading.value, reading.rule) == (value, rule)


def test_whole() -> None:
    assert read_whole("  a b\n").span == (2, 5)
    assert read_whole(" \n").reason is Reason.NONE


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("number", "7"),
        ("expression", "7"),
        ("math", "7"),
        ("boxed", "7"),
        ("none", 'The answer is \\boxed{7} <a>8</a> {"b": 9}'),
        ({"tag": "a"}, "8"),
        ({"json": "b"}, "9"),
        ({"regex": r"(\d)<"}, "8"),
        ({"regex": r"(\d)", "group": 1, "which": "first"}, "7"),
    ],
)
def test_read(kind: Any, value: str) -> None:
    assert read('The answer is \\boxed{7} <a>8</a> {"b": 9}', kind).value == value


def test_read_letter() -> None:
    assert read("The answer is (B).", "letter", options=["x", "y"]).value == "B"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("numbr", "Did you mean 'number'"),
        ({"jsn": "a"}, "Did you mean 'json'"),
        ({}, "A mapping names one of"),
        ({"json": "a", "tag": "b"}, "A mapping names one of"),
        ({"regex": "a", "grup": 1}, "Did you mean 'group'"),
        ({"tag": ""}, "a text is needed"),
    ],
)
def test_read_faults(kind: Any, message: str) -> None:
    with pytest.raises(Fault, match=message):
        read("x", kind)


def test_every_kind_reads_any_text() -> None:
    for kind in KINDS:
        assert read("", kind).value is None
