"""The argument parser that the commands share."""

from __future__ import annotations

import argparse
from typing import NoReturn

from evalrun.errors import Fault, visible


class CommandParser(argparse.ArgumentParser):
    """Words of one command. What it does not understand is a Fault with the usage.

    Args:
        command: its word.
        description: what --help says of it.
    """

    def __init__(self, command: str, description: str | None) -> None:
        super().__init__(prog=f"evalrun {command}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Fault with the usage."""
        raise Fault(f"{self.prog}: {visible(message)}. {' '.join(self.format_usage().split())}")


class RunParser(CommandParser):
    """The same for a command over runs: `--output-dir DIR`, also written `output_dir=DIR`."""

    def __init__(self, command: str, description: str | None) -> None:
        super().__init__(command, description)
        self.add_argument(
            "--output-dir", default="outputs", metavar="DIR", help="where runs are looked for"
        )

    def read(self, argv: list[str]) -> argparse.Namespace:
        """The words, read."""
        return self.parse_args(
            [f"--{w.replace('_', '-', 1)}" if w.startswith("output_dir=") else w for w in argv]
        )
