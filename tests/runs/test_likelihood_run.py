"""Whole commands over log-likelihoods and texts: what is asked, kept, missing, failed, scored
again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.workspace import Evalrun, results_of, run_folders, values_of

from evalrun.store.cell import predictions
from evalrun.store.cell.saved_docs import read_docs
from evalrun.store.layout import Run

METRICS = (
    "accuracy: {}, loglikelihood_acc: {}, loglikelihood_acc_norm: {}, acc_norm_pmi: {}, "
    "word_perplexity: {}"
)
LOGPROBS = {
    0: (-3.0, -1.0, -2.0),
    1: (-3.0, -1.0, -2.0),
    2: (-3.0, -5.0, -2.0),
    3: (-4.0, -2.5, -6.0),
}

Bench = Callable[..., list[str]]


def rows_of_doc(q: int) -> list[dict[str, Any]]:
    """Saved rows of question q: one text, three choices with and without the question, the whole
    text.
    """
    query = f"What is {q}+1?"
    rows: list[dict[str, Any]] = [{"query": query, "index": 0, "text": f"It is {q + 1}."}]
    for i, logprob in enumerate(LOGPROBS[q]):
        rows.append(
            {
                "query": query,
                "kind": "loglikelihood",
                "index": i,
                "logprob": logprob,
                "n_tokens": i + 1,
            }
        )
        rows.append(
            {"query": query, "kind": "unconditioned", "index": i, "logprob": (-1.0, -1.0, -0.2)[i]}
        )
    rows.append({"query": query, "kind": "rolling", "index": 0, "logprob": -6.0, "n_tokens": 5})
    return rows


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Write a task of four questions with three options, and saved rows; the words of a command
    that asks them.
    """

    def write(
        metrics: str = METRICS,
        change: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda row: row,
    ) -> list[str]:
        questions = [
            {"q": f"What is {q}+1?", "options": [str(q), str(q + 1), str(q + 2)], "a": 1}
            for q in range(4)
        ]
        (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
        saved = [
            changed for q in range(4) for row in rows_of_doc(q) if (changed := change(dict(row)))
        ]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in saved))
        (tmp_path / "mine" / "task").mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / "task" / "sums.yaml").write_text(
            "# @package tasks.sums\ndefaults: [/task_schema@_here_, _self_]\n"
            "dataset: {path: q.jsonl, index_base: 0, "
            "columns: {query: q, choices: options, gold: a}}\n"
            f"prompt: {{template: '{{{{ query }}}}'}}\nextract: number\nmetrics: {{{metrics}}}\n"
        )
        return ["--config-dir", "mine", "model=replay", "model.path=a.jsonl", "task=sums"]

    return write


def test_a_generative_and_two_other_kinds_in_one_table(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    ran = evalrun(*bench())
    assert (ran.code, ran.err.count("Traceback")) == (0, 0)
    (run,) = run_folders(tmp_path)
    values = values_of(run)
    assert values["accuracy"] == 1.0
    assert values["loglikelihood_acc"] == 0.75  # question 2 prefers its last option
    assert values["loglikelihood_acc_norm"] == 0.75
    assert values["acc_norm_pmi"] == 0.75
    assert values["word_perplexity"] == pytest.approx(2.718281828459045**2)  # 3 words, 6 nats each
    with next((run / "summary").glob("*.csv")).open() as file:
        modes = {row["metric"]: row["mode"] for row in csv.DictReader(file)}
    assert modes == {
        "accuracy": "gen",
        "loglikelihood_acc": "ll",
        "loglikelihood_acc_norm": "ll",
        "acc_norm_pmi": "ll",
        "word_perplexity": "ppl",
    }
    kinds = [row.kind for row in predictions.read(Run(run).cell("replay", "sums")).rows]
    assert {k: kinds.count(k) for k in kinds} == {
        "generate": 4,
        "loglikelihood": 12,
        "unconditioned": 12,
        "rolling": 4,
    }


def test_the_leading_space_counts_in_acc_norm_and_not_in_nospace(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    """Options "8", "9", "10" of question 8 as sent: " 8", " 9", " 10"; -2.0/3 > -1.4/2, but
    -2.0/2 < -1.4/1 is false.
    """
    words = bench("loglikelihood_acc_norm: {}, loglikelihood_acc_norm_nospace: {}")
    question = {"q": "8+1?", "options": ["8", "9", "10"], "a": 1}
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    saved = [
        {"query": "8+1?", "kind": "loglikelihood", "index": i, "logprob": logprob}
        for i, logprob in enumerate((-9.0, -1.4, -2.9))
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in saved))
    assert evalrun(*words).code == 0
    # with the space: -1.4/2 = -0.7 against -2.9/3 = -0.97; without: -1.4/1 against -2.9/2 = -1.45
    assert values_of(run_folders(tmp_path)[0]) == {
        "loglikelihood_acc_norm": 1.0,
        "loglikelihood_acc_norm_nospace": 1.0,
    }
    saved[2]["logprob"] = -2.5
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in saved))
    assert evalrun(*words).code == 0  # -0.7 against -0.83; without the space -1.4 against -1.25
    assert values_of(run_folders(tmp_path)[-1]) == {
        "loglikelihood_acc_norm": 1.0,
        "loglikelihood_acc_norm_nospace": 0.0,
    }


def test_a_failed_choice_leaves_its_document_unscored(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    words = bench("loglikelihood_acc: {}")
    ran = evalrun(*words, "model.engine.fail_first=1")
    assert ran.code == 3
    (run,) = run_folders(tmp_path)
    found = results_of(run)
    (estimate,) = found["estimates"]  # type: ignore[misc]
    assert found["header"]["state"] == "incomplete"  # type: ignore[index]
    assert "1 of 12 requests failed" in found["header"]["reason"]  # type: ignore[index]
    assert (estimate["value"], estimate["n_scored"], estimate["n_error"]) == (
        pytest.approx(2 / 3),
        3,
        1,
    )
    assert estimate["bounds"] == [0.5, 0.75]
    again = evalrun(*words, "--resume")
    assert again.code == 0, again.err
    assert values_of(run)["loglikelihood_acc"] == 0.75


def test_a_missing_choice_is_named_and_nothing_is_scored(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    words = bench("loglikelihood_acc: {}")
    assert evalrun("--mode", "infer", *words).code == 0
    (run,) = run_folders(tmp_path)
    path = run / "predictions" / "replay" / "sums.arrow"
    _without(path, "loglikelihood", [1])
    ran = evalrun("--mode", "eval", *words)
    assert ran.code == 2
    assert "wants 12 rows (4 documents, loglikelihood) and holds 8" in ran.err
    assert "choice 1" in ran.err
    assert evalrun("--resume", *words).code == 0
    assert values_of(run)["loglikelihood_acc"] == 0.75


def _without(path: Path, kind: str, indices: Sequence[int]) -> None:
    """Take rows out of a predictions file."""
    import pyarrow as pa

    with pa.ipc.open_file(path) as reader:
        table = reader.read_all()
    kept = [
        i
        for i, (k, index) in enumerate(
            zip(table["kind"].to_pylist(), table["index"].to_pylist(), strict=True)
        )
        if not (k == kind and index in indices)
    ]
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table.take(kept))


def test_eval_of_a_kind_that_was_never_asked(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    words = bench("accuracy: {}")
    assert evalrun(*words).code == 0
    ran = evalrun("--mode", "eval", *words, "metric=loglikelihood_acc")
    assert ran.code == 2
    assert "loglikelihood_acc reads requests of kind loglikelihood" in ran.err
    assert "asked only for generate" in ran.err
    grown = evalrun("--resume", *words, "metric=loglikelihood_acc")
    assert grown.code == 0, grown.err
    (run,) = run_folders(tmp_path)
    assert values_of(run) == {"accuracy": 1.0, "loglikelihood_acc": 0.75}
    assert evalrun("--mode", "eval", *words, "metric=[accuracy,mrr]").code == 0


def test_a_run_of_log_likelihoods_alone_is_found_and_scored_again(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    words = bench("loglikelihood_acc: {}")
    assert evalrun("--mode", "infer", *words).code == 0
    ran = evalrun("--mode", "eval", *words, "metric=[mrr,recall@2]", "num_return_sequences=3")
    assert ran.code == 0, ran.err
    assert values_of(run_folders(tmp_path)[0]) == {"mrr": 0.875 - 1 / 24, "recall_at_2": 0.75}
    unfinished = evalrun("--mode", "infer", *words)
    assert "unfinished" not in unfinished.err


def test_samples_do_not_apply_to_log_likelihoods(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    ran = evalrun(*bench("loglikelihood_acc: {}"), "num_return_sequences=5")
    assert ran.code == 0, ran.err
    assert "num_return_sequences=5 draws samples; log-probabilities are asked once" in ran.out
    (run,) = run_folders(tmp_path)
    assert len(predictions.read(Run(run).cell("replay", "sums")).rows) == 12


def test_recall_without_k_is_a_fault_even_with_samples(evalrun: Evalrun, bench: Bench) -> None:
    ran = evalrun(*bench("accuracy: {}"), "metric=recall_at_k", "num_return_sequences=5")
    assert ran.code == 2
    assert "k" in ran.err


def test_remarks_of_borders_and_cuts(evalrun: Evalrun, bench: Bench) -> None:
    def marked(row: dict[str, Any]) -> dict[str, Any] | None:
        if row.get("kind") == "loglikelihood" and row["query"] in ("What is 0+1?", "What is 3+1?"):
            extra = {"spanning": True} | (
                {"cut_tokens": 7} if row["query"] == "What is 3+1?" else {}
            )
            return {**row, "extra": json.dumps(extra)}
        return row

    ran = evalrun(*bench("loglikelihood_acc: {}", marked))
    assert (
        "2 of 4 documents have a token that spans context and continuation "
        "(model.token_boundary=joint)" in ran.out
    )
    assert "1 of 4 documents were cut from the left to the model's limit" in ran.out


def test_a_chat_server_is_refused_and_the_generative_task_named(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    words = [w for w in bench("loglikelihood_acc: {}") if not w.startswith("model")]
    task = tmp_path / "mine" / "task" / "sums.yaml"
    task.write_text(task.read_text() + "generative: mmlu_generative\n")
    ran = evalrun(*words, "model=vllm_server")
    assert ran.code == 2
    assert "backend openai_chat answers only generated texts" in ran.err
    assert "task=mmlu_generative" in ran.err
    assert not (tmp_path / "outputs").exists()


def test_a_dry_run_shows_context_and_continuations(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    ran = evalrun("--dry-run", *bench())
    assert ran.code == 0
    assert "requests: 32 answers in all" in ran.out
    assert "continuation 1: ' 1'" in ran.out
    assert not (tmp_path / "outputs").exists()


@pytest.mark.hf
def test_all_kinds_on_a_real_model_in_one_run(
    evalrun: Evalrun, bench: Bench, tmp_path: Path
) -> None:
    """Texts, choices, choices without their question and whole texts by one engine; each number
    by a plain pass too.
    """
    import torch

    from evalrun import backends
    from evalrun.runs import find

    words = [word for word in bench() if not word.startswith("model")]
    ran = evalrun(*words, "model=smollm2", "model.max_tokens=2", "limit=2")
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    assert set(values_of(run)) == {
        "accuracy", "loglikelihood_acc", "loglikelihood_acc_norm", "acc_norm_pmi", "word_perplexity"
    }  # fmt: skip
    assert "log-probabilities were made in float32 (transformers)" in ran.out
    engine: Any = backends.create(find.load(run).plan.model)
    engine.start()
    tokenizer, net = engine._rendering().tokenizer, engine._net

    def plain(context: str, text: str) -> float:
        before = tokenizer.encode(context) if context else [tokenizer.bos_token_id]
        ids = [*before, *tokenizer.encode(text)]
        with torch.inference_mode():
            rows = torch.log_softmax(net(torch.tensor([ids])).logits[0].double(), dim=-1)
        return float(sum(rows[place - 1, ids[place]] for place in range(len(before), len(ids))))

    docs = {s.doc.id: s.doc for s in read_docs(Run(run).cell("smollm2", "sums"))}
    rows = predictions.read(Run(run).cell("smollm2", "sums")).rows
    assert len(rows) == 2 * (1 + 3 + 3 + 1)
    for row in rows:
        doc = docs[row.doc_id]
        match row.kind:
            case "generate":
                assert row.text
            case "rolling":
                assert row.logprob == pytest.approx(plain("", doc.query), abs=1e-3)
            case kind:
                context = doc.query if kind == "loglikelihood" else ""
                assert row.logprob == pytest.approx(
                    plain(context, " " + doc.choices[row.index]), abs=1e-4
                )
