"""Datasets of the hub where there is no network: waited for once, the local cache is still
asked.
"""

from __future__ import annotations

from typing import Any

import pytest

from evalrun.errors import TaskFailure
from evalrun.tasks.rows import load_rows
from evalrun.tasks.sources import hub
from evalrun.types import DatasetPlan


def test_a_hub_that_is_away_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try without a network takes 24 s; 57 subsets would take 22 minutes.

    Data in the cache is still found.
    """
    datasets = pytest.importorskip("datasets")
    from huggingface_hub import constants

    switches = [(datasets.config, "HF_HUB_OFFLINE"), (constants, "HF_HUB_OFFLINE")]
    seen: list[list[bool]] = []

    def ask(path: str, name: str | None, **_: Any) -> Any:
        seen.append([getattr(module, key) for module, key in switches])
        if name == "cached":
            return datasets.Dataset.from_list([{"q": "x"}])
        raise ConnectionError("no route to host")

    monkeypatch.setattr(datasets, "load_dataset", ask)
    monkeypatch.setattr(hub, "_away", [])
    for module, key in switches:
        monkeypatch.setattr(module, key, False)
    for name in ("a", "b"):
        with pytest.raises(TaskFailure, match="no route to host"):
            load_rows(DatasetPlan("cais/mmlu", name))
    assert load_rows(DatasetPlan("cais/mmlu", "cached")).rows == [{"q": "x"}]
    assert seen == [[False, False], [True, True], [True, True]]
    assert [getattr(module, key) for module, key in switches] == [False, False]
    monkeypatch.setattr(hub, "AWAY_S", 0.0)
    with pytest.raises(TaskFailure):
        load_rows(DatasetPlan("cais/mmlu", "c"))
    assert seen[-1] == [False, False]
