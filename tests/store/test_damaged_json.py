"""Damaged results, times and state: any value in any place is taken, or a Fault names the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from support.records import estimate, record

from evalrun.errors import Fault
from evalrun.store import state
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.results import read_record, read_times, write_record, write_times
from evalrun.store.layout import Run
from evalrun.types import Consistency

ODD: list[Any] = [
    *(None, True, -1, 2.5, 10**30, "x", "", "NaN", [], ["x"], [[1]], {}, {"a": 1}),
    json.loads("[" * 600 + "]" * 600),
]


def changes(value: Any) -> Iterator[Any]:
    """`value` with one place of it replaced by something odd, or left out."""
    names = list(value) if isinstance(value, dict) else range(len(value))
    for name in names:
        for odd in ODD:
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[name] = odd
            yield copy
        if isinstance(value, dict):
            yield {key: each for key, each in value.items() if key != name}
        if isinstance(value[name], dict | list):
            for inside in changes(value[name]):
                copy = dict(value) if isinstance(value, dict) else list(value)
                copy[name] = inside
                yield copy


def refused(path: Path, read: Callable[[], object]) -> bool:
    """True where reading is a Fault that names the file; False where it gives a value."""
    try:
        read()
    except Fault as fault:
        return str(fault).startswith(str(path))
    return False


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    return Run(tmp_path).cell("m", "t")


def test_results(files: CellFiles) -> None:
    counted = Consistency(2, 1, 0, 1, 0, 3, "s")
    write_record(
        files,
        record(estimates=(estimate(bounds=(0.4, 0.6)),), notes=("a",), consistency=(counted,)),
    )
    whole = json.loads(files.results_file.read_text())
    answers = []
    for odd in changes(whole):
        files.results_file.write_text(json.dumps(odd))
        answers.append(refused(files.results_file, lambda: read_record(files)))
    assert len(answers) > 600
    assert sum(answers) > len(answers) / 2


def test_the_key_is_named(files: CellFiles) -> None:
    write_record(files, record())
    whole = json.loads(files.results_file.read_text())
    whole["header"]["n"] = "5"
    files.results_file.write_text(json.dumps(whole))
    with pytest.raises(Fault, match=r"results/m/t\.json cannot be read: header\.n is '5'; it must"):
        read_record(files)


def test_times(files: CellFiles) -> None:
    write_times(files, {"infer_s": 1.5})
    for odd in (*ODD, {"infer_s": []}, {"infer_s": True}, {"infer_s": "soon"}):
        if odd in ({}, {"a": 1}):
            continue
        files.times_file.write_text(json.dumps(odd))
        assert refused(files.times_file, lambda: read_times(files)), odd


def test_state(tmp_path: Path) -> None:
    run = Run(tmp_path)
    full = state.RunState(state.Phase.TESTING, reason="x", done=1, total=2, pid=3, started_s=4.0)
    answers = []
    for odd in changes({"format_version": 1, **asdict(full)}):
        run.state_file.write_text(json.dumps(odd))
        answers.append(refused(run.state_file, lambda: state.read(run)))
    assert len(answers) > 200
    assert sum(answers) > len(answers) / 2
