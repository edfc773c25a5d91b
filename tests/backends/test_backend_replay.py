"""Saved predictions served again: by id, by query, from .jsonl, Arrow files and run folders."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import backend_contract as contract

from evalrun.backends.base import Backend
from evalrun.backends.replay.backend import ReplayBackend
from evalrun.errors import Fault, TaskFailure
from evalrun.types import Generate, Message, ModelPlan, Reply, Sampling

SAMPLING = Sampling(max_tokens=50, temperature=0.0)


def plan(path: Path | str, **engine: Any) -> ModelPlan:
    return ModelPlan(name="saved", backend="replay", path=str(path), engine=tuple(engine.items()))


def ask(
    doc_id: str, text: str = "?", indices: tuple[int, ...] = (0,), stop: tuple[str, ...] = ()
) -> Generate:
    sampling = Sampling(max_tokens=50, temperature=0.0, stop=stop)
    return Generate(
        doc_id, (Message("system", "Be brief."), Message("user", text)), indices, sampling, 100
    )


def rows_of(model: ModelPlan, *requests: Generate) -> list[Reply]:
    rows: list[Reply] = []
    ReplayBackend(model).run(requests, rows.append)
    return rows


def jsonl(tmp_path: Path, *rows: Any) -> Path:
    file = tmp_path / "saved.jsonl"
    file.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows),
        encoding="utf-8",
    )
    return file


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def write_arrow(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table(rows).schema) as writer:
        writer.write_table(table(rows))
    return file


def write_stream(file: Path, batches: list[list[dict[str, Any]]]) -> Path:
    schema = table([row for rows in batches for row in rows]).schema
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for rows in batches:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return file


def saved(doc_id: str, index: int, text: str | None, **changes: Any) -> dict[str, Any]:
    return asdict(Reply(doc_id, "generate", index, text=text, **changes))


@pytest.fixture(scope="module", params=["jsonl", "arrow"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    rows = [asdict(row) for row in contract.saved_replies()]
    folder = tmp_path_factory.mktemp("saved")
    return ReplayBackend(
        plan(
            jsonl(folder, *rows)
            if request.param == "jsonl"
            else write_arrow(folder / "t.arrow", rows)
        )
    )


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any, backend: Backend) -> None:
    check(backend)


LINES = [
    {"doc_id": "a", "text": "first"},
    {"doc_id": "a", "text": "second"},
    {"doc_id": "b", "index": 3, "text": None, "finish_reason": "content_filter"},
    {"doc_id": "c", "texts": ["x", None, "z"]},
    {"doc_id": "d", "text": "<think>hm</think>\n\nfour STOP five"},
    {
        "doc_id": "e",
        "text": "6",
        "reasoning": "thought",
        "finish_reason": "length",
        "prompt_tokens": 3,
    },
    {"doc_id": "f", "error_type": "http", "error_message": "bad", "http_status": 400},
    {"doc_id": "g", "text": None, "status": "timeout"},
    {"query": "What is 2 + 2?", "text": "4"},
    {"query": "2 + 2?", "text": "short"},
    {"query": "北京?", "texts": ["yes", "no"]},
]

# doc_id, user message, index -> status, text, reasoning
SERVED = [
    ("a", "?", 0, "ok", "first", None),
    ("a", "?", 1, "ok", "second", None),
    ("a", "?", 2, "error", None, None),
    ("b", "?", 3, "filtered", None, None),
    ("c", "?", 0, "ok", "x", None),
    ("c", "?", 1, "empty", None, None),
    ("c", "?", 2, "ok", "z", None),
    ("d", "?", 0, "ok", "four ", "hm"),
    ("e", "?", 0, "truncated", "6", "thought"),
    ("f", "?", 0, "error", None, None),
    ("g", "?", 0, "timeout", None, None),
    ("new", "What is 2 + 2?", 0, "ok", "4", None),
    ("new", "Question: What is 2 + 2?\n", 0, "ok", "4", None),
    ("new", "Question: 2 + 2?", 0, "ok", "short", None),
    ("new", "Q: 2 + 2?\nA: 4\n\nQ: 北京?\n\nThink step by step.", 1, "ok", "no", None),
    ("new", "What is 3 + 3?", 0, "error", None, None),
    ("a", "What is 2 + 2?", 0, "ok", "first", None),
]


@pytest.mark.parametrize(("doc_id", "message", "index", "status", "text", "reasoning"), SERVED)
def test_replies_of_a_jsonl_file(
    tmp_path: Path,
    doc_id: str,
    message: str,
    index: int,
    status: str,
    text: str | None,
    reasoning: str | None,
) -> None:
    (row,) = rows_of(plan(jsonl(tmp_path, *LINES)), ask(doc_id, message, (index,), stop=("STOP",)))
    assert (row.status, row.text, row.reasoning) == (status, text, reasoning)
    assert (row.doc_id, row.index, row.seed, row.attempts) == (doc_id, index, 100 + index, 1)


def test_failures_say_why(tmp_path: Path) -> None:
    file = jsonl(tmp_path, *LINES)
    rows = rows_of(plan(file), ask("f"), ask("g"), ask("a", indices=(2,)), ask("new", "?"))
    assert [(row.error_type, row.error_message, row.http_status) for row in rows] == [
        ("http", "bad", 400),
        ("saved_failure", "the saved reply is a failure", None),
        ("not_saved", f"document 'a' has no saved sample 2 in {file}", None),
        (
            "not_saved",
            f"{file} holds no reply to document 'new', neither by its id nor by its query",
            None,
        ),
    ]


def test_counts_and_raw_text_are_kept(tmp_path: Path) -> None:
    file = jsonl(tmp_path, LINES[4], LINES[5], saved("z", 0, "1", raw_text="1 STOP 2"))
    thought, counted, cut = rows_of(plan(file), ask("d", stop=("STOP",)), ask("e"), ask("z"))
    assert thought.raw_text == LINES[4]["text"]
    assert (counted.prompt_tokens, counted.finish_reason, counted.raw_text) == (3, "length", None)
    assert (cut.text, cut.raw_text) == ("1", "1 STOP 2")


MALFORMED = [
    ("{", "saved.jsonl:2 is not JSON"),
    ("[1]", "saved.jsonl:2 is no JSON object"),
    ({"doc_id": "x", "txt": "a"}, "saved.jsonl:2 has an unknown key 'txt'. Did you mean 'text'?"),
    ({"doc_id": "x"}, "saved.jsonl:2 has no text"),
    ({"text": "a"}, "saved.jsonl:2 has neither doc_id nor query"),
    ({"doc_id": 7, "text": "a"}, "saved.jsonl:2: doc_id must be text"),
    ({"doc_id": "x", "text": 7}, "saved.jsonl:2: text must be text"),
    ({"doc_id": "x", "text": "a", "index": -1}, "saved.jsonl:2: index must"),
    ({"doc_id": "x", "text": "a", "index": True}, "saved.jsonl:2: index must"),
    ({"doc_id": "x", "texts": "ab"}, "saved.jsonl:2: texts must"),
    (
        {"doc_id": "x", "texts": ["a"], "index": 2},
        "saved.jsonl:2 has texts together with text or index",
    ),
    (
        {"doc_id": "a", "text": "b", "index": 0},
        "saved.jsonl:2: sample 0 of doc_id 'a' is there twice",
    ),
    (
        {"doc_id": "x", "text": "a", "status": "fine"},
        "saved.jsonl:2: status 'fine' is not one of error, timeout",
    ),
]


@pytest.mark.parametrize(("line", "says"), MALFORMED)
def test_malformed_lines_are_named(tmp_path: Path, line: Any, says: str) -> None:
    with pytest.raises(Fault) as caught:
        ReplayBackend(plan(jsonl(tmp_path, {"doc_id": "a", "text": "b"}, line))).start()
    assert says in str(caught.value)


def test_paths_that_will_not_do(tmp_path: Path) -> None:
    jsonl(tmp_path)
    (tmp_path / "x.csv").write_text("a,b")
    (tmp_path / "broken.arrow").write_bytes(b"not arrow at all")
    (tmp_path / "empty").mkdir()
    write_arrow(tmp_path / "other.arrow", [{"a": 1}])
    write_arrow(tmp_path / "status.arrow", [saved("a", 0, "x", status="fine")])
    for name, says in [
        ("savde.jsonl", "saved.jsonl'?"),
        ("x.csv", "is no saved prediction"),
        ("broken.arrow", "cannot be read as Arrow"),
        ("empty", "holds no predictions (predictions/MODEL/TASK.arrow)"),
        ("other.arrow", "no columns doc_id and index"),
        ("status.arrow", "status 'fine'"),
    ]:
        with pytest.raises(Fault) as caught:
            ReplayBackend(plan(tmp_path / name)).start()
        assert says in str(caught.value), name


def run_folder(tmp_path: Path) -> Path:
    """A run of two tasks that share an id; one of them was interrupted."""
    folder = tmp_path / "20260101_000000"
    place = folder / "predictions" / "m"
    write_arrow(
        place / "one.arrow",
        [saved("1", 0, "from one"), saved("1", 1, "again"), saved("only", 0, "x")],
    )
    write_arrow(
        place / "one.docs.arrow",
        [{"doc_id": "1", "query": "First?"}, {"doc_id": "only", "query": "Only?"}],
    )
    write_arrow(place / "two.docs.arrow", [{"doc_id": "1", "query": "Second?"}])
    write_stream(
        place / "two.0.arrows", [[saved("1", 0, None, status="error")], [saved("late", 0, "y")]]
    )
    write_stream(place / "two.1.arrows", [[saved("1", 0, "from two")]])
    write_arrow(
        folder / "verdicts" / "m" / "one.arrow",
        [{"doc_id": "1", "index": 0, "text": "no prediction"}],
    )
    return folder


def test_a_run_folder(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    requests = [
        ask("only"),
        ask("late"),
        ask("1", "Q: First?", (0, 1)),
        ask("1", "Q: Second?"),
        ask("1", "Third?"),
    ]
    rows = rows_of(plan(folder), *requests)
    assert [row.text for row in rows] == ["x", "y", "from one", "again", "from two", None]
    assert (rows[-1].error_type, "several replies" in (rows[-1].error_message or "")) == (
        "not_saved",
        True,
    )


def test_a_cut_shard_serves_its_whole_batches(tmp_path: Path) -> None:
    shard = write_stream(tmp_path / "t.0.arrows", [[saved("a", 0, "1")], [saved("b", 0, "2")]])
    shard.write_bytes(shard.read_bytes()[:-40])
    assert [row.status for row in rows_of(plan(shard), ask("a"), ask("b"))] == ["ok", "error"]


def test_facts_know_the_content(tmp_path: Path) -> None:
    file = jsonl(tmp_path, *LINES)
    facts = ReplayBackend(plan(file)).facts()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert facts == {"engine": "replay", "is_deterministic": "yes", "revision": digest}
    folder = run_folder(tmp_path)
    first = ReplayBackend(plan(folder)).facts()["revision"]
    assert first == ReplayBackend(plan(folder)).facts()["revision"]
    write_arrow(folder / "predictions" / "m" / "one.arrow", [saved("1", 0, "changed")])
    assert ReplayBackend(plan(folder)).facts()["revision"] != first


def test_fail_first_counts_over_runs(tmp_path: Path) -> None:
    backend = ReplayBackend(
        plan(jsonl(tmp_path, {"doc_id": "a", "texts": list("wxyz")}), fail_first=3)
    )
    rows: list[Reply] = []
    backend.run([ask("a", indices=(0, 1))], rows.append)
    backend.run([ask("a", indices=(0, 1, 2))], rows.append)
    assert [row.status for row in rows] == ["error", "error", "error", "ok", "ok"]
    assert rows[0].error_type == "fail_first"


def test_die_after_leaves_the_rest_missing(tmp_path: Path) -> None:
    backend = ReplayBackend(
        plan(jsonl(tmp_path, {"doc_id": "a", "texts": list("wxyz")}), die_after=2)
    )
    rows: list[Reply] = []
    with pytest.raises(TaskFailure, match="died after 2 replies"):
        backend.run([ask("a", indices=(0, 1, 2, 3))], rows.append)
    assert [row.text for row in rows] == ["w", "x"]


def test_delay(tmp_path: Path) -> None:
    begun = time.monotonic()
    rows_of(
        plan(jsonl(tmp_path, {"doc_id": "a", "texts": list("wxyz")}), delay_s=0.05),
        ask("a", indices=(0, 1, 2, 3)),
    )
    assert time.monotonic() - begun >= 0.2


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("delay", 1, "Did you mean 'delay_s'?"),
        ("delay_s", "1", "a number of at least 0"),
        ("delay_s", -1, "a number of at least 0"),
        ("fail_first", 1.5, "a whole number of at least 0"),
        ("die_after", True, "a whole number of at least 0"),
    ],
)
def test_settings_are_checked(key: str, value: Any, says: str) -> None:
    with pytest.raises(Fault) as caught:
        ReplayBackend(plan("x.jsonl", **{key: value}))
    assert says in str(caught.value)


def test_many_queries_are_found_in_linear_time(tmp_path: Path) -> None:
    took = []
    for size in (500, 5000):
        rows = [
            {"query": f"What is {i} + {i}?" + " long" * 20, "text": str(i + i)} for i in range(size)
        ]
        file = jsonl(tmp_path, *rows)
        begun = time.process_time()
        replies = rows_of(
            plan(file), *[ask(f"d{i}", "Question: " + rows[i]["query"]) for i in range(size)]
        )
        took.append(time.process_time() - begun)
        assert [row.text for row in replies] == [str(i + i) for i in range(size)]
    # looking through all saved queries for each would take 100 times as long
    assert took[1] < 0.5 + 30 * took[0]
