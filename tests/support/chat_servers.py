"""Chat servers inside the test process: the mock server of mock_server.py, and one whose bytes a
test writes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evalrun import backends
from evalrun.types import Generate, Message, ModelPlan, Reply, Sampling
from support import mock_server

PROMPT_LIMIT = 100_000

Handler = Callable[[str, str, dict[str, str], bytes], AsyncIterator[bytes]]
"""(method, path, headers, body) -> the bytes of the whole HTTP answer, piece by piece; the
connection then closes.
"""


def plan(url: str | None, **changes: Any) -> ModelPlan:
    """A model plan for a server, with quick retries in mind."""
    return ModelPlan(
        **{"name": "m", "backend": "openai_chat", "base_url": url, "concurrency": 16, **changes}
    )


@dataclass
class Mock:
    """The mock server as a test sees it."""

    url: str
    state: Any

    @property
    def stats(self) -> dict[str, Any]:
        return self.state.stats


class RefusingProto(mock_server.Proto):
    """The mock server, refusing prompts that no model could take."""

    async def handle(self, method: str, path: str, hdr: dict[str, str], body: bytes) -> None:
        if len(body) > PROMPT_LIMIT:
            return self.error(400, "This model's maximum context length is 4096 tokens.")
        return await super().handle(method, path, hdr, body)


@contextmanager
def serving(factory: Callable[[], Awaitable[asyncio.Server]]) -> Iterator[int]:
    """Run a server in a loop of its own in a thread; gives its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_await(factory()), loop).result(10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_ended(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _await(server: Awaitable[asyncio.Server]) -> asyncio.Server:
    return await server


async def _ended(server: asyncio.Server) -> None:
    server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def mock(faults: tuple[str, ...] = (), **options: Any) -> Iterator[Mock]:
    """The mock server with its options (`accuracy`, `style`, `strict`, ...) and faults."""
    settings = {
        **mock_server.DEFAULTS,
        **options,
        "faults": [mock_server.parse_fault(fault) for fault in faults],
    }
    state = mock_server.State(settings)

    async def factory() -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: RefusingProto(state), "127.0.0.1", 0, backlog=1024)

    with serving(factory) as port:
        yield Mock(f"http://127.0.0.1:{port}", state)


@contextmanager
def scripted(handler: Handler) -> Iterator[str]:
    """A server whose answers `handler` writes byte for byte; gives its URL."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
            first, *lines = head.split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {
                k.strip().lower(): v.strip()
                for k, _, v in (line.partition(":") for line in lines if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            async for piece in handler(method, path, headers, body):
                writer.write(piece)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    with serving(lambda: asyncio.start_server(connected, "127.0.0.1", 0)) as port:
        yield f"http://127.0.0.1:{port}"


def http(status: int, body: bytes, kind: str = "application/json", extra: str = "") -> bytes:
    """A whole HTTP answer."""
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: "
        f"{len(body)}\r\nConnection: close\r\n"
    )
    return f"{head}{extra}\r\n".encode() + body


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
MODELS = http(200, b'{"object": "list", "data": [{"id": "m1"}]}')


def answering(*pieces: bytes) -> Handler:
    """A server of one model that answers every chat request with these bytes."""

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield MODELS
        elif not path.endswith("/completions"):
            yield http(404, b"{}")
        else:
            for piece in pieces:
                yield piece

    return handler


SAMPLING = Sampling(max_tokens=200, temperature=0.0)
RIGHT = "Let us work it out step by step. The answer is 12."


def ask(
    text: str, doc_id: str = "d", indices: tuple[int, ...] = (0,), sampling: Sampling = SAMPLING
) -> Generate:
    return Generate(doc_id, (Message("user", text),), indices, sampling, 100)


def rows_of(model: ModelPlan, *requests: Generate) -> list[Reply]:
    rows: list[Reply] = []
    backends.create(model).run(requests, rows.append)
    return sorted(rows, key=lambda row: row.key)


def row_of(model: ModelPlan, text: str = "7 + 5", **changes: Any) -> Reply:
    (row,) = rows_of(model, ask(text, **changes))
    return row


# fault on the first attempt, requests sent, status, text
FAULTS = [
    ("429", 2, "ok", RIGHT),
    ("500", 2, "ok", RIGHT),
    ("503", 2, "ok", RIGHT),
    ("400", 1, "error", None),
    ("reset", 2, "ok", RIGHT),
    ("cut", 2, "ok", RIGHT),
    ("cleancut", 2, "ok", RIGHT),
    ("nodone", 1, "ok", RIGHT),
    ("errorevent", 2, "ok", RIGHT),
    ("malformed", 2, "ok", RIGHT),
    ("emptychunk", 1, "ok", RIGHT),
    ("keepalive", 1, "ok", RIGHT),
    ("crlf", 1, "ok", RIGHT),
    ("nospace", 1, "ok", RIGHT),
    ("eventlines", 1, "ok", RIGHT),
    ("multidata", 1, "ok", RIGHT),
    ("split", 1, "ok", RIGHT),
    ("onebyte", 1, "ok", RIGHT),
    ("bom", 1, "ok", RIGHT),
    ("bigchunk", 1, "ok", RIGHT),
    ("usageevery", 1, "ok", RIGHT),
    ("emptychoices", 2, "ok", RIGHT),
    ("nullcontent", 1, "empty", ""),
    ("html200", 2, "ok", RIGHT),
    ("empty200", 2, "ok", RIGHT),
    ("length", 1, "truncated", "Let us work it out step"),
    ("contentfilter", 1, "filtered", ""),
    ("hang", 2, "ok", RIGHT),
]
