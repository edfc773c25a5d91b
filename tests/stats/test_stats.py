"""Sampling law and error bars against exact fractions, published rows and textbook values."""

from __future__ import annotations

import json
import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workspace import ROOT

from evalrun.stats.bounded_mean import bounded_interval
from evalrun.stats.errorbars import (
    MeanError,
    group_stderr,
    mean_error,
    mean_stderr,
    t_interval,
)
from evalrun.stats.sampling import avg_at_n, cons_at_k, pass_at_k, tail

ROWS = [
    json.loads(line)
    for line in (ROOT / "tests" / "cases" / "sampling_metrics.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def counted(metric: str) -> list[Any]:
    return [
        pytest.param(row, id=row["case_id"])
        for row in ROWS
        if row["metric"] == metric and "c" in row["inputs"]
    ]


def exact(n: int, c: int, k: int, at_least: int) -> Fraction:
    ways = sum(math.comb(c, j) * math.comb(n - c, k - j) for j in range(at_least, min(c, k) + 1))
    return Fraction(ways, math.comb(n, k))


@pytest.mark.parametrize("row", counted("pass@k"))
def test_pass_at_k_rows(row: dict[str, Any]) -> None:
    n, c, k = row["inputs"]["n"], row["inputs"]["c"], row["params"]["k"]
    if isinstance(row["expected"], dict):
        with pytest.raises(ValueError, match=r"k <= n does not hold"):
            pass_at_k(n, c, k)
    else:
        assert float(pass_at_k(n, c, k)) == pytest.approx(row["expected"], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("row", counted("cons@k"))
def test_cons_at_k_rows(row: dict[str, Any]) -> None:
    assert (
        float(cons_at_k(row["inputs"]["n"], row["inputs"]["c"], row["params"]["k"]))
        == row["expected"]
    )


@pytest.mark.parametrize("row", counted("g-pass@k"))
def test_tail_gives_g_pass_at_k(row: dict[str, Any]) -> None:
    n, c, k = row["inputs"]["n"], row["inputs"]["c"], row["params"]["k"]
    if "error" in row["expected"]:
        with pytest.raises(ValueError, match=r"k <= n"):
            tail(n, c, k, 1)
        return
    for share in row["params"]["thresholds"]:
        at_least = max(1, math.ceil(share * k - 1e-9))
        assert float(tail(n, c, k, at_least)) == pytest.approx(
            row["expected"][f"g-pass@{k}_{share}"], abs=1e-12
        )


@pytest.mark.parametrize(
    ("counts", "passed", "averaged", "consistent"),
    [
        ([2, 2, 1, 0], 0.75, 0.4167, 0.5),
        ([2, 2], 1.0, 0.6667, 1.0),
        ([1, 1], 1.0, 0.3333, 0.0),
        ([3, 0], 0.5, 0.5, 0.5),
    ],
)
def test_examples_with_three_tries(
    counts: list[int], passed: float, averaged: float, consistent: float
) -> None:
    assert pass_at_k(3, counts, 3).mean() == passed
    assert round(float(avg_at_n(3, counts).mean()), 4) == averaged
    assert cons_at_k(3, counts, 3).mean() == consistent


def test_five_tries_three_right_two_drawn() -> None:
    assert float(pass_at_k(5, 3, 2)) == 0.9


def test_every_small_case_is_the_rounded_fraction() -> None:
    for n in range(1, 11):
        for k in range(1, n + 1):
            c = np.arange(n + 1)
            for at_least in range(k + 2):
                got = tail(n, c, k, at_least).tolist()
                assert got == [float(exact(n, int(x), k, at_least)) for x in c]


@pytest.mark.parametrize(
    ("n", "c", "k"),
    [
        (129, 64, 65), (500, 3, 499), (1000, 999, 7), (2000, 1000, 1000), (10_000, 1, 1),
        (10_000, 70, 70),
        (10_000, 3, 9_000), (10_000, 4_990, 101), (10_000, 5_000, 5_000), (10_000, 5_000, 9_999),
    ],
)  # fmt: skip
def test_large_cases_are_exact_to_1e_12(n: int, c: int, k: int) -> None:
    for at_least in {1, k // 2, k // 2 + 1, max(1, c * k // n), k}:
        got = Fraction(float(tail(n, c, k, at_least)))
        assert abs(got - exact(n, c, k, at_least)) < Fraction(1, 10**12)


@given(st.integers(1, 400), st.data())
def test_laws_of_repeated_sampling(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    passed, consistent = float(pass_at_k(n, c, k)), float(cons_at_k(n, c, k))
    assert passed >= float(avg_at_n(n, c)) - 1e-12
    assert passed >= consistent - 1e-12
    assert float(cons_at_k(n, c, n)) == float(c > n / 2)
    assert float(pass_at_k(n, c, 1)) == pytest.approx(c / n, abs=1e-12)
    if k < n:
        assert float(pass_at_k(n, c, k + 1)) >= passed - 1e-12


@pytest.mark.parametrize(
    ("n", "c", "k", "rule"),
    [
        (3, 1, 4, "k <= n"),
        (3, 4, 1, "c <= n"),
        (3, 1, 0, "k >= 1"),
        (3, -1, 1, "c >= 0"),
        (0, 0, 1, "n >= 1"),
        (3, True, 1, "c must be whole numbers, got bool"),
        (3, 1.0, 1, "c must be whole numbers, got float64"),
        ([3, 2], [1, 1], 3, "k <= n does not hold for n=2, c=1, k=3"),
    ],
)
def test_wrong_counts_are_refused(n: Any, c: Any, k: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        pass_at_k(n, c, k)


def test_a_million_documents_take_linear_time_and_are_equal_to_one_by_one() -> None:
    took = []
    for size in (100_000, 1_000_000):
        c = np.random.default_rng(0).integers(0, 17, size)
        started = time.process_time()
        got = cons_at_k(16, c, 4)
        took.append(time.process_time() - started)
    assert took[1] < 0.5 + 30 * took[0]
    one_by_one = np.array([float(cons_at_k(16, x, 4)) for x in range(17)])
    assert np.array_equal(got, one_by_one[c])


def test_shapes_broadcast() -> None:
    assert pass_at_k(4, np.zeros((2, 3), dtype=int), 2).shape == (2, 3)
    assert pass_at_k([4, 5, 6], [[1], [2]], 2).shape == (2, 3)
    assert pass_at_k(4, np.zeros(0, dtype=int), 2).shape == (0,)


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r["metric"] == "stderr:mean"], ids=lambda r: r["case_id"]
)
def test_mean_stderr_rows(row: dict[str, Any]) -> None:
    expected = row["expected"]
    got = mean_stderr(row["inputs"]["values"])
    assert got == (
        None if isinstance(expected, dict) else pytest.approx(expected, rel=1e-9, abs=1e-9)
    )


def test_t_interval() -> None:
    # t(0.975, 4) = 2.776445 (tables of Student's t)
    assert t_interval(1.0, 0.5, 5) == pytest.approx((1 - 1.3882225, 1 + 1.3882225), abs=1e-6)
    with pytest.raises(ValueError, match="needs two documents, got 1"):
        t_interval(1.0, 0.5, 1)


@pytest.mark.parametrize(
    ("values", "is_bounded", "method", "has_stderr", "has_interval"),
    [
        ([1, 0, 1], True, "clt+bounded", True, True),
        ([1], True, "bounded", False, True),
        ([0.5], True, "bounded", False, True),
        ([0.5, 0.25], True, "clt+bounded", True, True),
        ([1, 0, 1], False, "clt+t", True, True),
        ([1], False, "none", False, False),
    ],
)
def test_method_of_a_mean(
    values: list[float], is_bounded: bool, method: str, has_stderr: bool, has_interval: bool
) -> None:
    got = mean_error(values, is_bounded)
    assert got.value == pytest.approx(sum(values) / len(values))
    assert (got.method, got.stderr is not None, got.ci_low is not None) == (
        method,
        has_stderr,
        has_interval,
    )


def test_intervals_stay_in_range_and_hold_the_mean() -> None:
    got = mean_error([0.9, 1.0, 1.0])
    assert got.ci_low is not None
    assert got.ci_high is not None
    assert 0 < got.ci_low < got.value < got.ci_high < 1
    assert mean_error([0.1] * 30).stderr == 0.0


def test_nan_is_not_dropped() -> None:
    got = mean_error([1.0, math.nan, 0.0])
    assert all(
        math.isnan(x) for x in (got.value, got.stderr or 0, got.ci_low or 0, got.ci_high or 0)
    )
    assert math.isnan(mean_stderr([math.nan, 1.0]) or 0)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="one per document"):
        mean_error([])
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        mean_error([0.5, 1.5])
    assert mean_error([0.5, 1.5], is_bounded=False).value == 1.0
    with pytest.raises(ValueError, match="confidence level"):
        mean_error([0.5, 1.0], level=95)


def test_group_stderr() -> None:
    assert group_stderr([0.25, 0.0]) == 0.125
    assert group_stderr([0.3, 0.4]) == pytest.approx(0.25)
    assert group_stderr([0.3, None]) is None
    assert group_stderr([]) is None


def test_mean_error_is_what_it_says() -> None:
    assert mean_error([1, 1, 0, 1]) == MeanError(
        0.75, 0.25, *bounded_interval([1, 1, 0, 1]), "clt+bounded"
    )
