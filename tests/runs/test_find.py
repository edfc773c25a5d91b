"""Runs found by name: one order, one way to read a name, whoever asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.workspace import Bench, Evalrun, run_folders, write_bench

from evalrun.errors import Fault
from evalrun.runs import find, inspect
from evalrun.store.layout import Run, write_text_atomic


def plan(folder: Path, created: object) -> Run:
    run = Run(folder)
    write_text_atomic(run.plan_file, json.dumps({"created": created}))
    return run


def test_runs_are_ordered_by_the_time_in_the_plan(tmp_path: Path) -> None:
    newest = plan(tmp_path / "20200101_000000", "2026-03-01T00:00:00+00:00")
    oldest = plan(tmp_path / "zzz", "2026-01-01T00:00:00+00:00")
    job_0 = plan(tmp_path / "sweep" / "0", "2026-02-01T02:00:00+02:00")
    job_1 = plan(tmp_path / "sweep" / "1", "2026-02-01T00:00:00+00:00")
    plan(tmp_path / "deep" / "er" / "still", "2026-02-01T00:00:00+00:00")
    (tmp_path / "zzz_empty").mkdir()
    (tmp_path / "stray.txt").write_text("x")
    assert [s.run for s in inspect.every(tmp_path)] == [newest, job_1, job_0, oldest]
    assert inspect.every(tmp_path / "absent") == []


@pytest.fixture
def asked(tmp_path: Path, evalrun: Evalrun) -> list[Path]:
    """The folders of two runs, the older one first."""
    bench: Bench = write_bench(tmp_path, ["1", "0"])
    for _ in range(2):
        assert evalrun(*bench.words()).code == 0
    return run_folders(tmp_path)


def test_every_name_of_a_run_means_the_same_to_all(asked: list[Path], tmp_path: Path) -> None:
    older, newer = asked
    outputs = tmp_path / "outputs"
    for name, meant in (("latest", newer), (older.name, older), (str(newer), newer)):
        assert find.by_name(name, outputs).run.path.resolve() == meant
        assert inspect.one(name, outputs, "evalrun status").run.path.resolve() == meant
        (found,) = find.all_by_name(name, outputs, "evalrun.results")
        assert found.run.path.resolve() == meant


def test_a_damaged_plan_never_hides_the_runs_before_it(asked: list[Path], tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    for name, text in (("broken", "{"), ("a_list", "[]"), ("deep", "[" * 100_000)):
        write_text_atomic(outputs / name / "configs" / "plan.json", text)
    plan(outputs / "no_time", None)
    plan(outputs / "bad_time", "yesterday")
    assert [s.run.path for s in find.stored_runs(outputs)] == asked
    assert find.by_name("latest", outputs).run.path == asked[-1]


@pytest.mark.parametrize(
    ("asker", "name", "text"),
    [
        ("--reuse", "latest", "--reuse latest: there is no run in OUT. Run --mode infer first"),
        ("evalrun stop", "latest", "evalrun stop latest: there is no run in OUT. --output-dir DIR"),
        ("--reuse", "x", "--reuse x: no such run, neither as a folder nor in OUT. Newest: none."),
        ("evalrun.results", "x", "evalrun.results x: no such run, neither as a folder nor in OUT."),
    ],
)
def test_a_name_that_means_no_run(asker: str, name: str, text: str, tmp_path: Path) -> None:
    out = tmp_path / "outputs"
    with pytest.raises(Fault) as caught:
        find.by_name(name, out, asker)
    assert str(caught.value).startswith(text.replace("OUT", str(out)))


def test_a_sweep_is_several_runs(asked: list[Path], tmp_path: Path) -> None:
    sweep = tmp_path / "outputs" / "sweep"
    sweep.mkdir()
    for number, run in enumerate(asked):
        run.rename(sweep / str(number))
    with pytest.raises(Fault, match=r"is a sweep of 2 runs. Name one of them: sweep/0, sweep/1"):
        find.by_name(str(sweep), tmp_path / "outputs")
    found = find.all_by_name(str(sweep), tmp_path / "outputs", "evalrun.results")
    assert [s.run.path for s in found] == [sweep / "0", sweep / "1"]
