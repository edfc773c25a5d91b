"""Time limits of the chat client, its concurrency, and what ends a run."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.chat_servers import (
    RIGHT,
    SSE_HEAD,
    answering,
    ask,
    http,
    mock,
    plan,
    row_of,
    rows_of,
    scripted,
)

from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.openai.http.connection import Connection
from evalrun.backends.openai.http.server import ApiKey, Server
from evalrun.backends.openai.http.timeouts import AttemptTimer, ServerActivity, TimeoutWatcher
from evalrun.errors import Fault
from evalrun.types import Generate, Reply


def test_slow_streams_are_not_timed_out() -> None:
    with mock(("slow",), slow=0.15) as server:
        row = row_of(plan(server.url, idle_timeout_s=0.6))
    assert (row.text, row.attempts) == (RIGHT, 1)


LIMITS = [
    # plan, mock options, error_type, attempts
    ({"first_token_timeout_s": 0.3}, {"ttft": 60.0}, "first_token_timeout", 2),
    ({"total_timeout_s": 0.5}, {"latency": 0.2}, "total_timeout", 1),
    ({"idle_timeout_s": 0.3}, {"latency": 60.0}, "idle_timeout", 2),
]


@pytest.mark.parametrize(("limits", "options", "error_type", "attempts"), LIMITS)
def test_time_limits(
    limits: dict[str, Any], options: dict[str, Any], error_type: str, attempts: int
) -> None:
    begun = time.monotonic()
    with mock(**options) as server:
        row = row_of(plan(server.url, retries=1, **limits))
        assert time.monotonic() - begun < 30  # the server itself would have taken a minute
    assert (row.status, row.error_type, row.attempts) == ("timeout", error_type, attempts)
    assert f"model.{error_type}_s={next(iter(limits.values())):g}" in (row.error_message or "")


def watched(
    sleep_s: float, total_s: float, cancel_s: float | None = None
) -> tuple[str, str | None, int]:
    """How a block under watch ended: what was raised, the limit, and how many cancellations are
    left open.
    """
    found: list[tuple[str, str | None, int]] = []

    async def block() -> None:
        loop = asyncio.get_running_loop()
        watch = AttemptTimer(
            TimeoutWatcher(plan("http://h", total_timeout_s=total_s)),
            ServerActivity(),
            loop.time() + total_s,
        )
        task = asyncio.current_task()
        assert task is not None
        raised = "nothing"
        try:
            with watch:
                await asyncio.sleep(sleep_s)
        except (TimeoutError, asyncio.CancelledError) as fault:
            raised = type(fault).__name__
        found.append((raised, watch.expired, task.cancelling()))

    async def main() -> None:
        task = asyncio.create_task(block())
        if cancel_s is not None:
            await asyncio.sleep(cancel_s)
            task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    return found[0]


def test_a_limit_ends_its_block_and_nothing_else() -> None:
    assert watched(30.0, 0.1) == ("TimeoutError", "total_timeout", 0)
    assert watched(0.01, 5.0) == ("nothing", None, 0)
    assert watched(30.0, 60.0, cancel_s=0.05) == ("CancelledError", None, 1)


def test_a_connection_that_is_never_taken() -> None:
    with socket.socket() as deaf, ExitStack() as stack:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        for _ in range(3):  # the queue of the socket is full now: further connections hang
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        url = f"http://127.0.0.1:{address[1]}"
        begun = time.monotonic()
        with pytest.raises(Fault, match="no answer in time"):
            OpenaiChatBackend(plan(url, connect_timeout_s=0.3)).start()
        backend = OpenaiChatBackend(plan(url, connect_timeout_s=0.3, retries=1))
        # it was there when we began
        server = Server(f"{url}/v1", "m")
        backend._connection = Connection(backend.model, server, ApiKey(None, "m"))
        rows: list[Reply] = []
        backend.run([ask("1 + 1")], rows.append)
        assert time.monotonic() - begun < 30
    assert (rows[0].status, rows[0].error_type, rows[0].attempts) == (
        "timeout",
        "connect_timeout",
        2,
    )
    assert rows[0].error_message == "no connection after model.connect_timeout_s=0.3 s"


def test_a_queued_request_waits_while_the_server_speaks_to_others() -> None:
    """Headers, then nothing for longer than the idle limit: a queue, as long as other streams go
    on.
    """

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield http(200, b'{"data": [{"id": "m1"}]}')
            return
        if method == "GET":
            yield http(404, b"{}")
            return
        yield SSE_HEAD
        if b"queued" in body:
            await asyncio.sleep(1.0)
        for _ in range(10):
            yield b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
            await asyncio.sleep(0.1)
        yield b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'

    with scripted(handler) as url:
        rows = rows_of(plan(url, idle_timeout_s=0.5), ask("queued", "q"), ask("other", "o"))
    assert [(row.doc_id, row.attempts, row.text) for row in rows] == [
        ("o", 1, "a" * 10),
        ("q", 1, "a" * 10),
    ]


def test_a_stream_left_open_after_its_end_is_an_answer() -> None:
    chunk = b'data: {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\n'

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield http(200, b'{"data": [{"id": "m1"}]}')
        elif method == "POST":
            yield SSE_HEAD + chunk + (b"data: [DONE]\n\n" if b"done" in body else b"")
            await asyncio.sleep(60)

    with scripted(handler) as url:
        begun = time.monotonic()
        rows = rows_of(
            plan(url, idle_timeout_s=1.0, path="m1"), ask("done", "a"), ask("silent", "b")
        )
        assert time.monotonic() - begun < 30
    assert [(row.text, row.attempts) for row in rows] == [("ok", 1), ("ok", 1)]


def test_a_very_long_line() -> None:
    data = json.dumps(
        {"choices": [{"delta": {"content": "x" * 600_000}, "finish_reason": "stop"}]}
    ).encode()
    with scripted(answering(SSE_HEAD, b"data: " + data + b"\n\n")) as url:
        row = row_of(plan(url))
    assert row.text == "x" * 600_000


def test_a_pair_of_surrogates_over_two_deltas(tmp_path: Path) -> None:
    chunks = rb'data: {"choices":[{"delta":{"content":"\ud83d"}}]}' + b"\n\n"
    chunks += (
        rb'data: {"choices":[{"delta":{"content":"\ude00 x\ud83d"},"finish_reason":"stop"}]}'
        + b"\n\n"
    )
    with scripted(answering(SSE_HEAD, chunks)) as url:
        row = row_of(plan(url))
    assert row.text == "😀 x\ufffd"


def test_requests_are_taken_one_by_one_and_bounded() -> None:
    taken: list[int] = []
    done: list[Reply] = []
    ahead: list[int] = []

    def requests() -> Iterator[Generate]:
        for i in range(300):
            taken.append(i)
            ahead.append(len(taken) - len(done))
            yield ask(f"{i} + 1", f"d{i}")

    with mock(latency=0.001) as server:
        OpenaiChatBackend(plan(server.url, concurrency=7)).run(requests(), done.append)
        assert server.stats["max_inflight"] <= 7
        assert server.stats["connections"] <= 10  # one per worker, and the probe's
    assert len(done) == 300
    assert max(ahead) <= 7


def test_concurrency_is_reached() -> None:
    with mock(latency=0.02) as server:
        rows_of(plan(server.url, concurrency=50), ask("1 + 1", indices=tuple(range(100))))
        assert server.stats["max_inflight"] == 50


def test_answers_belong_to_their_questions() -> None:
    with mock(jitter=0.2) as server:
        rows = rows_of(
            plan(server.url), *[ask(f"{i} + 1000", f"d{i:03}", (0, 1)) for i in range(40)]
        )
    assert [(row.doc_id, row.index) for row in rows] == [
        (f"d{i:03}", k) for i in range(40) for k in (0, 1)
    ]
    assert all(f"answer is {int(row.doc_id[1:]) + 1000}." in (row.text or "") for row in rows)


def test_what_the_sink_raises_comes_out() -> None:
    rows: list[Reply] = []

    def sink(row: Reply) -> None:
        rows.append(row)
        if len(rows) == 5:
            raise OSError("disk full")

    with mock() as server, pytest.raises(OSError, match="disk full"):
        OpenaiChatBackend(plan(server.url)).run((ask("1 + 1", f"d{i}") for i in range(100)), sink)
    assert len(rows) == 5


def test_what_the_requests_raise_comes_out() -> None:
    def requests() -> Iterator[Generate]:
        yield ask("1 + 1")
        raise KeyError("bad row")

    with mock() as server, pytest.raises(KeyError, match="bad row"):
        OpenaiChatBackend(plan(server.url)).run(requests(), lambda row: None)
