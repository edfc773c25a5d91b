"""Real processes: killed, interrupted, out of room, two at once.

What was answered is kept, nothing is asked twice.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.running import (
    asked_since,
    case,
    is_in_order,
    launch,
    n_rows,
    results_text,
    rows_of,
    wait_for,
)
from support.workspace import Bench, Evalrun, results_of, run_folders, write_bench

Make = Callable[..., Bench]


def only_run(folder: Path) -> Path:
    (run,) = run_folders(folder)
    return run


def slowly(made: Bench, delay_s: float, *more: str) -> list[str]:
    return made.words(f"+model.engine.delay_s={delay_s}", *more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The results JSON of the run that nobody kills."""
    folder = tmp_path_factory.mktemp("whole")
    made = write_bench(folder, FLAGS)
    process = launch(made.words("num_return_sequences=2"), folder)
    process.communicate(timeout=120)
    assert process.returncode == 0
    return results_text(only_run(folder))


FLAGS = [f"{q % 2}{q % 3 // 2}" for q in range(60)]


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_at_any_moment(evalrun: Evalrun, tmp_path: Path, whole: str, seed: int) -> None:
    """120 rows, killed 1 to 4 s after the first lie on the disk; killed again while resuming;
    then resumed.
    """
    made = write_bench(tmp_path, FLAGS)
    dice = random.Random(seed)
    process = launch(slowly(made, 0.03, "num_return_sequences=2"), tmp_path)
    wait_for(lambda: n_rows(tmp_path) > 0)
    time.sleep(dice.uniform(0, 2))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    run = only_run(tmp_path)
    kept = {(r.doc_id, r.index) for r in rows_of(run)}
    assert 0 < len(kept) < 120
    refused = evalrun("--mode", "eval", "--reuse", "latest")
    assert refused.code == 2
    assert f"holds {len(kept)}" in refused.err
    start = time.time()
    ran = evalrun(*made.words("num_return_sequences=2", "--resume"))
    assert ran.code == 0, ran.err
    asked = asked_since(run, start)
    assert len(asked) == len(set(asked)) == 120 - len(kept)
    assert not set(asked) & kept
    assert is_in_order(run, 60, 2)
    assert results_text(run) == whole


STOPS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_cl_008_a_stop_keeps_the_rows(
    evalrun: Evalrun, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    row = case("cli", "CL-008")["input"]
    made = write_bench(tmp_path, ["1"] * row["rows"])
    process = launch(slowly(made, 0.05), tmp_path)
    wait_for(lambda: n_rows(tmp_path) >= row["interrupt_after"])
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"Stopped by {number.name}" in err
    assert "--resume" in err
    assert "Traceback" not in err
    assert not out  # no table
    run = only_run(tmp_path)
    assert not (run / "results" / "replay" / "gsm8k.json").exists()
    assert not (run / "summary").exists()
    n_kept = len(rows_of(run))
    assert row["interrupt_after"] <= n_kept < row["rows"]
    start = time.time()
    ran = evalrun(*made.words("--resume"))
    assert ran.code == 0, ran.err
    assert len(asked_since(run, start)) == row["rows"] - n_kept
    assert is_in_order(run, row["rows"], 1)


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["1"] * 100)
    process = launch(slowly(made, 0.05), tmp_path)
    wait_for(lambda: n_rows(tmp_path) > 0)
    process.send_signal(signal.SIGINT)
    time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT), err
    assert time.monotonic() - start < 20
    assert "Internal fault" not in err
    assert rows_of(only_run(tmp_path))


def test_two_writers_of_one_run(evalrun: Evalrun, tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["1"] * 60)
    process = launch(slowly(made, 0.05), tmp_path)
    wait_for(lambda: n_rows(tmp_path) > 0)
    run = only_run(tmp_path)
    plan = (run / "configs" / "plan.json").read_text()
    ran = evalrun(*made.words("--resume", "--limit", "5"))
    assert ran.code == 2
    assert f"pid {process.pid}" in ran.err
    assert "Another writer" in ran.err
    assert (run / "configs" / "plan.json").read_text() == plan
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "100.00" in out
    assert is_in_order(run, 60, 1)


def test_a_full_disk_is_one_clear_message(evalrun: Evalrun, tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["1"] * 400, raw_text="x" * 2000)

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    process = launch(made.words(), tmp_path, little_room)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    lines = [line for line in (out + err).splitlines() if "Cannot write" in line]
    assert len(lines) == 1, out + err
    assert "File too large" in lines[0]
    assert "Traceback" not in err
    assert "accuracy" not in out
    run = only_run(tmp_path)
    n_kept = len(rows_of(run))
    assert 0 < n_kept < 400
    start = time.time()
    ran = evalrun(*made.words("--resume"))
    assert ran.code == 0, ran.err
    assert len(asked_since(run, start)) == 400 - n_kept
    assert is_in_order(run, 400, 1)
    assert results_of(run)["estimates"][0]["n_scored"] == 400  # type: ignore[index]


def test_killed_before_the_first_request(evalrun: Evalrun, tmp_path: Path) -> None:
    """Only the plan is there: eval says so, --resume asks for all."""
    made = write_bench(tmp_path, ["1", "0"])
    evalrun("--mode", "infer", *made.words())
    run = only_run(tmp_path)
    for left in ("predictions", "logs", "results"):
        shutil.rmtree(run / left)
    refused = evalrun("--mode", "eval", *made.words())
    assert refused.code == 2
    assert "There are no saved predictions" in refused.err
    assert "--resume goes on with this run" in refused.err
    ran = evalrun(*made.words("--resume"))
    assert ran.code == 0, ran.err
    assert is_in_order(run, 2, 1)


HEAVY = [
    "torch",
    "transformers",
    "vllm",
    "datasets",
    "pandas",
    "scipy.stats",
    "aiohttp",
    "evalrun.backends.replay.backend",
]


def test_eval_loads_nothing_heavy(evalrun: Evalrun, tmp_path: Path) -> None:
    assert evalrun("--mode", "infer", *write_bench(tmp_path, ["1", "0"]).words()).code == 0
    code = (
        "import sys; from evalrun.cli import main; code = main(['--mode', 'eval', '--reuse', "
        f"'latest']); print(code, [m for m in {HEAVY} if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "0 []", ran.stdout + ran.stderr
