"""Scoring without a run: evalrun.score, `evalrun score` and `evalrun list metrics NAME`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.workspace import Bench, Evalrun, run_folders, values_of

import evalrun as package
from evalrun.errors import Fault
from evalrun.interop.documents import read
from evalrun.metrics import METRICS, make_metric
from evalrun.metrics.signatures import read_signature
from evalrun.types import Choices, Kind, Roll, Samples

QUESTION = {"choices": ["a", "bb"], "gold_index": 1, "logprobs": [-2.0, -1.0]}
ROLL = {"text": "a b", "logprobs": [-1.0, "-Infinity"]}

READ: list[tuple[dict[str, Any], Kind, Any]] = [
    ({"golds": "a", "preds": "b"}, Kind.GENERATE, Samples(("b",), (False,))),
    ({"golds": ["a"], "preds": ["b", ""]}, Kind.GENERATE, Samples(("b", ""), (False, False))),
    ({"gold_spans": [["a"]], "pred": "b"}, Kind.GENERATE, Samples(("b",), (False,))),
    ({"n": 3, "c": 1}, Kind.GENERATE, Samples((None,) * 3, (False,) * 3)),
    (QUESTION, Kind.LOGLIKELIHOOD, Choices((-2.0, -1.0))),
    (
        {**QUESTION, "output_tokens": [[1, -1], [2, 3]]},
        Kind.LOGLIKELIHOOD,
        Choices((-2.0, -1.0), None, (1, 2)),
    ),
    (
        {**QUESTION, "unconditioned_logprobs": [0, -1]},
        Kind.LOGLIKELIHOOD,
        Choices((-2.0, -1.0), (0.0, -1.0)),
    ),
    ({"argmax_logits_eq_gold": [True]}, Kind.LOGLIKELIHOOD, Choices((), is_greedy=(True,))),
    (ROLL, Kind.ROLLING, Roll("a b", -math.inf, 2)),
    (ROLL, Kind.LOGLIKELIHOOD, None),
    ({"text": "a", "preds": ["b"]}, Kind.ROLLING, None),
]


@pytest.mark.parametrize(("given", "kind", "expected"), READ)
def test_answers_of_a_document(given: dict[str, Any], kind: Kind, expected: Any) -> None:
    assert read(given, 0, "here").answer(kind) == expected


def test_fields_of_a_document() -> None:
    given = {**QUESTION, "id": 7, "cluster": "c", "len_mc1": 1, "more": [[1]]}
    doc = read(given, 3, "here", {"n_choices": 2}).doc
    assert (doc.id, doc.row, doc.cluster, doc.gold, doc.choices) == ("7", 3, "c", (1,), ("a", "bb"))
    assert dict(doc.extra) == {"n_choices": 2, "len_mc1": 1, "more": ((1,),)}
    assert dict(read({"text": "source", "preds": ["s"]}, 0, "here").doc.extra) == {
        "specific": "source"
    }


FAULTS: list[tuple[str, Any, dict[str, Any], str]] = [
    ("rouge1", [], {}, "there are no documents"),
    ("rouge1", [{"golds": ["a"]}], {}, r"Document 1: the metric reads preds .*'golds'"),
    (
        "rouge1",
        [{"golds": ["a"], "predictions": ["a"]}],
        {},
        r"'predictions' \(did you mean 'preds'\?\)",
    ),
    ("rouge1", [{"golds": ["a"], "preds": [3]}], {}, "Document 1: preds must hold texts; got 3"),
    ("rouge1", ["a"], {}, "Document 1: a document is a mapping"),
    ("bleu", [{"n": 3, "c": 1}], {}, "only counts n and c"),
    (
        "rouge1",
        [{"golds": ["a"], "preds": ["a"]}],
        {"stemer": "porter"},
        "no parameter .*'stemer'.*'stemmer'",
    ),
    ("rougr1", [{"golds": ["a"], "preds": ["a"]}], {}, "no metric 'rougr1'.*'rouge1'"),
    ("exact_match", [{"golds": [], "preds": ["a"]}], {}, "document '0' has no gold answer"),
    ("pass@k", [{"n": 3, "c": 1}], {}, "needs k"),
    ("pass@k", [{"n": 3, "c": 4}], {"k": 1}, "0 <= c <= n; got n=3, c=4"),
    ("pass@k", [{"n": 3}], {"k": 1}, "both n .* and c"),
    (
        "pass@k",
        [{"n": 4, "c": 1}, {"n": 3, "c": 1}],
        {"k": 4},
        "Document 2: .* needs 4 answers, .* has 3",
    ),
    ("pass@k:k=2", [{"n": 4, "c": 1}], {"k": 2}, "k is given twice"),
    (
        "loglikelihood_acc",
        [{**QUESTION, "gold_index": 2}],
        {},
        "gold index 2 is none of its choices",
    ),
    (
        "loglikelihood_acc",
        [{**QUESTION, "logprobs": ["low", 1]}],
        {},
        "logprobs must hold numbers; got 'low'",
    ),
    ("acc_norm_pmi", [QUESTION], {}, "without the context are needed and missing"),
    ("word_perplexity", [QUESTION], {}, "the metric reads text and logprobs"),
]


@pytest.mark.parametrize(("metric", "docs", "params", "said"), FAULTS)
def test_what_cannot_be_scored_is_refused(
    metric: str, docs: Any, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(Fault, match=said) as caught:
        package.score(metric, docs, **params)
    assert "\n" not in str(caught.value)


def test_scores_are_a_mapping_with_values_per_document() -> None:
    docs = [{"n": 4, "c": 2}, {"n": 2, "c": 2}]
    scores = package.score("pass@k", docs, k=[1, 2])
    assert list(scores) == ["pass@k:k=1", "pass@k:k=2"]
    assert len(scores) == 2
    assert scores.per_doc["pass@k:k=1"] == pytest.approx([0.5, 1.0])
    estimate = scores["pass@k:k=2"]
    assert estimate.value == pytest.approx((5 / 6 + 1) / 2)
    assert (estimate.n, estimate.n_docs, estimate.n_scored) == (4, 2, 2)
    signature = read_signature(estimate.signature)
    assert (signature.n, signature.ask_id, signature.scorer) == (None, None, None)
    assert read_signature(package.score("pass@k", docs[:1], k=1)["pass@k"].signature).n == 4


def test_one_mapping_alone_a_corpus_and_a_metric_object() -> None:
    pair = {"golds": ["a"], "preds": ["a"]}
    assert package.score("exact_match", pair)["exact_match"].value == 1.0
    corpus = {"samples": [{"gold_index": 0, "logprobs": [-1.0, -2.0]}] * 2, "n_choices": 2}
    assert package.score("loglikelihood_acc", corpus)["loglikelihood_acc"].value == 1.0
    assert package.score(make_metric("exact_match"), [pair])["exact_match"].value == 1.0
    with pytest.raises(Fault, match="has its parameters already"):
        package.score(make_metric("exact_match"), [pair], n=1)


def test_a_corpus_formula_gives_each_document_alone() -> None:
    docs = [{"text": "a b", "logprobs": [-1.0, -1.0]}, {"text": "a", "logprobs": [-3.0]}]
    scores = package.score("word_perplexity", docs)
    assert scores["word_perplexity"].value == pytest.approx(math.exp(5 / 3))
    assert scores.per_doc["word_perplexity"] == pytest.approx([math.e, math.exp(3)])
    labels = [{"golds": ["a"], "preds": ["a"]}, {"golds": ["b"], "preds": ["a"]}]
    assert package.score("f1_score_macro", labels).per_doc["f1_score_macro"] == [1.0, 0.0]


def test_the_same_numbers_as_a_run(
    evalrun: Evalrun, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    given = bench(["1101", "0001", "1111"])
    assert (
        evalrun(*given.words("num_return_sequences=4", "metric=[pass@k:k=2&n=4,accuracy:n=4]")).code
        == 0
    )
    (run,) = run_folders(tmp_path)
    answers = [json.loads(line) for line in given.answers.read_text().splitlines()]
    docs = [
        {"golds": [str(q + 10)], "preds": [a["text"] for a in answers[4 * q : 4 * q + 4]]}
        for q in range(3)
    ]
    here = {
        "pass@k:k=2&n=4": package.score("pass@k", docs, k=2, n=4, scorer="number")["pass@k"].value,
        "accuracy:n=4": package.score("accuracy", docs, n=4, scorer="number")["accuracy"].value,
    }
    assert values_of(run) == pytest.approx(here)


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def preds(tmp_path: Path) -> Path:
    """Two predictions in a file."""
    lines = [
        {"id": "x", "golds": ["the cat"], "preds": ["the cat"]},
        {"golds": ["a dog"], "preds": ["dogs"]},
    ]
    path = tmp_path / "preds.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_command_prints_the_table(evalrun: Evalrun, preds: Path) -> None:
    ran = evalrun("score", "rouge1", "bleu", "exact_match", str(preds))
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("preds.jsonl")]
    assert [row[1] for row in rows] == ["rouge1", "bleu", "exact_match"]
    assert rows[2][-3:] == ["50.00", "±", "50.00"]


def test_command_writes_json_and_values_per_document(
    evalrun: Evalrun, preds: Path, tmp_path: Path
) -> None:
    out = tmp_path / "values.jsonl"
    ran = evalrun("score", "exact_match", "rouge", str(preds), "--json", "--per-doc", str(out))
    assert ran.code == 0, ran.err
    estimates = json.loads(ran.out)["estimates"]
    assert [e["display"] for e in estimates][:2] == ["exact_match", "rouge/rouge1"]
    assert estimates[0]["value"] == 0.5
    values = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(v["id"], v["exact_match"]) for v in values] == [("x", 1.0), ("1", 0.0)]
    assert values[0]["rougeLsum"] == 1.0


COMMAND_FAULTS = [
    (["rouge1"], "evalrun score needs a metric and a file: evalrun score rouge1 FILE.jsonl"),
    (["rouge1", "nowhere.jsonl"], "There is no file nowhere.jsonl"),
    (["rouge1", "{preds}", "--jsn"], "unrecognized arguments: --jsn"),
    (["pass@k:k=2&n=5", "{preds}"], "needs 5 answers, the document has 1"),
    (["roug", "{preds}"], "no metric 'roug'"),
    (["mcc", "{preds}"], "row 1 of"),
    ([], "the following arguments are required"),
]


@pytest.mark.parametrize(("words", "said"), COMMAND_FAULTS)
def test_command_faults(words: list[str], said: str, evalrun: Evalrun, preds: Path) -> None:
    ran = evalrun("score", *(word.format(preds=preds) for word in words))
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1


# ---- what is known of a metric -------------------------------------------------------------------


def test_every_metric_tells_its_facts(evalrun: Evalrun) -> None:
    ran = evalrun("list", "metrics")
    assert ran.code == 0
    lines = {line.split()[0]: line for line in ran.out.splitlines()}
    assert set(lines) == set(METRICS)
    for key, line in lines.items():
        assert f"reads {METRICS.get(key).reads.value}" in line
        assert "is better" in line
        assert line.endswith(METRICS.get(key).source)
    assert "k (must be set), n, scorer, threshold=1.0" in lines["pass_at_k"]
    assert "[-1, 1]; higher is better" in lines["mcc"]
    assert "[1, inf) count; lower is better" in lines["word_perplexity"]


def test_one_metric_tells_its_docstring(evalrun: Evalrun) -> None:
    ran = evalrun("list", "metrics", "g-pass@k")
    assert ran.out.startswith("g_pass_at_k (version ")
    for fact in (
        "also called  g-pass@k, mg-pass@k",
        "reads        generate",
        "thresholds=[0.0,0.25,0.5,0.75,1.0]",
    ):
        assert fact in ran.out
    ran = evalrun("list", "metrics", "rouge9")
    assert ran.code == 2
    assert "no metric 'rouge9'" in ran.err
