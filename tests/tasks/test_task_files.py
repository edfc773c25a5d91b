"""Every task file opens with an example row of its dataset, and the row goes through the task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.workspace import ROOT

from evalrun.config.composing import composed
from evalrun.planning import build
from evalrun.runs.words.arguments import read
from evalrun.tasks.docs import make_docs
from evalrun.tasks.prompt import asked
from evalrun.tasks.rows import Rows
from evalrun.tasks.template_checks import template_columns

FILES = sorted((ROOT / "tasks_yaml" / "task").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_example_row_of_a_task_file_makes_a_prompt(path: Path) -> None:
    name = path.stem
    second = path.read_text(encoding="utf-8").split("\n")[1]
    assert second.startswith("# Row: ")
    row = json.loads(second.removeprefix("# Row: "))
    arguments = read([f"task={name}", "model=hf", "model.path=x"])
    cell = build(composed(arguments.overrides), arguments.overrides).cells[0]
    rows = Rows([row], range(1), tuple(row), "", name)
    extra = template_columns(cell.prompt)
    (doc,) = make_docs(name, cell.subset, cell.dataset, rows, None, extra)
    sent = asked(cell, doc, (), None)
    assert doc.query.strip()
    assert sent.messages or sent.contexts or sent.text
    shown = str(sent)
    assert any(word in shown for word in doc.query.split() if len(word) > 3)
