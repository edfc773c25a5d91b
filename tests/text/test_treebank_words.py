"""Words as nltk 3.9.1 cuts them, whichever nltk is installed."""

from __future__ import annotations

import json

import pytest
from support.workspace import ROOT

from evalrun.text.tokenize import nltk_treebank_no_punkt
from evalrun.text.treebank_words import treebank_words

# Texts with what nltk 3.9.1 makes of them: hand-made, and random strings of all that a rule reads.
ROWS = [
    json.loads(line)
    for line in (ROOT / "tests" / "cases" / "treebank_words.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def test_recorded_texts() -> None:
    assert len(ROWS) == 200
    for row in ROWS:
        assert treebank_words(row["text"]) == row["tokens"], row["text"]
        assert nltk_treebank_no_punkt(row["text"]) == row["tokens"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # nltk 3.10 cuts the first two in another way
        ("1990–2000 — all", ["1990–2000", "—", "all"]),
        ("'quoted' words", ["'quoted", "'", "words"]),
        ('They\'ll say "no".', ["They", "'ll", "say", "``", "no", "''", "."]),
        ("a Mr. Smith cannot.", ["a", "Mr.", "Smith", "can", "not", "."]),
        ("x,,y", ["x", ",", ",y"]),
        ("'Tis", ["'T", "is"]),
    ],
)
def test_rules(text: str, tokens: list[str]) -> None:
    assert treebank_words(text) == tokens


def test_long_texts_take_linear_time() -> None:
    text = "." * 50_000 + " " * 50_000 + "'" * 50_000 + "x"
    assert treebank_words(text)[-1]
