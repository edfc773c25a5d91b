"""Votes over samples, and metrics over samples that compare whole texts by their own strip and
normalize.
"""

from __future__ import annotations

from typing import Any

import pytest

from evalrun.errors import Fault
from evalrun.metrics import make_metric, make_scorer, samples_needed
from evalrun.metrics.create import parameters
from evalrun.types import Doc, Samples


def value(
    key: str, params: dict[str, Any], gold: str, texts: list[str], extract: str | None = None
) -> float:
    metric = make_metric(key, params)
    doc = Doc(id="d7", task="t", row=0, query="q", gold=(gold,))
    verdicts = make_scorer(metric.scorer, extract).judge_batch([(doc, text) for text in texts])
    row = metric.score(doc, Samples(tuple(texts), (False,) * len(texts)), verdicts)
    return metric.outputs()[0].reduce(
        {c.name: [each] for c, each in zip(metric.columns, row, strict=True)}
    )


@pytest.mark.parametrize(
    ("params", "gold", "texts", "extract", "expected"),
    [
        ({}, "4", ["it is 4", "4.0", "5"], "number", 1.0),
        ({"strip": True}, "4", ["it is 4", "4.0", "5"], "number", 0.0),
        ({}, "A", ["A", "A ", "B", "B", " A"], None, 1.0),
        ({"strip": True}, "A", ["B", "A ", "A"], None, 1.0),
        ({"strip": False}, "A", ["B", "A ", "A"], None, 0.0),
        ({"strip": False}, "A", ["A", "A", "B"], None, 1.0),
        ({"normalize": "helm"}, "The cat", ["dog", "A cat", "cat!"], None, 1.0),
        ({"normalize": "gsm8k"}, "#### 5", ["x", "y", "#### 5"], None, 0.0),
        ({"strip": True}, "x", ["", "", "x"], None, 0.0),
    ],
)
def test_what_votes(
    params: dict[str, Any], gold: str, texts: list[str], extract: str | None, expected: float
) -> None:
    assert value("maj@n", {"n": len(texts), **params}, gold, texts, extract) == expected


@pytest.mark.parametrize(
    ("key", "n", "gold", "texts", "expected"),
    [
        ("maj_at_5", 5, "A", ["A", "A", "A ", "B", "C", "B", "B"], 1.0),
        ("maj_at_5", 5, "A", ["A ", "A\n", "A", "B", "B"], 0.0),
        ("maj_at_8", 8, "A", ["B", "A"] * 4, 0.0),
        ("maj_at_4_math", 4, "\\boxed{\\frac12}", ["\\boxed{1/2}", "0.5", "3", "3"], 1.0),
        ("maj_at_8_gsm8k", 8, "#### 1,000", ["#### 1000", "x"] * 4, 1.0),
        ("maj_at_8_gsm8k", 8, "#### 1,000", ["x", "#### 1000"] * 4, 0.0),
    ],
)
def test_votes_of_a_fixed_size(
    key: str, n: int, gold: str, texts: list[str], expected: float
) -> None:
    assert samples_needed(make_metric(key)) == n
    assert value(key, {}, gold, texts) == expected
    with pytest.raises(Fault, match=f"n is always {n} and cannot be set"):
        make_metric(key, {"n": n + 1})


@pytest.mark.parametrize(
    "key", ["maj_at_n", "maj_at_5", "maj_at_8", "maj_at_4_math", "maj_at_8_gsm8k"]
)
def test_several_golds_split_no_vote(key: str) -> None:
    metric = make_metric(key, {"n": 5} if key == "maj_at_n" else {})
    doc = Doc(id="d7", task="t", row=0, query="q", gold=("1", "2"))
    assert (
        metric.check_doc(doc)
        == f"{metric.display} needs exactly one gold answer, document 'd7' has 2"
    )
    assert metric.check_doc(Doc(id="d8", task="t", row=1, query="q", gold=("1",))) is None
    with pytest.raises(ValueError, match="exactly one gold"):
        metric.score(doc, Samples(("1",) * 8, (False,) * 8), ())


@pytest.mark.parametrize(
    ("key", "params", "expected"),
    [
        ("avg@n", {"n": 4}, 0.5),
        ("avg@n", {"n": 4, "strip": False}, 0.25),
        ("avg@n", {"n": 4, "normalize": "helm"}, 0.75),
        ("pass@k", {"k": 2, "n": 4, "strip": False}, 0.5),
        ("pass@k", {"k": 1, "n": 4, "strip": True, "normalize": "helm"}, 0.75),
        ("cons@k", {"k": 4, "n": 4, "normalize": "helm"}, 1.0),
        ("avg@n", {"n": 4, "scorer": "prefix_exact_match"}, 0.5),
    ],
)
def test_strip_and_normalize_of_metrics_over_samples(
    key: str, params: dict[str, Any], expected: float
) -> None:
    assert value(key, params, "Paris", ["Paris", "Paris\n", "the paris!", "Rome"]) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("key", ["pass_at_k", "cons_at_k", "avg_at_n", "maj_at_n"])
def test_parameters_make_the_same_metric_again(key: str) -> None:
    metric = make_metric(key, {"n": 2, "strip": False, "normalize": "helm"})
    assert metric.scorer == "text_match(strip=False,normalize=helm)"
    assert make_metric(key, dict(parameters(metric))) == metric


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"strip": True, "scorer": "number"}, "cannot be given with scorer=number"),
        ({"strip": "yes"}, "strip must be true or false, got 'yes'"),
        ({"normalize": "helmm"}, r"There is no normalizer 'helmm'.*Did you mean 'helm'\?"),
        ({"normalize": 3}, "normalize must be a name, got 3"),
    ],
)
def test_parameters_that_are_refused(params: dict[str, Any], text: str) -> None:
    for key in ("avg@n", "maj@n"):
        with pytest.raises(Fault, match=text):
            make_metric(key, {"n": 2, **params})
