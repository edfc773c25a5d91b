"""--reuse RUN in a mode that asks: model, task and settings come from the run, what is typed
anew wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.running import counts_of, rows_of
from support.workspace import Bench, Evalrun, results_of, run_folders, values_of, write_bench

Make = Callable[..., Bench]


def only_run(folder: Path) -> Path:
    (run,) = run_folders(folder)
    return run


def overrides_of(run: Path) -> list[str]:
    plan: dict[str, list[str]] = json.loads((run / "configs" / "plan.json").read_text())
    return plan["overrides"]


@pytest.mark.parametrize(
    "words", [["--reuse", "latest"], ["--resume", "--reuse", "latest", "task=gsm8k"]]
)
def test_a_run_goes_on_by_its_name(
    evalrun: Evalrun, bench: Make, tmp_path: Path, words: list[str]
) -> None:
    made = bench(["11", "10", "01", "00"])
    settings = [
        "tasks.gsm8k.prompt.system=Be brief: 1.10",
        "seed=7",
        "metric=[exact_match,pass@k:k=1&n=2]",
    ]
    ran = evalrun(
        *made.words(
            *settings, "+model.engine.die_after=3", "num_return_sequences=2", "--limit", "3"
        )
    )
    assert ran.code == 3
    run = only_run(tmp_path)
    before = rows_of(run)
    assert counts_of(run) == {"n_unsent": 3}
    ran = evalrun(*words, "model.engine.die_after=100")
    assert ran.code == 0, ran.err
    assert f"Settings of outputs/{run.name}: model=replay" in ran.err
    assert only_run(tmp_path) == run
    assert counts_of(run) == {}
    rows = rows_of(run)
    assert len(rows) == 6  # the stored limit and n
    assert [row for row in rows if row in before] == before
    assert results_of(run)["header"]["n_docs"] == 3  # type: ignore[index]
    assert values_of(run).keys() == {"exact_match", "pass@k:k=1&n=2"}


def test_as_the_run_has_grown(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    """The extent is the stored plan's, not the first command's; typed anew, it grows."""
    made = bench(["1", "0", "1", "1"])
    assert evalrun(*made.words("--limit", "1")).code == 0
    run = only_run(tmp_path)
    assert evalrun("--reuse", run.name, "--limit", "3").code == 0
    assert evalrun("--reuse", run.name).code == 0
    assert len(rows_of(run)) == 3
    assert results_of(run)["header"]["n_docs"] == 3  # type: ignore[index]
    assert evalrun("--reuse", str(run), "limit=null").code == 0
    assert len(rows_of(run)) == 4


def test_a_setting_typed_anew_that_changes_what_is_asked(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["1", "0"])
    evalrun(*made.words())
    run = only_run(tmp_path)
    before = rows_of(run)
    ran = evalrun("--reuse", "latest", "seed=3")
    assert ran.code == 2
    assert "seed: stored 0, asked 3" in ran.err
    assert rows_of(run) == before


def test_one_task_of_several(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    """The settings of the tasks that are not asked for stay out of the way."""
    made, other = bench(["1", "0", "1"]), write_bench(tmp_path, ["1", "1", "1"], "other")
    answers = tmp_path / "both.jsonl"
    answers.write_text(made.answers.read_text() + other.answers.read_text())
    words = ["model=replay", f"model.path={answers}", "task=[gsm8k,demo_math]", "--limit", "1"]
    words += ["tasks.demo_math.dataset.columns.id=null", f"tasks.gsm8k.dataset.path={made.data}"]
    words += [f"tasks.demo_math.dataset.path={other.data}"]
    assert evalrun(*words).code == 0
    run = only_run(tmp_path)
    ran = evalrun("--reuse", "latest", "task=demo_math", "--limit", "2")
    assert ran.code == 0, ran.err
    assert [len(rows_of(run, task=task)) for task in ("gsm8k", "demo_math")] == [1, 2]
    assert [o for o in overrides_of(run) if o.startswith("task=")] == ["task=[gsm8k,demo_math]"]


def test_a_job_of_a_sweep(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1", "0", "1"])
    assert evalrun("-m", *made.words("seed=1,2", "--limit", "2")).code == 0
    sweep = only_run(tmp_path)
    assert "seed=2" in overrides_of(sweep / "1")
    ran = evalrun("--reuse", str(sweep / "1"), "--limit", "3")
    assert ran.code == 0, ran.err
    assert [len(rows_of(sweep / job)) for job in "01"] == [2, 3]


def test_a_run_that_recorded_none(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    """A plan of an older evalrun: the command must say it all, as before."""
    made = bench(["1", "0"])
    evalrun(*made.words())
    plan = only_run(tmp_path) / "configs" / "plan.json"
    data = json.loads(plan.read_text())
    del data["overrides"]
    plan.write_text(json.dumps(data))
    assert evalrun("--reuse", "latest").code == 2
    assert evalrun("--reuse", "latest", *made.words()).code == 0


def test_a_dry_run_shows_what_would_go_on(evalrun: Evalrun, bench: Make) -> None:
    made = bench(["1", "0"])
    evalrun(*made.words("seed=9"))
    shown = evalrun("--reuse", "latest", "--dry-run")
    assert shown.code == 0, shown.err
    assert "task gsm8k" in shown.out
