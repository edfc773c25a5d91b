"""The output folder: every path of a run, how names become paths, how runs are claimed and
found.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalrun.errors import Fault, visible
from evalrun.store.disk import fsync_folder, read_small, write_text_atomic

__all__ = [
    "Run",
    "load_plan_text",
    "refuse_clashes",
    "safe_name",
    "write_text_atomic",
]

MAX_NAME_BYTES = 100
LONGEST_PLAN_BYTES = 100_000_000
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_OURS = re.compile(r"(\.docs|\.times|\.\d+|-[0-9a-f]{6})$", re.IGNORECASE)
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def safe_name(name: str) -> str:
    """One path component for `name`: only A-Z a-z 0-9 . _ -, at most 100 bytes, no leading or last
    dot.

    A name that is safe stays as it is. Otherwise what is unsafe becomes `_`, the rest is cut, and
    the first 6 hex digits of sha256(name) are appended; so do names that look like ours (`x.docs`,
    `x.times`, `x.3`, `x-0a1b2c`) and Windows devices. Distinct names give distinct results (but for
    a 1 in 2^24 chance per pair of hashed names). Names that were hashed stay distinct where case is
    ignored; two plain names that differ in case only (`Qwen`, `qwen`) do not: `refuse_clashes`
    names them before a run, and files carry the original name.
    """
    safe = _UNSAFE.sub("_", name)
    if safe.startswith("."):
        safe = "_" + safe[1:]
    if _DEVICE.match(safe):
        safe = "_" + safe
    is_plain = bool(name) and safe == name and len(safe) <= MAX_NAME_BYTES
    if is_plain and not name.endswith(".") and not _OURS.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{safe[: MAX_NAME_BYTES - 7] or '_'}-{digest}"


def refuse_clashes(names: Iterable[str], what: str) -> None:
    """Fault where two of `names` are equal, or would share files on a disk that ignores case."""
    seen: dict[str, str] = {}
    for name in names:
        path = safe_name(name).casefold()
        if path in seen:
            other = seen[path]
            how = (
                "is given twice"
                if other == name
                else f"and {visible(other)!r} would share the file name {path!r}"
            )
            raise Fault(
                f"The {what} {visible(name)!r} {how}. Names of a run must differ, also with case "
                "ignored."
            )
        seen[path] = name


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

    def predictions_file(self, model: str, task: str) -> Path:
        """The final, sorted predictions."""
        return self._file("predictions", model, task, ".arrow")

    def docs_file(self, model: str, task: str) -> Path:
        """What scoring needs about the documents."""
        return self._file("predictions", model, task, ".docs.arrow")

    def shards(self, model: str, task: str) -> list[Path]:
        """The existing streams `<task>.<k>.arrows`, by k."""
        numbered = self._numbered(model, task)
        return [numbered[k] for k in sorted(numbered)]

    def new_shard(self, model: str, task: str) -> Path:
        """The path of the next stream; k is one above every existing one, damaged ones included."""
        return self._shard(
            model, task, max(self._numbered(model, task, r"(?:\.damaged)?"), default=0) + 1
        )

    def lock_file(self, model: str, task: str) -> Path:
        """Held by the one writer of a cell."""
        return self._file("predictions", model, task, ".lock")

    def verdicts_file(self, model: str, task: str) -> Path:
        """Verdicts of all scorers."""
        return self._file("verdicts", model, task, ".arrow")

    def results_file(self, model: str, task: str) -> Path:
        """Estimates, counts, signatures as JSON."""
        return self._file("results", model, task, ".json")

    def statistics_file(self, model: str, task: str) -> Path:
        """Statistics per document."""
        return self._file("results", model, task, ".docs.arrow")

    def times_file(self, model: str, task: str) -> Path:
        """Stage times as JSON."""
        return self._file("results", model, task, ".times.json")

    def log_file(self, stage: str, model: str, task: str) -> Path:
        """logs/<stage>/<model>/<task>.out; stage is infer or eval."""
        if stage not in ("infer", "eval"):
            raise ValueError(f"no log folder for stage {stage!r}")
        return self._file(f"logs/{stage}", model, task, ".out")

    @property
    def logs_dir(self) -> Path:
        """logs/"""
        return self.path / "logs"

    @property
    def summary_dir(self) -> Path:
        """summary/"""
        return self.path / "summary"

    def _file(self, folder: str, model: str, task: str, suffix: str) -> Path:
        return self.path / folder / safe_name(model) / (safe_name(task) + suffix)

    def _shard(self, model: str, task: str, k: int) -> Path:
        return self._file("predictions", model, task, f".{k}.arrows")

    def _numbered(self, model: str, task: str, ending: str = "") -> dict[int, Path]:
        folder = self.predictions_file(model, task).parent
        form = re.compile(re.escape(safe_name(task)) + r"\.([1-9]\d*)\.arrows" + ending)
        try:
            names = [path.name for path in folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {int(match[1]): folder / name for name in names if (match := form.fullmatch(name))}


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
            f"{run.path} is no run: its plan {run.plan_file} cannot be read ({cause})."
        ) from cause


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
        ]
    except OSError:
        return []
