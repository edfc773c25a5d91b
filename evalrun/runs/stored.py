"""A run folder with the plan that it was made with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalrun.errors import Fault
from evalrun.planning.json_form import from_json
from evalrun.store import layout
from evalrun.store.cell import predictions, saved_docs
from evalrun.store.cell.files import CellFiles
from evalrun.tasks import cell_requests
from evalrun.types import Cell, Kind, Plan


@dataclass(frozen=True)
class Stored:
    """A run folder and the plan that it was made with."""

    run: layout.Run
    plan: Plan

    def cell(self, name: str) -> Cell | None:
        """The cell of that name, if the run has one."""
        return next((c for c in self.plan.cells if c.name == name), None)

    def files(self, cell: Cell) -> CellFiles:
        """Where the files of that cell lie."""
        return self.run.cell(self.plan.model.name, cell.name)

    def dataset_digest(self, cell: Cell) -> str | None:
        """The digest of the data that the cell was asked from, as it was recorded; None where it
        was not.
        """
        return saved_docs.metadata(self.files(cell)).get("dataset")

    def is_complete(self, cell: Cell) -> bool:
        """True where every row that the plan asks for has been written and put into its final
        file.
        """
        files = self.files(cell)
        if not predictions.is_final(files):
            return False
        n_docs = saved_docs.count(files)
        if n_docs is None:
            return False
        wanted = n_docs * cell.n
        if cell.kinds != (Kind.GENERATE.value,):  # a row per choice
            stored = saved_docs.read_docs(files)
            wanted = sum(len(cell_requests.keys_of(cell, each.doc)) for each in stored)
        return predictions.count(files) >= wanted


def load(path: Path) -> Stored:
    """The run in that folder. Fault where it is none, or a sweep of several."""
    run = layout.Run(path)
    if not run.plan_file.is_file():
        jobs = sorted(str(p.parent.parent) for p in path.glob("*/configs/plan.json"))
        if jobs:
            raise Fault(
                f"{path} is a sweep of {len(jobs)} runs. Name one of them: {', '.join(jobs[:10])}."
            )
        raise Fault(f"{path} is not a run folder: it has no configs/plan.json.")
    try:
        return Stored(run, from_json(layout.load_plan_text(run), str(run.plan_file)))
    except RecursionError as cause:
        raise Fault(
            f"{run.plan_file} is not a plan: its lists stand too deep in each other."
        ) from cause
