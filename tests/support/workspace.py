"""What tests share: the root of the checkout, commands that ran, small benchmarks on disk,
results of a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Ran:
    """How one command ended."""

    code: int
    out: str
    err: str


Evalrun = Callable[..., Ran]


@dataclass(frozen=True)
class Bench:
    """A tiny benchmark on disk: its rows, and a replay file with answers."""

    data: Path
    answers: Path

    def words(self, *more: str) -> list[str]:
        """The words of a command that asks the replay model all its questions."""
        return [
            "model=replay",
            f"model.path={self.answers}",
            "task=gsm8k",
            f"dataset.path={self.data}",
            *more,
        ]


def write_bench(folder: Path, flags: Sequence[str], name: str = "bench", **row: object) -> Bench:
    """One question per entry of `flags`; the i-th sample of it is right where flags[q][i] is 1.

    Gold of q is q + 10.
    """
    data, answers = folder / f"{name}.jsonl", folder / f"{name}.answers.jsonl"
    questions = [f"question {q} of {name}?" for q in range(len(flags))]
    with data.open("w") as file:
        for q, question in enumerate(questions):
            file.write(json.dumps({"question": question, "answer": f"thus\n#### {q + 10}"}) + "\n")
    with answers.open("w") as file:
        for q, (question, flag) in enumerate(zip(questions, flags, strict=True)):
            for i, right in enumerate(flag):
                text = f"The answer is {q + 10 if right == '1' else 1000 + i}."
                file.write(json.dumps({"query": question, "index": i, "text": text, **row}) + "\n")
    return Bench(data, answers)


def run_folders(folder: Path) -> list[Path]:
    """The run folders below outputs/, by name."""
    outputs = folder / "outputs"
    return sorted(p for p in outputs.iterdir() if p.is_dir()) if outputs.is_dir() else []


def results_of(run: Path) -> dict[str, object]:
    """The only results JSON of a run."""
    (path,) = [p for p in run.glob("results/*/*.json") if not p.name.endswith(".times.json")]
    loaded: dict[str, object] = json.loads(path.read_text())
    return loaded


def values_of(run: Path) -> dict[str, float]:
    """Shown name -> value of the only results JSON of a run."""
    estimates = results_of(run)["estimates"]
    assert isinstance(estimates, list)
    return {e["display"]: e["value"] for e in estimates}
