"""Averages over tasks: what enters them, what withholds them, how they are shown."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from evalrun.errors import Fault
from evalrun.metrics import signatures
from evalrun.stages.summarize import SummarySettings, md_text, tidy, txt_text
from evalrun.stages.summary.group_rows import groups, with_groups
from evalrun.stats.task_averages import Member, aggregate, average, group_names, is_group
from evalrun.types import Estimate, Record


def estimate(value: float | None, display: str = "accuracy", **changes: Any) -> Estimate:
    metric, scorer, n = (
        changes.pop("metric", "accuracy"),
        changes.pop("scorer", "number.v1"),
        changes.get("n", 1),
    )
    signature = signatures.write_signature(
        signatures.Signature(
            metric, 1, (), scorer, n, "mean", "clt+t", changes.pop("ask_id", "a" * 16), "0.1"
        )
    )
    base = Estimate(
        *(metric, display, 1, value, "fraction", True, 0.1, None, 0.3, 0.7, "clt+t"),
        *(10, 1, 10, 0, 0, 0, None, signature),
    )
    return dataclasses.replace(base, **changes)


def record(task: str, *estimates: Estimate, model: str = "m", **changes: Any) -> Record:
    base = Record(model, task, "abcdef", "gen", "complete", None, None, 10, 1, estimates=estimates)
    return dataclasses.replace(base, **changes)


def numbers(
    records: list[Record], is_weighted: bool = False
) -> dict[tuple[str, str], float | None]:
    return {(r.task, e.display): e.value for r in groups(records, is_weighted) for e in r.estimates}


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], {}),
        (["gsm8k"], {"all": ["gsm8k"]}),
        (["mmlu:a"], {"all": ["mmlu:a"]}),
        (["t:a:x", "t:b:y"], {"t:_average": ["t:a:x", "t:b:y"], "all": ["t:a:x", "t:b:y"]}),
        (["t:a|0", "t:b|5"], {"all": ["t:a|0", "t:b|5"]}),
        (
            ["t:a|5", "tx|5", "t:b|5"],
            {"t:_average|5": ["t:a|5", "t:b|5"], "all": ["t:a|5", "tx|5", "t:b|5"]},
        ),
    ],
)
def test_names_of_groups(tasks: list[str], expected: dict[str, list[str]]) -> None:
    assert {group: list(members) for group, members in group_names(tasks).items()} == expected
    assert all(is_group(group) for group in expected)
    assert not any(is_group(task) for task in tasks)


def test_an_average_with_its_errors() -> None:
    got = average([Member(0.5, 0.3, 0.2, 0.9, 0.03), Member(0.75, 0.4, 0.35, 1.0, 0.04)])
    assert got.value == 0.625
    assert got.stderr == pytest.approx(0.25)
    assert got.rerun_stderr == pytest.approx(0.025)
    assert got.ci_low == pytest.approx(0.625 - 0.25)
    assert got.ci_high == pytest.approx(0.625 + math.hypot(0.4, 0.25) / 2)


def test_a_weighted_average() -> None:
    members = [Member(0.9, 0.1, n_docs=10), Member(0.5, 0.2, n_docs=90)]
    assert average(members).value == pytest.approx(0.7)
    got = average(members, is_weighted=True)
    assert got.value == pytest.approx(0.54)
    assert got.stderr == pytest.approx(math.hypot(0.1 * 0.1, 0.9 * 0.2))
    assert got.n_docs == 100


def test_what_one_member_lacks_the_average_lacks() -> None:
    got = average([Member(1.0), Member(0.5, 0.2, 0.1, 0.9, 0.1)])
    assert (got.value, got.stderr, got.ci_low, got.rerun_stderr) == (0.75, None, None, None)
    assert math.isnan(average([Member(math.nan, math.nan), Member(0.5, 0.1)]).stderr or 0.0)
    with pytest.raises(ValueError, match="no member"):
        average([])


def test_group_rows_do_not_count_in_the_whole() -> None:
    found = aggregate(
        {
            "mmlu:a|5": {"acc": Member(0.9)},
            "mmlu:b|5": {"acc": Member(0.5)},
            "g|5": {"acc": Member(0.1)},
        }
    )
    assert found["mmlu:_average|5"]["acc"].value == pytest.approx(0.7)
    assert found["all"]["acc"].value == pytest.approx(0.5)


def test_groups_of_records() -> None:
    records = [
        record("mmlu:a", estimate(0.9)),
        record("mmlu:b", estimate(0.5)),
        record("gsm8k", estimate(0.1), estimate(0.3, "em", metric="exact_match")),
    ]
    assert numbers(records) == {
        ("mmlu:_average", "accuracy"): pytest.approx(0.7),
        ("all", "accuracy"): pytest.approx(0.5),
        ("all", "em"): 0.3,
    }
    mmlu, whole = groups(records)
    assert (mmlu.notes, mmlu.state, mmlu.n_docs) == (("plain mean over 2 tasks",), "complete", 20)
    assert whole.notes == ("plain mean over 3 tasks", "em is over the 1 of 3 tasks that report it")
    read = signatures.read_signature(mmlu.estimates[0].signature)
    assert (read.metric, read.scorer, read.agg, read.err) == (
        "accuracy",
        "number.v1",
        "plain mean of 2",
        "members",
    )
    assert mmlu.estimates[0].stderr == pytest.approx(math.sqrt(0.02) / 2)


def test_one_task_has_no_group_row() -> None:
    assert (
        groups([record("gsm8k", estimate(0.5)), record("gsm8k", estimate(0.7), model="other")])
        == []
    )


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (
            record("mmlu:b", estimate(0.5), state="incomplete", reason="2 of 10 requests failed"),
            "mmlu:b is incomplete",
        ),
        (record("mmlu:b", state="failed", reason="no server"), "mmlu:b is failed"),
        (record("mmlu:b", state="missing"), "mmlu:b is missing"),
        (record("mmlu:b", estimate(None)), "mmlu:b is unscored"),
    ],
)
def test_a_hole_withholds_the_average_and_is_named(bad: Record, named: str) -> None:
    records = [record("mmlu:a", estimate(0.9)), bad]
    assert set(numbers(records).values()) == {None}
    mmlu, whole = groups(records)
    assert (mmlu.state, whole.state) == ("withheld", "withheld")
    text = txt_text(with_groups(records))
    assert f"mmlu:_average, m: withheld: no average over holes: {named}." in text
    row = next(r for r in tidy(with_groups(records)) if r["dataset"] == "mmlu:_average")
    assert (row["metric"], row["value"], row["stderr"]) == ("accuracy", None, None)


def test_many_holes_are_counted_and_some_named() -> None:
    records = [record(f"mmlu:s{i}", state="failed", reason="no hub") for i in range(57)]
    mmlu, _ = groups(records)
    named = ", ".join(f"mmlu:s{i} is failed" for i in range(5))
    assert mmlu.reason == f"no average over holes: {named} and 52 more"


def test_a_hole_withholds_only_the_averages_that_it_belongs_to() -> None:
    records = [
        record("a", estimate(0.4)),
        record("b", estimate(0.6)),
        record("c", estimate(0.5, "em", metric="exact_match"), state="incomplete"),
    ]
    assert numbers(records) == {("all", "accuracy"): 0.5, ("all", "em"): None}
    assert "50.00 ± 7.07" in md_text(with_groups(records))


def test_units_are_never_mixed() -> None:
    records = [record("a", estimate(0.4, "f1")), record("b", estimate(40.0, "f1", unit="percent"))]
    (whole,) = groups(records)
    assert [(e.unit, e.value) for e in whole.estimates] == [("fraction", 0.4), ("percent", 40.0)]


def test_subtasks_of_another_definition_are_another_group() -> None:
    records = [record("t:a", estimate(0.4)), record("t:b", estimate(0.6), version="123456")]
    assert [r.task for r in groups(records)] == ["all"]


def test_models_are_averaged_apart_and_share_a_row() -> None:
    records = [
        record(task, estimate(value), model=model)
        for model, values in (("m1", (0.2, 0.4)), ("m2", (0.6, 1.0)))
        for task, value in zip(("t:a", "t:b"), values, strict=True)
    ]
    found = groups(records)
    assert [(r.task, r.model) for r in found] == [
        *(("t:_average", "m1"), ("t:_average", "m2"), ("all", "m1"), ("all", "m2"))
    ]
    line = next(line for line in md_text([*records, *found]).splitlines() if "_average" in line)
    assert "30.00 ± 7.07" in line
    assert "80.00 ± 7.07" in line


def test_numbers_of_one_name_are_told_apart_by_their_scorer() -> None:
    pair = [estimate(0.2, scorer="letter.v1"), estimate(0.6, scorer="number.v1")]
    (whole,) = groups(
        [record("a", *pair), record("b", *(dataclasses.replace(e, value=1.0) for e in pair))]
    )
    assert [e.value for e in whole.estimates] == [0.6, 0.8]


def test_weights_are_said() -> None:
    records = [record("t:a", estimate(0.9)), record("t:b", estimate(0.5, n_scored=90, n_docs=90))]
    mmlu, _ = groups(records, is_weighted=True)
    assert mmlu.estimates[0].value == pytest.approx(0.54)
    assert mmlu.notes == ("mean weighted by documents over 2 tasks",)
    assert SummarySettings.from_mapping({"weighted": True}).weighted
    with pytest.raises(Fault, match="true or false"):
        SummarySettings.from_mapping({"weighted": 1})
