"""Answers that no sound server gives: one bad answer never ends the others, and none fills the
memory.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator

import pytest
from support.chat_servers import (
    MODELS,
    SSE_HEAD,
    answering,
    ask,
    http,
    plan,
    row_of,
    rows_of,
    scripted,
)

from evalrun.backends.openai.http import client
from evalrun.backends.openai.replies.error_objects import error_text

WHOLE = (
    b'data: {"choices": [{"index": 0, "delta": {"content": "12"}, "finish_reason": "stop"}]%b}\n\n'
    b"data: [DONE]\n\n"
)
SSE = "text/event-stream"


def with_usage(usage: bytes) -> bytes:
    return WHOLE % (b', "usage": ' + usage)


MALFORMED = [
    ("a line nested 100,000 deep", b"data: " + b"[" * 100_000 + b"\n\n", "malformed"),
    (
        "choices nested 100,000 deep",
        b'data: {"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n",
        "malformed",
    ),
    (
        "a number of 5,000 digits",
        with_usage(b'{"prompt_tokens": ' + b"9" * 5000 + b"}"),
        "malformed",
    ),
]


@pytest.mark.parametrize(
    ("body", "error_type"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED]
)
def test_a_malformed_answer_fails_alone(body: bytes, error_type: str) -> None:
    with scripted(answering(http(200, body, SSE))) as url:
        rows = rows_of(plan(url, retries=0), ask("a", "d1"), ask("b", "d2"))
    assert [(row.status, row.error_type) for row in rows] == [("error", error_type)] * 2


USAGES = [
    b"null",
    b"[]",
    b'"7"',
    b"{}",
    b'{"prompt_tokens": %b}' % (b"9" * 30),
    b'{"prompt_tokens": -1}',
    b'{"prompt_tokens": 1.5}',
]


@pytest.mark.parametrize("usage", USAGES)
def test_nonsense_in_usage_costs_no_answer(usage: bytes) -> None:
    with scripted(answering(http(200, with_usage(usage), SSE))) as url:
        row = row_of(plan(url))
    assert (row.status, row.text, row.prompt_tokens, row.completion_tokens) == (
        "ok",
        "12",
        None,
        None,
    )


SOUND = [
    (
        "HTTP/1.0, until the end",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + WHOLE % b"",
    ),
    ("gzip", http(200, gzip.compress(WHOLE % b""), SSE, "Content-Encoding: gzip\r\n")),
    ("closed without a word", http(200, WHOLE % b"", SSE).replace(b"Connection: close\r\n", b"")),
]


@pytest.mark.parametrize("answer", [row[1] for row in SOUND], ids=[row[0] for row in SOUND])
def test_legal_forms_of_http(answer: bytes) -> None:
    with scripted(answering(answer)) as url:
        rows = rows_of(plan(url, retries=0), ask("a", "d1", (0, 1, 2)))
    assert [(row.status, row.text, row.attempts) for row in rows] == [("ok", "12", 1)] * 3


@pytest.mark.parametrize("piece", [b"x" * 10_000, b": ping\n\n" * 1000, b"data: {}\n\n" * 1000])
def test_an_answer_without_end_is_given_up(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line, comments, or events without end: long before a time limit, and once."""
    monkeypatch.setattr(client, "LONGEST_BODY_BYTES", 300_000)

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        is_other = not path.endswith("/completions")
        yield (MODELS if path == "/v1/models" else http(404, b"")) if is_other else SSE_HEAD
        while path.endswith("/completions"):
            yield piece

    with scripted(handler) as url:
        row = row_of(plan(url, retries=3))
    assert (row.error_type, row.http_status, row.attempts) == ("too_long", 200, 1)
    assert row.error_message == "the answer is longer than 300,000 bytes"


def test_an_error_whose_message_never_ends_has_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ERROR_BODY_S", 0.3)

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if not path.endswith("/completions"):
            yield MODELS if path == "/v1/models" else http(404, b"")
            return
        yield b"HTTP/1.1 500 Broken\r\n\r\n"
        while True:
            yield b"e"
            await asyncio.sleep(0.05)

    with scripted(handler) as url:
        start = time.monotonic()
        row = row_of(plan(url, retries=0, path="m1"))
    assert time.monotonic() - start < 10
    assert (row.status, row.error_type, row.http_status, row.error_message) == (
        "error",
        "http",
        500,
        "Broken",
    )


REDIRECTS = [
    ("", "a place that it does not name"),
    ("Location: http://other/v1\r\n", "http://other/v1"),
]


@pytest.mark.parametrize(("header", "place"), REDIRECTS)
def test_a_redirect_is_not_followed(header: str, place: str) -> None:
    with scripted(answering(http(307, b"", extra=header))) as url:
        row = row_of(plan(url))
    assert (row.http_status, row.attempts) == (307, 1)
    assert row.error_message == f"redirected to {place}: set model.base_url to where the API is"


def test_an_error_inside_errors() -> None:
    """As deep as JSON is read at all."""
    text = '{"error": ' * 900 + '"bad"' + "}" * 900
    assert error_text(json.loads(text)) == "bad"
    assert error_text({"code": 3}) == '{"code": 3}'
    assert error_text({"message": "", "detail": ["x"]}) == '["x"]'
