"""Shared by the tests of stages, resuming and killing: rows of a run, real processes, tasks of
one's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evalrun.store.cell import predictions, verdicts
from evalrun.store.layout import Run
from evalrun.types import Reply, Verdict
from support.workspace import ROOT

CASES = ROOT / "tests" / "cases"


def case(file: str, case_id: str) -> dict[str, Any]:
    """A row of tests/cases/<file>.jsonl: a public report with input and expected behaviour."""
    rows = [json.loads(line) for line in (CASES / f"{file}.jsonl").open(encoding="utf-8")]
    (row,) = [row for row in rows if row["id"] == case_id]
    return row


def rows_of(run: Path, model: str = "replay", task: str = "gsm8k") -> list[Reply]:
    """The saved rows, final and shards together."""
    return predictions.read(Run(run).cell(model, task)).rows


def verdicts_of(
    run: Path, model: str = "replay", task: str = "gsm8k"
) -> dict[str, dict[tuple[str, int], Verdict]]:
    """Scorer signature -> (doc_id, index) -> verdict."""
    return verdicts.read_verdicts(Run(run).cell(model, task))


def asked_since(
    run: Path, since: float, model: str = "replay", task: str = "gsm8k"
) -> list[tuple[str, int]]:
    """(document, sample) of the rows that were asked after the time `since`."""
    return [
        (r.doc_id, r.index)
        for r in rows_of(run, model, task)
        if r.started_s is not None and r.started_s >= since
    ]


def is_in_order(run: Path, n_docs: int, n: int) -> bool:
    """Whether the final file holds every key once, in document order; no shard and no lock is
    left.
    """
    folder = run / "predictions" / "replay"
    docs = predictions.read_file(folder / "gsm8k.arrow").rows
    first_seen = list(dict.fromkeys(r.doc_id for r in docs))
    wanted = [(doc_id, i) for doc_id in first_seen for i in range(n)]
    left = sorted(p.name for p in folder.iterdir())
    return (
        len(first_seen) == n_docs
        and [(r.doc_id, r.index) for r in docs] == wanted
        and left == ["gsm8k.arrow", "gsm8k.docs.arrow"]
    )


def results_text(run: Path, model: str = "replay", task: str = "gsm8k") -> str:
    """The results JSON, as it lies on the disk."""
    return Run(run).cell(model, task).results_file.read_text()


def counts_of(run: Path, model: str = "replay", task: str = "gsm8k") -> dict[str, int]:
    """The counts that are not zero."""
    found = json.loads(results_text(run, model, task))["counts"]
    return {k: v for k, v in found.items() if v}


def header_of(run: Path, model: str = "replay", task: str = "gsm8k") -> dict[str, Any]:
    """State, reason, log and so on."""
    header: dict[str, Any] = json.loads(results_text(run, model, task))["header"]
    return header


def launch(
    words: Sequence[str], folder: Path, preexec: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    """A real `evalrun` process in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-m", "evalrun", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec,
    )


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until `condition` holds. AssertionError when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.01)


def n_rows(folder: Path) -> int:
    """How many keys the only run of the folder has on the disk; 0 while there is none."""
    runs = sorted((folder / "outputs").glob("*")) if (folder / "outputs").is_dir() else []
    try:
        return predictions.count(Run(runs[-1]).cell("replay", "gsm8k")) if runs else 0
    except FileNotFoundError:
        return 0


def write_tasks(folder: Path, **data: Path) -> str:
    """Task files NAME.yaml over local files of question and answer; the folder for --config-dir."""
    (folder / "mine" / "task").mkdir(parents=True)
    for name, path in data.items():
        (folder / "mine" / "task" / f"{name}.yaml").write_text(
            f"# @package tasks.{name}\n"
            "defaults: [/task_schema@_here_, _self_]\n"
            f"dataset: {{path: '{path}', columns: {{query: question, gold: answer}}}}\n"
            "extract: number\n"
            "metrics: {accuracy: {}}\n"
        )
    return str(folder / "mine")
