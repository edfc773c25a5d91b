"""Where the files of one cell lie. Paths only: nothing is opened, pyarrow is not loaded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evalrun.store.names import safe_name


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The files of rows that are appended one by one: a sorted file, streams, a lock.

    Attributes:
        folder: where they lie.
        stem: their common first part, safe as a path component.
        names: what every one of them bears in its metadata, as (key, value).
    """

    folder: Path
    stem: str
    names: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> Path:
        """The final, sorted rows."""
        return self.folder / f"{self.stem}.arrow"

    @property
    def lock_file(self) -> Path:
        """Held by the one writer."""
        return self.folder / f"{self.stem}.lock"

    def shards(self) -> list[Path]:
        """The existing streams `<stem>.<k>.arrows`, by k."""
        numbered = self._numbered()
        return [numbered[k] for k in sorted(numbered)]

    def new_shard(self) -> Path:
        """The path of the next stream; k is one above every existing one, damaged ones included."""
        k = max(self._numbered(r"(?:\.damaged)?"), default=0) + 1
        return self.folder / f"{self.stem}.{k}.arrows"

    def _numbered(self, ending: str = "") -> dict[int, Path]:
        form = re.compile(re.escape(self.stem) + r"\.([1-9]\d*)\.arrows" + ending)
        try:
            found = [path.name for path in self.folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {
            int(match[1]): self.folder / name for name in found if (match := form.fullmatch(name))
        }


@dataclass(frozen=True, slots=True)
class CellFiles:
    """The files of one cell: one model on one task, within one run.

    Attributes:
        run: the run's folder.
        model: the model's name, as the plan writes it.
        task: task, or task:subset.
    """

    run: Path
    model: str
    task: str

    @property
    def names(self) -> dict[str, str]:
        """What every Arrow file of the cell bears in its metadata: model and task."""
        return {"model": self.model, "task": self.task}

    @property
    def predictions(self) -> RowFiles:
        """What the model answered."""
        return self.rows("predictions")

    @property
    def judgements(self) -> RowFiles:
        """What other models said of the answers."""
        return self.rows("judgements")

    def rows(self, kind: str) -> RowFiles:
        """The files of one kind of appended rows; `kind` is their folder."""
        folder = self.run / kind / safe_name(self.model)
        return RowFiles(folder, safe_name(self.task), tuple(self.names.items()))

    @property
    def docs_file(self) -> Path:
        """What scoring needs about the documents."""
        return self._file("predictions", ".docs.arrow")

    @property
    def verdicts_file(self) -> Path:
        """Verdicts of all scorers."""
        return self._file("verdicts", ".arrow")

    @property
    def results_file(self) -> Path:
        """Estimates, counts, signatures as JSON."""
        return self._file("results", ".json")

    @property
    def statistics_file(self) -> Path:
        """Statistics per document."""
        return self._file("results", ".docs.arrow")

    @property
    def times_file(self) -> Path:
        """Stage times as JSON."""
        return self._file("results", ".times.json")

    def log_file(self, stage: str) -> Path:
        """logs/<stage>/<model>/<task>.out; stage is infer or eval."""
        if stage not in ("infer", "eval"):
            raise ValueError(f"no log folder for stage {stage!r}; infer and eval have one")
        return self._file(f"logs/{stage}", ".out")

    def log_name(self, stage: str) -> str:
        """The log file as records name it: relative to the run's folder, with slashes."""
        return self.log_file(stage).relative_to(self.run).as_posix()

    def _file(self, folder: str, suffix: str) -> Path:
        return self.run / folder / safe_name(self.model) / (safe_name(self.task) + suffix)
