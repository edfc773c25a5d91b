"""Laws of scoring: what is judged, counted, stored and logged; a scorer or a metric that raises;
packages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.running import case, counts_of, header_of, results_text, verdicts_of
from support.workspace import Bench, Evalrun, results_of, run_folders, values_of

import evalrun as package
from evalrun.errors import Fault
from evalrun.metrics.base import METRICS, SCORERS, Column, Metric, Output, Scorer
from evalrun.store.cell.statistics import read_statistics
from evalrun.store.layout import Run
from evalrun.types import Doc, Samples, State, Verdict

Make = Callable[..., Bench]


@dataclass(frozen=True)
class Fragile(Scorer):
    """Right where the text holds the gold; raises on BOOM. calls: the texts that it was asked to
    judge.
    """

    name: ClassVar[str] = "fragile"
    calls: ClassVar[list[str]] = []

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        type(self).calls.append(text)
        if "BOOM" in text:
            raise RuntimeError("no \x1b[31mway")
        return Verdict(float(doc.gold_texts[0].endswith(text)), text)


@dataclass(frozen=True)
class Moody(Metric):
    """Mean of the verdicts; raises on the document whose query holds `bad`."""

    name: ClassVar[str] = "moody"
    display: ClassVar[str] = "moody"
    source: ClassVar[str] = "these tests"
    n: int | None = None
    scorer: str | None = None
    columns: ClassVar[Any] = (Column("value", "float"),)

    def outputs(self) -> tuple[Output, ...]:
        return (Output("moody", ("value",), lambda matrix: matrix["value"]),)

    def score(self, doc: Doc, answer: Samples, verdicts: Sequence[Verdict]) -> tuple[float]:
        if "bad" in doc.query:
            raise ValueError("not this one")
        return (sum(v.value or 0.0 for v in verdicts) / len(verdicts),)


@dataclass(frozen=True)
class Needy(Fragile):
    name: ClassVar[str] = "needy"
    packages: ClassVar[tuple[str, ...]] = ("no_such_package_here",)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    Fragile.calls.clear()
    monkeypatch.setitem(SCORERS._things, "fragile", Fragile)
    monkeypatch.setitem(SCORERS._things, "needy", Needy)
    monkeypatch.setitem(METRICS._things, "moody", Moody)


def write(folder: Path, *samples: dict[str, Any], query: str = "q") -> list[str]:
    """A dataset of one question per sample, gold i; the words of the command that replays them."""
    with (folder / "d.jsonl").open("w") as data, (folder / "a.jsonl").open("w") as answers:
        for i, sample in enumerate(samples):
            question = sample.pop("question", f"{query}{i}")
            data.write(json.dumps({"question": question, "answer": str(i)}) + "\n")
            answers.write(json.dumps({"query": question, **sample}) + "\n")
    return ["model=replay", "model.path=a.jsonl", "task=gsm8k", "dataset.path=d.jsonl"]


def run_of(folder: Path) -> Path:
    return run_folders(folder)[-1]


def eval_log(run: Path) -> str:
    return (run / "logs" / "eval" / "replay" / "gsm8k.out").read_text()


def test_odd_answers_are_judged_as_they_stand_and_counted(evalrun: Evalrun, tmp_path: Path) -> None:
    words = write(
        tmp_path,
        {"text": "The answer is 0."},
        {"text": "The answer is 1", "finish_reason": "length"},
        {"text": "The answer is 2.", "finish_reason": "content_filter"},
        {"text": ""},
        {"text": None},
        {"text": "<think>5 or 5</think>The answer is 5."},
        {"text": "<think>it never ends 6", "finish_reason": "length"},
        {"text": "I cannot say."},
    )
    ran = evalrun(*words)
    assert ran.code == 0, ran.err
    run = run_of(tmp_path)
    assert counts_of(run) == {"n_truncated": 2, "n_unparsed": 4, "n_filtered": 1, "n_empty": 2}
    assert values_of(run) == {"accuracy": 0.5}
    (judged,) = verdicts_of(run).values()
    states = [v.state for v in judged.values()]
    assert (states.count(State.SCORED), states.count(State.UNPARSED)) == (4, 4)
    assert {v.rule for v in judged.values() if v.state is State.UNPARSED} == {None, "no_answer"}
    (estimate,) = results_of(run)["estimates"]  # type: ignore[misc]
    assert (estimate["n_truncated"], estimate["n_unparsed"], estimate["n_scored"]) == (2, 4, 8)
    assert "2 of 8 answers (25.0 %) were cut off" in ran.out


def test_a_scorer_that_raises_leaves_the_sample_unscored(evalrun: Evalrun, tmp_path: Path) -> None:
    words = write(tmp_path, {"text": "0"}, {"text": "BOOM"}, {"text": "2"}, {"text": "x"})
    ran = evalrun(*words, "tasks.gsm8k.extract=fragile")
    assert ran.code == 3, ran.err
    run = run_of(tmp_path)
    (estimate,) = results_of(run)["estimates"]  # type: ignore[misc]
    # of the three that could be judged: never 0 for the other
    assert estimate["value"] == pytest.approx(2 / 3)
    assert (estimate["n_docs"], estimate["n_scored"], estimate["n_error"]) == (4, 3, 1)
    assert estimate["bounds"] == [0.5, 0.75]
    assert counts_of(run) == {"n_error": 1}
    assert header_of(run)["state"] == "incomplete"
    assert "1 of 4 samples could not be scored" in header_of(run)["reason"]
    assert header_of(run)["log"] == "logs/eval/replay/gsm8k.out"
    (verdict,) = [v for v in verdicts_of(run)["fragile.v1"].values() if v.state is State.ERROR]
    assert verdict.value is None
    assert verdict.note == "fragile raised RuntimeError: no \x1b[31mway"
    assert "fragile raised RuntimeError: no \\x1b[31mway" in eval_log(run)
    assert "\x1b[31m" not in eval_log(run)
    allowed = evalrun("--mode", "eval", "--reuse", "latest", "max_error_rate=0.25")
    assert allowed.code == 0
    assert header_of(run)["state"] == "complete"
    assert results_of(run)["estimates"][0]["value"] == estimate["value"]  # type: ignore[index]


def test_a_metric_that_raises_leaves_the_document_unscored(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    words = write(tmp_path, {"text": "0"}, {"text": "1", "question": "bad"}, {"text": "7"})
    ran = evalrun(*words, "metric=[moody,accuracy]", "+model.engine.fail_first=1")
    assert ran.code == 3, ran.err
    run = run_of(tmp_path)
    moody, accuracy = results_of(run)["estimates"]  # type: ignore[misc]
    assert (moody["value"], moody["n_scored"], moody["n_error"]) == (0.0, 2, 2)
    assert moody["bounds"] == [0.0, pytest.approx(2 / 3)]
    assert (accuracy["value"], accuracy["n_scored"], accuracy["n_error"]) == (
        pytest.approx(1 / 3),
        3,
        1,
    )
    assert counts_of(run) == {"n_error": 2}
    assert (
        "1 of 3 requests failed and 1 of 3 samples could not be scored" in header_of(run)["reason"]
    )
    assert "moody raised ValueError: not this one" in eval_log(run)


def test_unscored_documents_change_counts_never_the_value(evalrun: Evalrun, tmp_path: Path) -> None:
    sound = [{"text": "0"}, {"text": "x"}, {"text": "2"}]
    evalrun(*write(tmp_path, *[dict(s) for s in sound]), "tasks.gsm8k.extract=fragile")
    before = results_of(run_of(tmp_path))["estimates"][0]  # type: ignore[index]
    evalrun(*write(tmp_path, *[dict(s) for s in sound], *[{"text": f"BOOM{i}"} for i in range(5)]),
            "tasks.gsm8k.extract=fragile")  # fmt: skip
    after = results_of(run_of(tmp_path))["estimates"][0]  # type: ignore[index]
    for name in ("value", "stderr", "ci_low", "ci_high", "n_scored"):
        assert after[name] == before[name], name
    assert (after["n_docs"], after["n_error"]) == (8, 5)


def test_equal_texts_are_judged_once(evalrun: Evalrun, tmp_path: Path) -> None:
    words = write(tmp_path, {"texts": ["0", "0", "1"]}, {"texts": ["0", "1", "1"]})
    evalrun(
        *words,
        "num_return_sequences=3",
        "tasks.gsm8k.extract=fragile",
        "metric=[accuracy,pass@k,avg@n]",
    )
    # Distinct (text, gold): (0, gold 0), (1, gold 0), (0, gold 1), (1, gold 1); shared by three
    # metrics.
    assert sorted(Fragile.calls) == ["0", "0", "1", "1"]
    values = values_of(run_of(tmp_path))
    assert values["avg@3"] == pytest.approx(2 / 3)
    assert len(verdicts_of(run_of(tmp_path))["fragile.v1"]) == 6


def test_verdicts_of_two_evals_are_equal(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    evalrun(*bench(["110", "000"]).words("num_return_sequences=3"))
    run = run_of(tmp_path)
    before, results = verdicts_of(run), results_text(run)
    path = run / "verdicts" / "replay" / "gsm8k.arrow"
    raw = path.read_bytes()
    evalrun("--mode", "eval", "--reuse", "latest")
    assert verdicts_of(run) == before
    assert path.read_bytes() == raw
    assert results_text(run) == results
    evalrun("--mode", "eval", "--reuse", "latest", "metric=exact_match")
    assert {**verdicts_of(run), **before} == verdicts_of(run)  # other scorers' verdicts stay
    assert len(verdicts_of(run)) == 2


def test_statistics_per_document(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    evalrun(*bench(["110", "000", "100"]).words("num_return_sequences=3"))
    run = run_of(tmp_path)
    columns = read_statistics(Run(run).cell("replay", "gsm8k"))
    ids = [doc_id for doc_id, index in next(iter(verdicts_of(run).values())) if index == 0]
    assert sorted(columns.pop("doc_id")) == sorted(ids)
    assert columns == {
        "accuracy.value.n3": [pytest.approx(2 / 3), 0.0, pytest.approx(1 / 3)],
        **{f"{m}.n.n3": [3, 3, 3] for m in ("pass_at_k", "cons_at_k", "avg_at_n")},
        **{f"{m}.c.n3": [2, 0, 1] for m in ("pass_at_k", "cons_at_k", "avg_at_n")},
    }


def test_logs_exist_and_debug_writes_none(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1", "0"])
    evalrun(*made.words())
    run = run_of(tmp_path)
    assert (
        "2 rows wanted, 2 to ask for"
        in (run / "logs" / "infer" / "replay" / "gsm8k.out").read_text()
    )
    assert "accuracy = 0.5" in eval_log(run)
    loud = evalrun(*made.words("--debug", "output_dir=loud"))
    assert loud.code == 0
    (other,) = (tmp_path / "loud").iterdir()
    assert not (other / "logs").exists()
    assert "2 rows wanted, 2 to ask for" in loud.err
    assert "accuracy = 0.5" in loud.err


def test_cl_004_missing_packages_are_found_while_planning(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    assert case("cli", "CL-004")["input"]["mode"] == "all"
    words = bench(["1", "0"]).words("tasks.gsm8k.extract=needy")
    refused = evalrun(*words)
    assert refused.code == 2
    assert "no_such_package_here" in refused.err
    assert "pip install" in refused.err
    assert not (tmp_path / "outputs").exists()
    assert evalrun("--mode", "infer", *words).code == 0
    later = evalrun("--mode", "eval", "--reuse", "latest")
    assert later.code == 2
    assert "no_such_package_here" in later.err
    other = evalrun(
        "--mode", "eval", "--reuse", "latest", "task=gsm8k", "tasks.gsm8k.extract=number"
    )
    assert other.code == 0, other.err


def test_results_as_a_frame(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    evalrun(*bench(["110", "000"]).words("num_return_sequences=3"))
    run = run_of(tmp_path)
    for name in (run, str(run), run.name, "latest"):
        frame = package.results(name)
        assert list(frame["metric"]) == ["accuracy", "pass@3", "cons@3", "avg@3"]
        assert dict(zip(frame["metric"], frame["value"], strict=True)) == values_of(run)
    assert list(frame.columns)[:6] == ["dataset", "version", "metric", "mode", "model", "value"]
    assert frame["n_docs"].tolist() == [2] * 4
    with pytest.raises(Fault, match="no such run"):
        package.results("20010101_000000")


def test_results_of_a_sweep(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    ran = evalrun(*bench(["1", "0"]).words("-m", "seed=1,2"))
    assert ran.code == 0, ran.err
    (sweep,) = (tmp_path / "outputs").iterdir()
    assert len(package.results(sweep)) == 2
