"""evalrun: the evaluation runner for language models."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from evalrun.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from evalrun.metrics.base import Metric
    from evalrun.stages.direct import Scores

__all__ = ["__version__", "results", "score"]


def results(run: str | os.PathLike[str] = "latest") -> pd.DataFrame:
    """The results of a run as a tidy pandas DataFrame: one row per (dataset, metric, model), as in
    its summary CSV.

    Args:
        run: a run's folder, its time stamp within outputs/, "latest", or the folder of a sweep (all
            its jobs). Values in their own unit, unrounded.

    Raises evalrun.errors.Fault where there is no such run, or nothing of it was scored yet.
    """
    # By name: everything imports this package for its version, and none of it may depend on the
    # stages.
    tables = importlib.import_module("evalrun.runs.tables")
    return cast("pd.DataFrame", tables.results(os.fspath(run)))


def score(
    metric: str | os.PathLike[str] | Metric,
    docs: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    **params: Any,
) -> Scores:
    """The numbers of one metric over documents, without a run: a mapping output name -> Estimate.

    Args:
        metric: a name (`rouge1`, `pass@k`, `pass@k:k=2&n=5`), a Metric, or the path of your own .py
            file.
        docs: mappings with `golds` and `preds`, `choices`, `gold_index` and `logprobs`, `text` and
            `logprobs`, counts `n` and `c`, ... (evalrun.interop.documents names all keys).
        params: parameters of the metric. `.per_doc` of the result holds the values per document.

    Raises evalrun.errors.Fault where the metric, a parameter or a document is not usable.
    """
    direct = importlib.import_module("evalrun.stages.direct")
    return cast("Scores", direct.score(metric, docs, **params))
