"""Publicly reported faults of API clients, each by its id (cases/api_client.jsonl; those of one
stream in test_sse).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from typing import Any

import pyarrow as pa
import pytest
from support.chat_servers import (
    MODELS,
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
from support.workspace import ROOT

from evalrun.backends.openai.http.retry import retry_after_s
from evalrun.types import Generate, Message, Sampling

FOLDER = ROOT / "tests" / "cases"
CASES = {
    row["id"]: row
    for row in map(json.loads, (FOLDER / "api_client.jsonl").read_text("utf-8").splitlines())
}
STREAMS = {
    row["id"]: row
    for row in map(json.loads, (FOLDER / "sse.jsonl").read_text("utf-8").splitlines())
}


@pytest.mark.parametrize("case_id", [i for i, row in STREAMS.items() if "stream" in row["input"]])
def test_a_stream_of_one_case_over_http(case_id: str) -> None:
    """The same streams as in test_sse, through the whole client: each answer is one row, or a
    failure.
    """
    row = STREAMS[case_id]
    n = row["input"].get("n", 1)
    stream = row["input"]["stream"].encode("utf-8", "surrogatepass")
    with scripted(answering(SSE_HEAD, stream[:17], stream[17:])) as url:
        model = plan(
            url, retries=1 if row["expected"].get("complete", True) else 0, n_per_request="all"
        )
        rows = rows_of(model, ask("q", indices=tuple(range(n))))
    if row["expected"].get("complete") is False:
        assert [(r.status, r.text) for r in rows] == [("incomplete", None)]
        return
    assert [r.text for r in rows] == row["expected"].get("texts", [row["expected"].get("text")])
    assert {r.attempts for r in rows} == {1}
    pa.array([r.text for r in rows], pa.large_string())  # what the store does with it


def test_ap_002_a_character_cut_between_packets() -> None:
    row = STREAMS["AP-002"]
    with scripted(answering(SSE_HEAD, *map(bytes.fromhex, row["input"]["chunks_hex"]))) as url:
        assert row_of(plan(url)).text == row["expected"]["text"]


def test_ap_015_reasoning_in_its_own_field() -> None:
    row = CASES["AP-015"]
    for given, expected in zip(row["input"]["cases"], row["expected"], strict=True):
        with scripted(answering(SSE_HEAD, given["stream"].encode())) as url:
            found = row_of(plan(url))
        assert {"text": found.text, "reasoning": found.reasoning} == expected


def test_ap_017_a_line_longer_than_any_reader_takes() -> None:
    given = CASES["AP-017"]["input"]
    text = given["generate"]["content_repeat"] * given["generate"]["content_len"]
    part = {"choices": [{"delta": {"content": text}, "finish_reason": given["finish_reason"]}]}
    with scripted(answering(SSE_HEAD, b"data: " + json.dumps(part).encode() + b"\n\n")) as url:
        assert len(row_of(plan(url)).text or "") == CASES["AP-017"]["expected"]["text_len"]


def test_ap_018_retry_after_in_every_form() -> None:
    given, expected = CASES["AP-018"]["input"], CASES["AP-018"]["expected"]["wait_s"]
    now = parsedate_to_datetime(given["now"]).timestamp()
    waits = [retry_after_s(value, now) for value in given["cases"]]
    numbers = [float(e) if isinstance(e, int) else None for e in expected]
    # longer than a request may take: fails with the message
    numbers[given["cases"].index("3600")] = 3600.0
    assert waits == numbers


def test_ap_019_retries_count_repeats() -> None:
    given, expected = CASES["AP-019"]["input"], CASES["AP-019"]["expected"]
    for retries, sent in zip(given["retry"], expected["requests_sent"], strict=True):
        with mock(("500",)) as server:
            assert row_of(plan(server.url, retries=retries)).status == "error"
            assert server.stats["requests"] == sent


def test_ap_020_permanent_refusals_and_passing_ones() -> None:
    given, expected = CASES["AP-020"]["input"]["responses"], CASES["AP-020"]["expected"]["retry"]
    for answer, is_repeated in zip(given, expected, strict=True):
        refusal = http(answer["status"], json.dumps(answer.get("body", {})).encode())
        with scripted(answering(refusal)) as url:
            row = row_of(plan(url, retries=1))
        assert (row.attempts == 2) == is_repeated
        assert (row.http_status, row.status) == (answer["status"], "error")
        if "body" in answer:
            assert row.error_message == answer["body"]["error"]["message"]


def test_ap_024_replies_belong_to_their_questions() -> None:
    given = CASES["AP-024"]["input"]

    async def echo(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if method == "GET":
            yield MODELS if path == "/v1/models" else http(404, b"{}")
            return
        question = json.loads(body)["messages"][-1]["content"]
        await asyncio.sleep(given["delays_s"][int(question)])
        part = {"choices": [{"delta": {"content": question}, "finish_reason": "stop"}]}
        yield SSE_HEAD + b"data: " + json.dumps(part).encode() + b"\n\n"

    with scripted(echo) as url:
        rows = rows_of(
            plan(url, concurrency=4), *[ask(str(i), f"d{i}") for i in range(given["rows"])]
        )
    assert [(row.doc_id, row.text) for row in rows] == [(f"d{i}", str(i)) for i in range(4)]


def test_ap_026_nothing_but_the_plan_in_the_body() -> None:
    given, expected = CASES["AP-026"]["input"], CASES["AP-026"]["expected"]["body"]
    bodies: list[dict[str, Any]] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if method == "POST":
            bodies.append(json.loads(body))
            yield (
                SSE_HEAD
                + b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
            )
        else:
            yield MODELS if path == "/v1/models" else http(404, b"{}")

    messages = tuple(Message(**message) for message in given["messages"])
    with scripted(handler) as url:
        rows_of(plan(url, path="m"), Generate("d", messages, (0,), Sampling(**given["plan"]), 0))
    (body,) = bodies
    assert {key: body[key] for key in expected} == expected
    assert body.keys() - expected.keys() == {"stream_options", "seed", "top_p"}
