"""docs/reading.md: each row of the table of `extract` reads its example as it says."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from support.workspace import ROOT

import evalrun

TEXT = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| `")
]


def code(cell: str) -> str:
    """The text between the backticks of a cell."""
    found = re.fullmatch(r"`(.*)`", cell)
    assert found is not None, cell
    return found[1]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_of_the_table(row: list[str]) -> None:
    extract, _, example, value = row
    kind: Any = yaml.safe_load(code(extract))
    text, wanted = code(example), code(value)
    assert evalrun.read(text, kind, 4 if kind == "letter" else None).value == wanted


def test_the_table_names_every_kind() -> None:
    assert len(ROWS) == 8
