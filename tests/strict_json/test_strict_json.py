"""Strict JSON and the dataclasses of it: nothing is guessed, and errors name the key."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.json_types import structured
from evalrun.strict_json import Misfit, from_json, from_object, frozen, number, plain, to_json


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    size: int = 1


@dataclass(frozen=True, slots=True)
class Whole:
    n: int
    rate: float
    is_on: bool
    colour: Colour
    parts: tuple[Part, ...]
    bounds: tuple[float, float] | None = None
    given: tuple[tuple[str, Any], ...] = ()
    header: dict[str, Any] | None = None
    note: str | None = None


GOOD: dict[str, Any] = {
    "n": 3,
    "rate": 0.5,
    "is_on": True,
    "colour": "blue",
    "parts": [{"name": "a"}, {"name": "b", "size": 2}],
}


def test_a_dataclass_and_back() -> None:
    extra = {"bounds": [0, "NaN"], "given": [["k", [1, [2]]]], "header": {"x": [1]}, "note": "é"}
    found = structured(Whole, from_json(to_json({**GOOD, **extra})))
    assert found.bounds is not None
    assert math.isnan(found.bounds[1])
    assert (found.colour, found.parts) == (Colour.BLUE, (Part("a"), Part("b", 2)))
    assert (found.given, found.header) == ((("k", (1, (2,))),), {"x": [1]})
    assert json.loads(to_json(found)) == json.loads(
        to_json({**GOOD, **extra, "parts": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]})
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": "3"}, "n is '3'; it must be a whole number"),
        ({"n": True}, "n is true; it must be a whole number"),
        ({"n": 3.0}, "n is 3.0; it must be a whole number"),
        ({"n": None}, "n is null; it must be a whole number"),
        ({"n": 2**63}, "n is a number that does not fit 64 bits"),
        ({"rate": "0.5"}, "rate is '0.5'; it must be a number"),
        ({"rate": False}, "rate is false; it must be a number"),
        ({"rate": 10**400}, "rate is a number that does not fit 64 bits"),
        ({"is_on": 1}, "is_on is 1; it must be true or false"),
        ({"colour": "green"}, "colour is 'green'; it must be one of red, blue"),
        ({"colour": []}, "colour is a list; it must be one of red, blue"),
        ({"parts": None}, "parts is null; it must be a list"),
        ({"parts": {"0": {}}}, "parts is an object; it must be a list"),
        ({"parts": ["x"]}, "parts[0] is 'x'; it must be an object"),
        ({"parts": [{"name": "a"}, {}]}, "parts[1].name is missing"),
        ({"parts": [{"name": "a", "size": "2"}]}, "parts[0].size is '2'; it must be a whole"),
        ({"parts": [{"name": "a", "sise": 2}]}, "parts[0].sise is no known key"),
        ({"bounds": [1]}, "bounds has 1 entries; it must have 2"),
        ({"bounds": [1, None]}, "bounds[1] is null; it must be a number"),
        ({"given": [["k", 1, 2]]}, "given[0] has 3 entries; it must have 2"),
        ({"header": [1]}, "header is a list; it must be an object"),
        ({"note": 1}, "note is 1; it must be a text"),
        ({"later": 1}, "later is no known key"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Misfit) as caught:
        structured(Whole, {**GOOD, **change})
    assert str(caught.value).startswith(message)


def test_keys_of_a_later_version() -> None:
    later = {**GOOD, "later": 1, "parts": [{"name": "a", "later": [1]}]}
    assert structured(Whole, later, has_more=True).parts == (Part("a"),)
    with pytest.raises(Misfit, match="n is missing"):
        structured(Whole, {}, has_more=True)
    with pytest.raises(Misfit, match="is 'x'; it must be an object"):
        structured(Whole, "x", has_more=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("NaN", "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ("[1e999]", "1e999 is larger than every float"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "c stands twice"),
        ("[" * 600 + "]" * 600, "nests more than 100"),
        ('{"cells": [' + "[" * 600 + "]" * 600 + "]}", "cells nests more than 100"),
        ("[" * 200_000, "nest more than 100 deep"),
        ('{"a":' * 200_000, "nest more than 100 deep"),
        ("1" * 10_000, "4300 digits"),
        ("{'a': 1}", "Expecting property name"),
        ("[1, ]", ""),
        (b"\xff\xfe", "can't decode"),
    ],
)
def test_text_that_is_no_strict_json(text: str | bytes, message: str) -> None:
    with pytest.raises(Misfit) as caught:
        from_json(text)
    assert message in str(caught.value)


def test_an_object_is_asked_for() -> None:
    assert from_object(b'{"a": [1]}') == {"a": [1]}
    with pytest.raises(Misfit, match="it holds no JSON object"):
        from_object("[]")


def test_nothing_is_written_that_would_not_be_read() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert from_json(to_json(deep)) == deep
    with pytest.raises(Misfit, match="nests more than 100"):
        to_json([[deep]])


def test_plain_values() -> None:
    assert plain({1: (True, None, {"a": b"x"})}) == {"1": [True, None, {"a": "b'x'"}]}
    assert plain([np.int64(3), np.array([0.5]), Colour.RED, Part("a")]) == [
        *(3, [0.5], "red"),
        {"name": "a", "size": 1},
    ]
    assert to_json([1.0, "é", math.nan, -math.inf]) == '[1.0,"é","NaN","-Infinity"]'
    assert to_json(["é"], indent=1, is_ascii=True) == '[\n "\\u00e9"\n]'
    assert frozen([1, [2, (3, [4])]]) == (1, (2, (3, (4,))))
    assert (number("Infinity"), number("x"), number(1)) == (math.inf, "x", 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=4), v, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_values_come_back(value: Any) -> None:
    text = to_json(value)
    assert text == to_json(from_json(text))
    assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


@given(JSON, st.sampled_from(sorted(GOOD)))
def test_any_value_in_any_place_is_taken_or_named(value: Any, name: str) -> None:
    path = ""
    try:
        structured(Whole, plain({**GOOD, name: value}))
    except Misfit as misfit:
        path = misfit.path
    assert path.partition("[")[0].partition(".")[0] in ("", name)
