"""Perplexities: known values, counting of words and bytes, overflow, resampled sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.likelihood_rows import check_row, matrix_of, numbers_over, rows_of

from evalrun.errors import Fault
from evalrun.metrics import METRICS, make_metric
from evalrun.metrics.perplexity import bits_of_sums, bytes_of, perplexity_of_sums, words_of
from evalrun.types import Choices, Doc, Kind, Roll, Samples

KEYS = [key for key in METRICS if METRICS.get(key).reads is Kind.ROLLING]
ORACLE = rows_of("oracle_perplexity")
DOC = Doc("d7", "t", 0, "?", (), ())


def value(key: str, *rolls: Roll, **params: Any) -> float:
    (number,) = numbers_over(make_metric(key, params), [DOC] * len(rolls), rolls).values()
    return number


@pytest.mark.parametrize("row", ORACLE, ids=lambda row: f"{row['metric']}-{row['case_id']}")
def test_known_values(row: dict[str, Any]) -> None:
    check_row(row)


def test_every_metric_has_known_values_or_is_tested_here() -> None:
    assert {row["metric"] for row in ORACLE} | {"token_perplexity"} == set(KEYS)


@pytest.mark.parametrize(
    ("text", "words", "n_bytes"),
    [
        ("", 1, 0),
        ("a b\n", 3, 4),
        (" a", 2, 2),
        ("a  \t b", 2, 6),
        ("北京是首都", 1, 15),
        ("a\u00a0b", 2, 4),
        ("\ud83d", 1, 3),
    ],
)
def test_units(text: str, words: int, n_bytes: int) -> None:
    assert (words_of(text), bytes_of(text)) == (words, n_bytes)


def test_overflow_is_nan_and_what_is_finite_survives() -> None:
    """ME-034: exp(800) is no number, its logarithm is one."""
    roll = Roll("one two thr", -8000.0, 10)
    ten_words = Roll("a b c d e f g h i j", -8000.0, 10)
    assert math.isnan(value("word_perplexity", ten_words))
    assert value("bits_per_byte", Roll("0123456789", -8000.0, 10)) == pytest.approx(1154.156033)
    assert value("log_prob", roll) == -8000.0
    assert value("log_prob", roll, per="token") == -800.0
    metric = make_metric("word_perplexity")
    matrix = matrix_of(metric, [metric.score(DOC, ten_words, ())])
    assert metric.notes(matrix) == ("word_perplexity is NaN: exp(800) is too large for a number",)


@pytest.mark.parametrize(
    ("key", "roll", "why"),
    [
        ("byte_perplexity", Roll("", -1.0), "the texts have nothing to divide by"),
        ("bits_per_byte", Roll("", -1.0), "the texts have nothing to divide by"),
        (
            "bits_per_byte",
            Roll("a", -math.inf),
            "1 of 1 documents have a log-probability that is not finite",
        ),
        (
            "word_perplexity",
            Roll("a", math.nan),
            "1 of 1 documents have a log-probability that is not finite",
        ),
    ],
)
def test_nan_is_kept_and_said(key: str, roll: Roll, why: str) -> None:
    metric = make_metric(key)
    matrix = matrix_of(metric, [metric.score(DOC, roll, ())])
    assert math.isnan(metric.outputs()[0].reduce(matrix))
    assert metric.notes(matrix) == (f"{key} is NaN: {why}",)


def test_no_note_without_a_reason() -> None:
    for key in KEYS:
        metric = make_metric(key)
        assert metric.notes(matrix_of(metric, [metric.score(DOC, Roll("a b", -3.0, 2), ())])) == ()
    metric = make_metric("bits_per_byte")
    assert metric.notes(matrix_of(metric, [metric.score(DOC, Roll("a", -9999.0), ())])) == ()


def test_bits_are_the_logarithm_of_byte_perplexity() -> None:
    rolls = (Roll("hello world", -3.0), Roll("北京", -7.5), Roll("", -0.5))
    assert value("bits_per_byte", *rolls) == pytest.approx(
        math.log2(value("byte_perplexity", *rolls))
    )
    sure = value("bits_per_byte", Roll("a", 0.0))
    assert (sure, math.copysign(1.0, sure)) == (0.0, 1.0)


def test_per_token_forms() -> None:
    rolls = (Roll("a", -1.0, 1), Roll("a b c", -9.0, 3))
    assert value("token_perplexity", *rolls) == pytest.approx(math.exp(10 / 4))
    assert value("prediction_perplexity", *rolls) == pytest.approx(math.exp(10 / 2))
    docs = [Doc("a", "t", 0, "?", (0,)), Doc("b", "t", 1, "?", (1, 2))]
    answers = [
        Choices((-2.0, -9.0), n_tokens=(2, 1)),
        Choices((-9.0, -3.0, -4.0), n_tokens=(1, 3, 1)),
    ]
    assert numbers_over(make_metric("target_token_perplexity"), docs, answers) == {
        "target_token_perplexity": pytest.approx(math.exp(9 / 6))
    }
    assert numbers_over(make_metric("target_perplexity"), docs, answers) == {
        "target_perplexity": pytest.approx(math.exp(9 / 2))
    }
    assert math.isnan(value("log_prob", Roll("", 0.0, 0), per="token"))


def test_resampled_sums_in_one_call() -> None:
    """One matrix product gives the sums of all replicates."""
    draws = np.random.default_rng(5).integers(0, 40, (200, 40))
    table = np.stack([-np.linspace(1, 30, 40), np.arange(1, 41, dtype=float)], axis=1)
    weights = np.stack([np.bincount(draw, minlength=40) for draw in draws]).astype(float)
    for formula in (perplexity_of_sums, bits_of_sums):
        singly = [float(formula(table[draw].sum(axis=0))) for draw in draws]
        assert formula(weights @ table) == pytest.approx(singly)
    assert np.isnan(perplexity_of_sums(np.array([[-800.0, 1.0], [-1.0, 0.0], [np.nan, 1.0]]))).all()


@pytest.mark.parametrize("key", KEYS)
def test_answers_that_are_refused(key: str) -> None:
    metric = make_metric(key)
    for answer in (Samples(("x",), (False,)), Choices((-1.0,))):
        with pytest.raises(
            ValueError, match="document 'd7': expected the log-probability of a text, got"
        ):
            metric.score(DOC, answer, ())


@pytest.mark.parametrize(
    ("key", "params"), [("token_perplexity", {}), ("log_prob", {"per": "token"})]
)
def test_tokens_are_needed(key: str, params: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match="document 'd7': the number of tokens is needed and missing"
    ):
        make_metric(key, params).score(DOC, Roll("a", -1.0), ())


def test_per_is_checked() -> None:
    with pytest.raises(Fault, match="per must be one of 'sample', 'token'; got 'word'"):
        make_metric("log_prob", {"per": "word"})


@pytest.mark.parametrize("key", KEYS)
def test_direction_and_batch_form(key: str) -> None:
    metric, rolls = (
        make_metric(key),
        [Roll("a b", -3.0, 2), Roll("c", -0.25, 1), Roll("d e f ", -9.0, 4)],
    )
    (output,) = metric.outputs()
    assert output.is_higher_better == (key == "log_prob")
    assert not output.is_bounded
    rows = metric.score_batch([DOC] * 3, rolls, [()] * 3)
    assert rows == [metric.score(DOC, roll, ()) for roll in rolls]
    better = numbers_over(metric, [DOC], [Roll("a b", -0.5, 2)]).popitem()[1]
    worse = numbers_over(metric, [DOC], [Roll("a b", -5.0, 2)]).popitem()[1]
    assert (better > worse) == output.is_higher_better
