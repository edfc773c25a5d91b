"""The output folder: every path of a run, how runs are claimed and found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalrun.errors import Fault
from evalrun.store.cell.files import CellFiles
from evalrun.store.disk import fsync_folder, read_small, write_text_atomic
from evalrun.store.names import refuse_clashes, safe_name

__all__ = [
    "Run",
    "load_plan_text",
    "refuse_clashes",
    "safe_name",
    "write_text_atomic",
]

LONGEST_PLAN_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """One output folder. Methods give paths and touch nothing; only `claim` makes a folder."""

    path: Path

    @classmethod
    def claim(cls, output_dir: Path, stamp: str | None = None) -> Run:
        """Make a new folder `<YYYYmmdd_HHMMSS>`, `_2`, `_3`, ...

        (exclusive mkdir). Fault on OSError.
        """
        name = stamp or datetime.now().astimezone().strftime("%Y%m%d_%H%M%S")
        count = 1
        try:
            output_dir.mkdir(parents=True, exist_ok=True)
            while True:
                path = output_dir / (name if count == 1 else f"{name}_{count}")
                try:
                    path.mkdir()
                except FileExistsError:
                    count += 1
                    continue
                fsync_folder(output_dir)
                return cls(path)
        except OSError as cause:
            raise Fault(
                f"No run folder can be made in output_dir={output_dir}: {cause}. Set "
                "output_dir=DIR."
            ) from cause

    @property
    def plan_file(self) -> Path:
        """configs/plan.json: the frozen plan."""
        return self.path / "configs" / "plan.json"

    @property
    def state_file(self) -> Path:
        """state.json: what the run is doing, and whose process does it."""
        return self.path / "state.json"

    def config_file(self, time: str, pid: int) -> Path:
        """configs/<time>_<pid>.yaml: the composed configuration of one start."""
        return self.path / "configs" / f"{time}_{pid}.yaml"

    def cell(self, model: str, task: str) -> CellFiles:
        """The files of one model on one task (task, or task:subset)."""
        return CellFiles(self.path, model, task)

    @property
    def logs_dir(self) -> Path:
        """logs/"""
        return self.path / "logs"

    @property
    def summary_dir(self) -> Path:
        """summary/"""
        return self.path / "summary"


def archive_files(folder: Path, digits: str) -> tuple[Path, Path]:
    """Where `evalrun pack` puts a run, and its logs alone: <digits>.zip, <digits>_logs.zip."""
    return folder / f"{digits}.zip", folder / f"{digits}_logs.zip"


def run_folders(output_dir: Path) -> list[Run]:
    """Every folder below that is or was to become a run: it holds a plan or a state, readable or
    not. By path.
    """
    folders = [job for each in _subfolders(output_dir) for job in (each, *_subfolders(each))]
    return [
        run
        for run in map(Run, sorted(folders))
        if run.plan_file.exists() or run.state_file.exists()
    ]


def sweep_jobs(folder: Path) -> list[Run]:
    """The runs `<job number>/` of a sweep's folder; empty where it is none. By path."""
    jobs = [Run(path) for path in sorted(_subfolders(folder)) if path.name.isdecimal()]
    return [run for run in jobs if run.plan_file.exists() or run.state_file.exists()]


def load_plan_text(run: Run) -> str:
    """The text of configs/plan.json. Fault where it cannot be read."""
    try:
        return read_small(run.plan_file, LONGEST_PLAN_BYTES).decode("utf-8")
    except (OSError, ValueError) as cause:
        raise Fault(
            f"{run.path} is not a run: its plan {run.plan_file} cannot be read ({cause})."
        ) from cause


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
        ]
    except OSError:
        return []
