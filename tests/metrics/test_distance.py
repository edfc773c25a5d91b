"""Copyright distances: rows with known values, means over documents, failed requests."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.overlap_rows import check, document, numbers, of

from evalrun.metrics import make_metric, scorer_named
from evalrun.text.overlap import edit_distance, edit_similarity, lcs_length, prefix_length
from evalrun.text.tokenize import treebank
from evalrun.types import Samples


@pytest.mark.parametrize("row", of("copyright"))
def test_rows(row: dict[str, Any]) -> None:
    check(row)


@pytest.mark.parametrize("row", of("copyright:corpus"))
def test_numbers_are_means_over_documents(row: dict[str, Any]) -> None:
    matrix = {
        name: np.array(values, dtype=float)
        for name, values in row["inputs"]["sample_scores"].items()
    }
    found = {output.name: output.reduce(matrix) for output in make_metric("copyright").outputs()}
    assert found == pytest.approx(row["expected"], abs=1e-9)


@pytest.mark.parametrize(
    "alias", ["longest_common_prefix_length", "edit_distance", "edit_similarity"]
)
def test_each_name_finds_the_metric(alias: str) -> None:
    metric = make_metric(alias)
    assert metric.name == "copyright"
    assert {output.name: output.is_higher_better for output in metric.outputs()} == {
        "longest_common_prefix_length": True,
        "edit_distance": False,
        "edit_similarity": True,
    }


@pytest.mark.parametrize(
    ("first", "second", "distance", "similarity"),
    [
        ("ok", "ok!", 1, 2 / 3),
        ("", "", 0, 0.0),
        ("", "ab", 2, 0.0),
        ("kitten", "sitting", 3, 4 / 7),
    ],
)
def test_distance_of_sequences(first: str, second: str, distance: int, similarity: float) -> None:
    assert edit_distance(first, second) == distance
    assert edit_similarity(first, second) == pytest.approx(similarity)
    assert edit_distance(list(first), list(second)) == distance


def test_words_cut_chunk_by_chunk_are_those_of_the_whole_text() -> None:
    from nltk.tokenize.treebank import TreebankWordTokenizer

    parts = [
        "cat",
        "can't",
        "cannot",
        "gonna",
        "'tis",
        "d'ye",
        '"',
        "''",
        "`",
        "(",
        ")",
        "--",
        "...",
        ".",
        ",",
        ":",
    ]
    parts += [
        "$5",
        "50%",
        "a.b",
        "U.S.",
        "1,000",
        "he'll",
        "I'M",
        "more'n",
        "[",
        "<",
        "&",
        "?",
        "北京。",
        "s'",
        "n't",
    ]
    whole, draw = TreebankWordTokenizer(), random.Random(1)
    for _ in range(3000):
        chunks = [
            "".join(draw.choices(parts, k=draw.choice([1, 1, 2, 3])))
            for _ in range(draw.randrange(9))
        ]
        text = "".join(
            chunk + draw.choice([" ", " ", " ", "  ", "\n", "\t", "\xa0"]) for chunk in chunks
        )
        assert treebank(text) == whole.tokenize(text)


def test_sequences_of_words_compare_by_value() -> None:
    assert lcs_length(["aa", "b", "c"], ["b", "x", "c"]) == 2
    assert prefix_length(["aa", "b"], ["aa", "c"]) == 1
    assert prefix_length(["a"], ["a", "b"]) == 1


def test_gold_is_cut_to_the_answer() -> None:
    found = numbers(
        make_metric("copyright"), [{"golds": ["the cat sat on the mat"], "preds": ["the cat"]}]
    )
    assert found == {
        "longest_common_prefix_length": 2.0,
        "edit_distance": 0.0,
        "edit_similarity": 1.0,
    }


def test_best_of_the_first_n_samples_counts() -> None:
    sample = {"golds": ["one two three"], "preds": ["one x", "one two three"]}
    assert numbers(make_metric("copyright", {"n": 1}), [sample])["edit_similarity"] == 0.5
    assert numbers(make_metric("copyright", {"n": 2}), [sample])["edit_similarity"] == 1.0


def test_failed_request_leaves_its_document_out() -> None:
    metric = make_metric("copyright")
    with pytest.raises(ValueError, match="request failed"):
        metric.score(document({"golds": ["a"]}), Samples((None,), (True,)), ())
    assert metric.score(document({"golds": ["a"]}), Samples((None,), (False,)), ()) == (
        0.0,
        0.0,
        0.0,
    )


def test_scorer_gives_the_similarity() -> None:
    doc = document({"golds": ["one two three four"]})
    assert scorer_named("edit_similarity").judge_text(doc, " one two x four ").value == 0.5
    with pytest.raises(ValueError, match="no gold"):
        scorer_named("edit_similarity").judge_text(document({}), "a")
