"""The grammar of names and parameters: writers and readers are inverse, broken texts say why."""

from __future__ import annotations

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from evalrun.errors import Fault
from evalrun.grammar import (
    NamedCall,
    WrittenForm,
    elements,
    hydra_value,
    quoted,
    quoted_texts,
    read_call,
    read_pairs,
    read_value,
    split,
    unquote,
    write_call,
    write_pairs,
    write_value,
)

FORM = WrittenForm("thing", "the whole text", "NAME")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
HARD = st.text(st.sampled_from("'\"\\$ {}[](),=&|@:#~+1.é中\n\t"), max_size=12)
WORDS = st.sampled_from(["number", "None", "true", "null", "nan", "1e5", "it's", "a/b-c.d", "_x"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | HARD
VALUES = st.recursive(SCALARS | WORDS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
PAIRS = st.dictionaries(NAMES, VALUES, max_size=4)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ["a", "b"]),
        ("a , [b,c]", ["a", "[b,c]"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ("it's,that's", ["it's", "that's"]),
        ("'a\\',b',c", ["'a\\',b'", "c"]),
        ("'a\\\\',b", ["'a\\\\'", "b"]),
        ("f(a,b),{c: [d,e]}", ["f(a,b)", "{c: [d,e]}"]),
        ("accuracy,accuracy:scorer='exact_match(a=1,b=2)'", None),
        ("", [""]),
        ("a]],b", ["a]]", "b"]),
        ("'open,b", ["'open,b"]),
    ],
)
def test_split(text: str, parts: list[str] | None) -> None:
    assert split(text) == (parts or ["accuracy", "accuracy:scorer='exact_match(a=1,b=2)'"])


@given(st.lists(VALUES, min_size=1, max_size=5), st.sampled_from("&|@,;"))
def test_written_values_are_split_where_they_were_joined(values: list[Any], mark: str) -> None:
    written = [write_value(value) for value in values]
    assert split(mark.join(written), mark) == written


@given(VALUES)
def test_a_value_reads_back(value: Any) -> None:
    read = read_value(write_value(value), FORM)
    assert read == value
    assert type(read) is type(value)


@given(PAIRS)
def test_pairs_read_back(pairs: dict[str, Any]) -> None:
    written = write_pairs(pairs.items())
    assert read_pairs(split(written, "&") if written else [], FORM) == list(pairs.items())


@given(NAMES, st.none() | st.integers(0), PAIRS)
def test_a_call_reads_back(name: str, version: int | None, params: dict[str, Any]) -> None:
    written = write_call(name, version, params.items())
    assert read_call(written, FORM) == NamedCall(name, version, params)


@given(TEXTS | HARD)
@example("trailing\\")
@example("\\'")
def test_quoted_text_reads_back(text: str) -> None:
    assert unquote(quoted(text)) == text
    assert split(f"{quoted(text)},x") == [quoted(text), "x"]


@given(st.lists(HARD | TEXTS, min_size=1, max_size=3))
def test_hydra_reads_the_same(texts: list[str]) -> None:
    if any("${" in text for text in texts):  # an interpolation, which the command line refuses
        return
    parser = OverridesParser.create()
    assert parser.parse_override(f"k={hydra_value(texts)}").value() == texts
    written = "[" + ",".join(map(quoted, texts)) + "]"
    assert quoted_texts(written) == written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("number", NamedCall("number", None, {})),
        ("number.v1", NamedCall("number", 1, {})),
        ("number()", NamedCall("number", None, {})),
        (" math.v2( precision = 6 , deadline_s=2.0 ) ", None),
        ("f(x=####)", NamedCall("f", None, {"x": "####"})),
        ("f(x=[1,'a,b'],)", NamedCall("f", None, {"x": [1, "a,b"]})),
    ],
)
def test_calls(text: str, expected: NamedCall | None) -> None:
    math = NamedCall("math", 2, {"precision": 6, "deadline_s": 2.0})
    assert read_call(text, FORM) == (expected or math)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a b", "cannot be read"),
        ("f(x)", "'x' is not PARAMETER=VALUE"),
        ("f(x=)", "'x=' is not PARAMETER=VALUE"),
        ("f(,)", "'' is not PARAMETER=VALUE"),
        ("f(x=1,x=2)", "'x' is given twice"),
        ("f(x='a)", "\"'a\" is neither|''a' is neither"),
        ("f(x=1", "cannot be read"),
    ],
)
def test_broken_calls(text: str, why: str) -> None:
    with pytest.raises(Fault, match=why) as caught:
        read_call(text, FORM)
    assert str(caught.value).endswith("Write NAME.")


@pytest.mark.parametrize("text", ["1+2j", "{1}", "{'a': 1}", "b'a'", "k()", "a b", "[x]"])
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(Fault, match="neither a Python literal nor a bare word"):
        read_value(text, FORM)


@pytest.mark.parametrize("value", [float("nan"), {"a": 1}, b"a", [float("nan")]])
def test_what_cannot_be_written(value: Any) -> None:
    with pytest.raises(ValueError, match="parameter value"):
        write_value(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", (["a"], False)),
        ("[a, b]", (["a", "b"], True)),
        ("'a'", (["a"], False)),
        ('"[a,b]"', (["a", "b"], True)),
        ("pass@k:k=[1,2]&n=4,em", (["pass@k:k=[1,2]&n=4", "em"], False)),
    ],
)
def test_elements(value: str, expected: tuple[list[str], bool]) -> None:
    assert elements(value, "metric") == expected


@pytest.mark.parametrize(("value", "why"), [("[a", "does not close"), ("a,", "an empty name")])
def test_broken_elements(value: str, why: str) -> None:
    with pytest.raises(Fault, match=why):
        elements(value, "metric")
