"""The commands that stand as the first word: one file each, and the table that finds them.

A new command is a file with `main(argv) -> exit code` and one entry in COMMANDS; the help text and
the command line read the table. A command is imported only when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

__all__ = ["COMMANDS", "Command", "load"]


@dataclass(frozen=True)
class Command:
    """One word of the command line.

    Attributes:
        usage: what follows `evalrun`, as the help shows it.
        help: what it does, in a few words; empty where the usage says it.
        more: further lines of the help.
        has_own_help: `evalrun WORD --help` is answered by the command itself.
    """

    usage: str
    help: str = ""
    more: tuple[str, ...] = ()
    has_own_help: bool = True

    def lines(self) -> list[str]:
        """Its lines in the help text: usage and help in two columns."""
        return [f"evalrun {self.usage:<43}  {self.help}".rstrip(), *self.more]


COMMANDS: dict[str, Command] = {
    "list": Command(
        "list tasks|models|metrics|suites",
        "evalrun list metrics rouge1: one metric",
        has_own_help=False,
    ),
    "score": Command(
        "score METRIC ... FILE.jsonl",
        "score predictions without a run",
        ("    [--json] [--per-doc FILE] [--metric-file FILE.py]   e.g. 'pass@k:k=2&n=5'",),
    ),
    "import": Command(
        "import FILE --question COLUMN --gold COLUMN --prediction COLUMN --task NAME --model NAME"
    ),
    "status": Command("status [RUN] [--json]", "what runs do and how they ended"),
    "stop": Command("stop RUN [--wait SECONDS] [--kill]", "end a run; its rows are kept"),
    "pack": Command("pack RUN [--partial]", "an archive of the run, one of its logs"),
}
"""Word -> command, in the order of the help text."""

_PYTHON_WORDS = {"import": "import_"}  # a word of Python cannot be the name of a module


def load(word: str) -> Callable[[list[str]], int]:
    """The `main` of a command: words after its own in, exit code out."""
    module = importlib.import_module(f"evalrun.commands.{_PYTHON_WORDS.get(word, word)}")
    return cast("Callable[[list[str]], int]", module.main)
