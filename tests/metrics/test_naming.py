"""Written forms: every writer and reader are inverse, broken forms are refused with the right
one shown.
"""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workspace import ROOT

from evalrun.errors import Fault
from evalrun.metrics import make_metric
from evalrun.metrics.naming import (
    display_name,
    parse_metric,
    parse_shown,
    shown_name,
    write_metric,
)
from evalrun.metrics.signatures import Signature, read_signature, signature, write_signature
from evalrun.metrics.task_strings import TaskString, parse_task, task_parameters, write_task

ROWS = [
    json.loads(line)
    for line in (ROOT / "tests" / "cases" / "sampling_metrics.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from(
        [
            "number",
            "None",
            "true",
            "a&b",
            "k=1",
            "a|b",
            "x@y",
            "it's",
            '"',
            "\\",
            "1",
            "1e5",
            "a:b",
            "nan",
        ]
    )
)
VALUES = SCALARS | st.lists(SCALARS, min_size=1, max_size=3)
NAMES = st.text(string.ascii_letters + string.digits + "_.-/", min_size=1, max_size=10)


def of(metric: str) -> list[Any]:
    return [pytest.param(row, id=row["case_id"]) for row in ROWS if row["metric"] == metric]


@pytest.mark.parametrize("row", of("task_string"))
def test_task_rows(row: dict[str, Any]) -> None:
    expected, spec = row["expected"], row["inputs"]["spec"]
    if "error" in expected:
        with pytest.raises(Fault):
            parse_task(spec)
        return
    task = parse_task(spec)
    assert (task.name, task.shots or 0, task.params) == (
        expected["task"],
        expected["fewshot"],
        expected["params"],
    )


@pytest.mark.parametrize("row", of("metric_name"))
def test_shown_name_rows(row: dict[str, Any]) -> None:
    key, params = row["inputs"]["metric"], row["inputs"]["sample_params"]
    assert shown_name(key, params) == row["expected"]
    assert parse_metric(row["expected"]) == (key, params)
    assert list(parse_metric(row["expected"])[1]) == list(params)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gsm8k", TaskString("gsm8k")),
        ("gsm8k@k=2&n=8", TaskString("gsm8k", params={"k": 2, "n": 8})),
        ("gsm8k@k=2@n=8", TaskString("gsm8k", params={"k": 2, "n": 8})),
        ("mmlu:anatomy@n=4|5", TaskString("mmlu", "anatomy", {"n": 4}, 5)),
        ("gsm8k|0", TaskString("gsm8k", shots=0)),
        (" gsm8k @ k = [1, 2] | 3 ", TaskString("gsm8k", params={"k": [1, 2]}, shots=3)),
        ("math@scorer='a|b@c&d'|1", TaskString("math", params={"scorer": "a|b@c&d"}, shots=1)),
        ("math@threshold=0.5", TaskString("math", params={"threshold": 0.5})),
        ("lighteval|gsm8k|5", TaskString("gsm8k", shots=5, suite="lighteval")),
        ("arc:a:b", TaskString("arc", "a:b")),
    ],
)
def test_tasks_are_read(text: str, expected: TaskString) -> None:
    assert parse_task(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("gsm8k|", "cannot be read"),
        ("gsm8k|-1", "'-1' is no number of shots"),
        ("gsm8k|five", "'five' is no number of shots"),
        ("gsm8k|٣", "is no number of shots"),
        ("gsm8k@", "cannot be read"),
        ("gsm8k:", "cannot be read"),
        (":anatomy", "cannot be read"),
        ("gsm8k@k", "'k' is not PARAMETER=VALUE"),
        ("gsm8k@k=", "'k=' is not PARAMETER=VALUE"),
        ("gsm8k@k=1&", "'' is not PARAMETER=VALUE"),
        ("gsm8k@k=1&k=2", "'k' is given twice"),
        ("gsm8k@k=1+x()", "neither a Python literal nor a bare word"),
        ("gsm8k@kk=10", r"There is no parameter 'kk' in task 'gsm8k@kk=10'\. Did you mean 'k'\?"),
        ("a|b|1|2", "cannot be read"),
        ("a b", "cannot be read"),
    ],
)
def test_tasks_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(Fault, match=why):
        parse_task(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exact_match", ("exact_match", {})),
        ("em", ("exact_match", {})),
        ("pass@k", ("pass_at_k", {})),
        ("pass@k:k=10&n=16", ("pass_at_k", {"k": 10, "n": 16})),
        ("pass_at_k:k=[1,2,4]&n=16", ("pass_at_k", {"k": [1, 2, 4], "n": 16})),
        ("acc:scorer=number", ("accuracy", {"scorer": "number"})),
        (
            "acc:scorer='exact_match(extract=number)'",
            ("accuracy", {"scorer": "exact_match(extract=number)"}),
        ),
        ("sampling", ("sampling", {})),
    ],
)
def test_metrics_are_read(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert parse_metric(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pass@j", r"There is no metric 'pass@j'\. Did you mean 'pass@k'\?"),
        ("pas_at_k:k=1", r"Did you mean 'pass_at_k'\?"),
        ("pass@k:", "Write NAME or NAME:k=10&n=16"),
        ("pass@k:k", "'k' is not PARAMETER=VALUE"),
        ("pass@k:k=1&k=1", "'k' is given twice"),
        ("", "There is no metric ''"),
    ],
)
def test_metrics_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(Fault, match=why):
        parse_metric(text)


PARAMS = st.dictionaries(st.sampled_from(["k", "n", "scorer", "threshold"]), VALUES)


@given(PARAMS)
def test_metric_text_and_back(params: dict[str, Any]) -> None:
    key, read = parse_metric(write_metric("pass@k", params))
    assert (key, read, list(read)) == ("pass_at_k", params, list(params))
    assert [type(value) for value in read.values()] == [type(value) for value in params.values()]
    assert parse_shown(shown_name("pass_at_k", params)) == ("pass_at_k", params, False)


@given(NAMES, st.none() | NAMES, PARAMS, st.none() | st.integers(0, 999), st.none() | NAMES)
def test_task_text_and_back(
    name: str, subset: str | None, params: dict[str, Any], shots: int | None, suite: str | None
) -> None:
    task = TaskString(name, subset, params, shots, suite if shots is not None else None)
    assert parse_task(write_task(task)) == task


def tupled(value: Any) -> Any:
    return tuple(map(tupled, value)) if isinstance(value, list) else value


@given(
    PARAMS,
    st.none() | st.text(max_size=20),
    st.text(max_size=10),
    st.text(max_size=10),
    st.integers(0),
)
def test_signature_text_and_back(
    params: dict[str, Any], scorer: str | None, agg: str, version: str, number: int
) -> None:
    pairs = tuple((key, tupled(value)) for key, value in params.items())
    one = Signature("pass_at_k", number, pairs, scorer, 8, agg, "clt+t", "0af3", version)
    text = write_signature(one)
    assert read_signature(text) == one
    assert "\n" not in text


def test_signature_of_a_number() -> None:
    metric = make_metric("pass@k", {"k": [1, 4], "n": 16})
    texts = [
        signature(
            metric,
            output,
            scorer="number.v1",
            n=16,
            error="clt+t",
            ask_id="0af3",
            evalrun_version="0.1.0",
        )
        for output in metric.outputs()
    ]
    assert texts == [
        f"metric:pass_at_k|version:1|params:k={k}&threshold=1.0|scorer:number.v1|n:16|agg:mean|err:clt+t"
        "|ask_id:0af3|evalrun:0.1.0"
        for k in (1, 4)
    ]
    assert read_signature(texts[0]).params == (("k", 1), ("threshold", 1.0))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("metric:a", "lacks version, agg, err, evalrun"),
        ("metric:a|metric:b", "cannot be read"),
        ("metric:a|colour:b", "cannot be read"),
        ("metric:a|version:x|n:1|agg:m|err:e|ask_id:i|evalrun:0", "cannot be read"),
    ],
)
def test_signatures_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(Fault, match=why):
        read_signature(text)


@pytest.mark.parametrize(
    ("key", "params", "given_names", "is_service", "expected"),
    [
        ("pass@k", {"k": 10, "n": 16}, ("n", "k"), False, ["pass@k:n=16&k=10"]),
        ("pass@k", {"k": 10, "n": 16}, ("k",), False, ["pass@k:k=10"]),
        ("pass@k", {"k": 10, "n": 16}, (), False, ["pass@k"]),
        (
            "pass@k",
            {"k": [1, 2], "n": 16},
            ("k", "n"),
            False,
            ["pass@k:k=1&n=16", "pass@k:k=2&n=16"],
        ),
        ("pass@k", {"k": [1, 2], "n": 16}, (), False, ["pass@k:k=1", "pass@k:k=2"]),
        ("pass@k", {"k": 5, "n": 5}, (), True, ["pass@5"]),
        ("cons@k", {"k": 5, "n": 5}, (), True, ["cons@5"]),
        ("avg@n", {"n": 5}, (), True, ["avg@5"]),
        ("maj@n", {"n": 5}, (), True, ["maj@5"]),
        ("accuracy", {"n": 5}, (), True, ["accuracy"]),
        ("accuracy", {"n": 5}, ("n",), False, ["accuracy:n=5"]),
        ("accuracy", {"scorer": "number"}, ("scorer",), False, ["accuracy:scorer=number"]),
    ],
)
def test_display_names(
    key: str,
    params: dict[str, Any],
    given_names: tuple[str, ...],
    is_service: bool,
    expected: list[str],
) -> None:
    metric = make_metric(key, params)
    assert [
        display_name(metric, output, given_names, is_service) for output in metric.outputs()
    ] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pass@5", ("pass_at_k", {"k": 5, "n": 5}, True)),
        ("avg@5", ("avg_at_n", {"n": 5}, True)),
        ("accuracy:n=5", ("accuracy", {"n": 5}, False)),
    ],
)
def test_shown_names_are_read(text: str, expected: tuple[str, dict[str, Any], bool]) -> None:
    assert parse_shown(text) == expected
    assert shown_name(*expected) == text


def test_a_shown_name_that_is_none() -> None:
    with pytest.raises(Fault, match="There is no metric 'best@5'"):
        parse_shown("best@5")


def test_nan_is_no_parameter() -> None:
    with pytest.raises(ValueError, match="NaN"):
        write_metric("accuracy", {"n": float("nan")})
    with pytest.raises(ValueError, match="a parameter value must be"):
        write_metric("accuracy", {"n": {1: 2}})


def test_task_parameters_begin_with_k_and_n() -> None:
    assert task_parameters()[:2] == ("k", "n")
    assert "threshold" in task_parameters()
