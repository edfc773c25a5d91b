"""The chat client against a real vLLM server with SmolLM2: the contract of backends, and what
streaming gives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import backend_contract as contract

from evalrun.backends.local import embedded
from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.errors import TaskFailure
from evalrun.types import ModelPlan, Sampling, Status

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def backend(url: str) -> OpenaiChatBackend:
    return OpenaiChatBackend(
        ModelPlan(name="m", backend="openai_chat", base_url=url, concurrency=8)
    )


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any, backend: OpenaiChatBackend) -> None:
    check(backend)


def test_facts(backend: OpenaiChatBackend) -> None:
    from importlib.metadata import packages_distributions, version

    facts = backend.facts()
    assert facts["engine"] == "openai_chat"
    assert facts["revision"] == str(embedded.resolve(embedded.PATH))
    installed = {version(name).split("+")[0] for name in packages_distributions()["vllm"]}
    assert facts["engine_version"].split("+")[0] in installed


def test_the_answer_is_streamed(backend: OpenaiChatBackend) -> None:
    request = contract.ask("long", "Tell me everything about the sea.", sampling=Sampling(64, 0.0))
    row = contract.replies(backend, [request])["long", 0]
    assert row.started_s is not None
    assert row.first_token_s is not None
    assert row.ended_s is not None
    assert row.started_s < row.first_token_s
    # the first of 64 tokens comes long before the last
    assert row.first_token_s - row.started_s < 0.7 * (row.ended_s - row.started_s)
    assert (row.completion_tokens, row.finish_reason, row.status) == (64, "length", "truncated")
    assert row.prompt_tokens is not None
    assert row.prompt_tokens > 8
    assert row.http_status == 200


def test_many_requests_at_once(backend: OpenaiChatBackend) -> None:
    sampling = Sampling(
        max_tokens=8, temperature=1.0, top_p=0.9, top_k=20, min_p=0.01, repetition_penalty=1.1
    )
    requests = [
        contract.ask(f"d{i}", f"Count from {i}.", (0, 1), sampling, seed=i) for i in range(16)
    ]
    rows = contract.replies(backend, requests)
    assert len(rows) == 32
    assert {row.status for row in rows.values()} <= {Status.OK, Status.TRUNCATED}
    assert all(row.attempts == 1 for row in rows.values())


def test_the_refusal_of_a_long_prompt_is_kept(backend: OpenaiChatBackend) -> None:
    row = contract.replies(backend, [contract.TOO_LONG])["too-long", 0]
    assert (row.http_status, row.attempts, row.error_type) == (400, 1, "http")
    assert "2048" in (row.error_message or "")


def test_a_model_that_is_not_served(backend: OpenaiChatBackend) -> None:
    wrong = OpenaiChatBackend(replace(backend.model, path="other"))
    requests = [contract.ask(f"d{i}", "hi") for i in range(40)]
    with pytest.raises(TaskFailure, match=r"\(HTTP 404\).*other.*The server lists: "):
        wrong.run(requests, lambda row: None)
