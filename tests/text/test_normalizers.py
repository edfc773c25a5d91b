"""Normalisers: exact rules where the oracle's rows are silent, and the fast form against a plain
one.
"""

from __future__ import annotations

import re
import string
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.errors import Fault
from evalrun.text import NORMALIZERS, normalize
from evalrun.text.normalizers import bare, reasoning_tags


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("helm", "The 3.14 of\tan-other\ncat.", "3.14 of other cat"),
        ("helm", "i.nfinity +infinity x.", "inf inf x"),
        ("helm", "-5 1e400 .5", "5.0 inf 0.5"),
        ("helm", "the。 a—b", "。 —b"),
        ("helm", "a\x01b", "\x01b"),
        ("helm", "3.14, $1,000 v2.0", "314.0 1000.0 v20"),
        ("helm", "ＡB １.５", "ａb 1.5"),
        ("triviaqa", " The U.S.A! ", " the usa "),
        ("bigbench", "a . b.", "a.\nb."),
        ("remove_braces", "{{x}", "{x"),
        ("remove_braces_and_strip", " { x } ", " x "),
        ("gsm8k", "#### 42. then #### 7", "42."),
        ("gsm8k", "#### -1,234.5", "-1234.5"),
        ("gsm8k", "####  8", "[invalid]"),
        ("math", r"\boxed{1} then \boxed 2$ end", "2"),
        ("math", r"so \boxed{3} and \boxed{4", "3"),
        ("math", r"\boxed{x=5}", "5"),
        ("math", r"\boxed{a=b=5}", "a=b=5"),
        ("math", r"\boxed{.5}", r"\frac{1}{2}"),
        ("math", r"\boxed{\tfrac1{b} + \frac{a}3 + \sqrt2}", r"\frac{1}{b}+\frac{a}3+\sqrt{2}"),
        ("math", r"\boxed{\frac1}", r"\frac1"),
        ("math", r"\boxed{\frac}", r"\frac"),
        ("math", r"\boxed{\sqrt\sqrt3}", r"\sqrt\sqrt{3}"),
        ("math", r"\boxed{01/2}", "01/2"),
        ("math", r"\boxed{5 \text{ a} \text{ b}}", "5"),
        ("reasoning_tags", "<think>a<think>b</think>c</think>d", "c</think>d"),
        ("strip_reasoning_tags", "x<think>a</think>y<think>b", "xy<think>b"),
    ],
)
def test_forms(name: str, text: str, expected: str) -> None:
    assert normalize(name, text) == expected


def test_other_tags_can_be_named() -> None:
    normalizer: Any = reasoning_tags
    assert normalizer("[a]x[/a]y<b>z</b>", (("[a]", "[/a]"), ("<b>", "</b>"))) == "y"


def test_bare_words_keep_their_articles() -> None:
    assert bare(" The  Cat, sat.\n") == "the cat sat"


def test_unknown_normaliser_names_the_nearest() -> None:
    with pytest.raises(Fault, match=r"There is no normalizer 'helmm'\. Did you mean 'helm'\?"):
        normalize("helmm", "x")


def by_words(text: str) -> str:
    """helm as its definition reads, one word after the other."""
    done = []
    for word in re.split(r"[ -]", text.lower()):
        found = word if is_float(word) else "".join(c for c in word if c not in string.punctuation)
        found = str(float(found)) if is_float(found) else found
        done.append(" ".join(re.sub(r"\b(a|an|the)\b", " ", found).split()))
    return " ".join(word for word in done if word)


def is_float(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


PIECES = [
    "the",
    "A",
    "an",
    "Cat",
    "3.14",
    "1,000",
    "-5",
    "1e3",
    "inf",
    "nan",
    "infinity",
    "i.nfinity",
    "$5",
    "１２",
    "。",
    "é",
]


@given(
    st.lists(
        st.sampled_from([*PIECES, " ", " ", "-", ".", ",", "\n", "\t", "_", "\x01", "\u00a0", "'"]),
        max_size=12,
    )
)
def test_helm_is_its_definition(pieces: list[str]) -> None:
    assert normalize("helm", "".join(pieces)) == by_words("".join(pieces))


@given(st.text(max_size=40))
def test_helm_is_its_definition_on_any_text(text: str) -> None:
    assert normalize("helm", text) == by_words(text)


@pytest.mark.parametrize("name", ["helm", "triviaqa"])
@given(text=st.text(alphabet="aA the.,!cat", max_size=30))
def test_a_second_time_changes_nothing(name: str, text: str) -> None:
    once = normalize(name, text)
    assert normalize(name, once) == once


@pytest.mark.parametrize("name", list(NORMALIZERS))
@pytest.mark.parametrize(
    "piece", ["\\boxed{", "\\frac", "1", "<think>", "#### ", "{", "\\boxed ", "the ", "-"]
)
def test_long_texts_take_linear_time(name: str, piece: str) -> None:
    started = time.process_time()
    normalize(name, piece * (200_000 // len(piece)))
    assert time.process_time() - started < 3
