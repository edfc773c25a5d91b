"""One metric asked for several times with other parameters; the note where a number is 0."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.workspace import Bench, Evalrun, results_of, run_folders, values_of

import evalrun as package
from evalrun.errors import Fault
from evalrun.runs.words.choices import metric_overrides


def test_in_a_run_and_in_eval_as_in_score(
    evalrun: Evalrun, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    given = bench(["1", "0"])
    ran = evalrun(*given.words("metric=[accuracy,accuracy:scorer=math]"))
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    both = {"accuracy": 0.5, "accuracy:scorer=math": 0.5}
    assert values_of(run) == both
    more = "metric=[accuracy:scorer=contains,accuracy,accuracy:scorer=exact_match]"
    ran = evalrun("--mode", "eval", "--reuse", "latest", more)
    assert ran.code == 0, ran.err
    named = {"accuracy:scorer=contains": 0.0, "accuracy:scorer=exact_match": 0.5}
    assert values_of(run) == both | named
    estimates = results_of(run)["estimates"]
    assert isinstance(estimates, list)
    assert len({e["signature"] for e in estimates}) == 4
    ran = evalrun("--mode", "eval", "--reuse", "latest")
    assert ran.code == 0, ran.err
    assert values_of(run) == both | named

    rows = [{"golds": ["A"], "preds": ["a"]}]
    found = [package.score("accuracy", rows, scorer=s, n=1) for s in ("contains", "exact_match")]
    assert [scores["accuracy"].value for scores in found] == [1.0, 0.0]


def test_the_task_s_own_scorer_by_name_is_one_number(
    evalrun: Evalrun, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    assert evalrun(*bench(["1"]).words("metric=[accuracy,accuracy:scorer=number]")).code == 0
    assert values_of(run_folders(tmp_path)[0]) == {"accuracy": 1.0}


def test_how_it_is_written_down() -> None:
    assert metric_overrides("[accuracy:scorer=math,accuracy]", False) == [
        "metric=[accuracy]",
        "metrics.accuracy.scorer='math'",
        "++metrics.accuracy-2={}",
    ]
    for value in ("[accuracy,acc]", "[pass@k:k=1&n=4,pass@k:k=2&n=4]"):
        with pytest.raises(Fault, match="more than once"):
            metric_overrides(value, False)


def test_the_note_stands_in_the_summary(
    evalrun: Evalrun, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    given = bench(["1", "1", "1"])
    for path, key, form in (
        (given.answers, "text", "I think {} it is"),
        (given.data, "answer", "{}"),
    ):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row[key] = form.format(row[key].rpartition(" ")[2])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = evalrun(*given.words("metric=perfect_exact_match"))
    assert ran.code == 0, ran.err
    assert values_of(run_folders(tmp_path)[0]) == {"perfect_exact_match": 0.0}
    assert "0 of 3 right; in 3 of 3 the gold stands inside the answer: metric=contains" in ran.out
