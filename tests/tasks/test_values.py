"""Single values of a dataset: their text, their place, when two are equal."""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import pickle

import pytest

from evalrun.tasks.values import MISSING, Number, as_text, is_same, jsonable, lookup


def test_lookup_goes_into_nested_values() -> None:
    row = {
        "a.b": 1,
        "a": {"b": 2, "c.d": {"e": 3}},
        "l": [{"t": "x"}, {"t": "y"}],
        "answers": {"text": ["p", "q"]},
    }
    table = {
        "a.b": 1,
        "a.c.d.e": 3,
        "l.1.t": "y",
        "l.t": ["x", "y"],
        "answers.text": ["p", "q"],
        "answers.text.0": "p",
    }
    assert {path: lookup(row, path) for path in table} == table
    assert all(
        lookup(row, path) is MISSING
        for path in ("z", "a.z", "l.2.t", "l.z", "a.b.c", "answers.text.x")
    )


def test_numbers_keep_their_text() -> None:
    number = Number("2.50")
    assert number == 2.5
    assert f"{number} {number:.1f}" == "2.50 2.5"
    assert json.dumps({"x": number}) == '{"x": 2.5}'
    assert [as_text(v) for v in (number, 1, True, None, float("nan"), [1], b"\xff")] == [
        "2.50",
        "1",
        "true",
    ] + [None] * 4
    assert is_same(1, 1.0)
    assert not is_same(True, 1)
    assert jsonable({"a": (b"x", [number])}) == {"a": ["x", [2.5]]}
    assert [
        str(again) for again in (copy.deepcopy(number), pickle.loads(pickle.dumps(number)))
    ] == ["2.50"] * 2


def test_dates_decimals_and_bytes_have_texts() -> None:
    values = (datetime.date(2024, 1, 5), decimal.Decimal("1.10"), b"\xc3\xa9", -0.5)
    assert [as_text(value) for value in values] == ["2024-01-05", "1.10", "\u00e9", "-0.5"]
    with pytest.raises(ValueError, match="a value of type bytes has no text form"):
        jsonable([b"\xff"])
