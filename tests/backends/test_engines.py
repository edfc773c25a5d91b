"""Warm models: which are open, what is closed when; a run over a fake backend, also cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.chat_servers import mock
from support.chat_servers import plan as server_plan
from support.fake_backend import FakeBackend, fakes
from support.running import rows_of
from support.workspace import Bench

from evalrun.backends import Cancelled, Engines, registration
from evalrun.backends.base import Backend
from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.replay.backend import ReplayBackend
from evalrun.config.composing import composed
from evalrun.errors import Fault, TaskFailure
from evalrun.planning import build
from evalrun.stages import infer
from evalrun.store.layout import Run
from evalrun.types import Generate, Kind, Message, ModelPlan, Plan, Reply, Sampling


def model(path: str, name: str = "m") -> ModelPlan:
    return ModelPlan(name, "fake", path=path)


def ask(n: int) -> list[Generate]:
    return [
        Generate(f"d{i}", (Message("user", f"q{i}"),), (0,), Sampling(8, 0.0), 0) for i in range(n)
    ]


@pytest.mark.parametrize(
    ("limit", "asked", "log"),
    [
        (1, "aab", "make a, make b after close a"),
        (2, "abab", "make a, make b"),
        (2, "abac", "make a, make b, make c after close b"),
        (1, "aba", "make a, make b after close a, make a after close b"),
    ],
)
def test_least_recently_used_engine_is_closed_first(limit: int, asked: str, log: str) -> None:
    got: list[str] = []
    with Engines(limit, fakes(got)) as engines:
        for path in asked:
            assert engines.warm(model(path)).model.path == path
        wanted = []
        for step in log.split(", "):
            made, _, closed = step.partition(" after ")
            wanted += [closed, made] if closed else [made]
        assert got == wanted
        is_open = {e.removeprefix("make ") for e in got if e.startswith("make")}
    n_open = min(limit, len(is_open))
    assert all(e.startswith("close") for e in got[len(wanted) :])
    assert len(got) == len(wanted) + n_open


def test_engine_is_shared_by_models_that_differ_in_their_names_only() -> None:
    with Engines(2, fakes([])) as engines:
        first = engines.warm(model("a", "one"))
        assert engines.warm(model("a", "two")) is first
        assert engines.warm(replace(model("a", "one"), dtype="float32")) is not first
        engines.drop(model("a", "three"))
        assert engines.warm(model("a", "one")) is not first


def test_another_maker_takes_the_place_of_open_engines() -> None:
    log: list[str] = []
    with Engines(1, fakes(log)) as engines:
        engines.warm(model("a"))
        with engines.with_maker(fakes(log)) as others:
            others.warm(model("b"))
        engines.warm(model("a"))
    assert log == ["make a", "close a", "make b", "close b", "make a", "close a"]
    with pytest.raises(ValueError, match="at least 1"):
        Engines(0)


# ---- a run over a fake ---------------------------------------------------------------------------


@pytest.fixture
def fake_name(monkeypatch: pytest.MonkeyPatch) -> str:
    """The backend `fake`, registered for one test."""
    registration.names()
    known = registration._FACTS
    monkeypatch.setattr(known, "_things", dict(known._things))
    registration.backend("fake", kinds=(Kind.GENERATE,))(FakeBackend)
    return "fake"


def planned(bench: Bench, folder: Path, name: str) -> tuple[Plan, tuple[infer.Prepared, ...]]:
    words = ["model=replay", "task=gsm8k", f"dataset.path={bench.data}", f"model.backend={name}"]
    plan = replace(build(composed(words)), run_dir=str(Run.claim(folder).path))
    return plan, infer.prepare(plan)


def test_a_run_over_a_fake_backend(
    bench: Callable[..., Bench], tmp_path: Path, fake_name: str
) -> None:
    plan, prepared = planned(bench(["1"] * 3), tmp_path, fake_name)
    log: list[str] = []
    with Engines(make=fakes(log)) as engines:
        (outcome,) = infer.run(plan, prepared, engines, is_debug=True)
    assert outcome.is_whole
    texts = [row.text or "" for row in rows_of(Path(plan.run_dir))]
    assert [f"QUESTION {i} OF BENCH?" in text for i, text in enumerate(texts)] == [True] * 3
    assert log == ["make None", "start None", "close None"]


def test_a_start_that_fails_leaves_nothing_asked(
    bench: Callable[..., Bench], tmp_path: Path, fake_name: str
) -> None:
    plan, prepared = planned(bench(["1"] * 3), tmp_path, fake_name)
    with (
        Engines(make=fakes([], "no such model")) as engines,
        pytest.raises(Fault, match="no such model"),
    ):
        infer.run(plan, prepared, engines, is_debug=True)
    assert not list(Path(plan.run_dir).rglob("*.arrow*"))


def test_a_cancelled_run_fails_its_cell_and_can_be_resumed(
    bench: Callable[..., Bench], tmp_path: Path, fake_name: str
) -> None:
    plan, prepared = planned(bench(["1"] * 40), tmp_path, fake_name)
    made: list[FakeBackend] = []

    def slow(wanted: ModelPlan) -> Backend:
        made.append(FakeBackend(wanted, delay_s=0.02))
        return made[-1]

    with Engines(make=slow) as engines:
        engines.warm(plan.model)
        threading.Timer(0.2, made[0].cancel).start()
        (outcome,) = infer.run(plan, prepared, engines, is_debug=True)
    assert outcome.failure is not None
    assert "cancelled" in outcome.failure
    assert 0 < outcome.n_rows < 40
    with Engines(make=fakes([])) as engines:
        (again,) = infer.run(plan, prepared, engines, is_debug=True)
    assert again.is_whole
    assert again.n_rows == 40


# ---- cancel of real backends ---------------------------------------------------------------------


def cancelled_while_running(backend: Backend, requests: list[Generate]) -> tuple[int, float]:
    """(rows that came, seconds from the cancelling to the end)."""
    rows: list[Reply] = []
    at: list[float] = []

    def sink(row: Reply) -> None:
        rows.append(row)
        if len(rows) == 3:
            at.append(time.monotonic())
            threading.Thread(target=backend.cancel).start()

    with pytest.raises(Cancelled):
        backend.run(requests, sink)
    return len(rows), time.monotonic() - at[0]


def test_cancel_ends_http_requests_in_flight() -> None:
    with mock(ttft=0.01, tps=20) as server:
        backend = OpenaiChatBackend(server_plan(server.url, concurrency=4))
        n, seconds = cancelled_while_running(backend, ask(200))
        assert n < 20
        assert seconds < 2
        rows: list[Reply] = []
        backend.run(ask(3), rows.append)  # it can be asked again
        assert [row.text is not None for row in rows] == [True] * 3


def test_cancel_before_a_run_ends_the_next_one_only() -> None:
    with mock() as server:
        backend = OpenaiChatBackend(server_plan(server.url))
        backend.start()
        backend.cancel()
        with pytest.raises(TaskFailure, match="cancelled"):
            backend.run(ask(2), lambda row: None)
        rows: list[Reply] = []
        backend.run(ask(2), rows.append)
        assert len(rows) == 2


def test_cancel_ends_a_replay(tmp_path: Path) -> None:
    file = tmp_path / "saved.jsonl"
    file.write_text("".join(f'{{"doc_id": "d{i}", "text": "x"}}\n' for i in range(300)))
    plan = ModelPlan("m", "replay", path=str(file), engine=(("delay_s", 0.01),))
    n, seconds = cancelled_while_running(ReplayBackend(plan), ask(300))
    assert n < 100
    assert seconds < 2
