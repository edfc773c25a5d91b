"""requirements.txt of the repository into a virtual environment that sees the packages of the
machine's python.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from evalrun.deploy.supervised import Supervised, run_to_end
from evalrun.types import DeployPlan

NAME = "requirements.txt"

# Where the python that makes the environment lives in one itself, --system-site-packages shows the
# packages of *its*
# base only; this lets the new environment see its own, torch among them. argv: the new environment.
_SEE_PARENT = """
import os, site, sys, sysconfig
if sys.prefix != sys.base_prefix:
    base = {"base": sys.argv[1], "platbase": sys.argv[1]}
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix"
    folder = sysconfig.get_path("purelib", scheme, base)
    with open(os.path.join(folder, "_environment.pth"), "w") as file:
        for parent in dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")):
            file.write(f"import site; site.addsitedir({parent!r})\\n")
"""


class Installation:
    """Its steps, in order, each a supervised command. folder: where the environment is, or is
    made.
    """

    def __init__(
        self, deploy: DeployPlan, python: str | None, venv: Path, repo: Path, log: Path
    ) -> None:
        self.deploy = deploy
        self.python = python
        self.venv = venv
        self.repo = repo
        self.log = log

    def steps(self) -> list[tuple[str, list[str]]]:
        """(name, command) of each step.

        The environment is made only where none was named and none is whole yet.
        """
        own = str(self.venv / "bin" / "python")
        found = []
        if self.python is not None and not self._mark.exists():
            make = [self.python, "-m", "venv", "--clear", "--system-site-packages", str(self.venv)]
            found += [("the virtual environment", make)]
            found += [
                (
                    "the link to the python's packages",
                    [self.python, "-c", _SEE_PARENT, str(self.venv)],
                )
            ]
        pip = [own, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "-r", NAME]
        return [*found, (f"pip install -r {NAME}", pip)]

    @property
    def _mark(self) -> Path:
        """Tells an environment that is whole from one whose making was cut short; making one
        anew removes it.
        """
        return self.venv / "made.txt"

    def run(self, env: Mapping[str, str], watched: list[Supervised]) -> None:
        """Carry the steps out. TaskFailure, with the last lines, where one fails or time runs out.

        Args:
            watched: the command that runs now is put there, so that whoever holds the list can end
                it.
        """
        until = time.monotonic() + self.deploy.install_timeout_s
        *_, last = steps = self.steps()
        for name, argv in steps:
            if self.python is not None and argv is last[1]:
                self._mark.write_text("whole\n")
            command = Supervised(
                f"The installation ({name})",
                argv,
                env,
                self.repo,
                self.log,
                self.deploy.stop_timeout_s,
            )
            watched[:] = [command]
            left_s = max(0.0, until - time.monotonic())
            run_to_end(
                command, left_s, f"deploy.install_timeout_s={self.deploy.install_timeout_s:g} s"
            )
        watched.clear()
