"""The modes through the real entry point: all, infer then eval by address, --reuse, viz; what
meets what.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.running import case, counts_of, results_text, rows_of, verdicts_of, write_tasks
from support.workspace import Bench, Evalrun, run_folders, values_of

from evalrun.runs import find

Make = Callable[..., Bench]
TWO_OF_THREE = ["110", "101", "001", "000"]


def only_run(folder: Path) -> Path:
    (run,) = run_folders(folder)
    return run


def csv_values(run: Path) -> dict[str, float]:
    """metric -> value of the newest summary CSV."""
    newest = max((run / "summary").glob("*.csv"), key=lambda p: p.stat().st_mtime_ns)
    with newest.open(newline="") as file:
        return {row["metric"]: float(row["value"]) for row in csv.DictReader(file)}


SEEDS = [
    # (correct samples per question, values): the examples of the accuracy-test service, n = k = 3
    (TWO_OF_THREE, {"pass@3": 0.75, "avg@3": 5 / 12, "cons@3": 0.5}),
    (["110", "110"], {"avg@3": 2 / 3, "cons@3": 1.0}),
    (["100", "010"], {"avg@3": 1 / 3, "cons@3": 0.0}),
    (["111", "000"], {"avg@3": 0.5, "cons@3": 0.5}),
]


@pytest.mark.parametrize(("flags", "expected"), SEEDS)
def test_examples_of_the_service(
    evalrun: Evalrun, bench: Make, tmp_path: Path, flags: list[str], expected: dict[str, float]
) -> None:
    ran = evalrun(*bench(flags).words("num_return_sequences=3"))
    assert ran.code == 0, ran.err
    run = only_run(tmp_path)
    for name, value in expected.items():
        assert values_of(run)[name] == pytest.approx(value, abs=1e-12)
        assert csv_values(run)[name] == pytest.approx(value, abs=1e-12)
        assert f"{100 * value:.2f}" in ran.out


def test_pass_at_2_of_5(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    assert evalrun(*bench(["10110"]).words("metric=pass@k:k=2&n=5")).code == 0
    run = only_run(tmp_path)
    (value,) = values_of(run).values()
    assert value == pytest.approx(0.9, abs=1e-12)
    assert list(csv_values(run).values()) == [value]


def test_infer_then_eval_equals_all(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(TWO_OF_THREE)
    words = made.words("num_return_sequences=3")
    assert evalrun(*words, "output_dir=whole").code == 0
    asked = evalrun("--mode", "infer", *words)
    assert (asked.code, asked.out) == (0, "gsm8k: 12 rows saved\n")
    run = only_run(tmp_path)
    assert not (run / "results" / "replay" / "gsm8k.json").exists()
    assert not (run / "summary").exists()
    scored = evalrun("--mode", "eval", *made.words())  # n comes from the stored plan
    assert scored.code == 0, scored.err
    (whole,) = (tmp_path / "whole").iterdir()
    assert results_text(run) == results_text(whole)
    assert verdicts_of(run) == verdicts_of(whole)


def test_results_do_not_depend_on_time_or_place(
    evalrun: Evalrun, bench: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(["110", "000"])
    evalrun(*made.words("num_return_sequences=3"))
    run = only_run(tmp_path)
    before, verdicts = results_text(run), verdicts_of(run)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = shutil.move(run, elsewhere / "renamed")
    shutil.rmtree(moved / "results")
    shutil.rmtree(moved / "verdicts")
    made.data.unlink()
    made.answers.unlink()
    monkeypatch.chdir(elsewhere)
    ran = evalrun("--mode", "eval", "--reuse", str(moved))
    assert ran.code == 0, ran.err
    assert results_text(moved) == before
    assert verdicts_of(moved) == verdicts
    assert evalrun("--mode", "eval", "--reuse", "renamed", "output_dir=.").code == 0
    assert results_text(moved) == before


def test_reuse_by_path_stamp_and_latest(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    evalrun(*bench(["1", "0"], name="one").words())
    evalrun(*bench(["1", "1"], name="two").words())
    (tmp_path / "outputs" / "zzz").mkdir()
    (tmp_path / "outputs" / "zzz" / "notes").mkdir()
    (tmp_path / "outputs" / "stray.txt").write_text("x")
    one, two = [p for p in run_folders(tmp_path) if p.name != "zzz"]
    for reuse, run in (
        (str(one), one),
        (one.name, one),
        (f"outputs/{two.name}", two),
        ("latest", two),
    ):
        ran = evalrun("--mode", "eval", "--reuse", reuse)
        assert ran.code == 0, ran.err
        assert f"Scoring {run.relative_to(tmp_path)}" in ran.err.replace(str(tmp_path) + "/", "")
    missing = evalrun("--mode", "eval", "--reuse", one.name[:-1])
    assert missing.code == 2
    assert one.name in missing.err
    assert "Did you mean latest?" in evalrun("--mode", "eval", "--reuse", "lates").err
    folder = evalrun("--mode", "eval", "--reuse", str(tmp_path / "outputs" / "zzz"))
    assert folder.code == 2
    assert "not a run folder" in folder.err


def test_other_metrics_over_saved_rows(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    evalrun(*bench(["10", "01"]).words("num_return_sequences=2"))
    run = only_run(tmp_path)
    before = json.loads(results_text(run))["estimates"]
    ran = evalrun("--mode", "eval", "--reuse", "latest", "metric=[exact_match,pass@k:k=1&n=2]")
    assert ran.code == 0, ran.err
    after = json.loads(results_text(run))["estimates"]
    assert after[: len(before)] == before  # a new eval adds estimates and removes none
    assert [e["display"] for e in after[len(before) :]] == ["exact_match", "pass@k:k=1&n=2"]
    assert values_of(run)["pass@k:k=1&n=2"] == pytest.approx(0.5)
    assert "exact_match" in ran.out
    assert "accuracy" not in ran.out  # the table shows what was asked for now
    again = results_text(run)
    evalrun("--mode", "eval", "--reuse", "latest", "metric=[exact_match,pass@k:k=1&n=2]")
    assert results_text(run) == again


def test_viz_shows_all_that_is_stored(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1", "0"])
    evalrun("--mode", "infer", *made.words())
    early = evalrun("--mode", "viz", "--reuse", "latest")
    assert early.code == 2
    assert "--mode eval" in early.err
    evalrun("--mode", "eval", *made.words())
    evalrun("--mode", "eval", "--reuse", "latest", "metric=exact_match")
    run = only_run(tmp_path)
    before = results_text(run)
    for words in (["--reuse", "latest"], made.words()):
        ran = evalrun("--mode", "viz", *words)
        assert ran.code == 0, ran.err
        assert "accuracy" in ran.out
        assert "exact_match" in ran.out
        assert csv_values(run) == {"accuracy": 0.5, "exact_match": 0.5}
    assert results_text(run) == before


def test_metric_takes_n_and_k_from_the_stored_plan(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["110", "000"])
    evalrun("--mode", "infer", *made.words("num_return_sequences=3"))
    for words in (made.words(), ["--reuse", "latest"]):
        ran = evalrun("--mode", "eval", *words, "metric=pass@k")
        assert ran.code == 0, ran.err
        assert values_of(only_run(tmp_path)) == {"pass@3": 0.5}


def test_re_007_other_n_than_stored(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    row = case("resume", "RE-007")["input"]
    made = bench(["10110", "00000"])
    evalrun("--mode", "infer", *made.words(f"num_return_sequences={row['stored_n']}"))
    run = only_run(tmp_path)
    for words in (made.words(), ["--reuse", "latest"]):
        for n, code in zip(row["eval_n"], (2, 0, 2), strict=True):
            ran = evalrun("--mode", "eval", *words, f"num_return_sequences={n}")
            assert ran.code == code, ran.err
            if code:
                assert "n=5" in ran.err
                assert f"num_return_sequences={n}" in ran.err
    assert "--resume num_return_sequences=8" in ran.err
    fewer = evalrun("--mode", "eval", "--reuse", "latest", "num_return_sequences=3", "first_n=true")
    assert fewer.code == 0, fewer.err
    assert values_of(run)["pass@3"] == pytest.approx(0.5)
    assert values_of(run)["avg@3"] == pytest.approx(1 / 3)
    more = evalrun("--mode", "eval", "--reuse", "latest", "metric=pass@k:k=2&n=9")
    assert more.code == 2
    assert "pass_at_k needs n=9 samples per document" in more.err
    assert "holds n=5" in more.err
    bad = evalrun("--mode", "eval", "--reuse", "latest", "num_return_sequences=0")
    assert bad.code == 2
    assert "positive integer" in bad.err


CONTRADICTIONS = [
    (["model=smollm2"], ["model.name", "replay", "smollm2"]),
    (["model.temperature=0.9"], ["model.temperature", "0.9"]),
    (["task=gsm8k", "dataset.path=other.jsonl"], ["dataset.path", "bench.jsonl", "other.jsonl"]),
    (["seed=7"], ["seed"]),
    (["task=gsm8k", "tasks.gsm8k.fewshot.n=2"], ["fewshot.n"]),
    (["task=demo_math"], ["demo_math", "gsm8k"]),
    (["--limit", "9"], ["limit=9", "2"]),
]


@pytest.mark.parametrize(("words", "named"), CONTRADICTIONS)
def test_typed_contradictions_are_named(
    evalrun: Evalrun, bench: Make, words: list[str], named: list[str]
) -> None:
    evalrun("--mode", "infer", *bench(["1", "0"]).words("--limit", "2"))
    ran = evalrun("--mode", "eval", "--reuse", "latest", *words)
    assert ran.code == 2
    assert not ran.out
    for text in named:
        assert text in ran.err, ran.err


def test_typed_equal_settings_pass(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["10", "00"])
    words = made.words("model.temperature=0.5", "num_return_sequences=2", "seed=3", "--limit", "2")
    evalrun("--mode", "infer", *words)
    ran = evalrun("--mode", "eval", "--reuse", "latest", *words)
    assert ran.code == 0, ran.err
    (tmp_path / "copy").mkdir()
    shutil.copy(made.data, tmp_path / "copy" / made.data.name)
    moved = evalrun(
        "--mode", "eval", "--reuse", "latest", "task=gsm8k", f"dataset.path=copy/{made.data.name}"
    )
    assert moved.code == 0, moved.err  # a local path counts by its file name


def test_newest_complete_run_of_the_address(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1", "1", "0"])
    evalrun("--mode", "infer", *made.words())
    assert evalrun("--mode", "infer", *made.words()).code == 0
    cut = evalrun("--mode", "infer", *made.words("+model.engine.die_after=2"))
    assert cut.code == 3
    first, second, third = run_folders(tmp_path)
    ran = evalrun("--mode", "eval", *made.words())
    assert ran.code == 0, ran.err
    assert second.name in ran.err
    shutil.rmtree(first)
    shutil.rmtree(second)
    incomplete = evalrun("--mode", "eval", *made.words())
    assert incomplete.code == 2
    missing = [r.doc_id for r in rows_of(third)]
    assert third.name in incomplete.err
    assert "--resume" in incomplete.err
    assert "wants 3 rows (3 documents x 1 samples) and holds 2" in incomplete.err
    assert len(missing) == 2
    assert not (third / "results" / "replay" / "gsm8k.json").exists()
    assert not (third / "summary").exists()


def test_re_009_rows_that_are_not_there(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    row = case("resume", "RE-009")["input"]
    made = bench(["1"] * row["dataset_rows"])
    ran = evalrun("--mode", "infer", *made.words(f"+model.engine.die_after={row['predictions']}"))
    assert ran.code == 3
    assert "60 rows saved" in ran.out
    assert "180 never written" in ran.out
    scored = evalrun("--mode", "eval", "--reuse", "latest")
    assert scored.code == 2
    assert not scored.out
    assert "wants 240 rows" in scored.err
    assert "holds 60" in scored.err
    assert " sample 0" in scored.err
    run = only_run(tmp_path)
    assert not (run / "summary").exists()
    viz = evalrun("--mode", "viz", "--reuse", "latest")
    assert viz.code == 2


def test_cl_003_eval_without_predictions(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    ran = evalrun("--mode", "eval", *bench(["1"]).words())
    assert ran.code == 2
    assert "predictions/replay/gsm8k.arrow" in ran.err
    assert "--mode infer" in ran.err
    assert not (tmp_path / "outputs").exists()
    latest = evalrun("--mode", "eval", "--reuse", "latest")
    assert latest.code == 2
    assert "there is no run in outputs" in latest.err


def test_eval_with_other_settings_names_them(evalrun: Evalrun, bench: Make) -> None:
    made = bench(["1"])
    evalrun("--mode", "infer", *made.words())
    ran = evalrun("--mode", "eval", *made.words("model.temperature=0.3"))
    assert ran.code == 2
    assert "model.temperature: stored nothing, asked 0.3" in ran.err


def test_edited_data_is_noticed_by_address(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["1", "0"])
    evalrun("--mode", "infer", *made.words())
    run = only_run(tmp_path)
    made.data.write_text(made.data.read_text().replace("#### 11", "#### 1000"))
    by_address = evalrun("--mode", "eval", *made.words())
    assert by_address.code == 2
    assert "has changed" in by_address.err
    assert "bench.jsonl" in by_address.err
    assert f"--reuse outputs/{run.name}" in by_address.err
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0
    assert values_of(run) == {"accuracy": 0.5}  # the documents as they were asked
    made.data.unlink()
    gone = evalrun("--mode", "eval", *made.words())
    assert gone.code == 0, gone.err
    assert "dataset not checked here" in gone.err
    assert "not checked" not in results_text(run)


def test_da_017_an_edited_file_is_read_anew(evalrun: Evalrun, tmp_path: Path) -> None:
    row = case("data", "DA-017")
    data, answers = tmp_path / "d.jsonl", tmp_path / "a.jsonl"
    answers.write_text(json.dumps({"query": "a", "text": row["expected"]["run2_gold"]}) + "\n")
    words = [
        "model=replay",
        f"model.path={answers}",
        "task=gsm8k",
        f"dataset.path={data}",
        "dataset.columns.query=q",
    ]
    for content in (row["input"]["run1"], row["input"]["run2"]):
        data.write_text(content + "\n")
        assert evalrun(*words).code == 0
    first, second = run_folders(tmp_path)
    assert [values_of(run)["accuracy"] for run in (first, second)] == [0.0, 1.0]
    digests = [
        find.load(run).dataset_digest(find.load(run).plan.cells[0]) for run in (first, second)
    ]
    assert (digests[0] != digests[1]) == row["expected"]["plan_hash_differs"]


def test_two_tasks_one_not_whole(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    """A list of two: the engine dies in the first, the second goes on; exit 3; eval refuses the
    whole, names one.
    """
    long, short = (
        bench(["1"] * 8, name="long"),
        bench(["10"[i % 2] for i in range(4)], name="short"),
    )
    answers = tmp_path / "both.jsonl"
    answers.write_text(long.answers.read_text() + short.answers.read_text())
    mine = write_tasks(tmp_path, first=long.data, second=short.data)
    words = ["model=replay", f"model.path={answers}", "task=[first,second]", "--config-dir", mine]
    ran = evalrun(*words, "+model.engine.die_after=6")
    assert ran.code == 3, ran.err
    run = only_run(tmp_path)
    assert counts_of(run, task="first") == {"n_unsent": 2}
    assert not json.loads(results_text(run, task="first"))["estimates"]
    assert json.loads(results_text(run, task="second"))["estimates"][0]["value"] == 0.5
    assert "died after 6 replies" in ran.out
    both = evalrun("--mode", "eval", "--reuse", "latest")
    assert both.code == 2
    assert "task first wants 8 rows" in both.err
    assert not both.out
    one = evalrun("--mode", "eval", "--reuse", "latest", "task=second", "--config-dir", mine)
    assert one.code == 0, one.err
    resumed = evalrun(*words, "--resume")
    assert resumed.code == 0, resumed.err
    assert json.loads(results_text(run, task="first"))["estimates"][0]["value"] == 1.0


def test_cl_001_a_failed_task_fails_the_command(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["1", "0"])
    ran = evalrun(
        "model=replay",
        f"model.path={made.answers}",
        "task=[gsm8k,demo_math]",
        f"tasks.gsm8k.dataset.path={made.data}",
        "tasks.demo_math.dataset.path=nobody/no-such-dataset",
    )
    assert ran.code == 3, ran.err
    run = only_run(tmp_path)
    assert json.loads(results_text(run, task="gsm8k"))["estimates"][0]["value"] == 0.5
    assert json.loads(results_text(run, task="demo_math"))["header"]["state"] == "failed"
    assert "nobody/no-such-dataset" in ran.out


def test_cl_006_names_with_slashes(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    row = case("cli", "CL-006")
    made = bench(["1"])
    for name in row["input"]["models"]:
        assert evalrun(*made.words(f"model.name={name}")).code == 0
    folders = [p for run in run_folders(tmp_path) for p in (run / "predictions").iterdir()]
    assert len({p.name for p in folders}) == row["expected"]["output_dirs"]
    for run, name in zip(run_folders(tmp_path), row["input"]["models"], strict=True):
        (folder,) = (run / "predictions").iterdir()
        assert not set(folder.name) & set("/:|*")
        assert rows_of(run, name)  # the original name leads to it
        assert (
            json.loads((run / "results" / folder.name / "gsm8k.json").read_text())["header"][
                "model"
            ]
            == name
        )


def test_a_plan_of_far_more_samples_than_are_stored(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    """M9: what is missing is counted, not listed."""
    evalrun("--mode", "infer", *bench(["1", "0"]).words())
    plan_file = only_run(tmp_path) / "configs" / "plan.json"
    plan = json.loads(plan_file.read_text())
    plan["cells"][0]["n"] = 10**12
    plan_file.write_text(json.dumps(plan))
    ran = evalrun("--mode", "eval", "--reuse", "latest")
    assert ran.code == 2
    assert "wants 2000000000000 rows" in ran.err
    assert "the first of 1999999999998 missing: " in ran.err
