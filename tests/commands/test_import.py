"""evalrun import: saved predictions of others become a run that eval scores."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.running import rows_of, verdicts_of
from support.workspace import ROOT, Evalrun, results_of, run_folders, values_of

SHARED = Path(os.environ.get("EVALRUN_SHARED", ROOT.parent / "shared"))
SOLUTIONS = SHARED / "data" / "gsm8k_model_solutions.jsonl"
ROWS = [
    # question, gold, solutions of two models
    ("Two and two?", "2 + 2 = 4\nA: 4", "It is <<2+2=4>>4.\nA: 4", "A: 5"),
    ("A thousand?", "A: 1,000", "A: 1000", "A: 1000.00"),
    ("A half?", "A: 0.5", "A: 1/2", "no idea"),
]


def write_solutions(folder: Path) -> Path:
    """A file shaped like the published GSM8K solution sets: nested columns, names that begin
    with digits.
    """
    path = folder / "solutions.jsonl"
    rows = [
        {
            "question": q,
            "ground_truth": g,
            "6b_small": {"solution": a},
            "175b_verification": {"solution": b},
        }
        for q, g, a, b in ROWS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def words(path: Path, prediction: str, model: str, *more: str) -> list[str]:
    return [
        "import",
        str(path),
        "--question",
        "question",
        "--gold",
        "ground_truth",
        "--prediction",
        prediction,
        "--task",
        "gsm8k",
        "--model",
        model,
        *more,
    ]


def run_of(folder: Path) -> Path:
    return run_folders(folder)[-1]


def test_nested_columns_of_two_models(evalrun: Evalrun, tmp_path: Path) -> None:
    path = write_solutions(tmp_path)
    for model, accuracy in (("6b_small", 1.0), ("175b_verification", 1 / 3)):
        ran = evalrun(*words(path, f"{model}.solution", model))
        assert ran.code == 0, ran.err
        run = run_of(tmp_path)
        assert ran.out == (
            f"3 documents x 1 samples of model {model}, task gsm8k: outputs/{run.name}\n"
            f"score them: evalrun --mode eval --reuse outputs/{run.name}\n"
        )
        # the command that was shown
        scored = evalrun(*re.findall(r"evalrun (--mode .*)", ran.out)[0].split())
        assert scored.code == 0, scored.err
        assert values_of(run) == {"accuracy": pytest.approx(accuracy)}
        assert model in scored.out
    assert [r.text for r in rows_of(run, "175b_verification")] == [row[3] for row in ROWS]


def test_several_columns_are_samples(evalrun: Evalrun, tmp_path: Path) -> None:
    path = write_solutions(tmp_path)
    ran = evalrun(*words(path, "6b_small.solution,175b_verification.solution", "both"))
    assert ran.code == 0, ran.err
    assert "3 documents x 2 samples" in ran.out
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0
    values = values_of(run_of(tmp_path))
    assert values["pass@2"] == 1.0
    assert values["avg@2"] == pytest.approx(2 / 3)
    assert evalrun("--mode", "eval", "--reuse", "latest", "metric=pass@k:k=1&n=2").code == 0
    assert values_of(run_of(tmp_path))["pass@k:k=1&n=2"] == pytest.approx(2 / 3)


def test_rows_that_share_an_id_are_samples(evalrun: Evalrun, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    rows: list[dict[str, Any]] = [
        {
            "question": f"q{q}",
            "ground_truth": str(q),
            "uid": f"doc{q}",
            "reply": {"text": str(q if right else 99)},
        }
        for right in (True, False, True)
        for q in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = evalrun(*words(path, "reply.text", "m", "--id", "uid"))
    assert ran.code == 0, ran.err
    run = run_of(tmp_path)
    assert [(r.doc_id, r.index) for r in rows_of(run, "m")] == [
        (f"doc{q}", i) for q in range(3) for i in range(3)
    ]
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0
    assert values_of(run)["avg@3"] == pytest.approx(2 / 3)
    assert values_of(run)["cons@3"] == 1.0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    uneven = evalrun(*words(path, "reply.text", "m", "--id", "uid"))
    assert uneven.code == 2
    assert "different numbers of samples (2 to 3" in uneven.err


def as_csv(path: Path, rows: Sequence[dict[str, str | None]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def as_parquet(path: Path, rows: Sequence[dict[str, str | None]]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


@pytest.mark.parametrize(("name", "write"), [("s.csv", as_csv), ("s.parquet", as_parquet)])
def test_tables(
    evalrun: Evalrun,
    tmp_path: Path,
    name: str,
    write: Callable[[Path, Sequence[dict[str, str | None]]], None],
) -> None:
    write(tmp_path / name, [{"question": q, "ground_truth": g, "007": a} for q, g, a, _ in ROWS])
    assert evalrun(*words(tmp_path / name, "007", "org/model:v1")).code == 0
    scored = evalrun("--mode", "eval", "--reuse", "latest")
    assert scored.code == 0, scored.err
    assert values_of(run_of(tmp_path)) == {"accuracy": 1.0}
    assert [r.text for r in rows_of(run_of(tmp_path), "org/model:v1")] == [row[2] for row in ROWS]


def test_no_answer_is_an_answer(evalrun: Evalrun, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    texts = ["<think>hm</think>A: 0", None, ""]
    rows = [
        {"question": f"q{i}", "ground_truth": str(i), "answer": text}
        for i, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert evalrun(*words(path, "answer", "m")).code == 0
    assert [(r.text, r.reasoning, r.status) for r in rows_of(run_of(tmp_path), "m")] == [
        ("A: 0", "hm", "ok"),
        (None, None, "empty"),
        ("", None, "empty"),
    ]
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0
    (estimate,) = results_of(run_of(tmp_path))["estimates"]  # type: ignore[misc]
    assert (estimate["value"], estimate["n_unparsed"]) == (pytest.approx(1 / 3), 2)


FAULTS = [
    ({"--prediction": "6b_smal.solution"}, ["6b_smal.solution", "'6b_small.solution'"]),
    ({"--question": "questoin"}, ["questoin", "'question'"]),
    ({"--gold": "truth"}, ["truth", "ground_truth"]),
    ({"--task": "gsm8"}, ["gsm8", "'gsm8k'"]),
    ({"file": "solution.jsonl"}, ["solution.jsonl"]),
    ({"--id": "nr"}, ["nr"]),
    ({"--prediction": "6b_small"}, ["6b_small", "not the text"]),
    ({"--modle": "x"}, ["--modle"]),
]


@pytest.mark.parametrize(("change", "named"), FAULTS)
def test_faults_are_one_paragraph(
    evalrun: Evalrun, tmp_path: Path, change: dict[str, str], named: Sequence[str]
) -> None:
    path = write_solutions(tmp_path)
    given = {
        "file": str(path),
        "--question": "question",
        "--gold": "ground_truth",
        "--prediction": "6b_small.solution",
        "--task": "gsm8k",
        "--model": "m",
        **change,
    }
    file = given.pop("file")
    ran = evalrun("import", file, *[word for pair in given.items() for word in pair])
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    for text in named:
        assert text in ran.err, ran.err
    assert not (tmp_path / "outputs").exists()


def test_a_word_that_is_missing(evalrun: Evalrun) -> None:
    ran = evalrun("import", "FILE")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "required: --question, --gold, --prediction, --task, --model" in ran.err


PUBLISHED = [
    ("6b_finetuning", 0.216831),
    ("6b_verification", 0.390447),
    ("175b_finetuning", 0.347233),
    ("175b_verification", 0.562547),
]


@pytest.mark.skipif(
    not SOLUTIONS.exists(), reason="the published solution sets are not here (EVALRUN_SHARED)"
)
@pytest.mark.parametrize(("model", "accuracy"), PUBLISHED)
def test_published_gsm8k_accuracies(
    evalrun: Evalrun, tmp_path: Path, model: str, accuracy: float
) -> None:
    assert evalrun(*words(SOLUTIONS, f"{model}.solution", model)).code == 0
    scored = evalrun("--mode", "eval", "--reuse", "latest")
    assert scored.code == 0, scored.err
    run = run_of(tmp_path)
    assert round(values_of(run)["accuracy"], 6) == accuracy
    published = [
        json.loads(line)[model]["is_correct"] for line in SOLUTIONS.read_text().splitlines()
    ]
    (judged,) = verdicts_of(run, model).values()
    assert [judged[r.doc_id, 0].value == 1.0 for r in rows_of(run, model)] == published
