"""The chat client against a mock server with every fault, and against servers whose bytes the
tests write.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support import backend_contract as contract
from support.chat_servers import (
    FAULTS,
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

from evalrun.backends.base import Backend
from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.errors import TaskFailure
from evalrun.types import Reply, Sampling


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with mock(accuracy=0.5, index_by_seed=True) as server:
        yield OpenaiChatBackend(plan(server.url))


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any, backend: Backend) -> None:
    check(backend)


@pytest.fixture(scope="module")
def faulty_run() -> tuple[dict[str, Reply], dict[str, Any], float]:
    """One run over one question per fault."""
    requests = [ask(f"[[fault={fault} x 1]] 7 + 5", fault) for fault, *_ in FAULTS]
    with mock(retry_after=0.2, slow=0.01) as server:
        begun = time.monotonic()
        rows = rows_of(plan(server.url, idle_timeout_s=0.5), *requests)
        return {row.doc_id: row for row in rows}, dict(server.stats), time.monotonic() - begun


@pytest.mark.parametrize(
    ("fault", "attempts", "status", "text"), FAULTS, ids=[fault for fault, *_ in FAULTS]
)
def test_one_fault(
    faulty_run: Any, fault: str, attempts: int, status: str, text: str | None
) -> None:
    row = faulty_run[0][fault]
    assert (row.attempts, row.status, row.text) == (attempts, status, text), row
    assert row.raw_text is None
    if status != "error":
        assert row.http_status == 200
        assert row.error_type is None
        assert row.finish_reason == {"filtered": "content_filter", "truncated": "length"}.get(
            status, "stop"
        )
        assert (row.first_token_s is None) == (not text)


def test_all_faults_together(faulty_run: Any) -> None:
    rows, stats, wall_s = faulty_run
    assert sum(row.text == RIGHT for row in rows.values()) == 24
    assert stats["requests"] == sum(attempts for _, attempts, *_ in FAULTS)
    assert stats["unknown_fields"] == {}
    assert wall_s < 60  # nothing waits for the default limits
    bad = rows["400"]
    assert (bad.http_status, bad.error_type, bad.error_message) == (400, "http", "mock 400")


# fault in every attempt, final state
FOR_GOOD = [
    ("500", "error", "http", 500, "mock 500"),
    ("reset", "error", "connection", None, "disconnected"),
    ("cut", "incomplete", "incomplete", 200, "cut"),
    ("cleancut", "incomplete", "incomplete", 200, "without a finish_reason"),
    ("errorevent", "error", "error_event", 200, "engine died"),
    ("malformed", "error", "malformed", 200, "not JSON"),
    ("emptychoices", "incomplete", "incomplete", 200, "said [DONE]"),
    ("html200", "error", "no_stream", 200, "gateway page"),
    ("empty200", "error", "no_stream", 200, "an empty body"),
    ("hang", "timeout", "idle_timeout", 200, "model.idle_timeout_s=0.3"),
]


@pytest.mark.parametrize(("fault", "status", "error_type", "http_status", "says"), FOR_GOOD)
def test_a_fault_that_stays(
    fault: str, status: str, error_type: str, http_status: int | None, says: str
) -> None:
    with mock() as server:
        row = row_of(plan(server.url, retries=1, idle_timeout_s=0.3), f"[[fault={fault}]] 7 + 5")
    assert (row.status, row.error_type, row.http_status) == (status, error_type, http_status)
    assert says.lower() in (row.error_message or "").lower()
    assert (row.attempts, row.text) == (2, None)


@pytest.mark.parametrize(("retries", "sent"), [(0, 1), (2, 3)])
def test_retries_count_repeats(retries: int, sent: int) -> None:
    with mock(("500",)) as server:
        row = row_of(plan(server.url, retries=retries))
        assert server.stats["requests"] == sent
    assert (row.attempts, row.status) == (sent, "error")


def replying_once(*first: bytes) -> Any:
    """A server whose first answers are `first`; every later one is right."""
    later = (
        SSE_HEAD
        + b'data: {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\n'
        + b"data: [DONE]\n\n"
    )
    answers = [*first]

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield http(200, b'{"data": [{"id": "m1"}]}')
        elif method == "GET":
            yield http(404, b"{}")
        else:
            yield answers.pop(0) if answers else later

    return handler


def test_retry_after_in_seconds_is_a_floor() -> None:
    with scripted(replying_once(*[http(429, b"slow", extra="Retry-After: 1\r\n")] * 2)) as url:
        begun = time.monotonic()
        row = row_of(plan(url))
        assert time.monotonic() - begun >= 2.0
    assert (row.text, row.attempts) == ("ok", 3)


def test_retry_after_as_a_date() -> None:
    moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3))
    with scripted(replying_once(http(503, b"", extra=f"Retry-After: {moment}\r\n"))) as url:
        begun = time.monotonic()
        row = row_of(plan(url))
        assert time.monotonic() - begun >= 1.8
    assert (row.text, row.attempts) == ("ok", 2)


def test_a_wait_longer_than_the_total_limit_fails_at_once() -> None:
    with scripted(
        replying_once(
            http(429, b'{"error": {"message": "day is over"}}', extra="Retry-After: 3600\r\n")
        )
    ) as url:
        row = row_of(plan(url))
    assert row.attempts == 1
    assert row.error_message is not None
    assert row.error_message.startswith("day is over (not tried again: a wait of 3")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 301, 413])
def test_permanent_refusals_are_sent_once(status: int) -> None:
    refusal = http(
        status, b'{"error": {"message": "prompt of 5000 tokens"}}', extra="Location: http://x/\r\n"
    )
    with scripted(replying_once(refusal)) as url:
        row = row_of(plan(url))
    assert (row.attempts, row.http_status, row.error_type, row.status) == (
        1,
        status,
        "http",
        "error",
    )
    assert ("redirected" if status == 301 else "prompt of 5000 tokens") in (row.error_message or "")


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_passing_faults_are_repeated(status: int) -> None:
    with scripted(replying_once(http(status, b"<html>"))) as url:
        row = row_of(plan(url))
    assert (row.attempts, row.text) == (2, "ok")


def test_a_run_of_equal_refusals_ends_the_task() -> None:
    rows: list[Reply] = []
    with mock(("400",)) as server:
        backend = OpenaiChatBackend(plan(server.url, concurrency=4))
        with pytest.raises(
            TaskFailure, match=r"20 requests in a row failed in the same way \(HTTP 400\): mock 400"
        ):
            backend.run((ask("1 + 1", f"d{i}") for i in range(1000)), rows.append)
        assert 20 <= len(rows) < 20 + 4  # what had been sent still comes in
        assert server.stats["requests"] <= 24


def test_an_unlisted_model_is_named_with_those_that_exist() -> None:
    with mock() as server:
        backend = OpenaiChatBackend(plan(server.url, path="mock-modle"))
        with pytest.raises(
            TaskFailure, match=r"`mock-modle` does not exist.* The server lists: mock-model\."
        ):
            backend.run([ask("1 + 1", indices=tuple(range(40)))], lambda row: None)


def test_refusals_with_answers_between_them_do_not_end_the_task() -> None:
    requests = [
        ask(f"[[fault={'400' if i % 10 else 'nodone'}]] {i} + 1", f"d{i}") for i in range(60)
    ]
    with mock() as server:
        rows = rows_of(plan(server.url, concurrency=1), *requests)
    assert [row.status for row in rows].count("error") == 54


def test_a_server_that_dies_ends_the_task() -> None:
    with mock() as server:
        backend = OpenaiChatBackend(plan(server.url, retries=0, concurrency=8))
        backend.start()
    rows: list[Reply] = []
    with pytest.raises(TaskFailure, match=r"20 requests in a row .*[Cc]onnect"):
        backend.run((ask("1 + 1", f"d{i}") for i in range(500)), rows.append)
    assert {(row.error_type, row.status) for row in rows} == {("unreachable", "error")}


def sent_body(model_changes: dict[str, Any], sampling: Sampling) -> dict[str, Any]:
    bodies: list[dict[str, Any]] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield http(200, b'{"data": [{"id": "m1"}]}')
        elif method == "POST":
            bodies.append(json.loads(body))
            yield (
                SSE_HEAD
                + b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
            )
        else:
            yield http(404, b"{}")

    with scripted(handler) as url:
        rows_of(plan(url, **model_changes), ask("hi", indices=(3,), sampling=sampling))
    (body,) = bodies
    return body


def test_the_body_holds_what_was_planned_and_nothing_else() -> None:
    assert sent_body({}, Sampling(max_tokens=16, temperature=0.0, stop=("x",))) == {
        "model": "m1",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": 16,
        "seed": 103,
    }
    changes = {
        "reasoning": False,
        "extra_body": (("chat_template_kwargs", (("think", False),)), ("tags", ("a", "b"))),
    }
    body = sent_body(changes, Sampling(16, 0.5, 0.9, 20, 0.1, 1.2, ("x", "y"), 5))
    assert body["stop"] == ["x", "y"]
    assert (body["top_k"], body["min_p"], body["repetition_penalty"], body["top_p"]) == (
        20,
        0.1,
        1.2,
        0.9,
    )
    assert body["chat_template_kwargs"] == {"think": False}
    assert body["tags"] == ["a", "b"]
    assert "n" not in body


def test_a_strict_server_is_content() -> None:
    with mock(strict=True) as server:
        rows = rows_of(plan(server.url), ask("1 + 2", indices=(0, 1, 2, 3, 4)))
        assert server.stats["unknown_fields"] == {}
    assert [row.status for row in rows] == ["ok"] * 5
    assert [row.seed for row in rows] == [100, 101, 102, 103, 104]


REASONING = [
    ("think", "The answer is 12.", "Maybe it is 14"),
    ("think-open", "The answer is 12.", "Maybe it is 14"),
    ("field", "The answer is 12.", "Maybe it is 14"),
    ("think-only", None, "Maybe it is 12"),
    ("field-only", None, "Maybe it is 12"),
    ("unicode", "逐步计算 🧮 后可得，答案是 12。", None),
]


@pytest.mark.parametrize(("style", "text", "thought"), REASONING)
def test_reasoning_is_split_from_the_answer(
    style: str, text: str | None, thought: str | None
) -> None:
    with mock(style=style) as server:
        row = row_of(plan(server.url))
    assert row.text == text
    assert (row.reasoning or "").startswith(thought or "")
    assert (row.reasoning is None) == (thought is None)
    assert row.status == ("empty" if text is None else "ok")


def test_columns_of_an_answer() -> None:
    before = time.time()
    with mock(ttft=0.1, latency=0.01) as server:
        row = row_of(plan(server.url))
    assert row.started_s is not None
    assert row.first_token_s is not None
    assert row.ended_s is not None
    assert before <= row.started_s
    assert row.started_s + 0.1 <= row.first_token_s < row.ended_s <= time.time()
    assert row.ended_s - row.first_token_s >= 0.1
    assert (row.prompt_tokens, row.completion_tokens, row.http_status, row.attempts) == (
        3,
        12,
        200,
        1,
    )
