"""Metrics over the log-probabilities of choices: known values, ties, broken scores, refusals,
laws.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.likelihood_rows import answer, check_row, document, matrix_of, numbers_over, rows_of
from support.workspace import Bench, Evalrun, run_folders

from evalrun import backends
from evalrun.errors import Fault
from evalrun.metrics import METRICS, Metric, make_metric, samples_needed
from evalrun.metrics.choices.classify import f1_of_sums, matthews, mean_f1
from evalrun.metrics.choices.probability import shares
from evalrun.types import Choices, Doc, Kind, Samples

INF, NAN = math.inf, math.nan
KEYS = [key for key in METRICS if METRICS.get(key).reads is Kind.LOGLIKELIHOOD]
ORACLE = rows_of("oracle_choice")


@pytest.mark.parametrize("row", ORACLE, ids=lambda row: f"{row['metric']}-{row['case_id']}")
def test_known_values(row: dict[str, Any]) -> None:
    check_row(row)


def test_every_metric_has_known_values_or_is_tested_here() -> None:
    assert {row["metric"] for row in ORACLE} | {"target_token_perplexity"} == set(KEYS)


def value(key: str, logprobs: tuple[Any, ...], gold: tuple[int, ...], **params: Any) -> float:
    metric = make_metric(key, params)
    return metric.score(Doc("d", "t", 0, "?", gold), Choices(logprobs), ())[0]  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("logprobs", "gold", "acc", "recall_2", "mrr"),
    [
        # ME-023, ME-024: equal scores go to the lower index; recall never falls with k
        ((-1.0, -1.0, -1.0), 0, 1, 1, 1.0),
        ((-1.0, -1.0, -1.0), 1, 0, 1, 1.0),
        ((-1.0, -1.0, -1.0), 2, 0, 0, 1.0),
        ((-2.0, -2.0, -5.0), 1, 0, 1, 1.0),
        # ME-025: a score that is no number never wins
        ((-1.0, NAN, -3.0), 1, 0, 0, 1 / 3),
        ((-1.0, None, -3.0), 1, 0, 0, 1 / 3),
        ((-1.0, INF, -3.0), 1, 0, 0, 1 / 3),
        ((NAN, -2.0, -3.0), 1, 1, 1, 1.0),
        ((-1.0, -INF, -3.0), 2, 0, 1, 0.5),
        # nothing is finite: nothing was chosen
        ((NAN, NAN), 0, 0, 0, 0.0),
        ((-INF, -INF), 0, 0, 0, 0.0),
        ((INF, NAN), 0, 0, 0, 0.0),
    ],
)
def test_ties_and_broken_scores(
    logprobs: tuple[Any, ...], gold: int, acc: int, recall_2: int, mrr: float
) -> None:
    assert (
        value("loglikelihood_acc", logprobs, (gold,))
        == value("recall_at_1", logprobs, (gold,))
        == acc
    )
    assert (
        value("recall_at_2", logprobs, (gold,))
        == value("recall_at_k", logprobs, (gold,), k=2)
        == recall_2
    )
    assert value("mrr", logprobs, (gold,)) == pytest.approx(mrr)


def test_ties_and_broken_scores_are_counted_and_said() -> None:
    metric = make_metric("loglikelihood_acc")
    doc = Doc("d", "t", 0, "?", (0,))
    scores = [
        (-2.0, -2.0, -5.0),
        (-2.0, -3.0, -3.0),
        (-1.0, NAN, INF),
        (NAN, NAN),
        (-1.0,),
        (-INF, -INF),
    ]
    rows = metric.score_batch([doc] * 6, [Choices(each) for each in scores], [()] * 6)
    assert rows == [
        (1, 1, 0, 3),
        (1, 0, 0, 3),
        (1, 0, 2, 3),
        (0, 0, 2, 2),
        (1, 0, 0, 1),
        (0, 0, 0, 2),
    ]
    assert metric.notes(matrix_of(metric, rows)) == (
        "1 of 6 documents have equally likely best choices; the lower index was taken",
        "2 of 6 documents have a score that is no number; such a choice never wins",
        "1 of 6 documents have one choice only, which cannot be wrong",
    )
    second = make_metric("recall_at_2").score_batch(
        [doc] * 6, [Choices(each) for each in scores], [()] * 6
    )
    assert [row[1] for row in second] == [0, 1, 0, 0, 0, 0], (
        "the tie that matters is the one at the cut"
    )
    assert make_metric("recall_at_2").notes(matrix_of(make_metric("recall_at_2"), second))[-1] == (
        "3 of 6 documents have 2 choices or fewer, which cannot be wrong"
    )


@pytest.mark.parametrize(
    ("key", "choices", "logprobs", "best"),
    [
        ("loglikelihood_acc", ("不知道", "unknown"), (-3.0, -4.0), 0),  # ME-027
        ("loglikelihood_acc_norm", ("不知道", "unknown"), (-3.0, -4.0), 1),
        ("loglikelihood_acc_norm", ("", "B"), (-1.0, -2.0), 0),  # a length of 0 counts as 1
        ("loglikelihood_acc_norm_nospace", (" ", "B"), (-1.0, -2.0), 0),
        # one space only is left out
        ("loglikelihood_acc_norm_nospace", ("  ab", "abc"), (-2.9, -3.0), 0),
        ("loglikelihood_acc_norm", ("👩‍👩‍👧", "aa"), (-4.0, -2.0), 0),  # five code points
    ],
)
def test_lengths(
    key: str, choices: tuple[str, ...], logprobs: tuple[float, ...], best: int
) -> None:
    for place in range(len(choices)):
        doc = Doc("d", "t", 0, "?", (place,), choices)
        assert make_metric(key).score(doc, Choices(logprobs), ())[0] == (place == best)


def test_scores_without_the_context_stay_apart() -> None:
    """ME-029: PMI subtracts them, no other metric sees them."""
    doc, scores = Doc("d", "t", 0, "?", (1,), ("yes", "no")), Choices((-2.0, -3.0), (-1.0, -4.0))
    assert make_metric("acc_norm_pmi").score(doc, scores, ())[0] == 1
    for key in set(KEYS) - {"acc_norm_pmi", "acc_norm_token", "target_token_perplexity"}:
        metric = ready(key)
        plain = replace(scores, unconditioned=None, is_greedy=(True, False))
        doc = replace(doc, extra=(("len_mc1", 1),))
        assert metric.score(doc, plain, ()) == metric.score(
            doc, replace(plain, unconditioned=(-9.0, -0.1)), ()
        )
    broken = Choices((-2.0, -3.0), (-1.0, -INF))
    assert make_metric("acc_norm_pmi").score(doc, broken, ())[:3] == (0, 0, 1)


def ready(key: str) -> Metric:
    return make_metric(key, {"k": 2} if key == "recall_at_k" else {})


PLAIN = {"gold_index": [0], "logprobs": [-1.0, -2.0]}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"gold_index": [2]},
            r"document 'd0': gold index 2 is none of its choices \(allowed: 0 to 1\)",
        ),
        ({"gold_index": [0, -1]}, "document 'd0': gold index -1 is none of its choices"),
        (
            {"gold_index": [2], "choices": ["a", "b"]},
            "document 'd0': gold index 2 is none of its choices",
        ),
        (
            {"gold_index": ["c"], "choices": ["a", "b"]},
            "document 'd0': gold 'c' is none of its 2 choices",
        ),
        ({"choices": ["a", "b", "c"]}, "document 'd0' has 3 choices, but 2"),
        ({"gold_index": [], "choices": ["a", "b"]}, "document 'd0' has no gold answer"),
        ({"logprobs": [], "argmax_logits_eq_gold": []}, "document 'd0'"),
    ],
)
def test_documents_that_are_refused(key: str, change: dict[str, Any], text: str) -> None:
    flags = {"argmax_logits_eq_gold": [True, False], "len_mc1": 1, "output_tokens": [[1], [2]]}
    sample = {**PLAIN, **flags, "unconditioned_logprobs": [-1.0, -1.0], **change}
    if "_norm" in key:
        sample = {"choices": ["a", "b"], **sample}
    if key == "prob" and not sample["gold_index"]:  # it takes all choices then
        assert numbers_over(ready(key), [document(sample)], [answer(sample)]) == {
            "prob": math.exp(-1)
        }
        return
    with pytest.raises(ValueError, match=text):
        numbers_over(ready(key), [document(sample)], [answer(sample)])


@pytest.mark.parametrize(
    ("key", "sample", "text"),
    [
        ("acc_norm_pmi", {}, "log-probabilities without the context are needed and missing"),
        (
            "acc_norm_pmi",
            {"unconditioned_logprobs": [-1.0]},
            "has 2 log-probabilities, but 1 log-prob",
        ),
        ("acc_norm_token", {}, "the number of tokens of each choice is needed and missing"),
        (
            "acc_norm_token",
            {"output_tokens": [[1]]},
            "has 2 log-probabilities, but 1 numbers of tokens",
        ),
        ("loglikelihood_acc_norm", {}, "the texts of the choices are needed and missing"),
        ("acc_golds_likelihood", {}, "whether each choice is the greedy continuation is missing"),
        ("truthfulqa_mc_metrics", {}, "has no positive whole number len_mc1"),
        ("truthfulqa_mc_metrics", {"len_mc1": True}, "has no positive whole number len_mc1"),
        (
            "truthfulqa_mc_metrics",
            {"len_mc1": 2},
            "has 2 choices, but len_mc1 = 2 leaves none for MC2",
        ),
        ("target_token_perplexity", {}, "the number of tokens is needed and missing"),
    ],
)
def test_what_a_metric_needs(key: str, sample: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"document 'd0'.*{text}"):
        numbers_over(ready(key), [document(PLAIN | sample)], [answer(PLAIN | sample)])
    with pytest.raises(ValueError, match="document 'd0'"):
        ready(key).score(document(PLAIN | sample), Samples(("x",), (False,)), ())


@pytest.mark.parametrize("key", [key for key in KEYS if METRICS.get(key).is_single_token])
def test_single_token_variants(key: str) -> None:
    """Another choice than one token long is refused by name; else the rule is that of the plain
    metric.
    """
    doc, metric = Doc("d", "t", 0, "?", (0,), ("yes", "no way")), make_metric(key)
    with pytest.raises(
        ValueError, match=r"document 'd': every choice must be exactly one token.*'no way' has 2"
    ):
        metric.score(doc, Choices((-1.0, -2.0), n_tokens=(1, 2)), ())
    plain = key.removesuffix("_single_token")
    assert (key == "multi_f1_numeric") == (plain == key)
    scores = Choices((-1.0, -2.0), n_tokens=(1, 1))
    assert metric.score(doc, scores, ()) == make_metric(plain).score(doc, scores, ())
    assert metric.columns == make_metric(plain).columns


@pytest.mark.parametrize(
    ("key", "params", "text"),
    [
        ("recall_at_k", {"k": 0}, "k must be a positive whole number, got 0"),
        ("recall_at_k", {"k": [1, 2]}, "k must be a positive whole number"),
        (
            "mrr",
            {"length_normalization": "bytes"},
            "length_normalization must be one of None, 'char'; got 'bytes'",
        ),
        (
            "normalized_mc_prob",
            {"aggregation": "min"},
            "aggregation must be one of 'max', 'mean', 'sum'; got 'min'",
        ),
        ("prob", {"aggregation": "sum"}, "aggregation must be one of 'max', 'mean'; got 'sum'"),
        (
            "loglikelihood_f1",
            {"positive_class": True},
            "positive_class must be the index of a choice",
        ),
        (
            "multi_f1_numeric",
            {"num_classes": 0},
            "num_classes must be a positive whole number, got 0",
        ),
        ("loglikelihood_acc", {"k": 1}, "There is no parameter"),
    ],
)
def test_parameters_that_are_refused(key: str, params: dict[str, Any], text: str) -> None:
    with pytest.raises(Fault, match=text):
        make_metric(key, params)


@pytest.mark.parametrize(
    ("alias", "key"),
    [
        ("acc_norm", "loglikelihood_acc_norm"),
        ("recall@1", "recall_at_1"),
        ("recall@2_single_token", "recall_at_2_single_token"),
        ("recall@k", "recall_at_k"),
        ("mf1", "multi_f1_numeric"),
    ],
)
def test_short_names(alias: str, key: str) -> None:
    assert METRICS.key(alias) == key


def test_the_k_of_recall_draws_no_samples() -> None:
    assert samples_needed(make_metric("recall_at_k", {"k": 7})) == 1


# ---- classification ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([1, 1, 1, 1], [1, 1, 1, 1], 0.0),  # ME-032: one side holds one class
        ([1, 0, 1, 1, 0], [0, 0, 0, 0, 0], 0.0),
        ([0, 1, 0, 1], [0, 1, 0, 1], 1.0),
        ([0, 1, 0, 1], [1, 0, 1, 0], -1.0),
        # (tp tn - fp fn) / sqrt(24 * 24)
        ([0] * 6 + [1] * 4, [0] * 5 + [1] + [1] * 3 + [0], 14 / 24),
    ],
)
def test_matthews(gold: list[int], predicted: list[int], expected: float) -> None:
    assert matthews(np.array(gold), np.array(predicted)) == pytest.approx(expected)


def test_matthews_holds_for_a_million_documents() -> None:
    sides = np.random.default_rng(1).integers(0, 3, (2, 1_000_000))
    assert abs(matthews(*sides)) < 0.01
    assert matthews(sides[0], sides[0]) == pytest.approx(1.0)


def test_undefined_correlation_is_said() -> None:
    metric, doc = make_metric("mcc"), Doc("d", "t", 0, "?", (1,))
    matrix = matrix_of(metric, [metric.score(doc, Choices((-2.0, -1.0)), ())] * 3)
    assert metric.outputs()[0].reduce(matrix) == 0.0
    assert metric.notes(matrix) == (
        "mcc is undefined where golds or predictions hold one class only; it is given as 0",
    )


def test_a_class_that_never_occurs_counts_with_zero() -> None:
    gold, predicted = np.array([0, 0, 1]), np.array([0, 0, 1])
    assert mean_f1(gold, predicted, 2) == 1.0
    assert mean_f1(gold, predicted, 3) == pytest.approx(2 / 3)


def test_no_prediction_is_wrong_for_every_class() -> None:
    docs = [Doc(f"d{i}", "t", i, "?", (gold,)) for i, gold in enumerate((0, 1, 1))]
    answers = [Choices((-1.0, -2.0)), Choices((-2.0, -1.0)), Choices((NAN, NAN))]
    assert numbers_over(make_metric("loglikelihood_f1"), docs, answers) == {
        "loglikelihood_f1": pytest.approx(2 / 3)
    }
    assert numbers_over(make_metric("multi_f1_numeric"), docs, answers) == {
        "multi_f1_numeric": pytest.approx(5 / 6)
    }
    # golds 0 1 1, predicted 0 1 nothing: (2*3 - 3) / sqrt((9 - 3) (9 - 5))
    assert numbers_over(make_metric("mcc"), docs, answers) == {
        "mcc": pytest.approx(3 / math.sqrt(24))
    }


def test_f1_of_resampled_sums() -> None:
    """Leading axes are replicates: one call for all of them."""
    sums = np.array([[[2.0, 1.0, 1.0], [0.0, 0.0, 0.0]], [[0.0, 3.0, 1.0], [5.0, 0.0, 0.0]]])
    assert f1_of_sums(sums).tolist() == [[pytest.approx(2 / 3), 0.0], [0.0, 1.0]]


# ---- probabilities -------------------------------------------------------------------------------


def test_very_negative_scores_keep_their_shares() -> None:
    near = value("normalized_mc_prob", (-0.5, -1.5), (0,))
    assert value("normalized_mc_prob", (-1e6 - 0.5, -1e6 - 1.5), (0,)) == pytest.approx(near)
    assert shares(np.array([[-INF, -INF], [-INF, -5.0]])).tolist() == [[0.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(("how", "expected"), [("max", 0.6), ("mean", 0.35), ("sum", 0.7)])
def test_several_golds(how: str, expected: float) -> None:
    logprobs = (math.log(0.6), math.log(0.3), math.log(0.1))
    assert value("normalized_mc_prob", logprobs, (0, 2), aggregation=how) == pytest.approx(expected)


def test_prob_is_the_golds_and_stays_a_probability() -> None:
    assert value("prob", (-0.5, -2.0), (1,)) == pytest.approx(math.exp(-2))
    assert value("prob", (-0.5, -2.0), (0, 1), aggregation="mean") == pytest.approx(
        (math.exp(-0.5) + math.exp(-2)) / 2
    )
    assert value("prob", (1e-9,), ()) == 1.0
    assert value("prob", (NAN, -1.0), (0,)) == 0.0


def test_truthfulqa_without_a_finite_score() -> None:
    doc = Doc("d", "t", 0, "?", (0, 2), extra=(("len_mc1", 2),))
    assert make_metric("truthfulqa_mc_metrics").score(doc, Choices((NAN, NAN, -INF, NAN)), ()) == (
        0.0,
        0.0,
    )


def test_gold_as_text_is_found_among_the_choices() -> None:
    doc = Doc("d", "t", 0, "?", ("no",), ("yes", "no"))
    assert make_metric("loglikelihood_acc").score(doc, Choices((-2.0, -1.0)), ())[0] == 1


# ---- laws ----------------------------------------------------------------------------------------

SCORE = st.one_of(st.floats(-20, 0), st.sampled_from([-1.0, -2.0, NAN, INF, -INF]))


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[Doc], list[Choices]]:
    docs, answers = [], []
    for i in range(draw(st.integers(1, 6))):
        n = draw(st.integers(2, 5))
        gold = tuple(sorted(draw(st.sets(st.integers(0, n - 1), min_size=1))))
        texts = tuple(
            draw(st.lists(st.sampled_from(["", " ", "a", " bc", "北京"]), min_size=n, max_size=n))
        )
        docs.append(Doc(f"d{i}", "t", i, "?", gold, texts, extra=(("len_mc1", 1),)))
        scores, without = (tuple(draw(st.lists(SCORE, min_size=n, max_size=n))) for _ in range(2))
        flags = tuple(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
        answers.append(Choices(scores, without, (1,) * n, flags))
    return docs, answers


@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=25, deadline=None)
@given(corpus=corpora())
def test_batch_form_is_single_form_in_any_order(
    key: str, corpus: tuple[list[Doc], list[Choices]]
) -> None:
    metric, (docs, answers) = ready(key), corpus
    rows = metric.score_batch(docs, answers, [()] * len(docs))
    assert repr(rows) == repr([metric.score(*each, ()) for each in zip(docs, answers, strict=True)])
    assert metric.score_batch([], [], []) == []
    forward, twice = (numbers_over(metric, docs * n, answers * n) for n in (1, 2))
    backward = numbers_over(metric, docs[::-1], answers[::-1])
    assert backward == pytest.approx(forward, nan_ok=True)
    assert twice == pytest.approx(forward, nan_ok=True)


@settings(max_examples=50, deadline=None)
@given(corpus=corpora())
def test_recall_never_falls_with_k(corpus: tuple[list[Doc], list[Choices]]) -> None:
    recalls = [
        numbers_over(make_metric("recall_at_k", {"k": k}), *corpus)["recall_at_k"]
        for k in range(1, 6)
    ]
    assert recalls == sorted(recalls)
    assert (
        recalls[0] == numbers_over(make_metric("loglikelihood_acc"), *corpus)["loglikelihood_acc"]
    )


@pytest.mark.parametrize("key", KEYS)
def test_perfect_answers_are_best(key: str) -> None:
    draw, metric = random.Random(3), ready(key)
    docs, answers = [], []
    for i in range(30):
        gold = i % 3 if key != "truthfulqa_mc_metrics" else 0
        places = (gold,) if key != "truthfulqa_mc_metrics" else (0, 2)
        sure = tuple(0.0 if place in places else -1e4 - draw.random() for place in range(3))
        flags = tuple(place == gold for place in range(3))
        docs.append(Doc(f"d{i}", "t", i, "?", places, ("ab", "cd", "ef"), extra=(("len_mc1", 1),)))
        answers.append(Choices(sure, (-1.0,) * 3, (1,) * 3, flags))
    assert set(numbers_over(metric, docs, answers).values()) == {1.0}
    for output in metric.outputs():
        assert output.is_higher_better != ("perplexity" in key)
        assert output.is_bounded != ("perplexity" in key or key.startswith("mcc"))


# ---- planning ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["loglikelihood_acc", "recall_at_k:k=2", "target_perplexity", "word_perplexity"]
)
def test_a_metric_that_the_backend_does_not_answer_is_refused(
    key: str, evalrun: Evalrun, bench: Callable[..., Bench], tmp_path: Any
) -> None:
    words = [word for word in bench(["1"]).words(f"metric={key}") if not word.startswith("model")]
    ran = evalrun("model=vllm_server", *words)
    name, reads = key.partition(":")[0], METRICS.get(key.partition(":")[0]).reads
    assert ran.code == 2
    text = " ".join((ran.out + ran.err).split())
    assert f"Metric {name} of task gsm8k reads log-likelihoods of" in text
    assert (
        f"(request kind {reads}), but backend openai_chat answers only generated texts (generate)"
        in text
    )
    assert not run_folders(tmp_path)


def test_kinds_of_backends() -> None:
    found = {name: backends.kinds(name) for name in backends.names()}
    assert found.pop("openai_chat") == (Kind.GENERATE,)
    assert found == dict.fromkeys(("hf", "vllm", "openai_completions", "replay"), tuple(Kind))
    assert backends.answers("openai_chat", Kind.LOGLIKELIHOOD, is_single_token=True)
    assert not backends.answers("openai_chat", Kind.ROLLING, is_single_token=True)
    with pytest.raises(Fault, match=r"There is no backend 'hff' in model\.backend"):
        backends.kinds("hff")
