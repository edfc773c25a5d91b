"""model.n_per_request=all: the samples of a document in one body, and what a server makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.chat_servers import FAULTS, RIGHT, SSE_HEAD, ask, http, mock, plan, rows_of, scripted

from evalrun import backends
from evalrun.errors import Fault, TaskFailure


def piece(index: int, text: str | None, finish: str | None = None, api: str = "chat") -> bytes:
    part: dict[str, Any] = {"index": index, "finish_reason": finish}
    part |= {"delta": {"content": text}} if api == "chat" else {"text": text or ""}
    return b"data: " + json.dumps({"choices": [part]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def serving_n(bodies: list[dict[str, Any]], *streams: bytes) -> Any:
    """A server that takes down bodies and answers with the streams in turn, the last for ever."""
    left = list(streams)

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if method == "POST":
            bodies.append(json.loads(body))
            yield SSE_HEAD + (left.pop(0) if len(left) > 1 else left[0])
        else:
            yield http(200 if path == "/v1/models" else 404, b'{"data": [{"id": "m1"}]}')

    return handler


def test_one_body_asks_for_all_samples_and_each_row_has_its_seed() -> None:
    bodies: list[dict[str, Any]] = []
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 9}}\n\n'
    stream = (
        piece(1, "b")
        + piece(0, "a")
        + piece(2, "c", "length")
        + piece(1, "B", "stop")
        + piece(0, "A", "stop")
    )
    with scripted(serving_n(bodies, stream + usage + DONE)) as url:
        rows = rows_of(plan(url, n_per_request="all"), ask("q", indices=(0, 1, 2)))
    assert [(b["n"], b["seed"]) for b in bodies] == [(3, 100)]
    assert [(r.index, r.text, r.seed, r.status) for r in rows] == [
        (0, "aA", 100, "ok"), (1, "bB", 101, "ok"), (2, "c", 102, "truncated"),
    ]  # fmt: skip
    # nobody knows whose tokens they are
    assert {(r.prompt_tokens, r.completion_tokens) for r in rows} == {(4, None)}
    assert json.loads(rows[0].extra or "") == {"n": 3, "completion_tokens_of_all": 9}


def test_a_single_sample_has_no_n_and_its_own_count() -> None:
    bodies: list[dict[str, Any]] = []
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 9}}\n\n'
    with scripted(serving_n(bodies, piece(0, "a", "stop") + usage + DONE)) as url:
        (row,) = rows_of(plan(url, n_per_request="all"), ask("q", indices=(4,)))
    assert "n" not in bodies[0]
    assert (bodies[0]["seed"], row.seed, row.completion_tokens, row.extra) == (104, 104, 9, None)


def test_missing_samples_are_asked_by_runs_so_that_seeds_stay_theirs() -> None:
    bodies: list[dict[str, Any]] = []
    two = piece(0, "a", "stop") + piece(1, "b", "stop") + DONE
    one = piece(0, "c", "stop") + DONE

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if method == "POST":
            bodies.append(json.loads(body))
            yield SSE_HEAD + (two if bodies[-1].get("n") == 2 else one)
        else:
            yield http(200 if path == "/v1/models" else 404, b'{"data": [{"id": "m1"}]}')

    with scripted(handler) as url:
        rows = rows_of(plan(url, n_per_request="all", concurrency=1), ask("q", indices=(1, 3, 4)))
    assert [(b.get("n", 1), b["seed"]) for b in bodies] == [(1, 101), (2, 103)]
    assert [(r.index, r.text, r.seed) for r in rows] == [
        (1, "c", 101),
        (3, "a", 103),
        (4, "b", 104),
    ]


BROKEN = [
    # what comes for n=3, error_type, attempts of 2, what the message says
    (piece(0, "a", "stop") + DONE, "wrong_n", 1, "3 choices were asked for.* sent 1 .index 0."),
    (
        b"".join(piece(i, "a", "stop") for i in range(4)) + DONE,
        "wrong_n",
        1,
        "sent 4 .index 0, 1, 2, 3.",
    ),
    (
        b"".join(piece(i, "a", "stop") for i in (0, 1, 3)) + DONE,
        "wrong_n",
        1,
        "sent 3 .index 0, 1, 3.",
    ),
    (
        piece(0, "a", "stop") + piece(1, "b", "stop") + piece(2, "c"),
        "incomplete",
        2,
        r"those .* are 1 .index 2.",
    ),
    (piece(0, "a", "stop") + piece(1, "b"), "incomplete", 2, r"are 2 .index 1, 2."),
    (piece(0, "a", "stop"), "incomplete", 2, r"are 2 .index 1, 2."),
    (DONE, "incomplete", 2, "said"),
]


@pytest.mark.parametrize(("stream", "error_type", "attempts", "says"), BROKEN)
def test_choices_that_are_missing_fail_the_attempt(
    stream: bytes, error_type: str, attempts: int, says: str
) -> None:
    with scripted(serving_n([], stream)) as url:
        rows = rows_of(plan(url, n_per_request="all", retries=1), ask("q", indices=(0, 1, 2)))
    assert [(r.index, r.error_type, r.attempts, r.text) for r in rows] == [
        (i, error_type, attempts, None) for i in range(3)
    ]
    assert {r.status for r in rows} == {"incomplete" if error_type == "incomplete" else "error"}
    assert re.search(says, rows[0].error_message or ""), rows[0].error_message


def test_one_choice_too_many_is_not_passed_over_in_silence() -> None:
    stream = piece(0, "a", "stop") + piece(1, "b", "stop") + DONE
    with scripted(serving_n([], stream)) as url:
        (row,) = rows_of(plan(url), ask("q"))
    assert (row.status, row.error_type) == ("error", "wrong_n")


def test_a_server_that_knows_no_n_ends_the_task_with_advice() -> None:
    with scripted(serving_n([], piece(0, "a", "stop") + DONE)) as url:
        backend = backends.create(plan(url, n_per_request="all", concurrency=2))
        with pytest.raises(
            TaskFailure, match=r"20 requests in a row.*leave model\.n_per_request at 1"
        ):
            backend.run((ask("q", f"d{i}", (0, 1)) for i in range(60)), lambda row: None)


@pytest.mark.parametrize("backend", ["openai_chat", "openai_completions"])
def test_faults_of_joint_requests_are_recovered(backend: str) -> None:
    # the mock server cannot mix empty chunks into several choices
    left_out = ("hang", "emptychunk")
    names = [fault for fault, _, status, _ in FAULTS if status == "ok" and fault not in left_out]
    requests = [ask(f"[[fault={fault} x 1]] 7 + 5", fault, (0, 1, 2)) for fault in names]
    with mock(retry_after=0.05) as server:
        rows = rows_of(plan(server.url, backend=backend, n_per_request="all"), *requests)
        assert server.stats["requests"] == sum(a for fault, a, *_ in FAULTS if fault in names)
    assert {(row.text, row.status) for row in rows} == {(RIGHT, "ok")}
    assert len(rows) == 3 * len(names)


def test_both_ways_draw_alike() -> None:
    """The mock server draws by seed, as vLLM does for the n children of one call."""
    texts = {}
    for way in ("1", "all"):
        with mock(accuracy=0.5, index_by_seed=True) as server:
            rows = rows_of(
                plan(server.url, n_per_request=way),
                *[ask(f"{i} + 1", f"d{i}", tuple(range(8))) for i in range(5)],
            )
            texts[way] = [row.text for row in rows]
            assert server.stats["requests"] == (40 if way == "1" else 5)
    assert texts["1"] == texts["all"]
    assert len(set(texts["1"])) > 5


def test_other_values_are_refused() -> None:
    with pytest.raises(Fault, match=r"n_per_request must be 1 .* or all .*; got 2"):
        backends.create(plan("http://127.0.0.1:1", n_per_request="2"))
