"""Saved runs as DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evalrun.runs import find
from evalrun.stages.summarize import results_frame, stored_records
from evalrun.stages.summary.group_rows import with_groups

if TYPE_CHECKING:
    import pandas as pd


def results(run: str, output_dir: Path = Path("outputs")) -> pd.DataFrame:
    """The tidy table of a run, or of all jobs of a sweep.

    Fault where there is no such run, or nothing of it was scored yet.

    Args:
        run: its folder, its time stamp in output_dir, or "latest".
        output_dir: where runs lie.
    """
    found = find.all_by_name(run, output_dir, "evalrun.results")
    return results_frame(
        with_groups([record for s in found for record in stored_records(s.run, s.plan)])
    )
