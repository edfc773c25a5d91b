"""Scorers and metrics: rows with known values, refusals, and laws over the whole registry."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.workspace import ROOT

from evalrun.errors import Fault
from evalrun.metrics import (
    METRICS,
    SCORERS,
    Metric,
    check_ready,
    make_metric,
    make_scorer,
    parameter_defaults,
    samples_needed,
    scorer_named,
)
from evalrun.types import Doc, Samples, State, Verdict

# the others have laws where they are tested
JUDGED = [key for key in METRICS if METRICS.get(key).has_scorer]
ROWS = [
    json.loads(line)
    for line in (ROOT / "tests" / "cases" / "sampling_metrics.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def document(golds: Sequence[str], doc_id: str = "d") -> Doc:
    return Doc(id=doc_id, task="t", row=0, query="q", gold=tuple(golds))


def per_doc(
    metric: Metric, samples: Sequence[dict[str, Any]], extract: str | None = None
) -> list[list[float]]:
    """[output][document] through all three levels."""
    scorer = make_scorer(metric.scorer, extract)
    rows = []
    for sample in samples:
        doc = document(sample["golds"])
        verdicts = [scorer.judge_text(doc, text) for text in sample["preds"]]
        rows.append(
            metric.score(doc, Samples(tuple(sample["preds"]), (False,) * len(verdicts)), verdicts)
        )
    matrix = {
        column.name: np.array([row[i] for row in rows]) for i, column in enumerate(metric.columns)
    }
    return [output.per_doc(matrix).tolist() for output in metric.outputs()]


def checked(key: str, params: dict[str, Any], sample: dict[str, Any]) -> list[list[float]]:
    metric = make_metric(key, params)
    check_ready(metric)
    return per_doc(metric, [sample])


def of(*metrics: str, needs: str = "preds") -> list[Any]:
    return [
        pytest.param(row, id=f"{row['metric']}-{row['case_id']}")
        for row in ROWS
        if row["metric"] in metrics and needs in row["inputs"]
    ]


@pytest.mark.parametrize("row", of("pass@k", "avg@n", "maj@n", "exact_match"))
def test_rows_of_one_document(row: dict[str, Any]) -> None:
    params = {name: value for name, value in row["params"].items() if name in ("k", "n")}
    if isinstance(row["expected"], dict):
        with pytest.raises((Fault, ValueError)):
            checked(row["metric"], params, row["inputs"])
        return
    assert per_doc(make_metric(row["metric"], params), [row["inputs"]])[0] == [
        pytest.approx(row["expected"])
    ]


@pytest.mark.parametrize("row", of("aisbench", needs="samples"))
def test_rows_of_a_corpus(row: dict[str, Any]) -> None:
    n = row["params"]["num_return_sequences"]
    got = {
        f"{name}@{n}": float(
            np.mean(per_doc(make_metric(key, params), row["inputs"]["samples"])[0])
        )
        for name, key, params in (
            ("pass", "pass_at_k", {"k": n, "n": n}),
            ("cons", "cons_at_k", {"k": n, "n": n}),
            ("avg", "avg_at_n", {"n": n}),
        )
    }
    assert got == pytest.approx(row["expected"])


@pytest.mark.parametrize("row", of("pass@k", needs="samples"))
def test_an_open_n_is_each_documents_own(row: dict[str, Any]) -> None:
    assert (
        per_doc(make_metric("pass@k", row["params"]), row["inputs"]["samples"])[0]
        == row["expected"]
    )


@pytest.mark.parametrize("row", of("num_samples", needs="metrics"))
def test_rows_of_samples_needed(row: dict[str, Any]) -> None:
    requests = [dict(each) for each in row["inputs"]["metrics"]]
    assert (
        max(samples_needed(make_metric(each.pop("metric"), each)) for each in requests)
        == row["expected"]
    )


@pytest.mark.parametrize(
    ("name", "extract", "golds", "text", "value", "extracted", "state"),
    [
        ("number", None, ["29"], "She pays $29.00.", 1.0, "29", State.SCORED),
        ("number", None, ["29"], "29.01", 0.0, "29.01", State.SCORED),
        ("number", None, ["1/2"], "\\boxed{0.5}", 1.0, "0.5", State.SCORED),
        ("number", None, ["3", "4"], "It is 4", 1.0, "4", State.SCORED),
        ("number", None, ["none", "4"], "It is 4", 1.0, "4", State.SCORED),
        ("number", None, ["29"], "no idea", 0.0, None, State.UNPARSED),
        ("number", None, ["29"], "", 0.0, None, State.UNPARSED),
        (None, "number", ["#### 1,000"], "A: 1000", 1.0, "1000", State.SCORED),
        ("exact_match", None, ["Paris"], " Paris\n", 1.0, "Paris", State.SCORED),
        ("exact_match", None, ["Paris"], "paris", 0.0, "paris", State.SCORED),
        ("exact_match", None, ["1000"], "1,000", 0.0, "1,000", State.SCORED),
        ("exact_match", None, ["Rome", "Paris"], "Paris", 1.0, "Paris", State.SCORED),
        ("exact_match", None, ["Paris"], "", 0.0, "", State.SCORED),
        ("exact_match", "number", ["#### 1,000"], "so 1000.0", 1.0, "1000", State.SCORED),
        ("exact_match", "number", ["5"], "five", 0.0, None, State.UNPARSED),
        ("exact_match(extract=number)", None, ["5"], "it is 5", 1.0, "5", State.SCORED),
        (None, None, ["a b"], "a b", 1.0, "a b", State.SCORED),
        (None, "none", ["a b"], "a b ", 1.0, "a b", State.SCORED),
    ],
)
def test_scorers(
    name: str | None,
    extract: str | None,
    golds: list[str],
    text: str,
    value: float,
    extracted: str | None,
    state: State,
) -> None:
    verdict = make_scorer(name, extract).judge_text(document(golds), text)
    assert (verdict.value, verdict.extracted, verdict.state) == (value, extracted, state)
    assert (verdict.span is None, verdict.rule is None) == (extracted is None, extracted is None)


def test_gold_as_an_index_into_choices() -> None:
    doc = Doc(id="d", task="t", row=0, query="q", gold=(1,), choices=("Rome", "Paris"))
    assert make_scorer("exact_match", None).judge_text(doc, "Paris").value == 1.0
    assert make_scorer("exact_match", None).judge_text(doc, "1").value == 0.0


@pytest.mark.parametrize(
    ("extract", "golds", "reason"),
    [
        ("number", ["a lot"], "number.v1 reads no answer from the gold of document 'q7': 'a lot'"),
        ("number", [], "document 'q7' has no gold answer"),
        (None, [], "document 'q7' has no gold answer"),
        ("number", ["a lot", "3"], None),
        (None, [""], None),
    ],
)
def test_documents_that_cannot_be_judged(
    extract: str | None, golds: list[str], reason: str | None
) -> None:
    scorer, doc = make_scorer(None, extract), document(golds, "q7")
    assert scorer.check_doc(doc) == reason
    if reason:
        with pytest.raises(ValueError, match="q7"):
            scorer.judge_text(doc, "3")
    else:
        assert scorer.judge_text(doc, "3").value is not None


@pytest.mark.parametrize("spec", ["number", "exact_match", "exact_match(extract=number)"])
def test_a_signature_gives_its_scorer_back(spec: str) -> None:
    scorer = scorer_named(spec)
    assert scorer_named(scorer.signature) == scorer
    assert scorer.signature == f"{scorer.name}.v{scorer.version}{spec.removeprefix(scorer.name)}"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("numbr", r"There is no scorer 'numbr'\. Did you mean 'number'\?"),
        ("number.v9", "evalrun has version 1 of 'number'"),
        (
            "exact_match(extrakt=number)",
            r"no parameter of scorer 'exact_match' 'extrakt'\. Did you mean 'extract'\?",
        ),
        ("exact_match(extract=numbr)", r"There is no extractor 'numbr' in scorer exact_match"),
        ("exact_match(number)", "'number' is not PARAMETER=VALUE"),
        ("a b", r"The scorer 'a b' cannot be read\. Write NAME or exact_match\(extract=number\)"),
    ],
)
def test_scorers_that_do_not_exist(spec: str, text: str) -> None:
    with pytest.raises(Fault, match=text):
        scorer_named(spec)


def test_an_unknown_extractor_names_its_place() -> None:
    with pytest.raises(
        Fault, match=r"There is no extractor 'numbr' in task x\. Did you mean 'number'\?"
    ):
        make_scorer(None, "numbr", "task x")


@pytest.mark.parametrize("name", list(SCORERS))
def test_batch_form_of_a_scorer_is_its_single_form(name: str) -> None:
    scorer = scorer_named(name)
    items = [
        (document([gold, "B"]), text)
        for gold in ("3", "4")
        for text in ("3", "it is 4", "3", "none", "4.0")
    ]
    assert scorer.judge_batch(items) == [scorer.judge_text(doc, text) for doc, text in items]


# --- metrics --------------------------------------------------------------------------------------


def verdict(value: float | None, extracted: str | None = None) -> Verdict:
    return Verdict(value, extracted, state=State.ERROR if value is None else State.SCORED)


def score(
    metric: Metric, values: Sequence[Verdict], golds: Sequence[str] = ("1",)
) -> tuple[Any, ...]:
    return metric.score(
        document(golds, "q7"), Samples(("x",) * len(values), (False,) * len(values)), values
    )


@pytest.mark.parametrize(
    ("key", "params", "values", "expected"),
    [
        ("accuracy", {}, [1.0, 0.0, 0.5], (0.5,)),
        ("accuracy", {"n": 2}, [1.0, 0.0, 0.5], (0.5,)),
        ("pass_at_k", {"k": 1}, [1.0, 0.5, 0.0], (3, 1)),
        ("pass_at_k", {"k": 1, "threshold": 0.5}, [1.0, 0.5, 0.0], (3, 2)),
        ("avg_at_n", {"n": 2}, [1.0, 0.0, 1.0], (2, 1)),
    ],
)
def test_statistics_of_a_document(
    key: str, params: dict[str, Any], values: list[float], expected: tuple[Any, ...]
) -> None:
    assert score(make_metric(key, params), [verdict(value) for value in values]) == expected


@pytest.mark.parametrize(
    ("answers", "right", "expected"),
    [
        (["7", "8", "8", None], "8", 1.0),
        (["7", "8", "8", "7"], "7", 1.0),
        (["7", "8", "8", "7"], "8", 0.0),
        ([None, None, "8"], "8", 0.0),
        ([None, "8", None, "8"], "8", 0.0),
        (["", "", "8"], "", 0.0),
    ],
)
def test_majority(answers: list[str | None], right: str, expected: float) -> None:
    votes = [verdict(float(answer == right), answer) for answer in answers]
    assert score(make_metric("maj@n", {"n": len(votes)}), votes) == (expected,)


def test_failed_samples_assumed_right_vote_with_the_right_answer() -> None:
    votes = [verdict(0.0, "7"), verdict(0.0, "7"), verdict(1.0, "8"), verdict(1.0), verdict(1.0)]
    assert score(make_metric("maj@n", {"n": 5}), votes) == (1.0,)


@pytest.mark.parametrize("key", JUDGED)
def test_too_few_or_unscored_samples_are_refused(key: str) -> None:
    metric = ready(key, 3)
    n = samples_needed(metric)
    with pytest.raises(
        ValueError, match=f"document 'q7' has {n - 1} judged samples, the metric needs {n}"
    ):
        score(metric, [verdict(1.0, "1")] * (n - 1))
    with pytest.raises(ValueError, match="document 'q7': sample 1 is not scored"):
        score(metric, [verdict(1.0, "1"), verdict(None), *[verdict(1.0, "1")] * (n - 2)])


@pytest.mark.parametrize(
    ("key", "params", "text"),
    [
        ("pas@k", {}, r"There is no metric 'pas@k' in here\. Did you mean 'pass@k'\?"),
        (
            "pass@k",
            {"kk": 1},
            r"no parameter of metric 'pass_at_k' 'kk' in here\. Did you mean 'k'\?",
        ),
        ("pass@k", {"k": 0}, r"k must be a positive whole number, got 0\. \(in here\)"),
        ("pass@k", {"k": -1}, "k must be a positive whole number, got -1"),
        ("pass@k", {"k": 2.5}, "k must be a positive whole number, got 2.5"),
        ("pass@k", {"k": True}, "k must be a positive whole number, got True"),
        ("pass@k", {"k": "5"}, "k must be a positive whole number, got '5'"),
        ("cons@k", {"k": 5, "n": 4}, "k=5 is larger than n=4"),
        ("cons@k", {"k": [1, 5], "n": 4}, "k=5 is larger than n=4"),
        ("pass@k", {"k": [1, 1]}, r"k=\[1, 1\] holds a number twice"),
        ("pass@k", {"k": [1, None]}, "got None"),
        ("pass@k", {"k": []}, "k is an empty list"),
        ("avg@n", {"n": 0}, "n must be a positive whole number, got 0"),
        ("maj@n", {"n": [1, 2]}, "n must be a positive whole number"),
        ("acc", {"n": 1.0}, "n must be a positive whole number, got 1.0"),
        ("em", {"n": False}, "n must be a positive whole number, got False"),
        ("em", {"scorer": "number"}, "scorer is always 'exact_match' and cannot be set"),
        ("pass@k", {"threshold": 0}, r"threshold must lie in \(0, 1\], got 0"),
        ("pass@k", {"threshold": 1.5}, "got 1.5"),
        ("pass@k", {"threshold": float("nan")}, "got nan"),
        ("acc", {"scorer": "numbr"}, r"There is no scorer 'numbr'"),
        ("acc", {"scorer": 3}, "scorer must be a name, got 3"),
    ],
)
def test_parameters_that_are_refused(key: str, params: dict[str, Any], text: str) -> None:
    with pytest.raises(Fault, match=text):
        make_metric(key, params, "here")


@pytest.mark.parametrize(
    ("key", "name"), [("pass@k", "k"), ("cons@k", "k"), ("avg@n", "n"), ("maj@n", "n")]
)
def test_counts_that_must_be_set(key: str, name: str) -> None:
    with pytest.raises(Fault, match=f"Metric '{key}' needs {name}, and nothing sets it"):
        check_ready(make_metric(key))
    check_ready(make_metric(key, {name: 2}))
    check_ready(make_metric("accuracy"))


def test_a_list_of_k_fills_one_output_each() -> None:
    metric = make_metric("pass@k", {"k": [1, 2, 4], "n": 4})
    assert [output.name for output in metric.outputs()] == [f"pass@k:k={k}&n=4" for k in (1, 2, 4)]
    matrix = {"n": np.array([4, 4]), "c": np.array([2, 0])}
    assert [output.reduce(matrix) for output in metric.outputs()] == pytest.approx(
        [0.25, 5 / 12, 0.5]
    )
    with pytest.raises(ValueError, match="no document"):
        metric.outputs()[0].reduce({"n": np.array([], dtype=int), "c": np.array([], dtype=int)})


def test_parameter_defaults_are_what_a_metric_is_made_of() -> None:
    table = parameter_defaults()
    assert table["exact_match"] == {"n": None}
    assert list(table["pass_at_k"]) == ["k", "n", "scorer", "threshold", "strip", "normalize"]
    for key, params in table.items():
        assert make_metric(key, params) == make_metric(key)


# --- laws over the registry -----------------------------------------------------------------------


def ready(key: str, n: int) -> Metric:
    names = parameter_defaults()[key]
    return make_metric(key, {name: n if name == "n" else 2 for name in ("n", "k") if name in names})


def corpus(size: int, n: int, seed: int) -> tuple[list[Doc], list[Samples], list[list[Verdict]]]:
    draw = random.Random(seed)
    docs = [document(["1"], f"d{i}") for i in range(size)]
    texts = [[draw.choice(["1", "2", "3", ""]) for _ in range(n)] for _ in docs]
    verdicts = [
        [
            replace(
                Verdict(float(t == "1"), t or None), state=State.SCORED if t else State.UNPARSED
            )
            for t in row
        ]
        for row in texts
    ]
    return docs, [Samples(tuple(row), (False,) * n) for row in texts], verdicts


def values(metric: Metric, docs: Any, answers: Any, verdicts: Any) -> list[float]:
    rows = metric.score_batch(docs, answers, verdicts)
    matrix = {
        column.name: np.array([row[i] for row in rows]) for i, column in enumerate(metric.columns)
    }
    return [output.reduce(matrix) for output in metric.outputs()]


@pytest.mark.parametrize("key", JUDGED)
def test_order_and_copies_of_documents_leave_the_value(key: str) -> None:
    metric = ready(key, 4)
    docs, answers, verdicts = corpus(50, samples_needed(metric), 1)
    value = values(metric, docs, answers, verdicts)
    order = list(range(50))
    random.Random(2).shuffle(order)
    shuffled = [[part[i] for i in order] for part in (docs, answers, verdicts)]
    assert values(metric, *shuffled) == pytest.approx(value, abs=1e-12)
    assert values(metric, docs * 3, answers * 3, verdicts * 3) == pytest.approx(value, abs=1e-12)
    assert 0 < value[0] < 1


@pytest.mark.parametrize("key", JUDGED)
def test_perfect_answers_are_best_and_wrong_ones_worst(key: str) -> None:
    metric = ready(key, 4)
    n = samples_needed(metric)
    docs, answers, _ = corpus(5, n, 1)
    assert set(values(metric, docs, answers, [[verdict(1.0, "1")] * n] * 5)) == {1.0}
    assert set(values(metric, docs, answers, [[verdict(0.0, "2")] * n] * 5)) == {0.0}
    assert all(output.is_higher_better and output.is_bounded for output in metric.outputs())


@pytest.mark.parametrize("key", JUDGED)
def test_batch_form_is_single_form(key: str) -> None:
    metric = ready(key, 3)
    docs, answers, verdicts = corpus(40, samples_needed(metric) + 2, 3)
    single = [metric.score(*each) for each in zip(docs, answers, verdicts, strict=True)]
    assert metric.score_batch(docs, answers, verdicts) == single
    assert metric.score_batch([], [], []) == []
    if "n" not in parameter_defaults()[key]:  # always the same number of samples
        return
    open_n = replace(metric, n=None)  # type: ignore[type-var]
    uneven = [row[: 2 + i % 3] for i, row in enumerate(verdicts)]
    single = [open_n.score(*each) for each in zip(docs, answers, uneven, strict=True)]
    assert open_n.score_batch(docs, answers, uneven) == single


@pytest.mark.parametrize("key", list(METRICS))
def test_what_every_metric_says_of_itself(key: str) -> None:
    cls, metric = METRICS.get(key), ready(key, 2)
    assert cls.name == key
    assert cls.source
    assert cls.__doc__
    assert METRICS.aliases(key) == cls.aliases
    columns = {column.name for column in metric.columns}
    assert all(set(output.columns) <= columns for output in metric.outputs())
    assert all(column.type in ("int", "float", "label") for column in metric.columns)
    assert hash(metric) == hash(ready(key, 2))


def test_pass_at_k_grows_with_k_from_avg_at_n() -> None:
    docs, answers, verdicts = corpus(60, 8, 5)
    average = values(make_metric("avg@n", {"n": 8}), docs, answers, verdicts)[0]
    passed = values(
        make_metric("pass@k", {"k": list(range(1, 9)), "n": 8}), docs, answers, verdicts
    )
    assert passed[0] == pytest.approx(average)
    assert passed == sorted(passed)
    assert passed[0] < passed[-1]
    accuracy = values(make_metric("accuracy", {"n": 8}), docs, answers, verdicts)[0]
    assert accuracy == pytest.approx(average)
