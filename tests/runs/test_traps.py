"""Faults of other test services that concern grouping, reading answers and summaries, as whole
commands.

Numbers: the list of traps; those of the client are in test_openai_chat_traps.py.
"""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.running import asked_since, launch, rows_of, wait_for, write_tasks
from support.workspace import Bench, Evalrun, run_folders, values_of, write_bench

import evalrun as package
from evalrun.store.cell import predictions
from evalrun.store.cell.reply_rows import PREDICTIONS
from evalrun.store.layout import Run
from evalrun.text.extract import extract_number
from evalrun.text.letters import extract_letter
from evalrun.types import Reply

Make = Callable[..., Bench]
FLAGS = ["110", "101", "001", "000"]


def summary_rows(run: Path) -> list[dict[str, str]]:
    """The newest CSV of a run."""
    path = max((run / "summary").glob("*.csv"), key=lambda p: p.stat().st_mtime_ns)
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rewrite(run: Path, rows: list[Reply]) -> Path:
    """The run's rows anew, in this order, in a shard as a process leaves it that was killed.

    Its path.
    """
    found = predictions.read(Run(run).cell("replay", "gsm8k"))
    Run(run).cell("replay", "gsm8k").predictions.file.unlink()
    with predictions.open_writer(Run(run).cell("replay", "gsm8k"), found.metadata) as writer:
        for row in rows:
            writer.append(row)
    (shard,) = run.glob("predictions/replay/*.arrows")
    return shard


def test_trap_01_groups_hold_though_rows_lie_in_any_order(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["111" if i % 3 == 0 else "000" for i in range(12)])
    assert evalrun("--mode", "infer", *made.words("num_return_sequences=3")).code == 0
    (run,) = run_folders(tmp_path)
    rows = rows_of(run)
    # sample-major, documents shuffled
    rewrite(run, sorted(rows, key=lambda r: (r.index, r.doc_id[::-1])))
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0
    assert {round(100 * values_of(run)[name], 2) for name in ("avg@3", "pass@3", "cons@3")} == {
        33.33
    }


@pytest.mark.parametrize("metric", ["accuracy", "exact_match"])
def test_trap_02_a_metric_alone_is_the_mean_over_samples(
    evalrun: Evalrun, bench: Make, tmp_path: Path, metric: str
) -> None:
    assert evalrun(*bench(FLAGS).words(f"metric={metric}", "num_return_sequences=3")).code == 0
    assert [round(100 * value, 2) for value in values_of(run_folders(tmp_path)[0]).values()] == [
        41.67
    ]


def test_trap_03_n_of_eval_is_that_of_infer(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    made = bench(["100"] * 4)
    evalrun("--mode", "infer", *made.words("num_return_sequences=3"))
    ran = evalrun("--mode", "eval", *made.words("num_return_sequences=5"))
    assert ran.code == 2
    assert "n=3" in ran.err
    assert "num_return_sequences=5" in ran.err
    assert not (run_folders(tmp_path)[0] / "summary").exists()
    first = evalrun("--mode", "eval", "--reuse", "latest", "num_return_sequences=2", "first_n=true")
    assert first.code == 0, first.err
    # the first two by index, right and wrong
    assert values_of(run_folders(tmp_path)[0])["avg@2"] == 0.5


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234", "1234"), ("$70,000.00", "70000"), ("9{,}500", "9500"), ((
            "It is 72, in total"
        ), "72"),
        ("the pair (1,2)", "2"),
    ],
)  # fmt: skip
def test_trap_14_commas_within_numbers(text: str, number: str) -> None:
    found = extract_number(text)
    assert found is not None
    assert found.text == number
    (value,) = package.score(
        "accuracy", [{"preds": [text], "golds": [number]}], scorer="number"
    ).values()
    assert value.value == 1.0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("so #### 12, as step 3 says", "12"), (r"\boxed{41} follows from 7", "41"), ((
            "The answer is 5. See page 9."
        ), "5"),
        ("答案是 8。第 2 步。", "8"), ("Answer: 5. Note: see step 2", "5"), ("10-20", "20"),
        ("1e3", "1000"),
        ("first 3, then 4", "4"),
    ],
)  # fmt: skip
def test_trap_15_a_stated_answer_goes_before_the_last_number(text: str, number: str) -> None:
    found = extract_number(text)
    assert found is not None
    assert found.text == number


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("I think A is tempting. The answer is (C).", "C"), ("Let's see. The answer is B", (
            "B"
        )), ("hmm", None),
        ("The answer is (K).", None),
    ],
)  # fmt: skip
def test_trap_16_an_option_is_stated_or_there_is_none(text: str, letter: str | None) -> None:
    found = extract_letter(text, 4)
    assert (None if found is None else found.text) == letter


def test_trap_17_a_cut_shard_loses_its_tail_only(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    made = bench(["101"] * 40)
    evalrun("--mode", "infer", *made.words("num_return_sequences=3"))
    (run,) = run_folders(tmp_path)
    rows = rows_of(run)
    shard = rewrite(run, rows[:100])
    shard.write_bytes(shard.read_bytes()[:-40])
    kept = {row.key for row in rows_of(run)}
    since = max(row.started_s or 0 for row in rows) + 1e-6
    ran = evalrun("--resume", *made.words("num_return_sequences=3"))
    assert ran.code == 0, ran.err
    asked = asked_since(run, since)
    assert len(kept) + len(asked) == len(rows_of(run)) == 120
    assert not {(doc_id, i) for doc_id, _, i, _ in kept} & set(asked)


def test_trap_18_texts_have_64_bit_offsets() -> None:
    kinds = {field.name: str(field.type) for field in PREDICTIONS.schema}
    assert {kinds[name] for name in ("text", "raw_text", "reasoning", "error_message")} == {
        "large_string"
    }


def test_trap_19_other_settings_are_not_resumed_onto(evalrun: Evalrun, bench: Make) -> None:
    made = bench(["11", "00"])
    assert evalrun("--mode", "infer", *made.words("num_return_sequences=2")).code == 0
    ran = evalrun(
        "--mode",
        "all",
        "--reuse",
        "latest",
        *made.words("num_return_sequences=2", "model.temperature=0.3"),
    )
    assert ran.code == 2
    assert "temperature" in ran.err


def test_trap_20_a_name_stands_for_one_thing(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    ran = evalrun(*[w.replace("task=gsm8k", "task=[gsm8k,gsm8k]") for w in bench(["1"]).words()])
    assert ran.code == 2
    assert "gsm8k" in ran.err
    assert run_folders(tmp_path) == []


def test_trap_21_the_latest_run_is_a_run(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    none = evalrun("--mode", "eval", "--reuse", "latest")
    assert (none.code, none.out) == (2, "")
    evalrun("--mode", "infer", *bench(["1"]).words())
    (run,) = run_folders(tmp_path)
    (tmp_path / "outputs" / "zzz" / "predictions").mkdir(parents=True)
    ran = evalrun("--mode", "eval", "--reuse", "latest")
    assert ran.code == 0, ran.err
    assert f"Scoring {run}" in ran.err.replace("Scoring outputs", f"Scoring {tmp_path}/outputs")


def test_trap_22_a_cell_without_a_number_says_why(evalrun: Evalrun, tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["1"] * 6)
    rows = [json.loads(line) for line in made.answers.read_text().splitlines()]
    for row in rows:
        row.update(text=None, error_type="http", error_message="500")
    made.answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = evalrun(*made.words())
    assert ran.code == 3
    assert "6 of 6 requests failed" in ran.out
    assert "Log: logs/infer/replay/gsm8k.out" in ran.out
    assert "| - |" not in ran.out


def test_trap_23_an_interrupted_run_is_not_summed_up(tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["11111"] * 4000)
    process = launch(made.words("num_return_sequences=5"), tmp_path)
    wait_for(lambda: bool(list(tmp_path.glob("outputs/*/predictions/replay/*.arrows"))))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was over before the signal came")
    assert process.returncode == 130
    (run,) = run_folders(tmp_path)
    assert not (run / "summary").exists()
    assert not (run / "results").exists()


def test_trap_24_a_dry_run_does_nothing(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    ran = evalrun(*bench(["110"]).words("num_return_sequences=3", "--dry-run"))
    assert ran.code == 0, ran.err
    assert "question 0 of bench?" in ran.out
    assert run_folders(tmp_path) == []


def test_trap_28_a_lost_row_is_named_and_shifts_nothing(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    evalrun("--mode", "infer", *bench(["1", "1", "0"]).words())
    (run,) = run_folders(tmp_path)
    rows = rows_of(run)
    rewrite(run, [rows[0], rows[2]])
    ran = evalrun("--mode", "eval", "--reuse", "latest")
    assert ran.code == 2
    assert rows[1].doc_id in ran.err
    assert "--resume" in ran.err


def test_trap_30_tables_are_whole_and_quoted(evalrun: Evalrun, tmp_path: Path) -> None:
    one = write_bench(tmp_path, ["11", "10"], name="one")
    two = write_bench(tmp_path, ["11"], name="two")
    one.answers.write_text(one.answers.read_text() + two.answers.read_text())
    mine = write_tasks(tmp_path, one=one.data, two=two.data)
    ran = evalrun(
        "model=replay",
        f"model.path={one.answers}",
        "model.name='a,b'",
        "task=[one,two]",
        "num_return_sequences=2",
        "--config-dir",
        mine,
    )
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    rows = summary_rows(run)
    assert {row["model"] for row in rows} == {"a,b"}
    assert {"n_docs", "n", "n_error"} <= set(rows[0])
    assert list(run.glob("results/*/one*.docs.arrow"))  # per question, always
    assert {row["dataset"] for row in rows} == {"one", "two", "all"}
