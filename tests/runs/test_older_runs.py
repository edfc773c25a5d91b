"""A run folder made by an earlier version is found, scored, resumed and extended by this one.

tests/cases/older_run was made at commit eeb6e26 by
`evalrun model=replay model.path=answers.jsonl task=gsm8k dataset.path=questions.jsonl limit=2
num_return_sequences=2`; its logs and summary are left out.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.workspace import ROOT, Evalrun, results_of

from evalrun.store.cell import predictions
from evalrun.store.layout import Run

OLD = ROOT / "tests" / "cases" / "older_run"
ASKED = ("model=replay", "model.path=answers.jsonl", "task=gsm8k", "dataset.path=questions.jsonl")
ADDRESS = "abd3084d221249f1"


@pytest.fixture
def older(evalrun: Evalrun, tmp_path: Path) -> Path:
    """The old run in the folder in which the test works."""
    for name in ("answers.jsonl", "questions.jsonl"):
        shutil.copy(OLD / name, tmp_path / name)
    run = tmp_path / "outputs" / "20261201_055154"
    shutil.copytree(OLD / "run", run)
    return run


def ask_ids(run: Path) -> set[str]:
    """The addresses in the plan of a run."""
    plan = json.loads((run / "configs" / "plan.json").read_text())
    return {cell["ask_id"] for cell in plan["cells"]}


def numbers(run: Path) -> dict[str, float]:
    """Shown name -> value of the newest numbers of each name."""
    estimates = results_of(run)["estimates"]
    assert isinstance(estimates, list)
    return {each["display"]: each["value"] for each in estimates}


def test_it_is_found_by_what_was_asked_and_scored(evalrun: Evalrun, older: Path) -> None:
    before = numbers(older)
    ran = evalrun("--mode", "eval", *ASKED)
    assert ran.code == 0, ran.err
    assert f"Scoring {older.relative_to(Path.cwd())}" in ran.err
    assert numbers(older) == before
    assert before["avg@2"] == 0.5
    assert ask_ids(older) == {ADDRESS}


def test_it_is_resumed_and_extended(evalrun: Evalrun, older: Path) -> None:
    ran = evalrun("--resume", *ASKED, "limit=3", "num_return_sequences=3")
    assert ran.code == 0, ran.err
    assert "Resuming outputs/20261201_055154" in ran.err
    assert ask_ids(older) == {ADDRESS}
    assert numbers(older)["avg@3"] == pytest.approx((2 / 3 + 1 / 3 + 2 / 3) / 3)
    rows = predictions.read(Run(older).cell("replay", "gsm8k")).rows
    assert len({row.key for row in rows}) == len(rows) == 9
    kept = [row for row in rows if row.index < 2 and row.doc_id in first_documents()]
    assert len(kept) == 4


def first_documents() -> set[str]:
    """The documents that the old run had asked."""
    rows = predictions.read(Run(OLD / "run").cell("replay", "gsm8k")).rows
    return {row.doc_id for row in rows}
