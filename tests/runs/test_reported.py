"""Publicly reported faults of evaluation tools, on texts and numbers: each case by its id
(cases/reported.jsonl).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.workspace import ROOT, Evalrun, results_of, run_folders, write_bench

import evalrun as package
from evalrun.backends.base import answered
from evalrun.errors import Fault
from evalrun.metrics import METRICS
from evalrun.metrics.judged import embeddings
from evalrun.metrics.judged.ratings import mean_rating, parse_rating
from evalrun.stats.bootstrap import replicates_of_rows
from evalrun.stats.task_averages import Member, aggregate
from evalrun.text.extract import extract_code
from evalrun.text.letters import extract_letter
from evalrun.types import Reply

CASES = {
    row["id"]: row
    for row in map(
        json.loads, (ROOT / "tests" / "cases" / "reported.jsonl").read_text("utf-8").splitlines()
    )
}


def given(name: str) -> Any:
    """The input of a case."""
    return CASES[name]["input"]


def wanted(name: str) -> Any:
    """What is expected of a case."""
    return CASES[name]["expected"]


def pairs(cases: list[list[str]]) -> list[dict[str, Any]]:
    """[prediction, gold] pairs as documents."""
    return [{"preds": [pred], "golds": [gold]} for pred, gold in cases]


def per_doc(metric: str, cases: list[list[str]], **params: Any) -> list[float]:
    """The values of a metric on [prediction, gold] pairs, one document each."""
    (values,) = package.score(metric, pairs(cases), **params).per_doc.values()
    return list(values)


def value(metric: str, docs: list[dict[str, Any]], **params: Any) -> float:
    """The only number of a metric."""
    (estimate,) = package.score(metric, docs, **params).values()
    assert estimate.value is not None
    return estimate.value


def corpus(name: str) -> list[dict[str, Any]]:
    """predictions and references of a case as documents."""
    data = given(name)
    return [
        {"preds": [p], "golds": r}
        for p, r in zip(data["predictions"], data["references"], strict=True)
    ]


def answer_of(text: str, **more: Any) -> Reply:
    """The row that a text becomes."""
    return answered(Reply("d", "generate", 0), text, **more)


def test_ae_020_a_thought_that_never_ends_is_no_answer() -> None:
    row = answer_of(given("AE-020")["prediction"], finish_reason="length")
    assert row.text is wanted("AE-020")["answer"]
    assert row.status == "truncated"


def test_ae_021_only_the_closing_tag() -> None:
    text = answer_of(given("AE-021")["prediction"]).text
    assert text == "The answer is B."
    found = extract_letter(text, 4)
    assert found is not None
    assert found.text == wanted("AE-021")


def test_ae_023_stop_strings_apply_after_the_thought() -> None:
    data = given("AE-023")
    text = answer_of(data["prediction"], stop=tuple(data["stop"])).text
    assert text == wanted("AE-023")["answer"]
    assert per_doc("exact_match", [[text or "", data["gold"]]]) == [wanted("AE-023")["score"]]


def test_ae_033_the_tag_of_a_code_block_is_optional() -> None:
    found = [extract_code(text) for text in given("AE-033")["cases"]]
    assert [f.text for f in found if f is not None] == wanted("AE-033")


def test_ae_035_a_rating_that_is_none_is_missing() -> None:
    ratings = [parse_rating(text) for text in given("AE-035")["cases"]]
    assert ratings == wanted("AE-035")["scores"]
    assert mean_rating(ratings) == 9


def test_me_001_references_are_streams() -> None:
    for metric in ("bleu", "chrf", "ter"):
        assert value(metric, corpus("ME-001")) == pytest.approx(wanted("ME-001")[metric], abs=1e-4)


def test_me_004_me_005_me_007_corpus_bleu_of_short_texts() -> None:
    assert value("bleu", corpus("ME-004")) == wanted("ME-004")["corpus_bleu"]
    docs = [{"preds": given("ME-005")["predictions"], "golds": given("ME-005")["references"][0]}]
    assert value("bleu", docs) == wanted("ME-005")["corpus_bleu"]
    assert value("bleu", corpus("ME-007")) == pytest.approx(
        wanted("ME-007")["corpus_bleu"], abs=1e-4
    )


def test_me_008_chinese_needs_its_tokenizer() -> None:
    assert value("bleu", corpus("ME-008"), tokenize="zh") == pytest.approx(100.0)
    assert value("bleu", corpus("ME-008")) == wanted("ME-008")["with_13a"]
    (estimate,) = package.score("bleu", corpus("ME-008"), tokenize="zh").values()
    assert "tokenize=zh" in estimate.signature


def test_me_009_rouge_of_other_scripts() -> None:
    cases = given("ME-009")["cases"]
    assert per_doc("rouge1", cases, tokenizer="char") == wanted("ME-009")["rouge1"]
    plain = package.score("rouge1", pairs(cases))
    assert [e.value for e in plain.values()] == [0.0]
    assert [e.n_unparsed for e in plain.values()] == [2]  # no token survived, and that is counted


def test_me_011_rouge_l_and_lsum() -> None:
    data = given("ME-011")
    for metric in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
        got = per_doc(metric, [[data["prediction"], data["reference"]]])
        assert got == pytest.approx([wanted("ME-011")[metric]], abs=1e-6)


def test_me_013_an_empty_candidate() -> None:
    rows, ones = np.eye(2), np.ones(2)
    row = wanted("ME-013")["row0"]
    assert embeddings.bert_score(rows, rows, np.zeros(2), ones) == (row["P"], row["R"], row["F"])
    assert embeddings.bert_score(rows, rows, ones, ones) == pytest.approx((1.0, 1.0, 1.0))


def test_me_015_me_016_sentence_bleu() -> None:
    data = given("ME-015")
    assert per_doc("bleu_4", [[data["prediction"], data["reference"]]])[0] <= 1e-300
    assert per_doc("bleu_1", given("ME-016")["cases"]) == pytest.approx(wanted("ME-016"), abs=1e-6)


@pytest.mark.parametrize("metric", ["quasi_exact_match", "prefix_quasi_exact_match"])
def test_me_017_the_letter_a_is_no_article(metric: str) -> None:
    assert per_doc(metric, given("ME-017")["cases"]) == wanted("ME-017")[metric]


@pytest.mark.parametrize("name", ["ME-019", "ME-020"])
def test_me_019_me_020_numbers_and_boxes(name: str) -> None:
    assert per_doc(given(name)["metric"], given(name)["cases"]) == wanted(name)


def test_me_022_sets_and_bags_of_words() -> None:
    case = [[given("ME-022")["prediction"], given("ME-022")["gold"]]]
    assert per_doc("f1_score", case) == [wanted("ME-022")["lighteval_set_based"]]
    assert per_doc("f1_score", case, tokens="multiset") == pytest.approx(
        [wanted("ME-022")["squad_multiset"]], abs=1e-6
    )


def test_me_031_an_empty_option_divides_by_nothing() -> None:
    data = given("ME-031")
    docs = [{"choices": data["choices"], "logprobs": data["logprobs"], "gold_index": 0}]
    assert value("loglikelihood_acc_norm", docs) == 1.0


def test_me_036_me_037_pass_at_k() -> None:
    got = [value("pass@k", [{"n": n, "c": c}], k=k, n=n) for n, c, k in given("ME-036")["cases"]]
    assert got == pytest.approx(wanted("ME-036")["pass@k"], abs=1e-6)
    for n, c, k in given("ME-037")["cases"]:
        with pytest.raises(Fault, match=f"{k}"):
            package.score("pass@k", [{"n": n, "c": c}], k=k)


@pytest.mark.parametrize(("name", "n"), [("ME-040", 3), ("ME-041", 4)])
def test_me_040_me_041_the_three_together(name: str, n: int) -> None:
    docs = [{"n": n, "c": c} for c in given(name)["correct"]]
    got = {
        f"pass@{n}": value("pass@k", docs, k=n, n=n),
        f"avg@{n}": value("avg@n", docs, n=n),
        f"cons@{n}": value("cons@k", docs, k=n, n=n),
    }
    assert got == pytest.approx({k: v for k, v in wanted(name).items() if k in got}, abs=1e-6)


def test_me_044_a_tied_vote_is_won_by_the_first_seen() -> None:
    votes = given("ME-044")["votes"]
    got = {
        value("maj@n", [{"preds": votes, "golds": [gold]}], n=4)
        for _ in range(20)
        for gold in ("7",)
    }
    assert got == {1.0}
    assert value("maj@n", [{"preds": votes, "golds": ["8"]}], n=4) == 0.0


def test_me_045_several_golds_are_refused() -> None:
    with pytest.raises(Fault, match="gold"):
        package.score(
            "pass@k",
            [{"preds": given("ME-045")["predictions"], "golds": given("ME-045")["golds"]}],
            k=1,
        )


def test_me_047_me_049_copyright() -> None:
    data = given("ME-047")
    scores = package.score("copyright", pairs([[data["prediction"], data["reference"]]]))
    assert {name: e.value for name, e in scores.items()} == wanted("ME-047")
    # The metric counts words, so each letter is one; the answer is the longer side, so nothing is
    # cut.
    a, b = (" ".join(given("ME-049")[side]) for side in "ab")
    near = package.score("copyright", pairs([[b, a]]))["edit_similarity"].value
    assert near == pytest.approx(wanted("ME-049")["edit_similarity"], abs=1e-6)
    assert near != pytest.approx(wanted("ME-049")["not"])


def test_me_051_an_empty_gold_matches_nothing() -> None:
    assert per_doc(
        "prefix_exact_match", [[given("ME-051")["prediction"], given("ME-051")["gold"]]]
    ) == [0.0]


def test_st_001_the_bootstrap_is_not_divided_again() -> None:
    scores = np.array(given("ST-001")["scores"], dtype=np.float64)
    draws = replicates_of_rows(
        {"x": scores}, lambda matrix: float(np.mean(matrix["x"])), draws=1000, seed=0
    )
    assert float(np.std(draws, ddof=1)) == pytest.approx(wanted("ST-001")["stderr"], abs=0.006)


def test_st_002_st_003_the_error_of_a_mean() -> None:
    def accuracy(scores: list[int]) -> Any:
        docs = [{"preds": ["1"], "golds": [str(s)]} for s in scores]
        (estimate,) = package.score("exact_match", docs).values()
        return estimate

    one, four = accuracy(given("ST-002")["scores"]), accuracy(given("ST-003")["scores"])
    assert (one.value, one.stderr) == (1.0, None)
    assert (four.value, four.stderr) == (wanted("ST-003")["mean"], wanted("ST-003")["stderr"])


def test_st_005_the_unit_of_analysis_is_the_question() -> None:
    docs = [{"n": 4, "c": sum(row)} for row in given("ST-005")["questions"]]
    (estimate,) = package.score("avg@n", docs, n=4).values()
    assert (estimate.value, estimate.stderr) == (
        wanted("ST-005")["avg@4"],
        wanted("ST-005")["stderr"],
    )


def test_st_009_st_010_averages_say_which_they_are() -> None:
    sub = {
        f"{task}": {"acc": Member(d["acc"], n_docs=d["n"])}
        for task, d in given("ST-009")["subtasks"].items()
    }
    plain, micro = aggregate(sub), aggregate(sub, is_weighted=True)
    assert plain["mmlu:_average|5"]["acc"].value == pytest.approx(
        wanted("ST-009")["mmlu:_average|5"]
    )
    assert micro["mmlu:_average|5"]["acc"].value == pytest.approx(wanted("ST-009")["micro"])
    found = aggregate(
        {task: {"acc": Member(number)} for task, number in given("ST-010")["tasks"].items()}
    )
    assert found["mmlu:_average|5"]["acc"].value == pytest.approx(
        wanted("ST-010")["mmlu:_average|5"]
    )
    assert found["all"]["acc"].value == pytest.approx(wanted("ST-010")["all"])


def test_st_015_a_subject_of_one_sample_has_no_error() -> None:
    tasks = {
        t: {"acc": Member(d["acc"], None if d["n"] == 1 else 0.1)}
        for t, d in given("ST-015")["tasks"].items()
    }
    average = aggregate(tasks)["mmlu:_average|0"]["acc"]
    assert average.value == wanted("ST-015")["mmlu:_average|0"]
    assert average.stderr is None


def test_st_013_failed_requests_count_as_wrong(evalrun: Evalrun, tmp_path: Path) -> None:
    data = given("ST-013")
    made = write_bench(tmp_path, ["1"] * data["correct"] + ["0"] * (data["n"] - data["correct"]))
    rows = [json.loads(line) for line in made.answers.read_text().splitlines()]
    for row in rows[-data["errored"] :]:
        row.update(text=None, error_type="http", error_message="500")
    made.answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert evalrun(*made.words()).code == 3
    (run,) = run_folders(tmp_path)
    (estimate,) = results_of(run)["estimates"]  # type: ignore[misc]
    assert (estimate["value"], estimate["n_docs"], estimate["n_error"]) == (
        wanted("ST-013")["accuracy"], wanted("ST-013")["n_total"], wanted("ST-013")["n_error"],
    )  # fmt: skip
    assert estimate["bounds"] == [0.3, 0.7]


@pytest.mark.parametrize(
    ("metric", "doc", "says"),
    [
        ("drop", {"gold_spans": [["a", "b"]], "pred": ["a", "b"]}, "`pred` is one answer, a text"),
        (
            "word_perplexity",
            {"text": "ab", "logprobs": [1.5]},
            "logarithms of probabilities, at most 0; got 1.5",
        ),
        (
            "loglikelihood_acc",
            {"choices": ["a", "b"], "gold_index": 0, "logprobs": [-1, 0.5]},
            "at most 0; got 0.5",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(metric: str, doc: dict[str, Any], says: str) -> None:
    with pytest.raises(Fault, match=re.escape(says)):
        package.score(metric, [doc])


def test_ter_may_pass_100(evalrun: Evalrun) -> None:
    assert value("ter", [{"preds": ["c d e f g h"], "golds": ["a b"]}]) == pytest.approx(300.0)
    assert "[0, inf)" in evalrun("list", "metrics", "ter").out


@pytest.mark.parametrize("name", ["mc1", "mc2", "truthfulqa_mc1", "truthfulqa_mc2"])
def test_the_outputs_of_truthfulqa_are_names(name: str) -> None:
    assert METRICS.key(name) == "truthfulqa_mc_metrics"
