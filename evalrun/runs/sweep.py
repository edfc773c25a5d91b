"""A sweep: the many jobs of one command, each with its own choices, and their joint summary."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalrun.backends import Engines
from evalrun.grammar import quoted
from evalrun.runs.border import shielded
from evalrun.runs.compose import call_hydra, checked
from evalrun.runs.jobs import job_of, run_job
from evalrun.runs.words.arguments import Arguments
from evalrun.stages import summarize
from evalrun.store.layout import Run
from evalrun.types import Record

STOP_CODES = (130, 143)


def run(arguments: Arguments) -> int:
    """Compose and run every job of the command. Returns the exit code of all together."""
    arguments = checked(arguments)
    sweep = Sweep(arguments)
    with sweep.place() as words:
        try:
            words = [*arguments.hydra_flags, *words, *arguments.overrides]
            call_hydra(words, sweep.run_one, arguments)
            return sweep.finish()
        finally:
            sweep.close()


class Sweep:
    """Runs each composed job and remembers how it ended, for the exit code and the joint
    summary.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.codes: list[int] = []
        self.records: list[Record] = []
        self.folder: Path | None = None
        self.engines = Engines()
        self._settings: Any = ()
        self._made_output_dir = False

    @contextlib.contextmanager
    def place(self) -> Iterator[list[str]]:
        """The words that tell Hydra where its multirun.yaml goes: into the sweep's folder, or for
        a dry run into one that is thrown away.
        """
        if self.arguments.value("dry_run") == "true":
            folder = tempfile.mkdtemp(prefix="evalrun-dry-")
            try:
                yield [f"hydra.sweep.dir={quoted(folder)}"]
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
        output_dir = Path(self.arguments.value("output_dir") or "outputs")
        self._made_output_dir = not output_dir.exists()
        self.folder = Run.claim(output_dir).path.resolve()
        yield [f"hydra.sweep.dir={quoted(str(self.folder))}"]

    def run_one(self, cfg: Any) -> None:
        """One job, called by Hydra. Never raises: an error would end the sweep's other jobs."""
        if any(code in STOP_CODES for code in self.codes):
            return
        self.codes.append(shielded(lambda: self._one(cfg), self.arguments.value("debug") == "true"))

    def _one(self, cfg: Any) -> int:
        from hydra.core.hydra_config import HydraConfig

        job = HydraConfig.get()
        folder = None if self.folder is None else self.folder / str(job.job.num)
        choices = tuple(self.arguments.overrides if folder is None else job.overrides.task)
        result = run_job(job_of(cfg, self.arguments, self.engines, folder, choices))
        self.records += result.records
        self._settings = result.settings
        return result.code

    def close(self) -> None:
        """Free what the jobs left warm, and the folder of a sweep in which no job began."""
        self.engines.close()
        self._drop_empty()

    def finish(self) -> int:
        """Write the joint summary; the exit code of all jobs together."""
        if self.folder is not None and self.records:
            summarize.joint(self.folder, self.records, dict(self._settings))
        return exit_code(self.codes)

    def _drop_empty(self) -> None:
        """Take away the folder of a sweep in which no job began: nothing is written where
        nothing could be asked.
        """
        if self.folder is None:
            return
        files = list(self.folder.iterdir())
        if all(file.name == "multirun.yaml" for file in files):
            for file in files:
                file.unlink()
            self.folder.rmdir()
            if self._made_output_dir and not any(self.folder.parent.iterdir()):
                self.folder.parent.rmdir()
            self.folder = None


def exit_code(codes: list[int]) -> int:
    """One code for many jobs: a stop first, then an internal fault, then asked wrongly, then
    failed tasks.
    """
    for code in (*STOP_CODES, 1, 2, 3):
        if code in codes:
            return code
    return 0
