"""Several addresses of one model: requests by load, addresses that take no connection, other
models, proxies.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.chat_servers import MODELS, RIGHT, SSE_HEAD, ask, http, mock, plan, rows_of, scripted

from evalrun import backends
from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.openai.http.connection import Connection
from evalrun.backends.openai.http.server import ApiKey, Server, proxy_of
from evalrun.errors import Fault, TaskFailure
from evalrun.types import Reply

ANSWER = (
    SSE_HEAD + b'data: {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\n'
)


def nobody() -> str:
    """An address at which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


def run(url: str, others: tuple[str, ...], n: int, **changes: Any) -> list[Reply]:
    """Rows of a run over servers that were all there when it began."""
    backend = OpenaiChatBackend(plan(url, replicas=others, **changes))
    server = Server(f"{url}/v1", "mock-model", others=tuple(f"{other}/v1" for other in others))
    backend._connection = Connection(backend.model, server, ApiKey(None, "m"))
    rows: list[Reply] = []
    backend.run([ask("7 + 5", indices=tuple(range(n)))], rows.append)
    return rows


def test_requests_are_spread_evenly() -> None:
    with mock(ttft=0.01) as one, mock(ttft=0.01) as two, mock(ttft=0.01) as three:
        model = plan(one.url, replicas=(two.url + "/v1/", three.url), concurrency=12)
        rows = rows_of(model, ask("7 + 5", indices=tuple(range(300))))
        shares = [server.stats["ok"] for server in (one, two, three)]
    assert {(row.text, row.status) for row in rows} == {(RIGHT, "ok")}
    assert sum(shares) == 300
    assert min(shares) > 60


def test_a_slow_server_gets_less() -> None:
    with mock(ttft=0.3) as slow, mock(ttft=0.01) as fast:
        rows_of(
            plan(slow.url, replicas=(fast.url,), concurrency=8),
            ask("7 + 5", indices=tuple(range(120))),
        )
        assert slow.stats["ok"] < fast.stats["ok"] / 2
        assert slow.stats["ok"] + fast.stats["ok"] == 120


def test_an_address_that_refuses_connections_costs_nothing() -> None:
    with mock() as server:
        rows = run(nobody(), (server.url,), 60, retries=0)
        assert server.stats["ok"] == 60
    assert {(row.status, row.attempts) for row in rows} == {("ok", 1)}


def test_a_server_that_dies_in_the_middle_leaves_its_requests_to_the_others() -> None:
    n_asked = 0

    async def dying(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        nonlocal n_asked
        n_asked += 1
        if n_asked > 5:
            return  # the connection closes without a word
        yield ANSWER

    with scripted(dying) as url, mock() as server:
        rows = run(url, (server.url,), 80, retries=2, concurrency=4)
    assert {row.status for row in rows} == {"ok"}
    assert sum(row.text == "ok" for row in rows) == 5
    assert max(row.attempts for row in rows) == 2  # the second attempt goes to the other one


def test_all_addresses_gone_ends_the_task() -> None:
    with pytest.raises(TaskFailure, match="20 requests in a row"):
        run(nobody(), (nobody(),), 200, retries=0)


def other_model(name: str, version: str | None = None) -> Any:
    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield http(200, json.dumps({"data": [{"id": name}]}).encode())
        elif path == "/version" and version:
            yield http(200, json.dumps({"version": version}).encode())
        else:
            yield http(404, b"{}") if method == "GET" else ANSWER

    return handler


@pytest.mark.parametrize("path", [None, "a"])
def test_another_model_is_refused(path: str | None) -> None:
    with scripted(other_model("a")) as one, scripted(other_model("b")) as two:
        with pytest.raises(Fault, match=f"'a' is not served at {two}/v1, which lists b"):
            backends.create(plan(one, replicas=(two,), path=path)).start()
        with pytest.raises(Fault, match=f"'a' is not served at {two}/v1, which lists b"):
            backends.create(plan(two, replicas=(one,), path="a")).start()


def test_the_same_address_twice_is_refused() -> None:
    with scripted(other_model("a")) as url, pytest.raises(Fault, match="names an address twice"):
        backends.create(plan(url, replicas=(f"{url}/v1/",))).start()


def test_one_of_the_addresses_is_not_there_at_the_start() -> None:
    gone = nobody()
    with (
        scripted(other_model("a")) as url,
        pytest.raises(Fault, match=r"No server at model\.replicas\[1\]='" + gone),
    ):
        backends.create(plan(url, replicas=(url + "/x/v1", gone), path="a")).start()


@pytest.mark.parametrize(
    ("url", "says"), [("127.0.0.1:1", "no http"), ("http://u:p@h/v1", "credentials")]
)
def test_addresses_are_checked_before_anything_is_sent(url: str, says: str) -> None:
    with pytest.raises(Fault, match=says) as caught:
        backends.create(plan("http://127.0.0.1:1", replicas=(url,)))
    assert "model.replicas[0]" in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_versions_of_all_are_facts() -> None:
    with scripted(other_model("a", "0.9")) as one, scripted(other_model("a", "0.8")) as two:
        facts = backends.create(plan(one, replicas=(two,))).facts()
    assert (facts["engine_version"], facts["revision"]) == ("0.8, 0.9", "a")


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_proxy_of_the_environment_only_where_asked(
    is_wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def proxy(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        asked.append(f"{method} {path}")
        yield (
            MODELS
            if path.endswith("/v1/models")
            else (ANSWER if method == "POST" else http(404, b"{}"))
        )

    for name in (
        "no_proxy",
        "NO_PROXY",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    with scripted(proxy) as proxy_url, mock() as server:
        monkeypatch.setenv("http_proxy", proxy_url)
        (row,) = rows_of(plan(server.url, use_proxy=is_wanted), ask("7 + 5"))
        assert bool(asked) == is_wanted
        assert (server.stats["requests"] == 0) == is_wanted
    assert row.text == ("ok" if is_wanted else RIGHT)
    if is_wanted:
        assert f"POST {server.url}/v1/chat/completions" in asked


PROXIES = [
    ({"http_proxy": "http://p:1"}, "http://h/v1", "http://p:1"),
    ({"http_proxy": "http://p:1"}, "https://h/v1", None),
    ({"http_proxy": "http://p:1", "no_proxy": "h,localhost"}, "http://h/v1", None),
    ({"http_proxy": "http://p:1", "no_proxy": "h,localhost"}, "http://i/v1", "http://p:1"),
    ({"all_proxy": "http://p:2"}, "https://h/v1", "http://p:2"),
    ({}, "http://h/v1", None),
]


@pytest.mark.parametrize(("variables", "url", "expected"), PROXIES)
def test_proxies_of_the_environment(
    variables: dict[str, str], url: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(url, True) == expected
    assert proxy_of(url, False) is None


def test_no_netrc_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Its credentials would take the place of the key."""
    (tmp_path / "netrc").write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("MY_KEY", "k1")
    seen: list[str] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        seen.append(headers.get("authorization", ""))
        yield MODELS if path == "/v1/models" else (ANSWER if method == "POST" else http(404, b"{}"))

    with scripted(handler) as url:
        rows_of(plan(url, use_proxy=True, api_key_env="MY_KEY"), ask("7 + 5"))
    assert set(seen) == {"Bearer k1"}
