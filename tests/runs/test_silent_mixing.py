"""What could mix or replace numbers without a word is refused, told apart, or said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.workspace import Bench, Evalrun, results_of, run_folders

from evalrun.backends.replay.library import load
from evalrun.metrics import signatures
from evalrun.types import Generate, Message, Sampling

FLAGS = ["1", "1", "0", "0", "0", "1"]


def jsonl(path: Path, rows: Sequence[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize(("column", "value"), [("q", "another question?"), ("g", "7")])
def test_rows_of_one_id_must_be_one_question(
    evalrun: Evalrun, tmp_path: Path, column: str, value: str
) -> None:
    rows: list[dict[str, object]] = [
        {"id": 1, "q": "one?", "g": "1", "p": "1"},
        {"id": 1, "q": "one?", "g": "1", "p": "2"},
    ]
    words = [
        "--question",
        "q",
        "--gold",
        "g",
        "--prediction",
        "p",
        "--id",
        "id",
        "--task",
        "demo_math",
        "--model",
        "m",
    ]
    assert evalrun("import", jsonl(tmp_path / "same.jsonl", rows), *words).code == 0
    rows[1][column] = value
    ran = evalrun("import", jsonl(tmp_path / "mixed.jsonl", rows), *words)
    assert ran.code == 2
    assert f"row 1 of {tmp_path}/mixed.jsonl and row 2 of" in ran.err
    assert f"differ in column '{column}'" in ran.err


def test_a_prefix_does_not_replace_the_number_of_all(
    evalrun: Evalrun, tmp_path: Path, bench: Callable[..., Bench]
) -> None:
    made = bench(FLAGS)
    assert evalrun(*made.words()).code == 0
    assert evalrun("--mode", "eval", "--reuse", "latest", "limit=2").code == 0
    (run,) = run_folders(tmp_path)
    estimates = results_of(run)["estimates"]
    assert isinstance(estimates, list)
    assert [(e["value"], e["n_docs"]) for e in estimates] == [(0.5, 6), (1.0, 2)]
    assert [signatures.read_signature(e["signature"]).docs for e in estimates] == [None, 2]
    verdicts = evalrun("--mode", "eval", "--reuse", "latest")
    assert verdicts.code == 0
    seen = evalrun("--mode", "viz", "--reuse", "latest")
    assert "accuracy: over 2 of the 6 documents of the run" in " ".join(seen.out.split())


def test_a_subset_needs_data_of_its_own(
    evalrun: Evalrun, tmp_path: Path, bench: Callable[..., Bench]
) -> None:
    made = bench(FLAGS)
    words = [w if not w.startswith("task=") else "task=gsm8k:socratic" for w in made.words()]
    ran = evalrun(*words)
    assert ran.code == 2
    assert "Task gsm8k has the subset socratic, but its dataset" in ran.err
    assert not run_folders(tmp_path)


def test_resume_says_which_limit_it_keeps(evalrun: Evalrun, bench: Callable[..., Bench]) -> None:
    made = bench(FLAGS)
    assert evalrun(*made.words("limit=2")).code == 0
    ran = evalrun(*made.words(), "--resume")
    assert "Task gsm8k: the first 2 documents, as stored. limit=null asks for all." in ran.err
    assert "as stored" not in evalrun(*made.words("limit=null"), "--resume").err


SAVED = [{"query": "5+5?", "text": "10"}, {"query": "What is 15+5?", "text": "20"}]
ASKED = [
    ("5+5?", "10"),
    ("Question: 5+5?\nAnswer:", "10"),
    ("Question: 5+5?", "10"),
    ("What is 15+5?", "20"),
    ("Say (5+5?), please", "10"),
    ("15+5?", None),
    ("Sum 15+5?\nAnswer:", None),
]


@pytest.mark.parametrize(("message", "text"), ASKED)
def test_a_saved_query_must_stand_apart(tmp_path: Path, message: str, text: str | None) -> None:
    library = load(jsonl(tmp_path / "saved.jsonl", SAVED))
    request = Generate("d", (Message("user", message),), (0,), Sampling(8, 0.0), 1)
    found = library.find(request.doc_id, message)
    assert (None if isinstance(found, str) else found.replies["generate", 0].text) == text


REFUSED = [
    (["metric=pass@k:k=0"], "k must be a positive whole number, got 0"),
    (
        ["num_return_sequences=9999999999"],
        "num_return_sequences must be at most 10,000,000; got 9999999999",
    ),
    (
        ["num_return_sequences=200000"],
        "num_return_sequences=200000 is more than the 100,000 samples",
    ),
    (
        ["metric=avg@n:n=200000"],
        "n=200000 samples per document (task gsm8k) is more than the 100,000",
    ),
    (
        ["model.extra_body.credentials=S-123"],
        "model.extra_body.credentials=*** would write a secret",
    ),
]


@pytest.mark.parametrize(("words", "says"), REFUSED)
def test_refused(
    evalrun: Evalrun, tmp_path: Path, bench: Callable[..., Bench], words: list[str], says: str
) -> None:
    mine = [
        w
        for w in bench(FLAGS).words()
        if not any(word.startswith("task=") and w.startswith("task=") for word in words)
    ]
    ran = evalrun(*mine, *words)
    assert ran.code == 2
    assert says in ran.err
    assert "S-123" not in ran.err + ran.out
    assert not run_folders(tmp_path)
