"""What servers do in their own way: endings, typed parts, filters, refused fields, addresses; and
the publicly reported cases of cases/api_client_2.jsonl by id.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.chat_servers import (
    MODELS,
    SAMPLING,
    SSE_HEAD,
    Handler,
    answering,
    ask,
    http,
    plan,
    row_of,
    rows_of,
    scripted,
)
from support.running import rows_of as rows_in
from support.workspace import ROOT, Evalrun, run_folders, values_of, write_bench

from evalrun.backends.finish import ending
from evalrun.backends.openai.http.refused_fields import RefusedFields
from evalrun.backends.openai.http.server import above_version, api_roots, at
from evalrun.backends.openai.replies.error_objects import is_filter_body
from evalrun.errors import Fault, TaskFailure
from evalrun.types import Reply, Status

CASES = {
    row["id"]: row
    for row in map(
        json.loads,
        (ROOT / "tests" / "cases" / "api_client_2.jsonl").read_text("utf-8").splitlines(),
    )
}


def event(*choices: dict[str, Any], **more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": list(choices), **more}).encode() + b"\n\n"


def said(text: str | None, finish: str | None = None, index: int = 0) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"index": index, "delta": delta, "finish_reason": finish}


DONE = b"data: [DONE]\n\n"


def answered_by(*pieces: bytes, stop: tuple[str, ...] = (), **changes: Any) -> Reply:
    """The row of one request to a server that streams these bytes."""
    with scripted(answering(SSE_HEAD, *pieces)) as url:
        model = plan(url, **{"retries": 0, **changes})
        return row_of(model, sampling=replace(SAMPLING, stop=stop))


def talking(handle: Any) -> Handler:
    """A server whose chat route answers by `handle(body)`: a status and bytes, or an event."""

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if path.endswith("/models"):
            yield MODELS
        elif method == "POST":
            yield handle(json.loads(body))
        else:
            yield http(404, b"{}")

    return handler


# ---- the reported cases --------------------------------------------------------------------------


@pytest.mark.parametrize("case_id", ["H225", "H226", "H233"])
def test_a_reported_stream(case_id: str) -> None:
    row = CASES[case_id]
    stop = tuple(row["input"].get("task_stop", ()))
    found = answered_by(row["input"]["stream"].encode(), stop=stop)
    assert {key: getattr(found, key) for key in row["expected"]} == row["expected"]
    assert found.status == "ok"


def test_h227_endings_that_are_none() -> None:
    given, expected = CASES["H227"]["input"], CASES["H227"]["expected"]
    for reason in given["reasons"]:
        row = answered_by(given["template"].replace("REASON", reason).encode())
        assert row.status == expected[reason], reason
        assert row.is_failure == (expected[reason] == "incomplete")
        assert (row.raw_text or row.text) == "First 9 eggs, then "
        assert row.finish_reason == reason


def test_h229_a_filter_judges_one_prompt() -> None:
    given, expected = CASES["H229"]["input"], CASES["H229"]["expected"]
    refusal = {"error": {"code": "content_filter", "message": "The response was filtered"}}

    def handle(body: dict[str, Any]) -> bytes:
        if "bad" in body["messages"][0]["content"]:
            return http(400, json.dumps(refusal).encode())
        return SSE_HEAD + event(said("4", "stop")) + DONE

    with scripted(talking(handle)) as url:
        texts = ["bad" if i < 22 else "good" for i in range(given["documents"])]
        model = plan(url, concurrency=1)
        rows = rows_of(model, *(ask(text, f"d{i:02}") for i, text in enumerate(texts)))
    statuses = [row.status for row in rows]
    assert statuses.count("ok") == expected["answered"]
    assert statuses.count("filtered") == expected["filtered"]
    assert {row.attempts for row in rows} == {1}
    assert not any(row.is_failure for row in rows)
    assert "filtered" in str(rows[0].error_message)


def refusing(names: set[str], seen: list[dict[str, Any]]) -> Any:
    """Answers, or refuses a body that has one of these fields, as OpenAI does."""

    def handle(body: dict[str, Any]) -> bytes:
        seen.append(body)
        for name in names & set(body):
            way_out = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
            message = f"Unsupported parameter: '{name}' is not supported with this model.{way_out}"
            error = {"error": {"message": message, "param": name, "code": "unsupported_parameter"}}
            return http(400, json.dumps(error).encode())
        return SSE_HEAD + event(said("12", "stop")) + DONE

    return handle


def test_h230_refused_fields_are_learned_once(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[dict[str, Any]] = []
    caplog.set_level(logging.WARNING)
    with scripted(talking(refusing({"max_tokens", "seed", "stream_options"}, seen))) as url:
        model = plan(url, concurrency=1, retries=0)
        rows = rows_of(model, *(ask("q", f"d{i}") for i in range(4)))
    assert [row.status for row in rows] == ["ok"] * 4
    assert {row.attempts for row in rows} == {1}
    assert len(seen) == 4 + 3  # each field is refused once, and never sent again
    last = seen[-1]
    assert last["max_completion_tokens"] == SAMPLING.max_tokens
    assert not {"max_tokens", "seed", "stream_options"} & set(last)
    assert last["temperature"] == SAMPLING.temperature
    words = [record.getMessage() for record in caplog.records]
    assert len(words) == 3
    assert "max_completion_tokens is sent" in " ".join(words)


def test_fields_refused_while_many_requests_are_in_flight() -> None:
    seen: list[dict[str, Any]] = []
    with scripted(talking(refusing({"max_tokens"}, seen))) as url:
        model = plan(url, concurrency=16, retries=0)
        rows = rows_of(model, *(ask("q", f"d{i}") for i in range(60)))
    assert {row.status for row in rows} == {"ok"}


@pytest.mark.parametrize("name", ["temperature", "top_p"])
def test_what_would_change_answers_is_never_left_out(name: str) -> None:
    seen: list[dict[str, Any]] = []
    with scripted(talking(refusing({name}, seen))) as url:
        row = row_of(plan(url, retries=0))
    assert (row.status, row.http_status) == ("error", 400)
    assert f"'{name}' is not supported" in str(row.error_message)
    assert all(name in body for body in seen)


@pytest.mark.parametrize(
    ("status", "message", "left"),
    [
        (400, "max_tokens is too large: 5000. This model supports at most 4096", None),
        (400, "This model's maximum context length is 8192 tokens, seed", None),
        (500, "Unsupported parameter: 'seed'", None),
        (422, '[{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not '
              'permitted"}]', {"max_tokens", "stream_options"}),
        (400, "Unrecognized request argument supplied: stream_options", {"max_tokens", "seed"}),
    ],
)  # fmt: skip
def test_which_refusals_are_understood(status: int, message: str, left: set[str] | None) -> None:
    body = json.dumps({"max_tokens": 5, "seed": 1, "stream_options": {}}).encode()
    learned = RefusedFields("m").learned(status, message, body)
    assert (None if learned is None else set(json.loads(learned))) == left


# ---- endings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (None, Status.OK), ("stop", Status.OK), ("STOP", Status.OK), ("tool_calls", Status.OK),
        ("eos_token", Status.OK), ("length", Status.TRUNCATED), ("MAX_TOKENS", Status.TRUNCATED),
        ("content_filter", Status.FILTERED), ("SAFETY", Status.FILTERED),
        ("abort", Status.INCOMPLETE), ("cancelled", Status.INCOMPLETE),
        ("network_error", Status.INCOMPLETE),
    ],
)  # fmt: skip
def test_what_an_ending_says(reason: str | None, status: Status) -> None:
    assert ending(reason) is status


def test_a_broken_off_answer_is_asked_again() -> None:
    n = 0

    def handle(body: dict[str, Any]) -> bytes:
        nonlocal n
        n += 1
        last = said(None, "abort" if n == 1 else "stop")
        return SSE_HEAD + event(said("half" if n == 1 else "whole")) + event(last) + DONE

    with scripted(talking(handle)) as url:
        row = row_of(plan(url, retries=1))
    assert (row.status, row.text, row.attempts) == ("ok", "whole", 2)


def test_one_of_n_answers_without_an_ending_is_no_answer() -> None:
    pieces = (
        event(said("one", "stop", 0), said("two", None, 1)),
        DONE,
    )
    with scripted(answering(SSE_HEAD, *pieces)) as url:
        rows = rows_of(plan(url, n_per_request="all", retries=0), ask("q", indices=(0, 1)))
    assert [row.status for row in rows] == ["incomplete", "incomplete"]
    assert [row.text for row in rows] == [None, None]


def test_one_broken_answer_of_n_fails_alone_and_keeps_what_came() -> None:
    pieces = (event(said("one", "stop", 0), said("two", "abort", 1)), DONE)
    with scripted(answering(SSE_HEAD, *pieces)) as url:
        rows = rows_of(plan(url, n_per_request="all", retries=0), ask("q", indices=(0, 1)))
    assert [(row.status, row.text, row.raw_text) for row in rows] == [
        ("ok", "one", None),
        ("incomplete", None, "two"),
    ]
    assert rows[1].error_message == "the answer was broken off: finish_reason 'abort'"


# ---- forms of content ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "text", "reasoning"),
    [
        ({"delta": {"content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]}},
         "12", None),
        ({"delta": {"content": [{"type": "reasoning", "summary": [{"type": "summary_text",
          "text": "hm"}], "text": "hm"}, {"type": "text", "text": "3"}]}}, "3", "hm"),
        ({"delta": {"content": {"type": "text", "text": "4"}}}, "4", None),
        ({"message": {"role": "assistant", "content": "5"}}, "5", None),
        ({"delta": {}, "message": {"content": "6", "reasoning_content": "hm"}}, "6", "hm"),
    ],
)  # fmt: skip
def test_content_in_other_forms_is_read(
    choice: dict[str, Any], text: str, reasoning: str | None
) -> None:
    row = answered_by(event({"index": 0, **choice, "finish_reason": "stop"}), DONE)
    assert (row.status, row.text, row.reasoning) == ("ok", text, reasoning)


def test_a_final_message_does_not_repeat_the_answer() -> None:
    last = {"index": 0, "delta": {}, "message": {"content": "seven"}, "finish_reason": "stop"}
    assert answered_by(event(said("seven")), event(last), DONE).text == "seven"


@pytest.mark.parametrize("content", [[{"type": "image_url", "url": "x"}], [5], 7, {"a": 1}])
def test_content_that_cannot_be_read_is_a_failure_that_keeps_it(content: Any) -> None:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": "stop"}
    row = answered_by(event(choice), DONE)
    assert (row.status, row.error_type, row.text) == ("error", "malformed", None)
    part = content[0] if isinstance(content, list) else content
    assert json.loads(row.raw_text or "null") == part


# ---- content filters -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "is_filter"),
    [
        ({"error": {"code": "content_filter", "message": "x"}}, True),
        ({"error": {"message": "The response was filtered due to the prompt triggering Azure "
                               "OpenAI's content management policy."}}, True),
        ({"error": {"innererror": {"code": "ResponsibleAIPolicyViolation"}}}, True),
        ({"error": {"code": "data_inspection_failed", "message": "inappropriate content"}}, True),
        ({"error": {"code": "invalid_api_key", "message": "Incorrect API key"}}, False),
        ({"error": {"code": 400, "message": "bad request"}}, False),
        ({"detail": [{"loc": ["body", "n"], "msg": "too large"}]}, False),
    ],
)  # fmt: skip
def test_which_refusals_are_of_a_filter(body: dict[str, Any], is_filter: bool) -> None:
    assert is_filter_body(json.dumps(body).encode()) is is_filter


def test_a_filter_inside_a_stream() -> None:
    row = answered_by(b'data: {"error": {"code": "content_filter", "message": "no"}}\n\n')
    assert (row.status, row.error_type, row.is_failure) == ("filtered", "content_filter", False)


def test_other_refusals_still_end_the_task() -> None:
    refusal = http(400, b'{"error": {"message": "bad thing"}}')
    with scripted(answering(refusal)) as url, pytest.raises(TaskFailure, match="20 requests"):
        rows_of(plan(url, concurrency=1), *(ask("q", f"d{i}") for i in range(30)))


# ---- stop strings that are blank -----------------------------------------------------------------


def test_a_blank_stop_string_that_the_server_obeys_too_soon() -> None:
    """With model.reasoning=false stop strings are sent, and a blank one may end it at once."""
    seen: list[Any] = []

    def handle(body: dict[str, Any]) -> bytes:
        seen.append(body.get("stop"))
        if "\n\n" in body.get("stop", ()):
            return SSE_HEAD + event(said("", "stop")) + DONE
        return SSE_HEAD + event(said("\n\nB\n\nQuestion", "stop")) + DONE

    with scripted(talking(handle)) as url:
        sampling = replace(SAMPLING, stop=("\n\n", "Question:"))
        row = row_of(plan(url, reasoning=False, retries=0), sampling=sampling)
    assert (row.status, row.text, row.attempts) == ("ok", "B", 1)
    assert seen == [["\n\n", "Question:"], ["Question:"]]


def test_an_answer_that_is_empty_is_asked_once_more_only() -> None:
    seen: list[Any] = []

    def handle(body: dict[str, Any]) -> bytes:
        seen.append(body.get("stop"))
        return SSE_HEAD + event(said("", "stop")) + DONE

    with scripted(talking(handle)) as url:
        sampling = replace(SAMPLING, stop=("\n\n",))
        row = row_of(plan(url, reasoning=False, retries=0), sampling=sampling)
    assert row.status == "empty"
    assert seen == [["\n\n"], None]


# ---- addresses -----------------------------------------------------------------------------------


def test_an_address_with_an_api_version() -> None:
    paths: list[str] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        paths.append(path)
        if path == "/openai/deployments/gpt/chat/completions?api-version=2024-06-01":
            whole = SSE_HEAD + event(said("12", "stop")) + DONE
            yield http(400, b"{}") if body == b"{}" else whole
        else:
            yield http(404, b"{}")

    with scripted(handler) as url:
        base = f"{url}/openai/deployments/gpt?api-version=2024-06-01"
        row = row_of(plan(base, path="gpt", retries=0))
    assert row.text == "12"
    assert all(path.endswith("?api-version=2024-06-01") for path in paths)


@pytest.mark.parametrize("query", ["?key=secret", "?api-version=1&api-key=s", "#part"])
def test_other_queries_are_refused(query: str) -> None:
    with pytest.raises(Fault, match="query or fragment"):
        api_roots(f"http://h/v1{query}")


def test_routes_below_an_address_with_a_query() -> None:
    (root,) = api_roots("https://h/openai/v1/?api-version=preview")
    assert root == "https://h/openai/v1?api-version=preview"
    assert at(root, "models") == "https://h/openai/v1/models?api-version=preview"
    assert above_version(root) == "https://h/openai?api-version=preview"
    assert at("http://h/v1", "models") == "http://h/v1/models"


# ---- why requests failed -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["all", "infer"])
def test_the_first_reason_is_on_the_terminal_and_in_the_table(
    evalrun: Evalrun, tmp_path: Path, mode: str
) -> None:
    made = write_bench(tmp_path, ["1"] * 4)
    refusal = http(400, b'{"error": {"message": "top_k must be positive"}}')
    with scripted(answering(refusal)) as url:
        words = ["model=vllm_server", f"model.base_url={url}", "task=gsm8k"]
        ran = evalrun("--mode", mode, *words, f"dataset.path={made.data}")
    assert ran.code == 3
    reason = "HTTP 400, http: top_k must be positive"
    assert "gsm8k: the first failed request: document " in ran.err
    assert ran.err.count(reason) == 1
    if mode == "all":
        assert "4 of 4 requests failed, the first of document " in ran.out
        assert reason in ran.out


def test_answers_that_were_broken_off_are_asked_again_by_resume(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    made = write_bench(tmp_path, ["1"] * 3)
    is_ill = True

    def handle(body: dict[str, Any]) -> bytes:
        last = said(None, "insufficient_system_resource" if is_ill else "stop")
        return SSE_HEAD + event(said("The answer is 10.")) + event(last) + DONE

    with scripted(talking(handle)) as url:
        words = ["model=vllm_server", f"model.base_url={url}", "model.retries=0", "task=gsm8k"]
        words += [f"dataset.path={made.data}", "model.concurrency=1"]
        first = evalrun(*words)
        is_ill = False
        again = evalrun("--resume", *words)
    assert first.code == 3
    assert "finish_reason 'insufficient_system_resource'" in first.err + first.out
    assert again.code == 0, again.err
    (run,) = run_folders(tmp_path)
    assert values_of(run)["accuracy"] == pytest.approx(1 / 3)
    assert {row.status for row in rows_in(run, "vllm_server")} == {"ok"}
