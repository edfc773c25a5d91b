"""evalrun stop: the right process, in order, and what it leaves; never another process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.running import asked_since, is_in_order, launch, n_rows, rows_of, wait_for
from support.workspace import Evalrun, run_folders, write_bench

from evalrun.store import lock, state
from evalrun.store.layout import Run
from evalrun.store.state import GONE, Phase, RunState

STUBBORN = (
    "import signal, sys; signal.signal(15, signal.SIG_IGN); print('up', flush=True); "
    "sys.stdin.read()"
)
WILLING = "import sys; print('up', flush=True); sys.stdin.read()"


@contextmanager
def process(code: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is up, and gone after the block."""
    made = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more
    )
    assert made.stdout is not None
    assert made.stdout.readline() == b"up\n"
    try:
        yield made
    finally:
        made.kill()
        made.communicate()


def gone() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def kept_by(folder: Path, pid: int, **more: Any) -> Run:
    """A run that this process keeps."""
    owner = lock.identity(pid)
    run = Run(folder / "outputs" / "r")
    known = RunState(
        Phase.TESTING,
        done=3,
        total=9,
        pid=pid,
        pid_start=owner["started"],
        boot_id=owner["boot_id"],
        host=owner["host"],
    )
    state.write(run, replace(known, **more))
    return run


def stored(run: Run) -> RunState:
    found = state.read(run)
    assert found is not None
    return found


def test_stop_during_a_run_keeps_the_rows_and_a_resume_completes(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    made = write_bench(tmp_path, ["1"] * 60)
    running = launch(made.words("+model.engine.delay_s=0.05"), tmp_path)
    wait_for(lambda: n_rows(tmp_path) > 0)
    (folder,) = run_folders(tmp_path)
    ran = evalrun("stop", folder.name)
    _, err = running.communicate(timeout=5)  # it has ended, or stop would not have returned
    assert ran.code == 0, ran.err
    assert running.returncode == 143, err
    n_kept = len(rows_of(folder))
    assert 0 < n_kept < 60
    assert f"Stopped {folder.name} (pid {running.pid}). State: terminated." in ran.out
    assert f"{n_kept} of 60 rows are saved" in ran.out
    now = stored(Run(folder))
    assert (now.phase, now.reason, now.done) == (Phase.TERMINATED, "stopped by signal 15", n_kept)
    assert not (folder / "summary").exists()
    assert not (folder / "results" / "replay" / "gsm8k.json").exists()
    start = time.time()
    assert evalrun(*made.words("--resume")).code == 0
    assert len(asked_since(folder, start)) == 60 - n_kept
    assert is_in_order(folder, 60, 1)
    assert stored(Run(folder)).phase is Phase.FINISHED
    again = evalrun("stop", "latest")
    assert again.code == 0
    assert "is finished; there was nothing to stop." in again.out


def test_a_sweep_stops_whole(evalrun: Evalrun, tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["1"] * 60)
    running = launch(
        ["-m", *made.words("+model.engine.delay_s=0.05", "model.max_tokens=8,9")], tmp_path
    )

    def is_testing() -> bool:
        return any(
            (now := state.read(Run(p.parent))) and now.done
            for p in tmp_path.glob("outputs/*/0/state.json")
        )

    wait_for(is_testing)
    (sweep,) = run_folders(tmp_path)
    ran = evalrun("stop", sweep.name)
    running.communicate(timeout=5)
    assert ran.code == 0, ran.err
    assert f"Stopped {sweep.name}/0" in ran.out
    assert running.returncode == 143
    assert sorted(p.name for p in sweep.iterdir() if p.is_dir()) == ["0"]


def test_a_process_that_is_gone(evalrun: Evalrun, tmp_path: Path) -> None:
    run = kept_by(tmp_path, gone())
    ran = evalrun("stop", "r")
    assert ran.code == 0, ran.err
    assert (
        "was gone already. State: terminated. 3 of 9 rows are saved; the same command with --resume"
        in ran.out
    )
    assert (stored(run).phase, stored(run).reason) == (Phase.TERMINATED, GONE)


@pytest.mark.parametrize("change", [{"pid_start": "1"}, {"boot_id": "another boot"}])
def test_a_number_that_passed_on_to_another_process_is_left_alone(
    evalrun: Evalrun, tmp_path: Path, change: dict[str, str]
) -> None:
    with process(WILLING) as other:
        kept_by(
            tmp_path,
            other.pid,
            supervisor_pid=other.pid,
            server_pid=other.pid,
            server_start="1",
            **change,
        )
        for words in (("stop", "r"), ("stop", "r", "--kill", "--wait", "0")):
            ran = evalrun(*words)
            assert ran.code == 0, ran.err
        assert other.poll() is None
        other.communicate()
        assert other.returncode == 0  # it went on until its input ended


def test_another_machine_is_named_and_nothing_is_killed(evalrun: Evalrun, tmp_path: Path) -> None:
    there = socket.gethostname() + "-x"
    with process(WILLING) as other:
        run = kept_by(tmp_path, other.pid, host=there, pid_start="1")
        ran = evalrun("stop", "r", "--kill")
        assert ran.code == 2
        assert f"pid {other.pid} on {there}, which cannot be seen from here" in ran.err
        assert other.poll() is None
        assert stored(run).phase is Phase.TESTING


def test_a_process_that_does_not_end(evalrun: Evalrun, tmp_path: Path) -> None:
    with process(STUBBORN) as stubborn:
        run = kept_by(tmp_path, stubborn.pid)
        ran = evalrun("stop", "r", "--wait", "0.2")
        assert ran.code == 3
        assert f"pid {stubborn.pid} was asked to stop and has not ended within 0.2 s" in ran.err
        assert "evalrun stop r --kill" in ran.err
        assert stored(run).phase is Phase.TESTING
        ran = evalrun("stop", "r", "--wait", "0.2", "--kill")
        assert ran.code == 0, ran.err
        assert stubborn.wait(5) == -signal.SIGKILL
        assert (stored(run).phase, stored(run).reason) == (
            Phase.TERMINATED,
            "killed by evalrun stop --kill",
        )


SERVER = (
    f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], "
    "stdin=subprocess.PIPE, stdout=subprocess.PIPE)\nchild.stdout.readline()\nopen(sys.argv[1], "
    "'w').write(str(child.pid))\nprint('up', flush=True)\nchild.wait()\n"
)


def test_a_server_that_was_left_over_ends_with_its_whole_group(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    """No evalrun and no supervisor any more, and a worker that ignores SIGTERM."""
    note = tmp_path / "worker"
    code = f"import sys; sys.argv = ['', {str(note)!r}]\n{SERVER}"
    stubborn_leader = "import signal; signal.signal(15, signal.SIG_IGN)\n" + code
    with process(stubborn_leader, start_new_session=True) as server:
        worker = int(note.read_text())
        begun = lock.start_time(worker)
        run = kept_by(
            tmp_path, gone(), server_pid=server.pid, server_start=lock.start_time(server.pid)
        )
        ran = evalrun("stop", "r", "--wait", "0.2")
        assert ran.code == 0, ran.err
        assert "The server that it had left was ended." in ran.out
        assert server.wait(5) == -signal.SIGKILL
        wait_for(lambda: lock.start_time(worker) != begun, 5)
        assert stored(run).phase is Phase.TERMINATED


@pytest.mark.parametrize(
    ("code", "number"), [(WILLING, signal.SIGTERM), (STUBBORN, signal.SIGKILL)]
)
def test_a_supervisor_that_was_left_over_is_told(
    evalrun: Evalrun, tmp_path: Path, code: str, number: signal.Signals
) -> None:
    with process(code) as supervisor:
        known = {
            "supervisor_pid": supervisor.pid,
            "supervisor_start": lock.start_time(supervisor.pid),
        }
        kept_by(tmp_path, gone(), phase=Phase.FAILED, **known)
        ran = evalrun("stop", "r", "--wait", "0.1")
        assert ran.code == 0, ran.err
        assert (
            "is failed; there was nothing to stop. The server that it had left was ended."
            in ran.out
        )
        assert supervisor.wait(5) == -number


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "arguments are required: RUN"),
        (("latest",), "there is no run in outputs"),
        (("r", "--wait", "-1"), "seconds from 0 up"),
        (("r", "--wait", "nan"), "seconds from 0 up"),
        (("nothing",), "no such run"),
        (("bad",), "is not known, so nothing was stopped"),
    ],
)
def test_a_wrong_word_is_one_paragraph(
    evalrun: Evalrun, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    if words != ("latest",):
        kept_by(tmp_path, os.getpid(), phase=Phase.FINISHED)
        (bad := Run(tmp_path / "outputs" / "bad")).path.mkdir()
        bad.state_file.write_text("{")
    ran = evalrun("stop", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "evalrun stop '': no such run"),
        (".", "outputs is not a run folder"),
        ("outputs", "--output-dir outputs looks there"),
        ("/", "/ is not a run folder"),
        ("x" * 5000, "xxx...: no such run"),
        ("a\nb", r"'a\nb': no such run"),
        ("~nobody-at-all/r", "no such run"),
    ],
)
def test_a_name_that_means_no_run_stops_none(
    evalrun: Evalrun, tmp_path: Path, name: str, said: str
) -> None:
    """An empty variable in a script, or the folder of all runs, must not stop them all."""
    with process(WILLING) as made:
        kept_by(tmp_path, made.pid)
        ran = evalrun("stop", name)
        assert (ran.code, made.poll()) == (2, None)
        assert said in ran.err
        assert ran.err.count("\n") == 1
