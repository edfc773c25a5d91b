"""Paths that are there and are no files to read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evalrun.errors import Fault
from evalrun.tasks.rows import load_rows
from evalrun.types import DatasetPlan


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(Fault, match="is no regular file"):
        load_rows(DatasetPlan(str(tmp_path / "pipe.jsonl")))


@pytest.mark.parametrize("goal", ["nowhere.jsonl", "link.jsonl"])
def test_a_broken_link_is_said(tmp_path: Path, goal: str) -> None:
    (tmp_path / "link.jsonl").symlink_to(goal)
    with pytest.raises(Fault, match=f"is a link to {goal}, which is not there"):
        load_rows(DatasetPlan(str(tmp_path / "link.jsonl")))
