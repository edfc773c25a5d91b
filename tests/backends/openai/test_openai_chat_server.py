"""Finding the server: roots, model names, refusals; what never leaves the client; signals."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.chat_servers import SSE_HEAD, ask, http, mock, plan, row_of, scripted

from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.openai.http.server import ApiKey, api_roots
from evalrun.errors import Fault, Stopped
from evalrun.types import Reply

KEY = "sk-Very5ecretKey"

ROOTS = [
    ("http://127.0.0.1:8000", ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000")),
    ("http://127.0.0.1:8000/", ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000")),
    ("http://localhost:8000/v1", ("http://localhost:8000/v1",)),
    ("http://host.name/v1/", ("http://host.name/v1",)),
    (" https://h/v1/chat/completions ", ("https://h/v1",)),
    ("https://h/api/paas/v4", ("https://h/api/paas/v4",)),
    ("https://h/openai", ("https://h/openai/v1", "https://h/openai")),
    ("http://[::1]:8000/v1", ("http://[::1]:8000/v1",)),
]


@pytest.mark.parametrize(("url", "roots"), ROOTS)
def test_roots_of_a_base_url(url: str, roots: tuple[str, ...]) -> None:
    assert api_roots(url) == roots


BAD_URLS = [
    (None, "is not set"),
    ("127.0.0.1:8000", "no http"),
    ("ftp://h/v1", "no http"),
    ("http://", "no http"),
    ("http://h:port/v1", "no URL"),
    (f"http://user:{KEY}@h/v1", "credentials"),
    ("http://h/v1?key=1", "query"),
]


@pytest.mark.parametrize(("url", "says"), BAD_URLS)
def test_bad_urls_are_refused_before_anything_is_sent(url: str | None, says: str) -> None:
    with pytest.raises(Fault, match=says) as caught:
        OpenaiChatBackend(plan(url))
    assert KEY not in str(caught.value)


BAD_PLANS = [
    ({"chat": "raw"}, "Allowed here: auto, template"),
    ({"engine": (("enforce_eager", True),)}, "enforce_eager"),
    ({"extra_body": (("n", 4),)}, "extra_body.n"),
    ({"extra_body": (("seed", 4),)}, "extra_body.seed"),
    ({"concurrency": 0}, "model.concurrency must be a positive integer; got 0"),
    ({"retries": -1}, "model.retries must be 0 or more"),
    ({"idle_timeout_s": 0.0}, "idle_timeout_s"),
    ({"total_timeout_s": float("inf")}, "total_timeout_s"),
]


@pytest.mark.parametrize(("changes", "says"), BAD_PLANS)
def test_plans_that_cannot_be_kept(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Fault, match=says):
        OpenaiChatBackend(plan("http://127.0.0.1:1", **changes))


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_every_form_of_the_url_reaches_the_server(tail: str) -> None:
    with mock() as server:
        assert row_of(plan(server.url + tail)).status == "ok"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_nobody_there() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    begun = time.monotonic()
    with pytest.raises(Fault) as caught:
        OpenaiChatBackend(plan(url)).start()
    assert time.monotonic() - begun < 30
    assert str(caught.value).startswith(
        f"No server at model.base_url={url!r}. Tried GET {url}/v1/models: "
    )
    assert "onnect" in str(caught.value)
    assert str(caught.value).endswith("Start the server, or check host and port.")


def listing(*names: str, chat: int = 400, models: int = 200, version: str | None = None) -> Any:
    """A server that lists `names` under /v1, and says `chat` to a chat request."""

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield http(models, json.dumps({"data": [{"id": name} for name in names]}).encode())
        elif path == "/v1/chat/completions":
            yield http(chat, b'{"error": {"message": "said the chat route"}}')
        elif path == "/version" and version:
            yield http(200, json.dumps({"version": version}).encode())
        else:
            yield http(404, b'{"detail": "Not Found"}')

    return handler


STARTS = [
    # server, model.path, what start() says
    (
        listing("a", "b"),
        None,
        "lists 2 models, and model.path does not say which one to ask. Set model.path to one of: "
        "a, b.",
    ),
    (listing(), None, "lists no model"),
    (listing(models=404), None, "No root lists models"),
    (listing(models=404, chat=404), "a", "No root has the route chat/completions"),
    (listing(models=401), "a", "refuses the key: check model.api_key_env, which is not set"),
    (listing(models=500), "a", "HTTP 500"),
    (listing(models=302), "a", "HTTP 302"),
]


@pytest.mark.parametrize(("handler", "path", "says"), STARTS)
def test_servers_that_will_not_do(handler: Any, path: str | None, says: str) -> None:
    with scripted(handler) as url, pytest.raises(Fault) as caught:
        OpenaiChatBackend(plan(url, path=path, retries=0)).start()
    assert says in str(caught.value)
    assert url in str(caught.value)


def test_facts_of_servers() -> None:
    with scripted(listing("a", "b", version="0.32.0")) as url:
        assert OpenaiChatBackend(plan(url, path="b")).facts() == {
            "engine": "openai_chat",
            "engine_version": "0.32.0",
            "revision": "b",
            "is_deterministic": "no",
        }
    with scripted(listing("only")) as url:
        facts = OpenaiChatBackend(plan(url)).facts()
        assert facts == {"engine": "openai_chat", "revision": "only", "is_deterministic": "no"}
    with scripted(listing(models=404)) as url:  # a server need not list its models
        assert OpenaiChatBackend(plan(url, path="a")).facts()["revision"] == "a"


def test_a_server_that_is_loading_is_waited_for() -> None:
    with mock(ready_after=0.8) as server:
        assert row_of(plan(server.url)).status == "ok"


def test_render_is_the_messages_as_json() -> None:
    backend = OpenaiChatBackend(plan("http://127.0.0.1:1"))
    assert (
        backend.render(ask('北京 "quoted"')) == '[{"role": "user", "content": "北京 \\"quoted\\""}]'
    )


def test_the_key_goes_to_the_server_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        seen.append(headers["authorization"])
        echo = json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()
        if path == "/v1/models":
            yield http(200, b'{"data": [{"id": "m1"}]}')
        elif b"stream" in body and b"as-event" in body:
            yield SSE_HEAD + b"data: " + echo + b"\n\n"
        elif b"as-page" in body:
            yield http(200, f"<b>{KEY}</b>".encode(), "text/html")
        else:
            yield http(401, echo)

    texts: list[str] = []
    with scripted(handler) as url:
        model = plan(url, api_key_env="MY_KEY", retries=0)
        backend = OpenaiChatBackend(model)
        rows: list[Reply] = []
        for text in ("as-event", "as-page", "as-status"):
            backend.run([ask(text)], rows.append)
        try:
            backend.run([ask("again", indices=tuple(range(30)))], rows.append)
        except Exception:  # noqa: BLE001 - whatever it is, it must not show the key
            texts.append(traceback.format_exc())
        texts += [repr(rows), repr(vars(backend)), repr(backend.facts()), caplog.text, repr(model)]
    assert set(seen) == {f"Bearer {KEY}"}
    assert [row.error_message for row in rows[:2]] == [
        "bad key ***",
        "HTTP 200 without one event (content type text/html): <b>***</b>",
    ]
    assert len(texts) == 6
    assert not [text for text in texts if KEY in text]


def test_the_key_of_a_refused_start_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        yield http(401, f"no such key: {headers['authorization']}".encode(), "text/plain")

    with scripted(handler) as url, pytest.raises(Fault) as caught:
        OpenaiChatBackend(plan(url, api_key_env="MY_KEY")).start()
    assert "no such key: Bearer ***" in str(caught.value)
    assert "check model.api_key_env=MY_KEY" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "says"),
    [(None, "is not set or empty"), ("  ", "is not set or empty"), ("a\x01b", "no API key")],
)
def test_keys_that_are_none(value: str | None, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(Fault, match=says) as caught:
        OpenaiChatBackend(plan("http://127.0.0.1:1", api_key_env="MY_KEY")).start()
    assert "MY_KEY" in str(caught.value)


def test_a_key_shows_itself_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    key = ApiKey("MY_KEY", "m")
    assert KEY not in repr(key) + str(key) + f"{key}"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    assert key.header == {"Authorization": f"Bearer {KEY}"}


def test_no_key_is_sent_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")  # and no proxy is used
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    seen: list[dict[str, str]] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        seen.append(headers)
        yield http(200, b'{"data": [{"id": "m1"}]}')

    with scripted(handler) as url:
        OpenaiChatBackend(plan(url)).start()
    assert seen
    assert all("authorization" not in headers for headers in seen)


CHILD = """
import signal, sys
sys.path[:0] = {path!r}
from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.errors import Stopped
from evalrun.types import Generate, Message, ModelPlan, Sampling

def stop(number, frame):
    raise Stopped(number)

if {is_handled}:
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
requests = (
    Generate(f"d{{i}}", (Message("user", f"{{i}} + 1"),), (0,), Sampling(64, 0.0), 0)
    for i in range(100000)
)
model = ModelPlan(name="m", backend="openai_chat", base_url={url!r}, concurrency=8)
try:
    OpenaiChatBackend(model).run(requests, lambda row: print(row.doc_id, row.status, flush=True))
except BaseException as fault:
    print("ended:", type(fault).__name__, flush=True)
    sys.exit(getattr(fault, "exit_code", 130))
"""


@pytest.mark.parametrize(("number", "is_handled", "name", "code"), [
    (signal.SIGINT, False, "KeyboardInterrupt", 130),
    (signal.SIGINT, True, "Stopped", 130),
    (signal.SIGTERM, True, "Stopped", 143),
])  # fmt: skip
def test_signals_end_a_run_promptly(number: int, is_handled: bool, name: str, code: int) -> None:
    with mock(latency=0.02) as server:
        script = CHILD.format(path=sys.path, url=server.url, is_handled=is_handled)
        child = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(20)]
        begun = time.monotonic()
        os.kill(child.pid, number)
        rest, errors = child.communicate(timeout=20)
        assert time.monotonic() - begun < 15
        time.sleep(0.1)
        assert server.stats["inflight"] == 0
    assert all(line.split()[1] == "ok" for line in lines)
    assert rest.splitlines()[-1] == f"ended: {name}"
    assert (child.returncode, errors) == (code, "")


def test_a_signal_handler_that_does_not_raise_ends_nothing() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with mock(latency=0.02) as server:

            def sink(row: Reply) -> None:
                if not seen:
                    os.kill(os.getpid(), signal.SIGTERM)

            OpenaiChatBackend(plan(server.url)).run([ask("1 + 1", indices=tuple(range(8)))], sink)
            assert seen == [signal.SIGTERM]
            assert server.stats["ok"] == 8
    finally:
        signal.signal(signal.SIGTERM, before)


def test_stopped_out_of_the_sink_passes() -> None:
    def sink(row: Reply) -> None:
        raise Stopped(signal.SIGTERM)

    with mock() as server, pytest.raises(Stopped, match="signal 15"):
        OpenaiChatBackend(plan(server.url)).run([ask("1 + 1", indices=tuple(range(50)))], sink)


def test_the_module_imports_no_http_library(tmp_path: Path) -> None:
    script = "import sys, evalrun.backends.openai.chat, evalrun.backends.replay\n"
    script += (
        "assert not {'aiohttp', 'yarl', 'pyarrow', 'numpy'} & set(sys.modules), sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_one_run_after_another() -> None:
    with mock() as server:
        backend = OpenaiChatBackend(plan(server.url))
        rows: list[Reply] = []
        for _ in range(3):
            backend.run([ask("1 + 1")], rows.append)
        backend.close()
        backend.run([ask("1 + 1")], rows.append)
    assert [row.status for row in rows] == ["ok"] * 4
