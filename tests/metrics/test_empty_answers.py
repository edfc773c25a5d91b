"""Answers that say nothing, answers that hold the gold, and numbers that pool."""

from __future__ import annotations

import math
from typing import Any

import pytest

import evalrun
from evalrun.errors import Fault
from evalrun.metrics import make_metric, scorer_named
from evalrun.metrics.judged.ratings import parse_rating
from evalrun.types import Doc


def doc_of(*golds: str) -> Doc:
    return Doc("d", "t", 0, "?", golds)


def value(scorer: str, gold: str, text: str) -> float | None:
    return scorer_named(scorer).judge_text(doc_of(gold), text).value


@pytest.mark.parametrize(
    ("scorer", "gold", "text", "expected"),
    [
        # HELM and LightEval: an empty answer is wrong before anything is stripped
        ("exact_match", "", "", 0.0),
        ("exact_match", "", "  ", 1.0),
        ("exact_match", "x", "", 0.0),
        ("exact_match(extract=boxed)", "\\boxed{}", "\\boxed{}", 0.0),
        ("text_match", "", "", 0.0),
        ("perfect_exact_match", "", "", 0.0),
        ("f1_score_quasi", "A", "A", 1.0),
        ("f1_score_quasi", "the", "the", 1.0),
        ("f1_score_quasi", "A", "The", 0.0),
        ("f1_score_quasi", "", "", 0.0),
        ("f1_score_quasi", "", "  ", 0.0),
        ("f1_score_quasi(tokens=multiset)", "an", "an", 1.0),
        ("f1_score", "", "", 0.0),
    ],
)
def test_empty_texts(scorer: str, gold: str, text: str, expected: float) -> None:
    assert value(scorer, gold, text) == expected


@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("exact_match", {"n": 2}),
        ("pass@k", {"k": 1, "n": 2, "scorer": "exact_match"}),
        ("pass@k", {"k": 2, "n": 2, "strip": True}),
        ("cons@k", {"k": 2, "n": 2, "scorer": "exact_match"}),
        ("avg@n", {"n": 2, "scorer": "exact_match"}),
        ("maj@n", {"n": 2, "scorer": "exact_match"}),
        ("accuracy", {"n": 2, "scorer": "exact_match"}),
    ],
)
def test_an_empty_gold_makes_no_empty_answer_right(metric: str, params: dict[str, Any]) -> None:
    scores = evalrun.score(metric, [{"golds": [""], "preds": ["", ""]}], **params)
    assert next(iter(scores.values())).value == 0.0


@pytest.mark.parametrize(
    ("gold", "preds", "expected"),
    [
        ("", ["  ", "  ", "x"], 0.0),  # exact_match alone would call the first two right
        ("x", ["", "  ", "x"], 0.0),
        ("x", ["x", "x", ""], 1.0),
        ("x", ["x", ""], 1.0),
        ("x", ["", "x"], 0.0),
    ],
)
def test_a_vote_for_nothing_never_wins_rightly(
    gold: str, preds: list[str], expected: float
) -> None:
    docs = [{"golds": [gold], "preds": preds}]
    assert evalrun.score("maj@n", docs, n=len(preds))["maj@n"].value == expected


def test_log_prob_per_token_pools_the_tokens() -> None:
    docs = [{"text": "a", "logprobs": [-1.0]}, {"text": "a b c", "logprobs": [-4.0, -4.0, -4.0]}]
    pooled = evalrun.score("log_prob", docs, per="token")
    assert pooled["log_prob"].value == -13 / 4
    assert pooled.per_doc["log_prob"] == [-1.0, -4.0]
    perplexity = evalrun.score("token_perplexity", docs)["token_perplexity"].value
    assert pooled["log_prob"].value == pytest.approx(-math.log(perplexity or 0))
    assert "version:2" in pooled["log_prob"].signature
    assert evalrun.score("log_prob", docs)["log_prob"].value == -13 / 2


def test_log_prob_of_no_token_is_said_to_be_nan() -> None:
    scores = evalrun.score("log_prob", [{"text": "", "logprobs": []}], per="token")
    assert scores.notes == ("log_prob is NaN: the texts have nothing to divide by",)


@pytest.mark.parametrize(
    ("judgement", "rating"),
    [("[[5.]]", 5.0), ("[[5.0]]", 5.0), ("[7.]", 7.0), ("[[.5]]", None), ("[[5..]]", None)],
)
def test_ratings_with_a_bare_point(judgement: str, rating: float | None) -> None:
    assert parse_rating(judgement) == rating


@pytest.mark.parametrize(
    ("golds", "text", "params", "expected"),
    [
        (["Paris"], "It is Paris, of course.", {}, 1.0),
        (["Paris"], "Parisian", {}, 0.0),
        (["Paris", "Rome"], "rome", {}, 1.0),
        (["Paris", "Rome"], "rome", {"golds": "all"}, 0.0),
        (["Paris", "Rome"], "Rome or Paris", {"golds": "all"}, 1.0),
        (["Paris"], "paris", {"ignore_case": False}, 0.0),
        ([""], "anything", {}, 0.0),
        (["Paris"], "", {}, 0.0),
    ],
)
def test_contains(golds: list[str], text: str, params: dict[str, Any], expected: float) -> None:
    scores = evalrun.score("contains", [{"golds": golds, "preds": [text]}], n=1, **params)
    assert scores["contains"].value == expected
    scorer = make_metric("contains", params).scorer
    assert scorer is not None
    assert scorer_named(scorer).judge_text(doc_of(*golds), text).value == expected


def test_contains_keeps_the_words_and_their_place() -> None:
    verdict = scorer_named("contains").judge_text(doc_of("New York"), "in new  york")
    assert (verdict.extracted, verdict.span, verdict.rule) == ("new  york", (3, 12), "contains")
    for wrong in ({"golds": "some"}, {"ignore_case": "maybe"}):
        with pytest.raises(Fault, match="contains: "):
            make_metric("contains", wrong)


HELD = [
    {"golds": ["Paris"], "preds": ["It is Paris."]},
    {"golds": ["Rome"], "preds": ["Rome, of course"]},
    {"golds": ["Oslo"], "preds": ["who knows"]},
]


def test_a_zero_that_the_metric_makes_is_explained() -> None:
    note = "accuracy: 0 of 3 right; in 2 of 3 the gold stands inside the answer: metric=contains"
    assert evalrun.score("accuracy", HELD, scorer="exact_match", n=1).notes == (note,)
    assert evalrun.score("contains", HELD, n=1).notes == ()
    right = [*HELD, {"golds": ["Lima"], "preds": ["Lima"]}]
    assert evalrun.score("accuracy", right, scorer="exact_match", n=1).notes == ()
    few = [HELD[0], HELD[2], HELD[2]]
    assert evalrun.score("accuracy", few, scorer="exact_match", n=1).notes == ()
    letters = [{"golds": ["A"], "preds": ["It is a cat"]}]
    assert evalrun.score("accuracy", letters, scorer="exact_match", n=1).notes == ()
