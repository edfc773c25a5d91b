"""docs/python.md: its code runs from top to bottom, and its tables say what the code has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from support.workspace import ROOT, run_folders

import evalrun
from evalrun.runs.samples_table import COLUMNS
from evalrun.types import Kind, State

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.hf
def test_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), names)
    printed = capsys.readouterr().out
    assert len(BLOCKS) == 8
    assert len(run_folders(tmp_path)) == 4  # two runs, and a loop over two
    assert "There is no task 'demo_maths' in task=demo_maths. Did you mean 'demo_math'?" in printed
    assert "\npass@k 0.75 0.25\n" in printed
    assert "\n5 0.7\n" in printed  # n and temperature of the plan


def names_of(table: str) -> list[str]:
    """The names in backticks of the first column of the table below that header."""
    body = PAGE.partition(f"| {table} |")[2].split("\n\n")[0]
    return [n for line in body.splitlines()[2:] for n in re.findall(r"`(\w+)", line.split("|")[1])]


def test_tables_of_the_page() -> None:
    assert names_of("column") == [*COLUMNS]
    public = [f.name for f in fields(evalrun.RunResult) if not f.name.startswith("_")]
    assert names_of("`RunResult`") == [*public, "table", "samples"]
    for each in (*Kind, *State):
        assert f"`{each.value}`" in PAGE


def test_public_names_are_listed() -> None:
    opening = PAGE.partition("## Run")[0]
    assert {*re.findall(r"`(\w+)`", opening)} == {*evalrun.__all__, "evalrun"} - {"__version__"}
