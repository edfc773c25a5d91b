"""--resume: exactly what is missing is asked; what grows, what is refused, what is kept."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.running import (
    asked_since,
    case,
    counts_of,
    header_of,
    is_in_order,
    results_text,
    rows_of,
)
from support.workspace import Bench, Evalrun, results_of, run_folders, values_of

from evalrun.backends import Engines
from evalrun.runs import find
from evalrun.stages import infer
from evalrun.store.cell.predictions import open_writer
from evalrun.store.layout import Run
from evalrun.store.rows.row_writer import RowWriter
from evalrun.types import Plan, Reply

Make = Callable[..., Bench]


def only_run(folder: Path) -> Path:
    (run,) = run_folders(folder)
    return run


def logged(run: Path) -> str:
    return (run / "logs" / "infer" / "replay" / "gsm8k.out").read_text()


# ---- what is asked -------------------------------------------------------------------------------


def test_re_010_the_union_is_scored(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    row = case("resume", "RE-010")
    total, done = row["input"]["total"], row["input"]["done_before_kill"]
    made = bench(["10"[q % 2] for q in range(total)])
    assert evalrun(*made.words("output_dir=whole")).code == 0
    cut = evalrun(*made.words(f"+model.engine.die_after={done}"))
    assert cut.code == 3
    run = only_run(tmp_path)
    assert counts_of(run) == {"n_unsent": total - done}
    assert results_of(run)["estimates"] == []
    assert "10 missing" in cut.out
    start = time.time()
    ran = evalrun(*made.words("--resume"))
    assert ran.code == 0, ran.err
    assert len(asked_since(run, start)) == row["expected"]["requests_in_second_run"]
    assert results_of(run)["estimates"][0]["n_scored"] == row["expected"]["n_scored"]  # type: ignore[index]
    (whole,) = (tmp_path / "whole").iterdir()
    assert results_text(run) == results_text(whole)
    assert is_in_order(run, total, 1)


def test_re_014_a_larger_limit_extends_a_smaller_scores_a_prefix(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    row = case("resume", "RE-014")
    small, large = row["input"]["max_samples"]
    made = bench(["1", "0"] * (row["input"]["dataset_rows"] // 2))
    evalrun(*made.words("--limit", str(small)))
    run = only_run(tmp_path)
    first = rows_of(run)
    start = time.time()
    ran = evalrun(*made.words("--limit", str(large), "--resume"))
    assert ran.code == 0, ran.err
    assert len(asked_since(run, start)) == row["expected"]["requests_second_run"]
    assert results_of(run)["header"]["n_docs"] == row["expected"]["n"]  # type: ignore[index]
    assert rows_of(run)[:small] == first
    assert is_in_order(run, large, 1)
    prefix = evalrun(*made.words("--limit", "1", "--resume"))
    assert prefix.code == 0, prefix.err
    assert results_of(run)["header"]["n_docs"] == 1  # type: ignore[index]
    assert values_of(run) == {"accuracy": 1.0}
    assert is_in_order(run, large, 1)  # nothing was dropped, no order was lost
    again = evalrun("--mode", "eval", "--reuse", "latest")
    assert again.code == 0
    assert results_of(run)["header"]["n_docs"] == large  # type: ignore[index]
    scored = evalrun("--mode", "eval", "--reuse", "latest", "--limit", "3")
    assert scored.code == 0
    assert values_of(run) == {"accuracy": pytest.approx(2 / 3)}
    rest = evalrun(*made.words("limit=null", "--resume"))
    assert rest.code == 0, rest.err
    assert is_in_order(run, 10, 1)


def test_more_samples_extend_a_warm_run(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1010", "0110", "0001"])
    evalrun(*made.words("num_return_sequences=2"))
    run = only_run(tmp_path)
    start = time.time()
    ran = evalrun(*made.words("num_return_sequences=4", "--resume"))
    assert ran.code == 0, ran.err
    assert [index for _, index in asked_since(run, start)] == [2, 3] * 3
    assert is_in_order(run, 3, 4)
    assert values_of(run)["avg@4"] == pytest.approx(5 / 12)
    assert values_of(run)["avg@2"] == pytest.approx(1 / 3)  # the estimates of before are kept
    fewer = evalrun(*made.words("num_return_sequences=3", "--resume"))
    assert fewer.code == 2
    assert "n=4" in fewer.err
    assert "first_n=true" in fewer.err
    plan = json.loads((run / "configs" / "plan.json").read_text())
    assert plan["cells"][0]["n"] == 4
    first = evalrun(*made.words("num_return_sequences=3", "first_n=true", "--resume"))
    assert first.code == 0, first.err
    assert values_of(run)["avg@3"] == pytest.approx(4 / 9)


def test_a_greedy_run_is_not_extended_to_samples(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["111", "000"])
    evalrun(*made.words())
    run = only_run(tmp_path)
    before = (run / "configs" / "plan.json").read_text()
    ran = evalrun(*made.words("num_return_sequences=3", "--resume"))
    assert ran.code == 2
    assert "temperature 0" in ran.err
    assert "0.7" in ran.err
    assert (run / "configs" / "plan.json").read_text() == before
    assert len(rows_of(run)) == 2


def test_a_complete_run_asks_nothing_and_loads_no_engine(
    evalrun: Evalrun, bench: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(["10", "01"])
    words = made.words("num_return_sequences=2")
    evalrun(*words)
    run = only_run(tmp_path)
    files = {p: p.read_bytes() for p in (run / "predictions").rglob("*") if p.is_file()}
    results = results_text(run)

    def refuse(self: object) -> None:
        raise AssertionError("the engine was loaded")

    monkeypatch.setattr("evalrun.backends.replay.backend.ReplayBackend.start", refuse)
    for mode in ("all", "infer"):
        ran = evalrun(*words, "--resume", "--mode", mode)
        assert ran.code == 0, ran.err
    assert {p: p.read_bytes() for p in (run / "predictions").rglob("*") if p.is_file()} == files
    assert results_text(run) == results
    assert logged(run).count("4 rows wanted, 0 to ask for") == 2


def test_failed_rows_are_asked_again(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1", "1", "0", "1"])
    ran = evalrun(*made.words("+model.engine.fail_first=2"))
    assert ran.code == 3
    run = only_run(tmp_path)
    assert counts_of(run) == {"n_error": 2}
    assert "INCOMPLETE" in ran.out.upper()
    (estimate,) = results_of(run)["estimates"]  # type: ignore[misc]
    assert estimate["value"] == 0.25  # the failed ones are wrong
    assert estimate["bounds"] == [0.25, 0.75]
    assert header_of(run)["state"] == "incomplete"
    assert "2 of 4 requests failed" in header_of(run)["reason"]
    assert logged(run).count(": fail_first: ") == 2
    tolerated = evalrun("--mode", "eval", "--reuse", "latest", "max_error_rate=0.5")
    assert tolerated.code == 0, tolerated.err
    assert header_of(run)["state"] == "complete"
    start = time.time()
    again = evalrun(*made.words("--resume"))
    assert again.code == 0, again.err
    failed = [r.doc_id for r in rows_of(run)][:2]
    assert asked_since(run, start) == [(doc_id, 0) for doc_id in failed]
    assert counts_of(run) == {}
    assert values_of(run) == {"accuracy": 0.75}
    assert "scored before" not in evalrun("--mode", "viz", "--reuse", "latest").out
    assert is_in_order(run, 4, 1)


def test_max_error_rate_counts_in_infer_mode_and_is_kept(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["1"] * 4)
    strict = evalrun(
        "--mode", "infer", *made.words("+model.engine.fail_first=1", "output_dir=strict")
    )
    assert strict.code == 3
    assert strict.out == "gsm8k: 4 rows saved, 1 failed; --resume asks for them\n"
    words = made.words("max_error_rate=0.25", "+model.engine.fail_first=1")
    assert evalrun("--mode", "infer", *words).code == 0
    scored = evalrun("--mode", "eval", "--reuse", "latest")
    assert scored.code == 0, scored.err  # the stored plan's rate
    assert evalrun("--mode", "eval", "--reuse", "latest", "max_error_rate=0").code == 3


def test_re_006_samples_of_one_prompt_stay_apart(evalrun: Evalrun, tmp_path: Path) -> None:
    row = case("resume", "RE-006")
    stored = row["expected"]["stored"]
    (tmp_path / "d.jsonl").write_text(json.dumps({"question": "same", "answer": "1"}) + "\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"query": "same", "texts": stored}) + "\n")
    ran = evalrun(
        "model=replay",
        "model.path=a.jsonl",
        "task=gsm8k",
        "dataset.path=d.jsonl",
        "model.temperature=0.8",
        f"num_return_sequences={row['input']['num_return_sequences']}",
    )
    assert ran.code == 0, ran.err
    run = only_run(tmp_path)
    assert [r.text for r in rows_of(run)] == stored
    assert len({r.key for r in rows_of(run)}) == row["expected"]["distinct_rows"]
    assert len({r.seed for r in rows_of(run)}) == 4


def test_numbers_of_before_a_resume_are_told_apart(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["11", "00"])
    evalrun(
        *made.words(
            "num_return_sequences=2", "metric=[accuracy,pass@k]", "+model.engine.fail_first=1"
        )
    )
    assert evalrun(*made.words("num_return_sequences=2", "metric=accuracy", "--resume")).code == 0
    viz = evalrun("--mode", "viz", "--reuse", "latest")
    assert "pass@2: scored before failed samples were asked again" in viz.out
    assert evalrun("--mode", "eval", "--reuse", "latest", "metric=pass@k").code == 0
    assert "scored before" not in evalrun("--mode", "viz", "--reuse", "latest").out


# ---- what is refused -----------------------------------------------------------------------------


def test_re_004_other_settings(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    row = case("resume", "RE-004")["input"]

    def settings(name: str) -> list[str]:
        return [
            f"model.temperature={row[name]['temperature']}",
            f"model.max_tokens={row[name]['max_tokens']}",
        ]

    made = bench(["1", "0"])
    evalrun("--mode", "infer", *made.words(*settings("first")))
    run = only_run(tmp_path)
    before = rows_of(run)
    for words in (["--resume"], ["--reuse", str(run)]):
        ran = evalrun(*made.words(*settings("second"), *words))
        assert ran.code == 2
        assert "model.temperature: stored 0.0, asked 0.7" in ran.err
        assert "max_tokens" not in ran.err
    assert rows_of(run) == before
    assert run_folders(tmp_path) == [run]
    fresh = evalrun(*made.words(*settings("second")))
    assert fresh.code == 0
    assert len(run_folders(tmp_path)) == 2


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("what", ["dataset", "replies"])
def test_other_content(
    evalrun: Evalrun, bench: Make, tmp_path: Path, what: str, is_whole: bool
) -> None:
    made = bench(["1", "0", "1"])
    evalrun(
        "--mode",
        "infer",
        *made.words("" if is_whole else "+model.engine.die_after=2")[: 4 + (not is_whole)],
    )
    run = only_run(tmp_path)
    before, plan = rows_of(run), (run / "configs" / "plan.json").read_text()
    path = made.data if what == "dataset" else made.answers
    path.write_text(
        path.read_text().replace("bench?", "bench??")
        if what == "dataset"
        else path.read_text() + "\n"
    )
    ran = evalrun(*made.words("--resume", "--limit", "3", "num_return_sequences=1"))
    if what == "replies" and is_whole:
        assert ran.code == 0  # nothing is asked, so no engine is there to compare
        return
    assert ran.code == 2, ran.err
    assert ("dataset " if what == "dataset" else "revision") in ran.err
    assert "start a new run without --resume" in ran.err
    assert rows_of(run) == before
    if what == "dataset":
        assert (run / "configs" / "plan.json").read_text() == plan


def test_no_run_to_resume(evalrun: Evalrun, bench: Make) -> None:
    ran = evalrun(*bench(["1"]).words("--resume"))
    assert ran.code == 2
    assert "There is no run of this address to resume in outputs" in ran.err
    assert "without --resume" in ran.err


def test_an_unfinished_run_is_told_of(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1", "0"])
    evalrun("--mode", "infer", *made.words("+model.engine.die_after=1"))
    first = only_run(tmp_path)
    ran = evalrun(*made.words())
    assert ran.code == 0
    assert f"An unfinished run of the same address is there: outputs/{first.name}" in ran.err
    assert "--resume" in ran.err


# ---- shards --------------------------------------------------------------------------------------


def reopened(run: Path) -> RowWriter[Reply]:
    """A second start of the writer on the only cell of a run."""
    (cell,) = find.load(run).plan.cells
    return open_writer(Run(run).cell("replay", "gsm8k"), {"ask_id": cell.ask_id})


def test_re_001_the_last_row_of_a_key_wins(evalrun: Evalrun, tmp_path: Path) -> None:
    row = case("resume", "RE-001")
    numbers = {"A": "1", "B": "2", "C": "3"}
    first, wrong, right = row["input"]["rows"]
    golds = [numbers[g] for g in row["input"]["gold"]]
    data, answers = tmp_path / "d.jsonl", tmp_path / "a.jsonl"
    data.write_text(
        "".join(json.dumps({"question": f"q{i}", "answer": g}) + "\n" for i, g in enumerate(golds))
    )
    saved = [{"query": f"q{r['id']}", "text": numbers[r["prediction"]]} for r in (first, wrong)]
    answers.write_text("".join(json.dumps(s) + "\n" for s in saved))
    evalrun(
        "--mode",
        "infer",
        "model=replay",
        f"model.path={answers}",
        "task=gsm8k",
        f"dataset.path={data}",
    )
    run = only_run(tmp_path)
    second = rows_of(run)[1]
    with reopened(run) as writer:
        writer.append(replace(second, text=numbers[right["prediction"]]))
    ran = evalrun("--mode", "eval", "--reuse", "latest")
    assert ran.code == 0, ran.err
    assert values_of(run) == {"accuracy": row["expected"]["accuracy"]}
    assert header_of(run)["n_docs"] == row["expected"]["n"]
    assert (
        "1 rows were stored twice" in (run / "logs" / "eval" / "replay" / "gsm8k.out").read_text()
    )


def shard_of_single_rows(run: Path) -> Path:
    """The final file of a run turned into one stream with a batch per row, as a killed process
    leaves it.
    """
    rows = rows_of(run)
    final = run / "predictions" / "replay" / "gsm8k.arrow"
    content = find.load(run)
    with reopened(run) as writer:
        stored = writer.stored_metadata
    final.unlink()
    with open_writer(
        Run(run).cell("replay", "gsm8k"), {"ask_id": content.plan.cells[0].ask_id}
    ) as writer:
        writer.describe({k: stored[k] for k in ("content", "n")})
        for row in rows:
            writer.append(row)
            writer.flush()
    (shard,) = final.parent.glob("*.arrows")
    return shard


def test_re_002_a_torn_last_record(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    row = case("resume", "RE-002")["expected"]
    made = bench(["1", "0", "1"])
    evalrun("--mode", "infer", *made.words())
    run = only_run(tmp_path)
    shard = shard_of_single_rows(run)
    with shard.open("r+b") as file:
        file.truncate(shard.stat().st_size - 40)
    assert len(rows_of(run)) == row["rows_recovered"]
    start = time.time()
    ran = evalrun(*made.words("--resume"))
    assert ran.code == 0, ran.err
    assert len(asked_since(run, start)) == row["rows_rerun"]
    assert "Dropped an unfinished batch" in logged(run)
    assert is_in_order(run, 3, 1)


def test_a_shard_cut_anywhere_in_its_last_200_bytes(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["1", "0", "1"])
    evalrun(*made.words())
    run = only_run(tmp_path)
    whole = [(r.doc_id, r.text) for r in rows_of(run)]
    size = shard_of_single_rows(run).stat().st_size
    plan = replace(find.load(run).plan, mode="infer")
    prepared = infer.prepare(plan)
    asked = []
    for cut in range(200):
        copy = tmp_path / f"cut{cut}"
        shutil.copytree(run, copy)
        (shard,) = (copy / "predictions" / "replay").glob("*.arrows")
        with shard.open("r+b") as file:
            file.truncate(size - cut)
        start = time.time()
        with Engines() as engines:
            (outcome,) = infer.run(replace_run(plan, copy), prepared, engines, is_debug=True)
        assert outcome.is_whole
        assert [(r.doc_id, r.text) for r in rows_of(copy)] == whole
        assert is_in_order(copy, 3, 1)
        asked.append(len(asked_since(copy, start)))
        shutil.rmtree(copy)
    assert set(asked) == {0, 1}
    assert asked == sorted(asked)  # the deeper the cut, the more is asked


def replace_run(plan: Plan, run: Path) -> Plan:
    return replace(plan, run_dir=str(run))
