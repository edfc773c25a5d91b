"""The stored run that a command means: by address, by name, or the newest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalrun.errors import Fault, nearest
from evalrun.planning.address import differing
from evalrun.planning.json_form import from_json
from evalrun.store import layout
from evalrun.store.cell import predictions, saved_docs
from evalrun.tasks import local_files, prompt, rows
from evalrun.types import Cell, DatasetPlan, Kind, Plan


@dataclass(frozen=True)
class Stored:
    """A run folder and the plan that it was made with."""

    run: layout.Run
    plan: Plan

    def cell(self, name: str) -> Cell | None:
        """The cell of that name, if the run has one."""
        return next((c for c in self.plan.cells if c.name == name), None)

    def dataset_digest(self, cell: Cell) -> str | None:
        """The digest of the data that the cell was asked from, as it was recorded; None where it
        was not.
        """
        known = saved_docs.metadata(self.run, self.plan.model.name, cell.name)
        return known.get("dataset")

    def is_complete(self, cell: Cell) -> bool:
        """True where every row that the plan asks for has been written and put into its final
        file.
        """
        model = self.plan.model.name
        if not predictions.is_final(self.run, model, cell.name):
            return False
        n_docs = saved_docs.count(self.run, model, cell.name)
        if n_docs is None:
            return False
        wanted = n_docs * cell.n
        if cell.kinds != (Kind.GENERATE.value,):  # a row per choice
            stored = saved_docs.read_docs(self.run, model, cell.name)
            wanted = sum(len(prompt.keys_of(cell, each.doc)) for each in stored)
        return predictions.count(self.run, model, cell.name) >= wanted


def stored_runs(output_dir: Path) -> list[Stored]:
    """All runs below the folder, oldest first. Folders without a readable plan are passed over."""
    found = []
    for run in layout.find_runs(output_dir):
        try:
            found.append(load(run.path))
        except Fault:
            continue
    return found


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
    return Stored(run, from_json(layout.load_plan_text(run), str(run.plan_file)))


def by_name(reuse: str, output_dir: Path) -> Stored:
    """--reuse PATH, a time stamp within output_dir, or `latest` (by the time inside the plan)."""
    if reuse == "latest":
        runs = stored_runs(output_dir)
        if not runs:
            raise Fault(
                f"--reuse latest: there is no run in {output_dir}. Run --mode infer first, or set "
                "output_dir=DIR."
            )
        return runs[-1]
    for candidate in (output_dir / reuse, Path(reuse).expanduser()):
        if candidate.is_dir():
            return load(candidate)
    known = [str(s.run.path.relative_to(output_dir)) for s in stored_runs(output_dir)]
    hint = nearest(reuse, [*known, "latest"])
    guess = f" Did you mean {hint}?" if hint else ""
    raise Fault(
        f"--reuse {reuse}: no such run, neither as a folder nor in {output_dir}.{guess} "
        f"Newest: {', '.join(reversed(known[-5:])) or 'none'}. `--reuse latest` takes the newest."
    )


def matching(draft: Plan, output_dir: Path) -> list[Stored]:
    """Runs that hold every cell of the draft at the same address, oldest first."""
    wanted = {(c.name, c.ask_id) for c in draft.cells}
    return [
        s
        for s in stored_runs(output_dir)
        if s.plan.model.name == draft.model.name
        and wanted <= {(c.name, c.ask_id) for c in s.plan.cells}
    ]


def for_eval(draft: Plan, output_dir: Path) -> Stored:
    """The newest complete run of the draft's address, else the newest.

    Fault where there is none.
    """
    runs = matching(draft, output_dir)
    complete = [
        s for s in runs if all(s.is_complete(c) for c in s.plan.cells if c.name in _names(draft))
    ]
    if runs:
        return (complete or runs)[-1]
    raise _none(draft, output_dir, "There are no saved predictions of this address", is_eval=True)


def for_resume(draft: Plan, output_dir: Path) -> Stored:
    """The newest run of the draft's address.

    Fault that names the differing keys where only others exist.
    """
    runs = matching(draft, output_dir)
    if runs:
        return runs[-1]
    raise _none(draft, output_dir, "There is no run of this address to resume", is_eval=False)


def unfinished(draft: Plan, output_dir: Path) -> Stored | None:
    """The newest run of the draft's address that is not complete, to tell the user of it."""
    runs = [
        s for s in matching(draft, output_dir) if not all(s.is_complete(c) for c in s.plan.cells)
    ]
    return runs[-1] if runs else None


def check_data(draft: Plan, stored: Stored) -> list[str]:
    """A note for every cell whose dataset cannot be compared here.

    Fault where local data is not what was asked.
    """
    notes, changed = [], []
    for cell in draft.cells:
        theirs = stored.dataset_digest(cell)
        ours = rows.digest_here(cell.dataset)
        if ours is None or theirs is None:
            notes.append(
                f"Task {cell.name}: dataset not checked here ({_why_unchecked(cell.dataset)})."
            )
        elif ours != theirs:
            changed.append(
                f"{cell.dataset.path} of task {cell.name}: stored {theirs[:12]}, here {ours[:12]}"
            )
    if changed:
        raise Fault(
            f"The data has changed since {stored.run.path} was made ({'; '.join(changed)}; "
            "SHA-256). Infer again, or score the saved documents as they were: --reuse "
            f"{stored.run.path}."
        )
    return notes


def _why_unchecked(dataset: DatasetPlan) -> str:
    return (
        f"no file {dataset.path}"
        if local_files.is_local(dataset.path)
        else f"{dataset.path} lies on the hub"
    )


def _names(plan: Plan) -> set[str]:
    return {c.name for c in plan.cells}


def _none(draft: Plan, output_dir: Path, what: str, is_eval: bool) -> Fault:
    way_out = (
        "--mode infer with the same settings" if is_eval else "the same command without --resume"
    )
    names = ", ".join(sorted(_names(draft)))
    text = f"{what} in {output_dir}: model {draft.model.name}, task {names}."
    for stored in reversed(stored_runs(output_dir)):
        for cell in draft.cells:
            other = stored.cell(cell.name)
            if (
                other is None
                or stored.plan.model.name != draft.model.name
                or other.ask_id == cell.ask_id
            ):
                continue
            lines = "; ".join(differing(cell.asked, other.asked))
            named = f"name it with --reuse {stored.run.path}, " if is_eval else ""
            return Fault(
                f"{text} The nearest is {stored.run.path}, which was made with other settings "
                f"({lines}). Give its settings, {named}or run {way_out}."
            )
    wanted = layout.Run(output_dir / "<time>").predictions_file(
        draft.model.name, draft.cells[0].name
    )
    return Fault(f"{text} Expected a file such as {wanted}. Run {way_out} first.")
