"""Scorers and metrics that compare texts: forms, empty forms, F1 of words, labels, DROP, written
scorers.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.errors import Fault
from evalrun.metrics import METRICS, SCORERS, make_metric, make_scorer, scorer_named
from evalrun.metrics.create import parameters
from evalrun.metrics.text.overlap_f1 import drop_scores, word_f1
from evalrun.types import Doc, Samples, State

FORMS = (
    "perfect_exact_match",
    "quasi_exact_match",
    "quasi_exact_match_triviaqa",
    "prefix_exact_match",
    "prefix_quasi_exact_match",
    "suffix_exact_match",
    "quasi_exact_match_math",
    "quasi_exact_match_gsm8k",
    "exact_match_indicator",
    "f1_score",
    "f1_score_quasi",
)


def doc_of(*golds: str, extra: tuple[tuple[str, Any], ...] = ()) -> Doc:
    return Doc(id="d7", task="t", row=0, query="q", gold=golds, extra=extra)


def samples(*texts: str | None) -> Samples:
    return Samples(texts, tuple(False for _ in texts))


@pytest.mark.parametrize(
    ("spec", "gold", "text", "value", "extracted"),
    [
        ("perfect_exact_match", "a", "a\n", 0.0, "a\n"),
        ("perfect_exact_match", "", "", 0.0, ""),
        ("quasi_exact_match", "The Cat.", " cat ", 1.0, "cat"),
        ("quasi_exact_match", "A", "a.", 1.0, "a"),
        ("quasi_exact_match", "A", "The", 0.0, "the"),
        ("quasi_exact_match", "A", "the A", 0.0, "the a"),
        ("quasi_exact_match", "!", "?", 0.0, ""),
        ("quasi_exact_match", "1.0", "1", 1.0, "1.0"),
        ("prefix_quasi_exact_match", "A", "Apple", 1.0, "apple"),
        ("prefix_quasi_exact_match", "A", "Banana", 0.0, "banana"),
        ("prefix_quasi_exact_match", "!", "Banana", 0.0, "banana"),
        ("prefix_exact_match", "Yes", "\nYesterday", 1.0, "Yesterday"),
        ("suffix_exact_match", "42", "it is 42 ", 1.0, "it is 42"),
        ("suffix_exact_match", "", "x", 0.0, "x"),
        ("quasi_exact_match_triviaqa", "U.S.A.", "usa", 1.0, "usa"),
        ("quasi_exact_match_triviaqa", "...", "!", 0.0, ""),
        ("quasi_exact_match_math", "1/2", "so $\\boxed{0.5}$", 1.0, "\\frac{1}{2}"),
        ("quasi_exact_match_math", "\\boxed{}", "\\boxed{}", 0.0, ""),
        ("quasi_exact_match_gsm8k", "x #### 1,000", "#### 1000", 1.0, "1000"),
        ("quasi_exact_match_gsm8k", "42", "#### 42", 0.0, "42"),
        ("exact_match_indicator", "is 42", "was 42", 1.0, "42"),
        ("exact_match_indicator", "42 ", "x ", 0.0, ""),
        ("exact_match_indicator(indicator='(, ')", "x(, y", "z(, y", 1.0, "y"),
        ("text_match(strip=false)", "a", "a ", 0.0, "a "),
        ("text_match(how=suffix, normalize=helm)", "The End", "It is the end!", 1.0, "it is end"),
    ],
)
def test_forms_that_are_compared(
    spec: str, gold: str, text: str, value: float, extracted: str
) -> None:
    verdict = scorer_named(spec).judge_text(doc_of(gold), text)
    assert (verdict.value, verdict.extracted, verdict.state) == (value, extracted, State.SCORED)


def test_a_text_that_a_normaliser_cannot_read_is_unparsed() -> None:
    for spec in ("quasi_exact_match_gsm8k", "text_match(normalize=gsm8k)"):
        verdict = scorer_named(spec).judge_text(doc_of("42"), "no idea")
        assert (verdict.value, verdict.extracted, verdict.state) == (0.0, None, State.UNPARSED)


@pytest.mark.parametrize("name", [*FORMS, "text_match"])
def test_no_gold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="'d7' has no gold answer"):
        scorer_named(name).judge_text(doc_of(), "x")


@pytest.mark.parametrize(
    "name", [*FORMS, "text_match(normalize=helm)", "f1_score(tokens=multiset)"]
)
@given(
    st.lists(
        st.tuples(st.text("Aa The1.#$ \n", max_size=8), st.text("Aa The1.#$ \n", max_size=8)),
        max_size=6,
    )
)
def test_batch_form_is_single_form_and_equal_texts_are_right(
    name: str, pairs: list[tuple[str, str]]
) -> None:
    scorer = scorer_named(name)
    items = [(doc_of(gold, "zzz"), text) for gold, text in pairs] * 2
    verdicts = scorer.judge_batch(items)
    assert verdicts == [scorer.judge_text(*item) for item in items]
    assert all(v.value is not None and 0 <= v.value <= 1 for v in verdicts)
    assert scorer.judge_text(doc_of("no", "so #### 7"), "so #### 7").value == 1.0


@pytest.mark.parametrize(
    "spec",
    [
        "text_match(strip=False)",
        "text_match(normalize=math,how=prefix)",
        "exact_match_indicator(indicator=' = ')",
        "exact_match_indicator(indicator='\\n')",
        "exact_match_indicator(indicator='True')",
        "f1_score(tokens=multiset)",
    ],
)
def test_a_written_scorer_reads_back(spec: str) -> None:
    scorer = scorer_named(spec)
    assert scorer_named(scorer.signature) == scorer_named(scorer.spec) == scorer
    assert scorer.signature == f"{scorer.name}.v1{scorer.spec.removeprefix(scorer.name)}"
    assert scorer.spec == spec


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("text_match(strip=maybe)", "strip must be true or false, got 'maybe'"),
        ("text_match(how=half)", "how must be full, prefix or suffix, got 'half'"),
        (
            "text_match(normalize=helmm)",
            r"no normalizer 'helmm' in scorer text_match\. Did you mean 'helm'\?",
        ),
        ("text_match(strip=true,strip=true)", "'strip' is given twice"),
        ("exact_match_indicator(indicator='')", "indicator must be a text, got ''"),
        ("exact_match_indicator(indicator='x)", "neither a Python literal nor a bare word"),
        ("f1_score(tokens=bag)", "tokens must be set or multiset, got 'bag'"),
    ],
)
def test_parameters_that_are_refused(spec: str, text: str) -> None:
    with pytest.raises(Fault, match=text):
        scorer_named(spec)


@pytest.mark.parametrize("key", FORMS)
def test_metrics_name_their_scorer(key: str) -> None:
    metric = make_metric(key, {"n": 2})
    assert metric.scorer in SCORERS
    assert make_metric(key, dict(parameters(metric))) == metric
    with pytest.raises(Fault, match=f"scorer is always '{key}'"):
        make_metric(key, {"scorer": "number"})


@pytest.mark.parametrize(
    ("key", "params", "gold", "text", "value"),
    [
        ("exact_match_indicator", {"indicator": "#### "}, "x #### 4", "y #### 4", 1.0),
        ("exact_match_indicator", {"indicator": " '"}, "x '4", "y '4", 1.0),
        ("f1_score", {"tokens": "multiset"}, "a b b", "b b b", 2 / 3),
        ("f1_score_quasi", {"tokens": "multiset"}, "The b b", "B, b! a", 1.0),
    ],
)
def test_parameters_of_a_metric_reach_its_scorer(
    key: str, params: dict[str, Any], gold: str, text: str, value: float
) -> None:
    metric = make_metric(key, params)
    assert make_scorer(metric.scorer, None).judge_text(doc_of(gold), text).value == pytest.approx(
        value
    )


@pytest.mark.parametrize("key", [*FORMS, "exact_match"])
def test_open_n_takes_the_best_and_a_set_n_the_mean(key: str) -> None:
    doc, texts = doc_of("so #### 1"), ("so #### 1", "2", "so #### 1", "4")
    for n, expected in ((None, 1.0), (4, 0.5), (2, 0.5), (1, 1.0)):
        metric = make_metric(key, {"n": n})
        verdicts = make_scorer(metric.scorer, None).judge_batch([(doc, text) for text in texts])
        assert metric.score(doc, samples(*texts), verdicts) == (expected,)


@pytest.mark.parametrize(
    ("answer", "gold", "as_sets", "as_counts"),
    [
        ("a b", "a b c d", 2 / 3, 2 / 3),
        ("a a a", "a", 1.0, 0.5),
        ("cat cat cat mat mat", "the cat sat on the mat", 4 / 7, 4 / 11),
        ("", "a", 0.0, 0.0),
        ("x", "y", 0.0, 0.0),
    ],
)
def test_f1_of_words(answer: str, gold: str, as_sets: float, as_counts: float) -> None:
    assert word_f1(frozenset(answer.split()), frozenset(gold.split())) == pytest.approx(as_sets)
    assert word_f1(tuple(answer.split()), tuple(gold.split())) == pytest.approx(as_counts)


def label_matrix(key: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    metric = make_metric(key)
    rows = [metric.score(doc_of(gold), samples(text), ()) for gold, text in pairs]
    return {
        column.name: np.array(values)
        for column, values in zip(metric.columns, zip(*rows, strict=True), strict=True)
    }


def f1_by_definition(pairs: list[tuple[str, str]]) -> float:
    labels = {label for pair in pairs for label in pair}
    found = []
    for label in labels:
        right = sum(gold == text == label for gold, text in pairs)
        found.append(2 * right / sum((gold == label) + (text == label) for gold, text in pairs))
    return sum(found) / len(found)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["a", "b", "d", "", "是"])),
        min_size=1,
        max_size=30,
    )
)
def test_label_f1_is_its_definition_and_takes_codes_too(pairs: list[tuple[str, str]]) -> None:
    macro, micro = (make_metric(f"f1_score_{name}").outputs()[0] for name in ("macro", "micro"))
    matrix = label_matrix("f1_score_macro", pairs)
    assert macro.reduce(matrix) == pytest.approx(f1_by_definition(pairs), abs=1e-12)
    assert micro.reduce(matrix) == pytest.approx(
        sum(a == b for a, b in pairs) / len(pairs), abs=1e-12
    )
    order = sorted({label for pair in pairs for label in pair})
    codes = {
        name: np.array([order.index(label) for label in column]) for name, column in matrix.items()
    }
    assert macro.reduce(codes) == pytest.approx(macro.reduce(matrix), abs=1e-12)
    assert micro.reduce(codes) == micro.reduce(matrix)


def test_labels_of_a_document() -> None:
    metric = make_metric("f1_score_macro")
    assert metric.score(doc_of("a", "b"), samples("b", "a"), ()) == ("b", "b")
    assert metric.score(doc_of("a", "b"), samples("c"), ()) == ("a", "c")
    assert metric.score(doc_of("a"), samples(None), ()) == ("a", "")
    with pytest.raises(ValueError, match="'d7': its request failed"):
        metric.score(doc_of("a"), Samples((None,), (True,)), ())
    assert metric.check_doc(doc_of()) == "document 'd7' has no gold answer"


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        (["red", "blue"], ["blue", "Red"], (1.0, 1.0)),
        (["red", "blue"], ["red blue"], (0.0, 0.33)),
        (["red", "blue"], ["red"], (0.0, 0.5)),
        (["10 yards"], ["10 meters"], (0.0, 0.5)),
        (["10 yards"], ["11 yards"], (0.0, 0.0)),
        (["a b c", "c d"], ["c d e", "b c"], (0.0, 0.9)),
        (["x"], [""], (0.0, 0.0)),
    ],
)
def test_drop_spans(gold: list[str], answer: list[str], expected: tuple[float, float]) -> None:
    assert drop_scores(gold, answer) == expected


def test_drop_pairs_spans_for_the_largest_sum() -> None:
    draw = random.Random(3)
    for _ in range(20):
        spans = [" ".join(draw.choices("bcdefgh", k=3)) for _ in range(12)]
        shuffled = draw.sample(spans, 12)
        assert drop_scores(spans, shuffled) == (1.0, 1.0)


def test_drop_of_several_samples() -> None:
    doc = doc_of("New York", extra=(("gold_spans", [["New York City"], ["Rome"]]),))
    assert make_metric("drop").score(doc, samples("Rome", "x"), ()) == (1.0, 1.0)
    assert make_metric("drop", {"n": 2}).score(doc, samples("Rome", None), ()) == (0.5, 0.5)
    assert make_metric("drop", {"n": 1}).score(doc_of("New York"), samples("york"), ()) == (
        0.0,
        0.67,
    )
    with pytest.raises(ValueError, match="'d7' has 2 golds and 1 samples"):
        make_metric("drop", {"n": 2}).score(doc, samples("Rome"), ())
    assert [output.name for output in make_metric("drop").outputs()] == ["drop_em", "drop_f1"]


def test_short_names_that_mean_one_metric() -> None:
    names = {
        "perfect_em": "perfect_exact_match",
        "pem": "prefix_exact_match",
        "pqem": "prefix_quasi_exact_match",
    }
    assert {alias: METRICS.key(alias) for alias in names} == names
    for alias in ("qem", "f1"):  # several metrics of other tools are called so
        with pytest.raises(Fault):
            METRICS.key(alias)
