"""docs/metrics.md and docs/lighteval.md say what the code does."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from support.oracle_rows import rows
from support.workspace import ROOT, Evalrun

import evalrun as package
from evalrun.interop.documents import KEYS
from evalrun.metrics import METRICS

LIGHTEVAL = (ROOT / "docs" / "lighteval.md").read_text(encoding="utf-8")
METRICS_PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
FUNCTIONS = re.compile(
    r"aggregate|normalizer:|stderr:|task_string|llm_judge|simpleqa|metric_name|num_samples|aisbench"
)


def blocks(language: str) -> list[str]:
    """The code blocks of metrics.md in a language."""
    return re.findall(rf"```{language}\n(.*?)```", METRICS_PAGE, re.DOTALL)


def named_in_tables() -> set[str]:
    """Keys of the metrics in the first columns of lighteval.md."""
    cells = [line.split("|")[1] for line in LIGHTEVAL.splitlines() if line.startswith("| `")]
    names = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)} - {"task@k=10&n=16"}
    return {METRICS.key(name) for name in names}


def test_every_metric_that_differs_is_in_the_table() -> None:
    differ = {
        METRICS.key(metric.removesuffix(":corpus"))
        for metric, found in rows().items()
        if not FUNCTIONS.match(metric)
        and any(re.search(r"lighteval (gives|raises)", row.get("note") or "") for row in found)
    }
    assert len(differ) > 25
    assert differ - named_in_tables() == set()


def test_rows_of_the_tables_are_whole() -> None:
    rows_of_tables = [line for line in LIGHTEVAL.splitlines() if line.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", line)) for line in rows_of_tables} == {6}
    assert len(rows_of_tables) > 50


EXAMPLES = [
    ("multi_f1_numeric", "(0.30)", None),
    ("quasi_exact_match", "3.14 equals 314", ({"golds": ["3.14"], "preds": ["314"]}, 0.0)),
    ("quasi_exact_match", "so -5 and 5 are\nequal", ({"golds": ["5"], "preds": ["-5"]}, 1.0)),
    (
        "f1_score",
        "`Paris Paris` equals `Paris`",
        ({"golds": ["Paris"], "preds": ["Paris Paris"]}, 1.0),
    ),
    ("quasi_exact_match", "gold `A` equals `The`", ({"golds": ["A"], "preds": ["The"]}, 0.0)),
    ("prefix_exact_match", "an empty gold: 1", ({"golds": [""], "preds": ["x"]}, 0.0)),
    (
        "quasi_exact_match_triviaqa",
        "answer `Paris` gives 0",
        ({"golds": ["Paris"], "preds": ["Paris"]}, 1.0),
    ),
    (
        "quasi_exact_match_gsm8k",
        "`no idea` gives 1",
        ({"golds": ["42"], "preds": ["no idea"]}, 0.0),
    ),
    ("quasi_exact_match_math", "`5` equals `7`", ({"golds": ["5"], "preds": ["7"]}, 0.0)),
    ("quasi_exact_match_math", r"`\sqrt`", ({"golds": ["1"], "preds": [r"\boxed{\sqrt}"]}, 0.0)),
]


@pytest.mark.parametrize(("metric", "said", "case"), EXAMPLES)
def test_examples_of_the_table(
    metric: str, said: str, case: tuple[dict[str, list[str]], float] | None
) -> None:
    assert said in LIGHTEVAL
    if case is not None:
        assert package.score(metric, [case[0]])[metric].value == case[1]


def test_keys_of_documents_are_all_named() -> None:
    table = METRICS_PAGE.partition("| keys | for |")[2].partition("\n\n")[0]
    named = {
        name
        for line in table.splitlines()
        for name in re.findall(r"`([^`]+)`", line.rpartition("| ")[0])
    }
    assert named - {"choices"} <= set(KEYS)
    assert set(KEYS) - named <= {"subset", "query", "n_choices"}


def test_python_examples_run() -> None:
    example = blocks("python")[0]
    names: dict[str, object] = {}
    exec(compile(example, "metrics.md", "exec"), names)
    scores = names["scores"]
    assert scores["pass@k"].value == 0.75  # type: ignore[index]
    assert scores.per_doc["pass@k"] == [0.5, 1.0]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("registries")
def test_commands_run(evalrun: Evalrun, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(blocks("python")[1])
    lines = [
        {"golds": ["Paris"], "preds": ["Paris", "Rome"]},
        {"golds": ["4"], "preds": ["4", "4"]},
    ]
    (tmp_path / "preds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    commands = [
        line
        for block in re.findall(r"```\w*\n(.*?)```", METRICS_PAGE, re.DOTALL)
        for line in block.splitlines()
    ]
    commands = [line for line in commands if "model=" not in line and line.startswith("evalrun")]
    assert len(commands) == 4
    for command in commands:
        ran = evalrun(*shlex.split(command)[1:])
        assert ran.code == 0, (command, ran.err)
    assert [
        json.loads(line)["exact_match"]
        for line in (tmp_path / "values.jsonl").read_text().splitlines()
    ] == [
        1,
        1,
    ]
