"""The contract of log-likelihoods over saved rows: what was scored once is served again."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from support import likelihood_contract

from evalrun.backends.base import Backend
from evalrun.backends.replay.backend import ReplayBackend
from evalrun.types import ModelPlan


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Backend:
    file = tmp_path_factory.mktemp("saved") / "saved.jsonl"
    file.write_text(
        "".join(json.dumps(asdict(row)) + "\n" for row in likelihood_contract.saved_replies()),
        "utf-8",
    )
    return ReplayBackend(ModelPlan("saved", "replay", path=str(file)))


@pytest.mark.parametrize("check", likelihood_contract.CHECKS, ids=lambda check: check.__name__)
def test_likelihood_contract(check: Any, backend: Backend) -> None:
    check(backend)
