"""evalrun.samples: every stored answer with its verdicts, one row for each scorer."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from support.workspace import Evalrun, run_folders, write_bench

import evalrun as library
from evalrun.errors import Fault
from evalrun.runs import samples_table
from evalrun.store.cell import predictions
from evalrun.store.cell.verdicts import read_verdicts
from evalrun.store.layout import Run

COLUMNS = [
    "model",
    "task",
    "subset",
    "doc_id",
    "kind",
    "turn",
    "index",
    "prompt",
    "answer",
    "reasoning",
    "gold",
    "choices",
    "scorer",
    "value",
    "extracted",
    "span_start",
    "span_end",
    "rule",
    "state",
    "status",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "logprob",
]


def test_one_row_for_each_answer_and_scorer(tmp_path: Path, evalrun: Evalrun) -> None:
    bench = write_bench(tmp_path, ["11", "01", "00"])
    words = bench.words("num_return_sequences=2", "metric=[exact_match,accuracy]")
    assert evalrun(*words).code == 0
    (folder,) = run_folders(tmp_path)
    frame = library.samples(folder)
    assert [*frame.columns] == COLUMNS
    verdicts = read_verdicts(Run(folder).cell("replay", "gsm8k"))
    assert len(verdicts) == 2
    assert len(frame) == 3 * 2 * 2
    for row in frame.itertuples():
        verdict = verdicts[row.scorer][row.doc_id, row.index]
        assert (row.value, row.extracted, row.rule) == (
            verdict.value,
            verdict.extracted,
            verdict.rule,
        )
        assert row.state == verdict.state.value
        if verdict.span is not None:
            assert (row.span_start, row.span_end) == verdict.span
            assert row.answer[row.span_start : row.span_end] == row.extracted
    replies = predictions.read(Run(folder).cell("replay", "gsm8k")).rows
    stored = [(r.doc_id, r.index, r.text, r.status) for r in replies for _ in verdicts]
    columns = ("doc_id", "index", "answer", "status")
    assert [*zip(*(frame[name] for name in columns), strict=True)] == stored
    first = frame.iloc[0]
    assert (first["gold"], first["choices"]) == (["thus\n#### 10"], [])
    assert "question 0 of bench?" in first["prompt"]
    assert (first["model"], first["task"], first["subset"]) == ("replay", "gsm8k", None)


def test_types_of_the_columns(tmp_path: Path, evalrun: Evalrun) -> None:
    bench = write_bench(tmp_path, ["1"], finish_reason="stop", prompt_tokens=7)
    assert evalrun("--mode", "infer", *bench.words()).code == 0
    frame = library.samples(run_folders(tmp_path)[0])
    assert frame.loc[0, ["scorer", "extracted", "rule", "state", "subset"]].tolist() == [
        *("", None, None, None, None)
    ]
    assert frame["value"].isna().all()
    assert frame["span_start"].isna().all()
    kinds = {name: str(frame[name].dtype) for name in frame}
    assert [name for name, kind in kinds.items() if kind == "float64"] == ["value", "logprob"]
    assert [name for name, kind in kinds.items() if kind == "int64"] == ["turn", "index"]
    whole = ["span_start", "span_end", "prompt_tokens", "completion_tokens"]
    assert [name for name, kind in kinds.items() if kind == "Int64"] == whole


def scored_choices(folder: Path) -> list[str]:
    """A task with two questions of three options, of generated texts and log-likelihoods; the
    words that run it.
    """
    rows, saved = [], []
    for q in range(2):
        options = [str(q), str(q + 1), str(q + 2)]
        rows.append({"q": f"{q}+1?", "options": options, "a": 1})
        saved.append({"query": f"{q}+1?", "index": 0, "text": f"It is {q + 1}."})
        saved += [
            {"query": f"{q}+1?", "kind": "loglikelihood", "index": i, "logprob": -1.0 - i}
            for i in range(3)
        ]
    for name, lines in (("data", rows), ("saved", saved)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
    task = folder / "mine" / "task" / "sums.yaml"
    task.parent.mkdir(parents=True)
    task.write_text(
        "# @package tasks.sums\ndefaults: [/task_schema@_here_, _self_]\n"
        f"dataset: {{path: {folder / 'data.jsonl'}, "
        "columns: {query: q, choices: options, gold: a}}\n"
        "prompt: {template: '{{ query }}'}\n"
        "metrics: {accuracy: {}, loglikelihood_acc: {}}\nextract: number\n"
    )
    model = ["model=replay", f"model.path={folder / 'saved.jsonl'}"]
    return ["--config-dir", str(folder / "mine"), *model, "task=sums"]


def test_log_likelihoods_have_a_row_per_choice(tmp_path: Path, evalrun: Evalrun) -> None:
    ran = evalrun(*scored_choices(tmp_path))
    assert ran.code == 0, ran.err
    frame = library.samples("latest")
    choices = frame[frame["kind"] == "loglikelihood"]
    assert choices["index"].tolist() == [0, 1, 2, 0, 1, 2]
    assert choices["answer"].tolist() == ["0", "1", "2", "1", "2", "3"]
    assert choices["logprob"].tolist() == [-1.0, -2.0, -3.0] * 2
    assert set(choices["scorer"]) == {""}
    assert choices["gold"].tolist() == [["1"]] * 3 + [["2"]] * 3
    assert choices.iloc[0]["choices"] == ["0", "1", "2"]
    texts = frame[frame["kind"] == "generate"]
    assert texts["value"].tolist() == [1.0, 1.0]
    assert texts["answer"].tolist() == ["It is 1.", "It is 2."]


def test_an_unfinished_run_shows_the_rows_that_it_has(tmp_path: Path, evalrun: Evalrun) -> None:
    bench = write_bench(tmp_path, ["1", "0"])
    assert evalrun("--mode", "infer", *bench.words()).code == 0
    (folder,) = run_folders(tmp_path)
    for path in folder.glob("predictions/*/*"):
        if path.suffix == ".arrow" and ".docs" not in path.name:
            path.unlink()
    frame = library.samples(folder)
    assert [*frame.columns] == [*samples_table.COLUMNS]
    assert frame.empty


def test_cells_are_chosen_by_name(tmp_path: Path, evalrun: Evalrun) -> None:
    bench = write_bench(tmp_path, ["11", "10"])
    assert evalrun("-m", *bench.words("num_return_sequences=1,2")).code == 0
    (sweep,) = run_folders(tmp_path)
    assert len(library.samples(sweep)) == 2 + 4
    assert len(library.samples(sweep, task="gsm8k", model="replay")) == 6
    for wrong, text in (({"task": "gsm"}, "There is no task 'gsm'"), ({"model": "r"}, "no model")):
        with pytest.raises(Fault, match=text):
            library.samples(sweep, **wrong)


def test_columns_of_later_verdicts_are_passed_on(
    tmp_path: Path, evalrun: Evalrun, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = write_bench(tmp_path, ["1", "0"])
    assert evalrun(*bench.words()).code == 0
    before = samples_table.verdict_columns

    def with_weak(files: object) -> dict[str, list[object]]:
        columns = before(files)  # type: ignore[arg-type]
        return {**columns, "is_weak": [True, False], "reason": [None, "cut"]}

    monkeypatch.setattr(samples_table, "verdict_columns", with_weak)
    frame = library.samples("latest")
    assert [*frame.columns[-2:]] == ["is_weak", "reason"]
    assert sorted(frame["is_weak"]) == [False, True]
    assert isinstance(frame, pd.DataFrame)
