"""evalrun status: growing counts of a real run, killed runs, older runs, sweeps, damaged files."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from support.running import launch, n_rows, wait_for
from support.workspace import Evalrun, run_folders, write_bench

from evalrun.store import state
from evalrun.store.layout import Run
from evalrun.store.lock import Lock


def told(evalrun: Evalrun, *words: str) -> Any:
    ran = evalrun("status", *words, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_counts_grow_until_it_is_finished(evalrun: Evalrun, tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["11"] * 40)
    process = launch(made.words("+model.engine.delay_s=0.05", "num_return_sequences=2"), tmp_path)
    wait_for(lambda: n_rows(tmp_path) > 0)
    seen = []
    while process.poll() is None:
        seen.append(told(evalrun, "latest"))
        if len(seen) == 3:
            shown = evalrun("status")
            assert "testing" in shown.out.splitlines()[1]
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    during = [s for s in seen if s["state"] == "testing"]
    counts = [s["done"] for s in during]
    assert counts == sorted(counts)
    assert len(set(counts)) >= 3
    assert {s["total"] for s in during} == {80}
    assert {(s["pid"], s["is_alive"], s["task"]) for s in during[-2:]} == {
        (process.pid, True, "gsm8k")
    }
    last = told(evalrun, "latest")
    assert (last["state"], last["done"], last["total"], last["is_alive"]) == (
        "finished",
        80,
        80,
        False,
    )
    details = evalrun("status", last["run"]).out
    for line in (
        "state      finished",
        "rows       80/80",
        "model      replay (replay)",
        "logs/infer/replay/gsm8k.out",
    ):
        assert line in details


def test_a_killed_run_is_terminated_and_a_resume_counts_what_is_stored(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    made = write_bench(tmp_path, ["1"] * 60)
    process = launch(made.words("+model.engine.delay_s=0.05"), tmp_path)
    wait_for(lambda: n_rows(tmp_path) > 0)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run = told(evalrun, "latest")
    assert (run["state"], run["reason"], run["is_alive"]) == ("terminated", state.GONE, False)
    assert 0 < run["done"] < 60
    assert "pid " in (shown := evalrun("status", "latest").out)
    assert ", gone" in shown
    assert evalrun(*made.words("--resume")).code == 0
    run = told(evalrun, "latest")
    assert (run["state"], run["done"], run["total"]) == ("finished", 60, 60)


def test_failures_and_an_older_run(evalrun: Evalrun, tmp_path: Path) -> None:
    """A failed run says why. Without state.json the plan and the rows tell."""
    made = write_bench(tmp_path, ["1", "1", "0"])
    assert evalrun(*made.words()).code == 0
    (folder,) = run_folders(tmp_path)
    run = Run(folder)
    run.state_file.unlink()
    assert (now := told(evalrun, folder.name))["state"] == "finished"
    assert (now["done"], now["total"]) == (3, 3)
    run.cell("replay", "gsm8k").predictions.file.unlink()
    now = told(evalrun, "latest")
    assert (now["state"], now["done"], now["total"]) == ("terminated", 0, 3)
    assert "unfinished" in now["reason"]
    lock = Lock(run.cell("replay", "gsm8k").predictions.lock_file)
    now = told(evalrun, "latest")
    assert (now["state"], now["pid"], now["task"]) == ("testing", os.getpid(), "gsm8k")
    lock.release()


def test_newest_first_sweeps_and_other_folders(evalrun: Evalrun, tmp_path: Path) -> None:
    assert evalrun("status").out == "There is no run in outputs.\n"
    made = write_bench(tmp_path, ["1", "0"])
    assert evalrun(*made.words()).code == 0
    assert evalrun(
        "-m", *made.words("num_return_sequences=1,2", "allow_equal_samples=true")
    ).code in (0, 3)
    (tmp_path / "outputs" / "notes").mkdir()
    (tmp_path / "outputs" / "notes.txt").write_text("x")
    alone, sweep = sorted(p.name for p in run_folders(tmp_path) if p.name != "notes")
    names = [run["run"] for run in told(evalrun)]
    assert names == [f"{sweep}/1", f"{sweep}/0", alone]
    assert [run["run"] for run in told(evalrun, sweep)] == names[:2]
    assert told(evalrun, "latest")["run"] == names[0]
    assert told(evalrun, f"outputs/{alone}")["run"] == alone
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "outputs", moved)
    for words in (("--output-dir", "elsewhere"), (f"output_dir={moved}",)):
        assert [Path(run["run"]).name for run in told(evalrun, *words)] == ["1", "0", alone]
    lines = evalrun("status", "--output-dir", "elsewhere").out.splitlines()
    assert lines[0].split() == ["run", "state", "rows", "model", "tasks", "made"]
    assert lines[3].split()[:5] == [alone, "finished", "2/2", "replay", "gsm8k"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("latest",), "there is no run in outputs"),
        (("20260101_00000",), "Did you mean 20260101_000000?"),
        (("notes",), "is not a run folder"),
        (("a", "b"), "unrecognized arguments: b"),
        (("--jsn",), "unrecognized arguments: --jsn"),
    ],
)
def test_a_wrong_name_is_one_paragraph(
    evalrun: Evalrun, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "notes").mkdir()
    if words != ("latest",):
        state.write(
            Run(tmp_path / "outputs" / "20260101_000000"), state.RunState(state.Phase.FINISHED)
        )
    ran = evalrun("status", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert not ran.out


DAMAGES = [
    "",
    "{",
    "[1]",
    '{"phase": 3}',
    "\x00" * 200,
    '{"cells": 3, "model": []}',
    '{"created": "never"}',
]


@pytest.mark.parametrize("text", DAMAGES)
@pytest.mark.parametrize("name", ["plan.json", "state.json"])
def test_damaged_files_are_told_and_hide_no_other_run(
    evalrun: Evalrun, tmp_path: Path, text: str, name: str
) -> None:
    good, bad = (Run(tmp_path / "outputs" / folder) for folder in ("good", "bad"))
    state.write(good, state.RunState(state.Phase.FINISHED, done=1, total=1))
    state.write(bad, state.RunState(state.Phase.FINISHED))
    file = bad.plan_file if name == "plan.json" else bad.state_file
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    by_name = {run["run"]: run for run in told(evalrun)}
    assert by_name["good"]["state"] == "finished"
    if name == "state.json":
        assert by_name["bad"]["state"] is None
        assert "state.json cannot be read" in by_name["bad"]["problem"]
    ran = evalrun("status", "bad")
    assert ran.code == 0
    assert ("unknown" if name == "state.json" else "finished") in ran.out
    assert evalrun("status").code == 0


def test_foreign_text_is_shown_not_sent(evalrun: Evalrun, tmp_path: Path) -> None:
    run = Run(tmp_path / "outputs" / "r")
    state.write(run, state.RunState(state.Phase.FAILED, reason="server said \x1b[2J"))
    assert "server said \\x1b[2J" in evalrun("status", "r").out
    assert "\x1b" not in evalrun("status", "r").out


ODD_TIMES = [
    ("state.json", "1e300"),
    ("state.json", "NaN"),
    ("state.json", "-1"),
    ("plan.json", '"9999-12-31T23:59:59-12:00"'),
]


@pytest.mark.parametrize(("name", "moment"), ODD_TIMES)
def test_times_that_no_calendar_holds(
    evalrun: Evalrun, tmp_path: Path, name: str, moment: str
) -> None:
    run = Run(tmp_path / "outputs" / "r")
    state.write(run, state.RunState(state.Phase.FINISHED, started_s=4.0))
    if name == "state.json":
        run.state_file.write_text(run.state_file.read_text().replace("4.0", moment))
    else:
        run.plan_file.parent.mkdir()
        run.plan_file.write_text(f'{{"created": {moment}}}')
    assert evalrun("status").code == 0
    ran = evalrun("status", "r")
    assert ran.code == 0
    problem = "NaN is no JSON" if moment == "NaN" else "which is no time"
    assert (problem if name == "state.json" else "finished") in ran.out
    os.utime(run.path, (0, 1e11))
    assert evalrun("status").code == 0


def test_names_of_others_keep_the_table_and_the_details_whole(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    """Line ends and tabs in a name forge no row, a name of any length no endless line."""
    run = Run(tmp_path / "outputs" / "a\nforged  finished")
    state.write(run, state.RunState(state.Phase.FAILED, reason="one\nstate      finished"))
    run.plan_file.parent.mkdir()
    run.plan_file.write_text(
        json.dumps({"model": {"name": "m" * 90_000}, "cells": [{"task": "t\n\x1b[2J" * 9000}]})
    )
    lines = evalrun("status").out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "a\\nforged"]
    assert max(map(len, lines)) < 1000
    shown = evalrun("status", "a\nforged  finished").out
    assert [line for line in shown.splitlines() if line.startswith("state ")] == [
        "state      failed"
    ]
    assert "\x1b" not in shown
    assert len(shown) < 100_000


@pytest.mark.parametrize("name", ["plan.json", "state.json"])
def test_a_pipe_or_a_device_in_place_of_a_file_is_damage(
    evalrun: Evalrun, tmp_path: Path, name: str
) -> None:
    """Reading it would wait for ever, or never end."""
    run = Run(tmp_path / "outputs" / "r")
    state.write(run, state.RunState(state.Phase.FINISHED))
    run.plan_file.parent.mkdir()
    file = run.plan_file if name == "plan.json" else run.state_file
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    assert "it is no regular file" in evalrun("status").out
    assert evalrun("--mode", "eval", "--reuse", "outputs/r").code == 2
    file.unlink()
    file.symlink_to("/dev/zero")
    assert "it is no regular file" in evalrun("status", "r").out
