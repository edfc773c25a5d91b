"""A damaged or hostile plan.json: a Fault that names file and key, never another exception."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.workspace import Bench, Evalrun, run_folders

from evalrun.config import composing
from evalrun.errors import Fault
from evalrun.planning import build, from_json, to_json
from evalrun.runs import find


def plan_data() -> dict[str, Any]:
    words = ["model=replay", "task=[gsm8k,arc_easy]", "num_return_sequences=2"]
    data: dict[str, Any] = json.loads(to_json(build(composing.composed(words))))
    return data


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return plan_data()


def deep(n: int) -> list[Any]:
    """Lists that nest `n` deep."""
    value: list[Any] = []
    for _ in range(n - 1):
        value = [value]
    return value


HOSTILE = [
    ("cells", ["x"], r"cells[0] is 'x'; it must be an object"),
    ("cells", [None], "cells[0] is null; it must be an object"),
    ("cells", None, "cells is null; it must be a list"),
    ("cells", [], "cells is empty"),
    ("model", "x", "model is 'x'; it must be an object"),
    ("model", None, "model is null; it must be an object"),
    ("model", 3, "model is 3; it must be an object"),
    ("deploy", "x", "deploy is 'x'; it must be an object"),
    ("cells.0.task", None, "cells[0].task is null; it must be a text"),
    ("cells.0.n", "5", "cells[0].n is '5'; it must be a whole number"),
    ("cells.0.n", 0, "cells[0].n is 0; it must be 1 or more"),
    ("cells.0.n", 10**30, "cells[0].n is a number that does not fit 64 bits"),
    ("cells.0.limit", "a", "cells[0].limit is 'a'; it must be a whole number"),
    ("cells.0.limit", -1, "cells[0].limit is -1; it must be 1 or more"),
    ("cells.0.kinds", None, "cells[0].kinds is null; it must be a list"),
    ("cells.0.kinds", ["execute"], "cells[0].kinds holds 'execute'; known are generate"),
    ("cells.0.kinds", [], "cells[0].kinds is empty"),
    ("cells.1.metrics", [], "cells[1].metrics is empty"),
    ("cells.0.metrics.0.key", 1, "cells[0].metrics[0].key is 1; it must be a text"),
    ("cells.0.asked", [["a"]], "cells[0].asked[0] has 1 entries; it must have 2"),
    ("max_error_rate", "NaN", "max_error_rate is nan; it must be from 0 to 1"),
    ("max_error_rate", 2, "max_error_rate is 2; it must be from 0 to 1"),
    ("created", "yesterday", "created is 'yesterday', which is no time"),
    ("mode", "judged", "mode is 'judged'; it must be one of all, infer, eval, viz"),
    ("overrides", [1], "overrides[0] is 1; it must be a text"),
]


def changed(data: dict[str, Any], path: str, value: Any) -> str:
    """The plan as text with one value replaced; numbers of the path are places in lists."""
    copy = json.loads(json.dumps(data))
    *way, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    at = copy
    for part in way:
        at = at[part]
    at[last] = value
    return json.dumps(copy)


@pytest.mark.parametrize(("path", "value", "message"), HOSTILE)
def test_a_value_that_does_not_fit(
    data: dict[str, Any], path: str, value: Any, message: str
) -> None:
    with pytest.raises(Fault) as caught:
        from_json(changed(data, path, value), "r/configs/plan.json")
    assert str(caught.value).startswith(f"r/configs/plan.json is damaged: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nest more than 100 deep"),
        (json.dumps({"format_version": 1, "cells": deep(600)}), "cells nests more than 100"),
        ('{"format_version": 1, "format_version": 1}', "format_version stands twice"),
        ('{"format_version": true}', "plan format True"),
        ('{"format_version": 1e999}', "larger than every float"),
        ('{"format_version": ' + "9" * 5000 + "}", "4300 digits"),
        ('{"format_version": 1, "max_error_rate": NaN}', "NaN is no JSON"),
    ],
)
def test_text_that_is_no_plan(text: str, message: str) -> None:
    with pytest.raises(Fault) as caught:
        from_json(text, "r/configs/plan.json")
    assert str(caught.value).startswith("r/configs/plan.json ")
    assert message in str(caught.value)


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The path of every value within, as `changed` takes it."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for name, each in inside:
        yield f"{path}{name}"
        if isinstance(each, dict | list):
            yield from paths(each, f"{path}{name}.")


ODD = [None, True, -1, 2.5, "x", "", [], ["x"], [[1]], {}, {"a": 1}, 10**30, deep(90), deep(600)]


def is_refused(text: str) -> bool:
    """True where the text is refused as it must be; False where it is a plan."""
    try:
        from_json(text, "p.json")
    except Fault as fault:
        return str(fault).startswith("p.json ")
    return False


def test_every_key_with_every_odd_value(data: dict[str, Any]) -> None:
    n_faults = n = 0
    for path in paths(data):
        for value in ODD:
            n += 1
            n_faults += is_refused(changed(data, path, value))
    assert n > 1500
    assert n_faults > n / 2


def test_a_damaged_plan_hides_no_other_run(
    evalrun: Evalrun, bench: Bench, tmp_path: Path, data: dict[str, Any]
) -> None:
    """M1: one odd plan.json stopped every new run and every --resume."""
    words = bench(["1"]).words()
    assert evalrun("--mode", "infer", *words).code == 0
    (good,) = run_folders(tmp_path)
    odd = [changed(data, path, value) for path, value, _ in HOSTILE]
    for place, text in enumerate([*odd, "[" * 100_000, json.dumps(deep(600))]):
        file = tmp_path / "outputs" / f"odd_{place}" / "configs" / "plan.json"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    assert [stored.run.path.name for stored in find.stored_runs(tmp_path / "outputs")] == [
        good.name
    ]
    assert evalrun(*words).code == 0
    assert evalrun("--resume", *words).code == 0
    ran = evalrun("--mode", "eval", "--reuse", "odd_0", *words)
    assert ran.code == 2
    assert "odd_0/configs/plan.json is damaged: cells[0] is 'x'" in ran.err
