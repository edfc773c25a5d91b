"""Saved runs as DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evalrun.runs import find
from evalrun.stages.summarize import results_frame, stored_records
from evalrun.stages.summary.group_rows import with_groups

if TYPE_CHECKING:
    import pandas as pd


def results(run: str | Path) -> pd.DataFrame:
    """The tidy table of a run, or of all jobs of a sweep.

    Args:
        run: its folder, its time stamp in outputs/, or "latest".

    Fault where there is no such run, or nothing of it was scored yet.
    """
    folder = Path(run).expanduser()
    jobs = (
        sorted(p.parent.parent for p in folder.glob("*/configs/plan.json"))
        if str(run) != "latest"
        else []
    )
    found = [find.load(job) for job in jobs] or [find.by_name(str(run), Path("outputs"))]
    return results_frame(
        with_groups([record for s in found for record in stored_records(s.run, s.plan)])
    )
