"""The backend openai_completions: raw prompts, the same client, the same contract."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support import backend_contract as contract
from support.chat_servers import (
    FAULTS,
    MODELS,
    RIGHT,
    SSE_HEAD,
    ask,
    http,
    mock,
    plan,
    row_of,
    rows_of,
    scripted,
)

from evalrun import backends
from evalrun.backends.base import Backend
from evalrun.errors import Fault
from evalrun.types import Generate, Loglikelihood, Message, ModelPlan, Reply, Rolling, Sampling


def completions(url: str | None, **changes: Any) -> ModelPlan:
    return plan(url, **{"backend": "openai_completions", **changes})


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with mock(accuracy=0.5, index_by_seed=True) as server:
        yield backends.create(completions(server.url))


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any, backend: Backend) -> None:
    check(backend)


@pytest.fixture(scope="module")
def faulty_rows() -> tuple[dict[str, Reply], dict[str, Any]]:
    """One run over one question per fault."""
    requests = [ask(f"[[fault={fault} x 1]] 7 + 5", fault) for fault, *_ in FAULTS]
    with mock(retry_after=0.2) as server:
        begun = time.monotonic()
        rows = rows_of(completions(server.url, idle_timeout_s=0.5), *requests)
        assert time.monotonic() - begun < 60
        return {row.doc_id: row for row in rows}, dict(server.stats)


@pytest.mark.parametrize(
    ("fault", "attempts", "status", "text"), FAULTS, ids=[fault for fault, *_ in FAULTS]
)
def test_one_fault(
    faulty_rows: Any, fault: str, attempts: int, status: str, text: str | None
) -> None:
    row = faulty_rows[0][fault]
    assert (row.attempts, row.status, row.text) == (attempts, status, text), row


def test_all_faults_together(faulty_rows: Any) -> None:
    rows, stats = faulty_rows
    assert sum(row.text == RIGHT for row in rows.values()) == 24
    assert stats["unknown_fields"] == {}
    assert (rows["bom"].prompt_tokens, rows["bom"].completion_tokens) == (6, 12)


def test_the_body_and_the_route() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if method == "POST":
            seen.append((path, json.loads(body)))
            yield (
                SSE_HEAD
                + b'data: {"choices": [{"index": 0, "text": " Paris", '
                + b'"finish_reason": "stop"}]}\n\n'
            )
        else:
            yield MODELS if path == "/v1/models" else http(404, b"{}")

    request = Generate(
        "d",
        (Message("system", "Be brief."), Message("user", "Capital of France?")),
        (2,),
        Sampling(8, 0.0),
        40,
    )
    with scripted(handler) as url:
        (row,) = rows_of(completions(f"{url}/v1/completions"), request)
    assert seen == [
        (
            "/v1/completions",
            {
                "model": "m1",
                "prompt": "Be brief.\n\nCapital of France?",
                "stream": True,
                "stream_options": {"include_usage": True},
                "temperature": 0.0,
                "top_p": 1.0,
                "max_tokens": 8,
                "seed": 42,
            },
        )
    ]
    assert (row.text, row.seed, row.finish_reason) == (" Paris", 42, "stop")


def test_what_is_rendered() -> None:
    made = backends.create(completions("http://127.0.0.1:1"))
    messages = (Message("system", "S"), Message("user", "U"))
    assert made.render(Generate("d", messages, (0,), Sampling(8, 0.0), 1)) == "S\n\nU"
    assert made.render(Loglikelihood("d", 0, messages, " yes")) == "S\n\nU"
    assert made.render(Rolling("d", "whole text")) == "whole text"


@pytest.mark.parametrize(("style", "text"), [("think", "The answer is 12."), ("think-only", None)])
def test_thoughts_are_split_off(style: str, text: str | None) -> None:
    with mock(style=style) as server:
        row = row_of(completions(server.url))
    assert row.text == text
    assert row.reasoning


def test_a_chat_template_is_refused() -> None:
    with pytest.raises(
        Fault, match=r"model\.chat=template cannot be had.*Allowed here: auto, raw\."
    ):
        backends.create(completions("http://127.0.0.1:1", chat="template"))
    backends.create(completions("http://127.0.0.1:1", chat="raw"))


def test_a_server_without_the_route() -> None:
    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        yield http(404, b"{}")

    with scripted(handler) as url, pytest.raises(Fault, match="No root has the route completions"):
        backends.create(completions(url, path="m")).start()


def test_facts_name_the_backend() -> None:
    with mock() as server:
        facts = backends.create(completions(server.url)).facts()
    assert (facts["engine"], facts["revision"]) == ("openai_completions", "mock-model")
