"""Saved log-likelihoods served again: by document, kind and choice, from .jsonl and Arrow files."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evalrun.backends.replay.backend import ReplayBackend
from evalrun.errors import Fault
from evalrun.types import (
    Generate,
    Loglikelihood,
    Message,
    ModelPlan,
    Reply,
    Request,
    Rolling,
    Sampling,
)

QUESTION = (Message("user", "Question: What is 2 + 2?\nAnswer:"),)


def plan(path: Path) -> ModelPlan:
    return ModelPlan(name="saved", backend="replay", path=str(path))


def choice(
    doc_id: str, index: int, messages: tuple[Message, ...] = QUESTION, **changes: Any
) -> Loglikelihood:
    return replace(Loglikelihood(doc_id, index, messages, f" {index}"), **changes)


def bare(doc_id: str, index: int, context: str = "Answer:") -> Loglikelihood:
    return choice(doc_id, index, (Message("user", context),), is_conditioned=False)


def served(path: Path, *requests: Request) -> list[Reply]:
    rows: list[Reply] = []
    ReplayBackend(plan(path)).run(requests, rows.append)
    assert [row.key for row in rows] == [key for request in requests for key in request.keys()]  # noqa: SIM118
    return rows


def jsonl(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    file = tmp_path / "saved.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return file


def arrow(tmp_path: Path, *rows: Reply) -> Path:
    table = pa.Table.from_pylist([asdict(row) for row in rows])
    file = tmp_path / "t.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return file


LINES = [
    {"doc_id": "a", "text": "four"},
    {"doc_id": "a", "kind": "loglikelihood", "logprob": -1.5, "n_tokens": 2, "is_greedy": True},
    {"doc_id": "a", "kind": "loglikelihood", "logprob": -3, "n_tokens": 1, "is_greedy": False},
    {
        "doc_id": "a",
        "kind": "loglikelihood",
        "index": 4,
        "logprob": -9.25,
        "extra": '{"spanning": true}',
    },
    {"doc_id": "a", "kind": "unconditioned", "logprob": -7.0, "n_tokens": 2},
    {"doc_id": "a", "kind": "rolling", "logprob": -40.5, "n_tokens": 12},
    {"query": "What is 2 + 2?", "kind": "loglikelihood", "logprob": -0.5, "n_tokens": 1},
    {"query": "What is 2 + 2?", "kind": "unconditioned", "logprob": -2.5, "n_tokens": 1},
    {"query": "Once upon a time", "kind": "rolling", "logprob": -11.0, "n_tokens": 4},
    {
        "doc_id": "f",
        "kind": "loglikelihood",
        "status": "timeout",
        "error_type": "idle",
        "error_message": "silence",
    },
]

# request -> logprob, n_tokens, is_greedy, extra
SERVED: list[tuple[Request, tuple[Any, ...]]] = [
    (choice("a", 0), (-1.5, 2, True, None)),
    (choice("a", 1), (-3, 1, False, None)),
    (choice("a", 4), (-9.25, None, None, '{"spanning": true}')),
    (bare("a", 0), (-7.0, 2, None, None)),
    (Rolling("a", "whatever"), (-40.5, 12, None, None)),
    (choice("new", 0), (-0.5, 1, None, None)),
    (Rolling("new", "Once upon a time"), (-11.0, 4, None, None)),
]


@pytest.mark.parametrize(("request_", "expected"), SERVED)
def test_scores_of_a_jsonl_file(
    tmp_path: Path, request_: Request, expected: tuple[Any, ...]
) -> None:
    (row,) = served(jsonl(tmp_path, *LINES), request_)
    assert (row.logprob, row.n_tokens, row.is_greedy, row.extra) == expected
    assert (row.status, row.text, row.seed, row.first_token_s) == ("ok", None, None, None)
    assert row.started_s is not None


def test_all_kinds_of_a_document_in_one_run(tmp_path: Path) -> None:
    ask = Generate("a", QUESTION, (0,), Sampling(8, 0.0), 5)
    rows = served(
        jsonl(tmp_path, *LINES),
        ask,
        choice("a", 0),
        bare("a", 0),
        Rolling("a", "x"),
        choice("a", 1),
    )
    assert [(row.text, row.logprob) for row in rows] == [
        ("four", None),
        (None, -1.5),
        (None, -7.0),
        (None, -40.5),
        (None, -3),
    ]


def test_an_unconditioned_request_follows_its_document(tmp_path: Path) -> None:
    """It does not hold the question; the request that does was found before it."""
    file = jsonl(tmp_path, *LINES)
    assert [row.logprob for row in served(file, choice("new", 0), bare("new", 0))] == [-0.5, -2.5]
    assert [row.error_type for row in served(file, bare("new", 0))] == ["not_saved"]


MISSING: list[tuple[Request, str]] = [
    (choice("a", 2), "document 'a' has no saved loglikelihood reply 2 in FILE"),
    (bare("a", 1), "document 'a' has no saved unconditioned reply 1 in FILE"),
    (
        choice("t", 0),
        "document 't' has no saved loglikelihood reply 0 in FILE (saved there: generate)",
    ),
    (Rolling("t", "x"), "document 't' has no saved rolling reply in FILE (saved there: generate)"),
    (
        Generate("r", QUESTION, (0,), Sampling(8, 0.0), 5),
        "document 'r' has no saved sample 0 in FILE (saved there: r",
    ),
]


@pytest.mark.parametrize(("request_", "says"), MISSING)
def test_what_was_not_saved_is_said(tmp_path: Path, request_: Request, says: str) -> None:
    more = [
        {"doc_id": "t", "text": "only text"},
        {"doc_id": "r", "kind": "rolling", "logprob": -1.0},
    ]
    file = jsonl(tmp_path, *LINES, *more)
    (row,) = served(file, request_)
    assert (row.status, row.error_type, row.logprob) == ("error", "not_saved", None)
    assert (row.error_message or "").startswith(says.replace("FILE", str(file)))


def test_a_saved_failure_is_served_as_one(tmp_path: Path) -> None:
    (row,) = served(jsonl(tmp_path, *LINES), choice("f", 0))
    assert (row.status, row.error_type, row.error_message) == ("timeout", "idle", "silence")


def test_rows_of_an_arrow_file(tmp_path: Path) -> None:
    kept = Reply(
        "a",
        "loglikelihood",
        0,
        logprob=-1.25,
        n_tokens=3,
        is_greedy=False,
        prompt_tokens=7,
        extra="{}",
    )
    file = arrow(
        tmp_path,
        Reply("a", "loglikelihood", 0, logprob=-8.0, n_tokens=3),
        kept,  # the last row of a key counts
        Reply("a", "unconditioned", 0, logprob=-4.0, n_tokens=3),
        Reply("a", "rolling", 0, logprob=-4.5, n_tokens=9),
        Reply("a", "generate", 0, text="words"),
        Reply("n", "loglikelihood", 0, logprob=float("nan"), n_tokens=1),
        Reply("n", "loglikelihood", 1, n_tokens=1),
        Reply("n", "loglikelihood", 2, logprob=0.5, n_tokens=1),
        Reply("n", "loglikelihood", 3, logprob=1e-9, n_tokens=1),
    )
    rows = served(
        file, choice("a", 0), bare("a", 0), Rolling("a", "x"), *(choice("n", i) for i in range(4))
    )
    first = rows[0]
    assert replace(first, started_s=None, ended_s=None) == kept
    assert [row.logprob for row in rows] == [-1.25, -4.0, -4.5, None, None, None, 1e-9]
    assert [row.error_type for row in rows[3:]] == ["not_saved", "not_saved", "not_saved", None]
    assert "logprob nan: a number of at most 0 is needed" in (rows[3].error_message or "")


MALFORMED: list[tuple[dict[str, Any], str]] = [
    (
        {"doc_id": "a", "logprob": -1.0},
        "A row with logprob says its kind: loglikelihood, unconditioned, rolling",
    ),
    (
        {"doc_id": "a", "kind": "loglikelihood"},
        "a row of kind loglikelihood needs logprob (in nats)",
    ),
    (
        {"doc_id": "a", "kind": "loglikelihod", "logprob": -1},
        "kind 'loglikelihod' is not one of generate, logl",
    ),
    ({"doc_id": "a", "kind": "rolling", "logprob": 0.5}, "logprob 0.5 is no log-probability"),
    (
        {"doc_id": "a", "kind": "rolling", "logprob": float("nan")},
        "logprob nan is no log-probability",
    ),
    ({"doc_id": "a", "kind": "rolling", "logprob": True}, "logprob True is no log-probability"),
    ({"doc_id": "a", "kind": "rolling", "logprob": "-1"}, "logprob '-1' is no log-probability"),
    ({"doc_id": "a", "kind": "rolling", "logprob": -1, "n_tokens": 1.5}, "n_tokens must be"),
    (
        {"doc_id": "a", "kind": "rolling", "logprob": -1, "is_greedy": 1},
        "is_greedy 1 must be true, false or null",
    ),
    (
        {"doc_id": "x", "kind": "rolling", "logprob": -1},
        "rolling reply 0 of doc_id 'x' is there twice",
    ),
]


@pytest.mark.parametrize(("line", "says"), MALFORMED)
def test_malformed_lines_are_named(tmp_path: Path, line: dict[str, Any], says: str) -> None:
    first = {"doc_id": "x", "kind": "rolling", "index": 0, "logprob": -2}
    line = {**line, "index": 0} if line["doc_id"] == "x" else line
    with pytest.raises(Fault) as caught:
        ReplayBackend(plan(jsonl(tmp_path, first, line))).start()
    assert f"{tmp_path / 'saved.jsonl'}:2" in str(caught.value)
    assert says in str(caught.value)


def test_what_is_rendered(tmp_path: Path) -> None:
    backend = ReplayBackend(plan(jsonl(tmp_path, *LINES)))
    assert json.loads(backend.render(choice("a", 0))) == [
        {"role": "user", "content": QUESTION[0].content}
    ]
    assert backend.render(Rolling("a", "A whole text.")) == "A whole text."
