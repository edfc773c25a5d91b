"""Sweeps: one run per job, one engine as long as it serves, one joint summary, one exit code."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from support.running import case
from support.workspace import Bench, Evalrun, run_folders, write_bench

from evalrun.backends.replay.backend import ReplayBackend


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the engines that were created, in order."""
    seen: list[str] = []
    create = ReplayBackend.__init__

    def counted(self: ReplayBackend, model: Any) -> None:
        seen.append(str(model.path))
        create(self, model)

    monkeypatch.setattr(ReplayBackend, "__init__", counted)
    return seen


def two_models(tmp_path: Path) -> tuple[Bench, list[str]]:
    """Two tasks and two models of one's own, each with all answers: `right` and `wrong`."""
    (tmp_path / "w").mkdir()
    bench, wrong = write_bench(tmp_path, ["1", "1"]), write_bench(tmp_path / "w", ["0", "0"])
    for group in ("task", "model"):
        (tmp_path / "mine" / group).mkdir(parents=True)
    for name, answers in (("right", bench.answers), ("wrong", wrong.answers)):
        (tmp_path / "mine" / "model" / f"{name}.yaml").write_text(
            f"name: {name}\nbackend: replay\npath: {answers}\n"
        )
    for name in ("one", "two"):
        (tmp_path / "mine" / "task" / f"{name}.yaml").write_text(
            f"# @package tasks.{name}\ndefaults: [/task_schema@_here_, _self_]\n"
            f"dataset: {{path: {bench.data}, columns: {{query: question, gold: answer}}}}\n"
            "extract: number\nmetrics: {accuracy: {}}\n"
        )
    return bench, ["--config-dir", str(tmp_path / "mine")]


def joint_rows(sweep: Path) -> list[dict[str, str]]:
    """The rows of the joint CSV."""
    (path,) = (sweep / "summary").glob("*.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_cf_017_every_pair_has_its_own_run(
    evalrun: Evalrun, tmp_path: Path, starts: list[str]
) -> None:
    expected = case("config", "CF-017")["expected"]
    _, words = two_models(tmp_path)
    ran = evalrun("-m", "task=one,two", "model=right,wrong", *words)
    assert ran.code == 0, ran.err
    (sweep,) = run_folders(tmp_path)
    jobs = sorted(p.name for p in sweep.iterdir() if p.is_dir())
    assert jobs == ["0", "1", "2", "3", "summary"]
    assert len(jobs) - 1 == expected["jobs"] == expected["distinct_out_dirs"]
    files = [
        str(p.relative_to(sweep))
        for p in sorted(sweep.glob("*/predictions/*/*.arrow"))
        if "docs" not in p.name
    ]
    assert files == [
        "0/predictions/right/one.arrow", "1/predictions/right/two.arrow",
        "2/predictions/wrong/one.arrow", "3/predictions/wrong/two.arrow",
    ]  # fmt: skip
    assert all((sweep / job / "configs" / "plan.json").is_file() for job in "0123")
    rows = {
        (r["dataset"], r["model"]): float(r["value"])
        for r in joint_rows(sweep)
        if r["dataset"] != "all"
    }
    assert {k: v > 0 for k, v in rows.items()} == {
        ("one", "right"): True,
        ("two", "right"): True,
        ("one", "wrong"): False,
        ("two", "wrong"): False,
    }
    # the model varies slowest: two engines
    assert [Path(p).parent.name for p in starts] == [tmp_path.name, "w"]


def test_one_model_is_loaded_once(evalrun: Evalrun, tmp_path: Path, starts: list[str]) -> None:
    _, words = two_models(tmp_path)
    assert evalrun("-m", "model=right", "task=one,two", "seed=1,2", *words).code == 0
    assert len(starts) == 1
    assert len(list(run_folders(tmp_path)[0].glob("*/results/right/*.json"))) >= 4


def test_lists_of_tasks_are_swept(evalrun: Evalrun, tmp_path: Path) -> None:
    _, words = two_models(tmp_path)
    assert evalrun("-m", "model=right", "task=[one,two],[two]", *words).code == 0
    (sweep,) = run_folders(tmp_path)
    found = {str(p.relative_to(sweep)) for p in sweep.glob("*/predictions/right/*.docs.arrow")}
    assert found == {
        f"{i}/predictions/right/{t}.docs.arrow" for i, t in ((0, "one"), (0, "two"), (1, "two"))
    }


def test_a_failing_job_does_not_end_the_others(evalrun: Evalrun, tmp_path: Path) -> None:
    bench, words = two_models(tmp_path)
    ran = evalrun(
        "-m", "model=right", f"model.path=/not/there.jsonl,{bench.answers}", "task=one", *words
    )
    assert ran.code == 2
    assert "/not/there.jsonl" in ran.err
    assert "Traceback" not in ran.err
    (sweep,) = run_folders(tmp_path)
    assert [float(r["value"]) for r in joint_rows(sweep)] == [1.0]
    assert not (sweep / "0").exists()
    assert (sweep / "1" / "configs" / "plan.json").is_file()


def test_failed_tasks_are_3_and_are_told(evalrun: Evalrun, tmp_path: Path) -> None:
    _, words = two_models(tmp_path)
    ran = evalrun("-m", "model=right", "task=one,two", "num_return_sequences=1,2", *words)
    assert ran.code == 3  # one sample is saved per document, two were asked for
    (sweep,) = run_folders(tmp_path)
    assert sorted(p.name for p in sweep.iterdir() if p.name.isdigit()) == ["0", "1", "2", "3"]


def test_ctrl_c_ends_the_sweep(
    evalrun: Evalrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, words = two_models(tmp_path)
    jobs: list[int] = []
    serve = ReplayBackend.run

    def stop(self: ReplayBackend, requests: Any, sink: Any) -> None:
        jobs.append(1)
        if len(jobs) == 2:
            raise KeyboardInterrupt
        serve(self, requests, sink)

    monkeypatch.setattr(ReplayBackend, "run", stop)
    ran = evalrun("-m", "model=right", "task=one", "seed=1,2,3,4", *words)
    assert ran.code == 130
    assert len(jobs) == 2
    (sweep,) = run_folders(tmp_path)
    assert sorted(p.name for p in sweep.iterdir() if p.name.isdigit()) == ["0", "1"]
    assert ran.err.count("Stopped by SIGINT.") == 1


def test_output_dir_is_where_the_sweep_goes(evalrun: Evalrun, tmp_path: Path) -> None:
    _, words = two_models(tmp_path)
    assert (
        evalrun("-m", "model=right", "task=one", "seed=1,2", "output_dir=o 'x'", *words).code == 0
    )
    (sweep,) = (tmp_path / "o 'x'").iterdir()
    assert (sweep / "multirun.yaml").is_file()
    assert not (tmp_path / "outputs").exists()
