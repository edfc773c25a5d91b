"""The stored run that a command means: by address, by name, or the newest."""

from __future__ import annotations

from pathlib import Path

from evalrun.errors import Fault
from evalrun.planning.address import differing
from evalrun.runs import inspect
from evalrun.runs.stored import Stored, load
from evalrun.store import layout
from evalrun.tasks import rows
from evalrun.tasks.sources import local_files
from evalrun.types import DatasetPlan, Plan


def stored_runs(output_dir: Path) -> list[Stored]:
    """All runs below the folder, oldest first. Folders without a readable plan are passed over."""
    found = []
    for seen in reversed(inspect.every(output_dir)):
        try:
            found.append(load(seen.run.path))
        except Fault:
            continue
    return found


def by_name(reuse: str, output_dir: Path, asker: str = inspect.REUSE) -> Stored:
    """The one run of that folder, time stamp within output_dir, or `latest`.

    Fault where there is none, or several (a sweep).
    """
    if reuse != inspect.LATEST:
        return load(inspect.one(reuse, output_dir, asker).run.path)
    for seen in inspect.every(output_dir):
        try:
            return load(seen.run.path)
        except Fault:  # a damaged folder never hides the runs before it
            continue
    raise inspect.no_latest(output_dir, asker)


def all_by_name(name: str, output_dir: Path, asker: str) -> list[Stored]:
    """The run of that name, or every job of a sweep that has a plan, by folder."""
    if name == inspect.LATEST:
        return [by_name(name, output_dir, asker)]
    runs = sorted(inspect.named(name, output_dir, asker), key=lambda seen: seen.run.path)
    planned = [seen for seen in runs if seen.run.plan_file.exists()]
    return [load(seen.run.path) for seen in planned or runs]


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
    wanted = layout.Run(output_dir / "<time>").cell(draft.model.name, draft.cells[0].name)
    return Fault(f"{text} Expected a file such as {wanted.predictions.file}. Run {way_out} first.")
