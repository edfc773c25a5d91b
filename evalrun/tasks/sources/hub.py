"""Rows of the Hugging Face hub, through the package `datasets`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evalrun.errors import EvalrunError, Fault, TaskFailure, visible
from evalrun.tasks.sources.table_files import first_line
from evalrun.types import DatasetPlan

AWAY_S = 300.0  # how long a hub that could not be reached is not tried again


def load_hub(dataset: DatasetPlan) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The rows and the names of their columns, by `datasets.load_dataset`.

    Fault: no such split or configuration. TaskFailure: the hub cannot be reached.
    """
    try:
        import datasets
    except ImportError as error:
        raise Fault(
            f"dataset.path={visible(dataset.path)!r} names a dataset of the hub, which needs the "
            "package `datasets`: pip install datasets. A local file needs no package: "
            "dataset.path=FILE.jsonl."
        ) from error
    try:
        with _as_reachable(datasets):
            data = datasets.load_dataset(
                dataset.path, dataset.name, split=dataset.split, revision=dataset.revision
            )
            rows: list[dict[str, Any]] = data.to_list()
    except _hub_errors(datasets) as error:
        raise _hub_fault(dataset, error) from error
    return rows, tuple(data.column_names)


_away: list[float] = []  # when a hub could last not be reached, by the monotonic clock


@contextmanager
def _as_reachable(datasets: Any) -> Iterator[None]:
    """While the hub is away, the local cache alone is asked: each try takes 24 s to fail, and
    tasks have 57 subsets.
    """
    from huggingface_hub import constants

    switches = [(datasets.config, "HF_HUB_OFFLINE"), (constants, "HF_HUB_OFFLINE")]
    before = [getattr(module, name) for module, name in switches]
    if _away and time.monotonic() - _away[-1] < AWAY_S:
        for module, name in switches:
            setattr(module, name, True)
    try:
        yield
    except ConnectionError:
        if not any(before):
            _away.append(time.monotonic())
        raise
    finally:
        for (module, name), value in zip(switches, before, strict=True):
            setattr(module, name, value)


def _hub_errors(datasets: Any) -> tuple[type[BaseException], ...]:
    """What a failing download raises. The HTTP client's own errors count where it is loaded."""
    clients = [sys.modules[name].HTTPError for name in ("httpx", "httpx2") if name in sys.modules]
    return (
        OSError,
        ValueError,
        RuntimeError,
        ImportError,
        datasets.exceptions.DatasetsError,
        *clients,
    )


def _hub_fault(dataset: DatasetPlan, error: BaseException) -> EvalrunError:
    text = visible(first_line(error)).rstrip(".")
    named = f"dataset.path={visible(dataset.path)}, name={dataset.name}, split={dataset.split}"
    if isinstance(error, ValueError) and ("Unknown split" in text or "BuilderConfig" in text):
        return Fault(
            f"The dataset has no such part ({named}): {visible(' '.join(str(error).split()))}"
        )
    return TaskFailure(
        f"The dataset could not be loaded from the hub ({named}, revision={dataset.revision}): "
        f"{type(error).__name__}: {text}. With a copy on this machine, set dataset.path=FILE "
        "(.jsonl, .csv, .parquet or .arrow) or a folder of such files."
    )
