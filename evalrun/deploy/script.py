"""deploy.sh as a command: any shell by its first line, no x bit needed, CR LF line ends
tolerated.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from evalrun.errors import Fault, visible
from evalrun.store.disk import read_small

NAME = "deploy.sh"
SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
LONGEST_SCRIPT_BYTES = 100_000_000
LONGEST_ARGUMENT_BYTES = 100_000  # Linux takes 131,072 for one argument
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Script:
    """A readable deploy.sh.

    Attributes:
        interpreter: program and options.
        converted: its text where CR or a BOM was taken out.
    """

    path: Path
    interpreter: tuple[str, ...]
    converted: bytes | None = None

    @property
    def note(self) -> str | None:
        """What was tolerated, in words."""
        if self.converted is None:
            return None
        return (
            f"{self.path} has Windows line ends (CR LF) or a byte-order mark; it is run as if it "
            "had none."
        )

    def command(self, folder: Path) -> list[str]:
        """The words of the command.

        A converted script goes to the shell as text, so that $0 stays its path.

        Args:
            folder: where the copy is put that another interpreter, or a very long script, needs.
        """
        if self.converted is None:
            return [*self.interpreter, str(self.path)]
        is_shell = os.path.basename(self._program()) in SHELLS
        if (
            is_shell
            and len(self.converted) < LONGEST_ARGUMENT_BYTES
            and b"\0" not in self.converted
        ):
            return [*self.interpreter, "-c", os.fsdecode(self.converted), str(self.path)]
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / NAME
        copy.write_bytes(self.converted)
        return [*self.interpreter, str(copy)]

    def _program(self) -> str:
        """The shell itself, also behind /usr/bin/env."""
        names = [word for word in self.interpreter if not word.startswith("-") and "=" not in word]
        return names[1] if len(names) > 1 and os.path.basename(names[0]) == "env" else names[0]


def read(repo: Path) -> Script:
    """The script of a repository.

    Fault where it is not there, cannot be read, or its interpreter does not exist.
    """
    path = repo / NAME
    try:
        raw = read_small(path, LONGEST_SCRIPT_BYTES)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        raise Fault(
            f"model.repo={repo}: there is no readable {NAME} at its root ({reason}). It is the "
            "script that starts the server with the weights in $MODEL_PATH."
        ) from cause
    text = raw.removeprefix(BOM).replace(b"\r\n", b"\n").removesuffix(b"\r")
    return Script(path, _interpreter(path, text), text if text != raw else None)


def _interpreter(path: Path, text: bytes) -> tuple[str, ...]:
    first = text.split(b"\n", 1)[0]
    if b"\0" in first:
        raise Fault(
            f"{path} is no script: its first line holds a zero byte, as programs do. Let it be "
            "text for a shell."
        )
    words = os.fsdecode(first[2:]).strip().split(None, 1) if first.startswith(b"#!") else []
    if not words:
        found = shutil.which("bash") or shutil.which("sh")
        words = [found] if found else []
    elif not (os.path.isfile(words[0]) and os.access(words[0], os.X_OK)):
        # /bin/bash on a system that keeps it elsewhere
        found = shutil.which(os.path.basename(words[0]))
        words = [found, *words[1:]] if found else []
    if not words:
        asked = visible(os.fsdecode(first)) if first.startswith(b"#!") else "bash"
        raise Fault(
            f"{path} wants the interpreter {asked!r}, which does not exist here. Any shell that is "
            "there will do."
        )
    if len(words) > 1 and words[1].startswith("-S"):
        words = [words[0], *words[1][2:].split()]
    return tuple(words)
