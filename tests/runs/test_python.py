"""evalrun as a library: run, plan and results in one process, a notebook, a thread, beside a
caller's own Hydra.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.version import getbase
from support.chat_servers import mock
from support.fake_backend import FakeBackend
from support.workspace import Bench, Evalrun, run_folders, write_bench

import evalrun as library
from evalrun.backends import Engines, Sink
from evalrun.errors import Fault
from evalrun.runs import jobs
from evalrun.types import Reply

Settings = dict[str, Any]


def settings_of(bench: Bench, **more: Any) -> Settings:
    """What bench.words() says on the command line, as keywords."""
    files = {"model.path": bench.answers, "dataset.path": bench.data}
    return {"model": "replay", "task": "gsm8k", **files, **more}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three questions with two answers each, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return write_bench(tmp_path, ["11", "01", "00"])


# ---- what a run gives ----------------------------------------------------------------------------


def test_two_runs_in_one_process_are_those_of_the_command_line(
    small: Bench, evalrun: Evalrun, capsys: pytest.CaptureFixture[str]
) -> None:
    once = library.run(**settings_of(small))
    capsys.readouterr()
    twice = library.run("task=gsm8k@k=2&n=2", **settings_of(small, task=None))
    printed = capsys.readouterr().out
    for words, result in (((), once), (("num_return_sequences=2",), twice)):
        assert (result.state, result.code) == ("complete", 0)
        assert result.path is not None
        assert result.path.is_absolute()
        assert library.results(result).equals(result.table())
        assert len(result.samples()) == 3 * result.plan.cells[0].n
        assert words == () or set(result.table()["metric"]) >= {"pass@k:k=2&n=2"}
    ran = evalrun(*[w for w in small.words() if not w.startswith("task=")], "task=gsm8k@k=2&n=2")
    typed = library.results("latest")
    assert typed.equals(twice.table())
    assert ran.out.partition("summary: ")[0] == printed.partition("summary: ")[0]
    assert len(run_folders(small.data.parent)) == 3


def test_result_shows_its_table(small: Bench) -> None:
    result = library.run(**settings_of(small))
    head, *table = repr(result).splitlines()
    assert head == f"RunResult: complete, {result.path}"
    assert table[0].split() == ["dataset", "version", "metric", "mode", "n_docs", "n", "replay"]
    assert "33.33" in table[2]  # one of three
    assert library.results(os.fspath(result)).equals(result.table())


def test_modes_and_their_results(small: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    asked = library.run(**settings_of(small, mode="infer", num_return_sequences=2))
    assert (asked.state, asked.code) == ("complete", 0)
    with pytest.raises(Fault, match="has no results yet"):
        asked.table()
    assert repr(asked).splitlines()[1:] == repr(asked.plan).splitlines()
    metrics = ["exact_match", "pass@k:k=1&n=2"]
    scored = library.run(mode="eval", reuse=asked, metric=metrics)
    assert scored.path == asked.path
    assert scored.table()["metric"].tolist() == ["exact_match", "pass@k:k=1&n=2"]
    shown = library.run(mode="viz", reuse="latest")
    assert shown.table().equals(scored.table())
    capsys.readouterr()
    dry = library.run(dry_run=True, **settings_of(small))
    assert "Nothing was sent or written." in capsys.readouterr().out
    assert (dry.path, dry.state) == (None, "complete")
    with pytest.raises(Fault, match="A dry run has no folder"):
        dry.table()


class Failing(FakeBackend):
    """Answers the first request; the others fail for good."""

    def run(self, requests: object, sink: Sink) -> None:
        replies: list[Reply] = []

        def store(reply: Reply) -> None:
            is_first = not replies
            replies.append(reply)
            sink(reply if is_first else replace(reply, status="error", text=None))

        super().run(requests, store)  # type: ignore[arg-type]


def test_failed_requests_are_incomplete_and_resumed(
    small: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "Engines", lambda: Engines(make=Failing))
    broken = library.run(**settings_of(small))
    assert (broken.state, broken.code) == ("incomplete", 3)
    assert repr(broken).startswith("RunResult: incomplete")
    assert broken.samples()["status"].tolist() == ["ok", "error", "error"]
    monkeypatch.setattr(jobs, "Engines", lambda: Engines(make=FakeBackend))
    whole = library.run(resume=True, **settings_of(small))
    assert (whole.state, whole.path) == ("complete", broken.path)


# ---- plan ----------------------------------------------------------------------------------------


def test_plan_touches_nothing_and_is_that_of_the_run(small: Bench, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    given = settings_of(small, limit=2, num_return_sequences=2)
    planned = library.plan(**given)
    assert sorted(tmp_path.rglob("*")) == before
    result = library.run(**given)
    assert planned.cells == result.plan.cells
    lines = repr(planned).splitlines()
    assert lines[0] == f"Plan: mode all, model replay (replay, {small.answers})"
    assert lines[1].startswith("  gsm8k: generate, n=2, temperature 0.7, the first 2 documents; ")
    files = sorted(tmp_path.rglob("*"))
    again = library.plan(mode="eval", reuse="latest", metric="exact_match")
    assert [metric.key for metric in again.cells[0].metrics] == ["exact_match"]
    resumed = library.plan(resume=True, **settings_of(small, num_return_sequences=2))
    assert resumed.cells[0].limit == 2
    assert sorted(tmp_path.rglob("*")) == files


# ---- errors --------------------------------------------------------------------------------------

FAULTS: list[tuple[tuple[str, ...], Settings]] = [
    (("task=gsm8kk",), {}),
    (("modle.path=x",), {}),
    (("--nonsense",), {}),
    (("word",), {}),
    (("model=replay", "seed=abc"), {}),
    (("mode=evil",), {}),
    (("task=gsm8k,demo_math",), {}),
    (("metric=pass@k:j=3",), {}),
    (("model=replay", "limit=0"), {"limit": 0}),
    (("model=replay", "num_return_sequences=-1"), {"num_return_sequences": -1}),
    (("model=replay", "model.max_tokens=x"), {"model.max_tokens": "x"}),
    (("model=replay", "reuse=nothing", "mode=eval"), {"reuse": "nothing", "mode": "eval"}),
    (("model=openai", "model.api_key=sk-123"), {"model": "openai", "model.api_key": "sk-123"}),
    (("--config-dir", "absent"), {"config_dir": "absent"}),
    (("dry_run=true", "mode=eval", "model=replay"), {"dry_run": True, "mode": "eval"}),
    (("suite=x", "task=gsm8k"), {"suite": "x", "task": "gsm8k"}),
    (("model=openai", "model.base_url=null"), {"model": "openai", "model.base_url": None}),
]


@pytest.mark.parametrize(("words", "settings"), FAULTS)
def test_faults_read_as_on_the_command_line(
    words: tuple[str, ...], settings: Settings, evalrun: Evalrun, tmp_path: Path
) -> None:
    ran = evalrun(*words)
    assert ran.code == 2
    calls = [((), {"model": "replay", **settings})] if settings else []
    for args, named in [(words, {}), *calls]:
        with pytest.raises(Fault) as caught:
            library.run(*args, **named)
        assert f"evalrun: {caught.value}\n" == ran.err
    assert run_folders(tmp_path) == []


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: library.run("-m", "task=gsm8k,demo_math"), "Call it once for each model and task"),
        (lambda: library.run("--cfg", "job"), "--cfg only prints"),
        (lambda: library.run(3), "3 is not an override"),
        (lambda: library.run(limit={1}), "limit={1} is a set, which no setting holds. Allowed: "),
        (lambda: library.run(model=3), "model=3: allowed are a name or a list of names"),
        (lambda: library.run(**{"a=b": 1}), "'a=b' is not the name of a setting"),
        (lambda: library.run(**{"model.engine": {1: 2}}), "model.engine holds the key 1; allowed"),
        (lambda: library.plan("-m", "seed=1,2"), "evalrun.plan makes one run"),
        (lambda: library.results("absent"), "evalrun.results absent: no such run"),
        (lambda: library.samples("absent"), "evalrun.samples absent: no such run"),
    ],
)
def test_faults_of_calls(call: Callable[[], object], text: str, small: Bench) -> None:
    with pytest.raises(Fault) as caught:
        call()
    assert text in str(caught.value)


# ---- nothing is left changed ---------------------------------------------------------------------


def surroundings() -> dict[str, object]:
    """All global state that a run might touch."""
    return {
        "argv": list(sys.argv),
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "signals": [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "logging": (logging.getLogger().level, logging.getLogger().handlers[:]),
        "level": logging.getLogger("evalrun").level,
        "hydra": (GlobalHydra.instance(), GlobalHydra.instance().hydra, getbase()),
        "nodes": sorted(ConfigStore.instance().repo),
        "stdout": (sys.stdout, sys.stderr),
    }


def test_surroundings_are_left_as_they_were(small: Bench, tmp_path: Path) -> None:
    library.plan(**settings_of(small))  # what is imported once
    before = surroundings()
    library.run(**settings_of(small))
    library.run(**settings_of(small, debug=True))
    with pytest.raises(Fault):
        library.run(**settings_of(small, seed="abc"))
    assert surroundings() == before


def test_a_caller_with_a_hydra_of_his_own(small: Bench, tmp_path: Path) -> None:
    """Inside the caller's own application: his configuration, groups and settings stay his."""
    conf = tmp_path / "conf"
    (conf / "model").mkdir(parents=True)
    (conf / "config.yaml").write_text("defaults: [{model: mine}, _self_]\nx: 1\n")
    (conf / "model" / "mine.yaml").write_text("size: 3\n")
    ConfigStore.instance().store(name="run_schema", node={"his": 1})
    with initialize_config_dir(str(conf), version_base="1.2", job_name="his"):
        mine = compose("config", ["x=2"])
        before = surroundings()
        result = library.run(**settings_of(small))
        assert result.state == "complete"
        assert surroundings() == before
        assert compose("config", ["x=2"]) == mine
        assert compose("config", ["+task=gsm8k"]).task == "gsm8k"  # a value, not a file of ours
    assert ConfigStore.instance().load("run_schema.yaml").node == {"his": 1}


# ---- notebooks, threads, interrupts --------------------------------------------------------------


def over_http(bench: Bench, url: str) -> Settings:
    """The same questions for a server."""
    address = {"model.base_url": f"{url}/v1", "dataset.path": bench.data}
    return {"model": "vllm_server", "task": "gsm8k", **address}


def test_inside_a_running_event_loop(small: Bench) -> None:
    """A notebook's cell runs in a loop; requests need one of their own."""

    async def cell() -> tuple[str, bool]:
        outer = asyncio.get_running_loop()
        state = library.run(**over_http(small, server.url)).state
        await asyncio.sleep(0)
        return state, asyncio.get_running_loop() is outer

    with mock() as server:
        assert asyncio.run(cell()) == ("complete", True)
        assert library.run(**over_http(small, server.url)).state == "complete"


def test_in_a_thread(small: Bench) -> None:
    found: list[library.RunResult] = []
    with mock() as server:
        thread = threading.Thread(
            target=lambda: found.append(library.run(**over_http(small, server.url)))
        )
        thread.start()
        thread.join()
    assert [result.state for result in found] == ["complete"]


class Interrupting(FakeBackend):
    """Is interrupted after two replies."""

    def run(self, requests: object, sink: Sink) -> None:
        replies: list[Reply] = []

        def store(reply: Reply) -> None:
            sink(reply)
            replies.append(reply)
            if len(replies) == 2:
                raise KeyboardInterrupt

        super().run(requests, store)  # type: ignore[arg-type]


def test_an_interrupt_keeps_the_rows(small: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "Engines", lambda: Engines(make=Interrupting))
        with pytest.raises(KeyboardInterrupt) as caught:
            library.run(**settings_of(small))
    assert caught.value.__notes__ == [
        "Rows that were finished are saved; evalrun.run(..., resume=True) goes on."
    ]
    assert len(library.samples("latest")) == 2
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "Engines", lambda: Engines(make=FakeBackend))
        result = library.run(resume=True, **settings_of(small))
    assert (result.state, len(result.samples())) == ("complete", 3)


def test_ctrl_c_reaches_requests_in_a_notebook(small: Bench) -> None:
    """SIGINT in a loop within a loop: raised to the caller, rows are kept."""

    async def cell() -> None:
        threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        library.run(**over_http(small, server.url))

    def run_it() -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(cell())
        finally:
            loop.close()

    with mock(latency=30.0) as server, pytest.raises(KeyboardInterrupt):
        run_it()
    (folder,) = run_folders(small.data.parent)
    assert '"terminated"' in (folder / "state.json").read_text()
