"""The table of commands: every file of a command stands in it, the help text is made from it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.workspace import ROOT, Evalrun

from evalrun.cli.help import HELP
from evalrun.commands import COMMANDS, load


def defines_main(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)


def test_every_command_file_stands_in_the_table() -> None:
    folder = ROOT / "evalrun" / "commands"
    files = {path.stem.rstrip("_") for path in folder.glob("*.py") if defines_main(path)}
    assert files == {*COMMANDS}


@pytest.mark.parametrize("word", COMMANDS)
def test_command_is_found_and_shown(word: str, evalrun: Evalrun) -> None:
    assert load(word).__module__.startswith("evalrun.commands.")
    assert f"  evalrun {COMMANDS[word].usage}" in HELP
    own = evalrun(word, "--help")
    assert own.code == 0
    assert (own.out == HELP + "\n") == (not COMMANDS[word].has_own_help)
