"""evalrun: the evaluation runner for language models."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pandas as pd

__version__ = "0.1.0"


def results(run: str | os.PathLike[str] = "latest") -> pd.DataFrame:
    """The results of a run as a tidy pandas DataFrame: one row per (dataset, metric, model), as in its summary CSV.

    run: a run's folder, its time stamp within outputs/, "latest", or the folder of a sweep (all its jobs). Values in
    their own unit, unrounded. Raises evalrun.errors.Fault where there is no such run, or nothing of it was scored yet.
    """
    # By name: everything imports this package for its version, and none of it may depend on the stages.
    summarize = importlib.import_module("evalrun.stages.summarize")
    return cast("pd.DataFrame", summarize.results(os.fspath(run)))
