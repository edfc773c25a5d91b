"""Ends of sentences: found on demand, the same as by one pass over the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.reading.numbers.number_sentences import Sentences


def ends(text: str) -> list[int]:
    """All ends, asked for one after the other."""
    found, at = [], -1
    while (place := Sentences(text, 0, len(text)).after(at + 1)) is not None:
        found.append(place)
        at = place
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He has 3. She has 4.", [8, 19]),
        ("It is 3.5 m. Yes", [11]),
        ("e.g. this, i.e. that vs. those.", [30]),
        ("J. Smith (A. Jones) left.", [24]),
        ("\n1. Tom\n2. Ann", [0, 7]),
        ("他有3个。她有4个！", [4, 9]),
        ('He said "yes." Then no', [12]),
        ("", []),
    ],
)
def test_ends(text: str, expected: list[int]) -> None:
    assert ends(text) == expected


@given(st.text(alphabet='aA1 .\n?。"', max_size=1600), st.integers(0, 1600))
def test_on_demand_is_as_by_one_pass(text: str, at: int) -> None:
    by_one_pass = Sentences(text, 0, len(text))
    for _ in range(40):  # so many questions make it search the whole text
        by_one_pass.before(0)
    fresh = Sentences(text, 0, len(text))
    assert fresh.before(at) == by_one_pass.before(at)
    assert fresh.after(at) == by_one_pass.after(at)
    found = ends(text)
    assert by_one_pass.after(at) == next((end for end in found if end >= at), None)
    assert by_one_pass.before(at) == next((end for end in reversed(found) if end < at), None)
    assert all(a < b for a, b in itertools.pairwise(found))
