"""state.json: written whole, read at any time, never mistaken about whose process it is."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import fields, replace
from pathlib import Path

import pytest
from support.workspace import ROOT

from evalrun.errors import Fault, Stopped, TaskFailure
from evalrun.store import archive, lock, state
from evalrun.store.layout import Run
from evalrun.store.state import GONE, Keeper, Phase, RunState


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def stored(run: Run) -> RunState:
    found = state.read(run)
    assert found is not None
    return found


def of_process(pid: int, phase: Phase = Phase.TESTING) -> RunState:
    owner = lock.identity(pid)
    return RunState(
        phase, pid=pid, pid_start=owner["started"], boot_id=owner["boot_id"], host=owner["host"]
    )


def ended_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_round_trip(run: Run) -> None:
    assert state.read(run) is None
    full = replace(
        of_process(os.getpid()),
        reason="x\ny",
        done=3,
        total=9,
        task="mmlu:law",
        supervisor_pid=7,
        supervisor_start="8",
        server_pid=9,
        server_start="10",
        started_s=1.5,
        updated_s=2.5,
    )
    for is_durable in (True, False):
        state.write(run, full, is_durable)
        assert stored(run) == full
    assert [p.name for p in run.path.iterdir()] == ["state.json"]


def test_docs_tell_every_key_and_phase() -> None:
    text = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    rows = [
        line.split(" | ")
        for line in text.partition("| key of the state")[2].partition("\n\n")[0].splitlines()[2:]
    ]
    keys = [key for row in rows for key in re.findall(r"`(\w+)`", row[0])]
    assert sorted(keys) == sorted(["format_version", *(field.name for field in fields(RunState))])
    (phases,) = [row[1] for row in rows if row[0] == "| `phase`"]
    assert re.findall(r"`(\w+)`", phases) == [str(p) for p in Phase]
    assert "`, `".join(archive.PARTS) in text


def test_an_end_is_an_end() -> None:
    assert [str(p) for p in Phase] == [
        *("waiting", "installing", "starting", "testing", "terminated", "failed", "finished")
    ]
    assert [p for p in Phase if p.is_end] == [Phase.TERMINATED, Phase.FAILED, Phase.FINISHED]


@pytest.mark.parametrize("phase", list(Phase))
def test_a_process_that_is_gone_ended_what_was_no_end(phase: Phase) -> None:
    gone = replace(of_process(os.getpid(), phase), pid=ended_pid())
    assert gone.shown == (
        gone if phase.is_end else replace(gone, phase=Phase.TERMINATED, reason=GONE)
    )
    alive = of_process(os.getpid(), phase)
    assert alive.shown == alive


@pytest.mark.parametrize("change", [{"pid_start": "1"}, {"boot_id": "another boot"}, {"pid": None}])
def test_another_process_of_the_same_number_is_not_it(change: dict[str, str | None]) -> None:
    ours = of_process(os.getpid())
    assert ours.is_alive
    other = replace(ours, **change)  # type: ignore[arg-type]
    assert not other.is_alive
    assert other.shown.reason == GONE


def test_another_machine_cannot_be_seen() -> None:
    there = replace(of_process(os.getpid()), host=socket.gethostname() + "-x", boot_id="b")
    assert there.is_elsewhere
    assert there.shown == there


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("[]", "no JSON object"),
        ('{"format_version": 1', "Expecting"),
        ('{"format_version": 2, "phase": "testing"}', "this evalrun reads 1"),
        ('{"format_version": 1, "phase": "resting"}', "resting"),
        ('{"format_version": 1, "phase": "testing", "pid": "12"}', "pid is '12'"),
        (
            '{"format_version": 1, "phase": "testing", "done": true}',
            "done is true",
        ),
        ("\x00" * 40, "Expecting value"),
    ],
)
def test_a_damaged_file_is_one_paragraph(run: Run, text: str, said: str) -> None:
    run.state_file.write_text(text)
    with pytest.raises(Fault) as caught:
        state.read(run)
    assert said in str(caught.value)
    assert str(run.state_file) in str(caught.value)
    assert "\n" not in str(caught.value)
    with Keeper(run):
        assert stored(run).phase is Phase.WAITING


def test_a_key_of_a_later_version_is_passed_over(run: Run) -> None:
    run.state_file.write_text('{"format_version": 1, "phase": "failed", "mood": "good"}')
    assert state.read(run) == RunState(Phase.FAILED)


ENDS = [
    (Stopped(signal.SIGTERM), Phase.TERMINATED, "stopped by signal 15"),
    (KeyboardInterrupt(), Phase.TERMINATED, "stopped by SIGINT"),
    (Fault("no such model"), Phase.FAILED, "no such model"),
    (TaskFailure("hub away"), Phase.FAILED, "hub away"),
    (ZeroDivisionError("division by zero"), Phase.FAILED, "ZeroDivisionError: division by zero"),
]


@pytest.mark.parametrize(("error", "phase", "reason"), ENDS)
def test_what_leaves_the_block_is_the_end(
    run: Run, error: BaseException, phase: Phase, reason: str
) -> None:
    def work() -> None:
        with Keeper(run) as keeper:
            keeper.enter(Phase.TESTING)
            raise error

    with pytest.raises(type(error)):
        work()
    assert (stored(run).phase, stored(run).reason) == (phase, reason)


@pytest.mark.parametrize(("done", "phase"), [(5, Phase.FINISHED), (4, Phase.FAILED)])
def test_nobody_reads_the_table(run: Run, done: int, phase: Phase) -> None:
    def work() -> None:
        with Keeper(run) as keeper:
            keeper.expect({"t": (done, 5)})
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        work()
    assert stored(run).phase is phase


def test_a_good_end_is_finished_unless_it_was_said_otherwise(run: Run) -> None:
    with Keeper(run) as keeper:
        keeper.enter(Phase.TESTING)
    assert stored(run).phase is Phase.FINISHED
    with Keeper(run) as keeper:
        keeper.enter(Phase.FAILED, "2 rows failed")
    assert (stored(run).phase, stored(run).reason) == (Phase.FAILED, "2 rows failed")


def test_counts_go_over_all_cells_at_most_once_a_second(run: Run) -> None:
    now = [0.0]
    keeper = Keeper(run, clock=lambda: now[0])
    keeper.expect({"a": (2, 10), "b": (0, 5)})
    assert (stored(run).done, stored(run).total) == (2, 15)
    seen = set()
    for done in range(3, 10):
        now[0] += 0.3
        keeper.count("a", done, 10)
        seen.add(stored(run).done)
    assert seen == {2, 6}
    keeper.count("a", 10, 10)
    keeper.count("b", 1, 5)
    assert stored(run).done == 10
    keeper.enter(Phase.TERMINATED)
    assert (stored(run).done, stored(run).total, stored(run).task) == (11, 15, "a")


def test_another_process_that_lives_keeps_it(run: Run) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        state.write(run, of_process(other.pid))
        with pytest.raises(Fault, match=f"Another writer \\(pid {other.pid}\\).*evalrun stop"):
            Keeper(run)
        state.write(run, of_process(other.pid, Phase.FINISHED))
        Keeper(run)
    finally:
        other.communicate(b"\n")
    state.write(run, of_process(other.pid))
    Keeper(run)
    assert stored(run).pid == os.getpid()


def test_supervisor_and_server_are_noted(run: Run) -> None:
    keeper = Keeper(run)
    keeper.supervise(os.getpid(), os.getpid())
    assert stored(run).is_supervisor_alive
    assert stored(run).is_server_alive
    keeper.supervise(None)
    assert not stored(run).is_supervisor_alive
    assert stored(run).server_pid is None


def test_a_reader_never_sees_half_a_file(run: Run) -> None:
    keeper = Keeper(run)
    is_over = threading.Event()

    def write() -> None:
        for i in range(1500):
            # lengths differ: a file written in place would be torn
            keeper.count("t", 3000, 3000 + i % 2 * 10**200)
        is_over.set()

    thread = threading.Thread(target=write)
    thread.start()
    n_read = 0
    while not is_over.is_set():
        assert json.loads(run.state_file.read_bytes())["phase"] == "waiting"
        n_read += 1
    thread.join()
    assert n_read > 10


def test_a_full_disk_hides_no_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def work() -> None:
        with Keeper(run) as keeper:
            monkeypatch.setattr(os, "replace", refuse)
            monkeypatch.setattr(Path, "replace", refuse)
            keeper.count("t", 1, 1)
            with pytest.raises(TaskFailure, match="No space left"):
                keeper.enter(Phase.TESTING)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    monkeypatch.undo()
    assert [p.name for p in run.path.iterdir()] == ["state.json"]
