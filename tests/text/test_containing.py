"""Whole words inside a text."""

from __future__ import annotations

import pytest

from evalrun.text.containing import whole_words


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("Paris", "It is Paris."),
        ("paris", "PARIS"),
        ("New York", "in new \n york, today"),
        (" 5 ", "(5)"),
        ("5", "it is 5."),
        ("5", "5, 6"),
        ("5", "3-5"),
        ("-5", "so -5"),
        ("5", "costs $5"),
        ("3.14", "about 3.14!"),
        ("北京", "答案是北京市"),
        ("서울", "서울은 수도"),
        ("C++", "in C++ code"),
        ("cat", "concat a cat"),
        ("O'Neil", "the o'neil's"),
        ("café", "un café noir"),
    ],
)
def test_inside(part: str, text: str) -> None:
    span = whole_words(part, text)
    assert span is not None
    assert text[slice(*span)].casefold().split() == part.casefold().split()


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("Paris", "Parisian"),
        ("5", "15"),
        ("5", "5.2"),
        ("5", "1,5"),
        ("5", "-5"),
        ("5", "\u22125 degrees"),
        ("cat", "concat"),
        ("cafe", "cafe\u0301"),
        ("", "anything"),
        ("  ", "  "),
        ("a b", "ab"),
        ("x", ""),
    ],
)
def test_not_inside(part: str, text: str) -> None:
    assert whole_words(part, text) is None


def test_case_can_count() -> None:
    assert whole_words("Polish", "polish", is_case_ignored=False) is None
    assert whole_words("Polish", "a Polish poet", is_case_ignored=False) == (2, 8)
