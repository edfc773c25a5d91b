"""evalrun pack: the whole report and nothing else, under a name that stays."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import zipfile
from pathlib import Path

import pytest
from support.workspace import Evalrun, run_folders, write_bench

from evalrun.errors import Fault
from evalrun.store import archive, lock, state
from evalrun.store.layout import Run
from evalrun.store.state import Phase, RunState


@pytest.fixture
def folder(evalrun: Evalrun, tmp_path: Path) -> Path:
    """A finished run."""
    assert (
        evalrun(*write_bench(tmp_path, ["11", "01", "00"]).words("num_return_sequences=2")).code
        == 0
    )
    (run,) = run_folders(tmp_path)
    return run


@pytest.fixture
def small(tmp_path: Path) -> Run:
    """A run of two files, no work."""
    run = Run(tmp_path / "outputs" / "r")
    (run.logs_dir / "infer").mkdir(parents=True)
    (run.logs_dir / "infer" / "t.out").write_text("one\ntwo\n")
    state.write(run, RunState(Phase.FINISHED))
    return run


def packed(evalrun: Evalrun, *words: str) -> tuple[Path, Path]:
    ran = evalrun("pack", *words)
    assert ran.code == 0, ran.err
    whole, logs = map(Path, ran.out.splitlines()[-2:])
    return whole, logs


def files(path: Path) -> dict[str, bytes]:
    """Name within the top folder -> content; every name lies below the top folder."""
    top = path.name.removesuffix(".zip").removesuffix("_logs")
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None
        assert all(name.startswith(top + "/") for name in opened.namelist())
        return {
            n.partition("/")[2]: opened.read(n) for n in opened.namelist() if not n.endswith("/")
        }


def test_round_trip(evalrun: Evalrun, tmp_path: Path, folder: Path) -> None:
    whole, logs = packed(evalrun, "latest")
    assert re.fullmatch(r"[0-9a-f]{32}\.zip", whole.name)
    assert logs.name == f"{whole.stem}_logs.zip"
    assert whole.parent == logs.parent == Path("outputs")
    on_disk = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    assert files(whole) == on_disk
    tops = {name.partition("/")[0] for name in on_disk}
    assert {
        "configs",
        "logs",
        "predictions",
        "results",
        "summary",
        "verdicts",
        "state.json",
    } == tops
    assert files(logs) == {
        name: content for name, content in on_disk.items() if name.startswith("logs/")
    }
    with zipfile.ZipFile(whole) as opened:
        info = opened.getinfo(f"{whole.stem}/state.json")
        assert stat.S_ISREG(info.external_attr >> 16)
        assert info.date_time[0] >= 2024
        opened.extractall(tmp_path / "there")
    ran = evalrun("--mode", "eval", "--reuse", str(tmp_path / "there" / whole.stem))
    assert ran.code == 0, ran.err
    assert "finished" in evalrun("status", str(tmp_path / "there" / whole.stem)).out


def test_the_name_stays_and_the_content_is_the_newest(
    evalrun: Evalrun, tmp_path: Path, folder: Path
) -> None:
    first = packed(evalrun, folder.name)
    before = files(first[0])
    plan = (folder / "configs" / "plan.json").read_text()
    made = write_bench(tmp_path, ["11", "01", "00"])
    assert (
        evalrun(*made.words("num_return_sequences=2", "max_error_rate=0.5", "--resume")).code == 0
    )
    assert (folder / "configs" / "plan.json").read_text() != plan
    again = packed(evalrun, str(folder))
    assert first == again
    assert len(files(again[0])) > len(before)
    assert sorted(p.name for p in Path("outputs").iterdir()) == sorted(
        [folder.name, *(p.name for p in first)]
    )


def test_a_copy_and_another_run_have_names_of_their_own(
    evalrun: Evalrun, tmp_path: Path, folder: Path
) -> None:
    shutil.copytree(folder, folder.parent / "copy")
    assert evalrun(*write_bench(tmp_path, ["1"]).words()).code == 0
    names = {packed(evalrun, run.name)[0] for run in run_folders(tmp_path)}
    assert len(names) == 3


def test_jobs_of_a_sweep(evalrun: Evalrun, tmp_path: Path) -> None:
    assert evalrun("-m", *write_bench(tmp_path, ["1"]).words("model.max_tokens=8,9")).code == 0
    (sweep,) = run_folders(tmp_path)
    ran = evalrun("pack", sweep.name)
    assert ran.code == 2
    assert f"is a sweep of 2 runs. Name one of them: {sweep.name}/0, {sweep.name}/1." in ran.err
    pair = {packed(evalrun, f"{sweep.name}/{job}")[0] for job in (0, 1)}
    assert {path.parent for path in pair} == {Path("outputs")}
    assert len(pair) == 2


def test_a_run_at_work_is_packed_only_as_it_stands(evalrun: Evalrun, small: Run) -> None:
    owner = lock.identity(os.getppid())
    state.write(
        small,
        RunState(
            Phase.TESTING, pid=owner["pid"], pid_start=owner["started"], boot_id=owner["boot_id"]
        ),
    )
    ran = evalrun("pack", "r")
    assert ran.code == 2
    assert f"r is testing (pid {os.getppid()})" in ran.err
    assert "--partial" in ran.err
    assert not list(Path("outputs").glob("*.zip"))
    assert set(files(packed(evalrun, "r", "--partial")[0])) == {"state.json", "logs/infer/t.out"}


def test_what_is_no_part_stays_out(evalrun: Evalrun, tmp_path: Path, small: Run) -> None:
    """Links, pipes, locks, half-written files, the home of a server."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("private")
    (small.logs_dir / "key.out").symlink_to(outside / "key")
    (small.path / "results").symlink_to(outside)
    os.mkfifo(small.logs_dir / "pipe")
    (small.path / "home").mkdir()
    (small.path / "home" / ".token").write_text("private")
    (small.path / "predictions").mkdir()
    (small.path / "predictions" / "t.lock").write_text("{}")
    (small.path / "predictions" / ".t.arrow.1.ab.tmp").write_text("half")
    ran = evalrun("pack", "r")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0] == (
        "evalrun: left out: home (no part of the report), logs/key.out (a link, which is not "
        "followed), logs/pipe (no regular file), results (a link, which is not followed)."
    )
    whole = Path(ran.out.splitlines()[1])
    assert set(files(whole)) == {"state.json", "logs/infer/t.out"}
    with zipfile.ZipFile(whole) as opened:
        assert f"{whole.stem}/predictions/" in opened.namelist()


@pytest.mark.parametrize("place", [0, archive._CHUNK_BYTES - 4])
def test_a_file_with_the_api_key_is_not_packed(
    evalrun: Evalrun, small: Run, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    small.plan_file.parent.mkdir()
    small.plan_file.write_text(
        json.dumps({"model": {"name": "m", "api_key_env": "SOME_API_KEY"}, "cells": []})
    )
    log = small.logs_dir / "deploy.out"
    log.write_bytes(b"x" * place + b"sk-12345678 and more")
    packed(evalrun, "r")
    for path in Path("outputs").glob("*.zip"):
        path.unlink()
    monkeypatch.setenv("SOME_API_KEY", "sk-12345678")
    ran = evalrun("pack", "r")
    assert ran.code == 2
    assert (
        f"{log.relative_to(Path.cwd())} holds the value of the environment variable SOME_API_KEY"
        in ran.err
    )
    assert "sk-1" not in ran.err
    assert [p.name for p in Path("outputs").iterdir()] == ["r"]


def test_odd_names_and_times(evalrun: Evalrun, small: Run) -> None:
    odd = small.logs_dir / "größe\udce9 \n.out"
    odd.write_text("x")
    os.utime(odd, (1, 1))
    found = files(packed(evalrun, "r")[0])
    assert found["logs/größe\\udce9 \n.out"] == b"x"


def test_a_file_that_goes_away_is_looked_for_again(
    small: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running run puts its streams together into the final file."""
    real, calls = archive._copy, []

    def copy(path: Path, *more: object) -> None:
        calls.append(path.name)
        if len(calls) == 1:
            path.rename(path.with_name("final.out"))
        real(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(archive, "_copy", copy)
    done = archive.pack(small, small.path.parent, "0" * 32)
    assert set(files(done.archive)) == {"state.json", "logs/infer/final.out"}
    assert done.n_files == 2
    monkeypatch.setattr(archive, "_copy", lambda path, *more: path.unlink() or real(path, *more))
    (small.path / "summary").mkdir()
    for i in range(9):
        (small.path / "summary" / f"{i}").write_text("x")
    with pytest.raises(Fault, match="changes faster than it can be packed"):
        archive.pack(small, small.path.parent, "1" * 32)
    assert not list(small.path.parent.glob("1*"))


def test_a_folder_that_takes_no_file(
    evalrun: Evalrun, small: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    ran = evalrun("pack", "r")
    assert ran.code == 3
    assert "No space left on device" in ran.err
    assert [p.name for p in Path("outputs").iterdir()] == ["r"]


def test_a_wrong_name(evalrun: Evalrun, small: Run) -> None:
    ran = evalrun("pack", "latestt")
    assert ran.code == 2
    assert "Did you mean latest? Newest: r." in ran.err
