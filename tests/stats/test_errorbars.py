"""Errors of means: over clusters, by rerunning, where a formula fails; and how a table says
them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from evalrun.errors import Fault
from evalrun.metrics import make_metric
from evalrun.metrics.base import Output
from evalrun.stages.scoring.error_bars import error_of
from evalrun.stages.scoring.estimates import estimates_of, remarks_of, statistics_of
from evalrun.stages.summarize import md_text
from evalrun.stats import rerun, sampling
from evalrun.stats.bounded_mean import bounded_interval
from evalrun.stats.clustered import cluster_codes, clustered_stderr
from evalrun.stats.errorbars import mean_error, mean_stderr, t_interval
from evalrun.types import Doc, Estimate, MetricPlan, Record, Samples, Verdict


def codes(*sizes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ([None, None], None),
        (["a", "b"], None),
        (["a", None, "b", "a"], [0, 1, 2, 0]),
        (["x", "x"], [0, 0]),
    ],
)
def test_documents_without_a_cluster_stand_alone(
    clusters: list[str | None], expected: list[int] | None
) -> None:
    found = cluster_codes(clusters)
    assert (found if found is None else found.tolist()) == expected


def test_clustered_error_by_hand() -> None:
    # means 3/5; clusters (1, 1), (0, 0), (1): sums of differences 0.8, -1.2, 0.4
    got = clustered_stderr(np.array([1.0, 1, 0, 0, 1]), codes(2, 2, 1))
    assert got == pytest.approx(math.sqrt(3 / 2 / 25 * (0.64 + 1.44 + 0.16)), abs=1e-15)


def test_one_document_per_cluster_is_the_plain_error() -> None:
    values = np.random.default_rng(0).random(40)
    assert clustered_stderr(values, np.arange(40)) == pytest.approx(mean_stderr(values), rel=1e-12)


def test_copies_of_documents_do_not_shrink_the_error() -> None:
    values = np.array([0.0, 1, 1, 0, 1, 0, 0, 1, 1, 1])
    tripled = clustered_stderr(np.repeat(values, 3), codes(*[3] * 10))
    assert tripled == pytest.approx(mean_stderr(values), rel=1e-12)
    assert mean_error(np.repeat(values, 3)).stderr < 0.65 * tripled


@pytest.mark.parametrize("sizes", [(3, 3, 3), (30, 30, 30, 30)])
def test_equal_clusters_have_no_spread_and_still_an_interval(sizes: tuple[int, ...]) -> None:
    values = np.concatenate([np.arange(size) % 3 == 0 for size in sizes]).astype(float)
    got = mean_error(values, codes=codes(*sizes))
    assert got.stderr == 0.0
    assert got.ci_low < got.value - 0.02 < got.value + 0.02 < got.ci_high
    assert got.method == "clustered+bounded"


def test_intervals_over_clusters() -> None:
    values, groups = [0.2, 0.4, 0.5, 0.6], codes(2, 2)
    bounded = mean_error(values, codes=groups)
    assert bounded.method == "clustered+bounded"
    assert (bounded.ci_low, bounded.ci_high) == bounded_interval(values, codes=groups)
    open_ended = mean_error(values, is_bounded=False, codes=groups)
    assert open_ended.method == "clustered+t"
    assert (open_ended.ci_low, open_ended.ci_high) == t_interval(bounded.value, bounded.stderr, 2)


def test_one_cluster_has_no_stderr() -> None:
    binary, graded = (mean_error(v, codes=codes(3)) for v in ([1.0, 0, 1], [0.5, 0.1, 1.0]))
    for got in (binary, graded):
        assert (got.stderr, got.method) == (None, "bounded")
        assert got.ci_low < got.value < got.ci_high
    assert mean_error([0.5, 2.0], is_bounded=False, codes=codes(2)).method == "none"
    with pytest.raises(ValueError, match="one cluster per value"):
        clustered_stderr(np.ones(3), codes(2))


# ---- rerun ---------------------------------------------------------------------------------------

LAWS = {
    "pass@k": (
        lambda n, c, k: sampling.pass_at_k(n, c, k),
        rerun.pass_at_k_variance,
        lambda j, k: j >= 1,
    ),
    "pass^k": (
        lambda n, c, k: sampling.pass_hat_k(n, c, k),
        rerun.pass_hat_k_variance,
        lambda j, k: j == k,
    ),
    "cons@k": (
        lambda n, c, k: sampling.cons_at_k(n, c, k),
        rerun.cons_at_k_variance,
        lambda j, k: 2 * j > k,
    ),
    "g-pass@k": (
        lambda n, c, k: sampling.g_pass_at_k(n, c, k, 0.5),
        lambda n, c, k: rerun.g_pass_at_k_variance(n, c, k, 0.5),
        lambda j, k: 2 * j >= k,
    ),
    "mg-pass@k": (
        lambda n, c, k: sampling.mg_pass_at_k(n, c, k),
        rerun.mg_pass_at_k_variance,
        lambda j, k: Fraction(2, k) * max(0, j - math.ceil(k / 2)),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_rerun_variance_is_that_of_fresh_samples_over_the_posterior(name: str) -> None:
    """V(p) by its definition, subset by subset; integrated exactly by Gauss-Jacobi quadrature."""
    from scipy.special import roots_jacobi

    law, variance, gain = LAWS[name]
    for n, k in ((5, 2), (6, 3), (9, 4)):
        counts = np.array([0, n, n, n - 1, 2, n])
        a, b = rerun.fitted_prior(np.full(6, n), counts, np.ones(6, dtype=np.int64))
        values = law(np.full(n + 1, n), np.arange(n + 1), k)
        gains = np.array([float(gain(j, k)) for j in range(k + 1)])
        for c, got in zip(counts.tolist(), variance(np.full(6, n), counts, k), strict=True):
            x, weight = roots_jacobi(n + k, b + n - c - 1, a + c - 1)
            p = (x + 1) / 2
            square = sum(chance(n, i, p) * values[i] ** 2 for i in range(n + 1))
            mean = sum(chance(k, j, p) * gains[j] for j in range(k + 1))
            expected = weight @ (square - mean**2) / weight.sum()
            assert got == pytest.approx(expected, rel=1e-7, abs=1e-12)


def chance(n: int, x: int, p: Any) -> Any:
    return math.comb(n, x) * p**x * (1 - p) ** (n - x)


@pytest.mark.parametrize("name", LAWS)
def test_value_is_the_mean_gain_of_all_draws(name: str) -> None:
    law, _, gain = LAWS[name]
    for n, k in ((2, 1), (5, 2), (6, 3), (7, 3)):
        for c in range(n + 1):
            right = [True] * c + [False] * (n - c)
            sets = list(itertools.combinations(right, k))
            value = sum(Fraction(gain(sum(one), k)) for one in sets) / len(sets)
            assert float(law(n, c, k)) == pytest.approx(float(value), abs=1e-14)


def test_rerun_variance_of_the_share_is_unbiased() -> None:
    c, p = np.arange(11), 0.4
    shares = rerun.avg_at_n_variance(10, c)
    assert shares == pytest.approx(c / 10 * (1 - c / 10) / 9, abs=1e-15)
    chances = np.array([chance(10, int(x), p) for x in c])
    assert chances @ shares == pytest.approx(p * (1 - p) / 10, rel=1e-12)
    for one_draw in (rerun.pass_at_k_variance, rerun.pass_hat_k_variance, rerun.cons_at_k_variance):
        assert one_draw(10, c, 1) == pytest.approx(shares, abs=1e-15)


def test_the_prior_is_that_of_the_counts() -> None:
    rng = np.random.default_rng(2)
    n, chances = np.array([8, 16])[rng.integers(0, 2, 200_000)], rng.beta(2, 0.5, 200_000)
    a, b = rerun.fitted_prior(n, rng.binomial(n, chances), np.ones(n.size, dtype=np.int64))
    assert (a, b) == (pytest.approx(2, rel=0.03), pytest.approx(0.5, rel=0.03))
    one = (np.array([4]), np.array([4]), np.array([1]))
    assert sum(rerun.fitted_prior(*one)) == pytest.approx(1.0)  # correlation 1/2
    alike = rerun.fitted_prior(np.array([4]), np.array([2]), np.array([50]))
    assert sum(alike) == pytest.approx(1 / 0.02 - 1)


@pytest.mark.parametrize(("n", "k"), [(8, 4), (16, 8), (300, 4)])
def test_rerun_variance_adds_up_to_the_truth(n: int, k: int) -> None:
    """Near the ceiling, where 9 of 10 documents have all samples right."""
    rng = np.random.default_rng(n)
    chances = rng.beta(2, 0.3, 4000)
    table = sampling.pass_at_k(np.full(n + 1, n), np.arange(n + 1), k)
    laws = np.stack([chance(n, x, chances) for x in range(n + 1)], 1)
    true = float((laws @ table**2 - (laws @ table) ** 2).sum())
    got = float(rerun.pass_at_k_variance(np.full(4000, n), rng.binomial(n, chances), k).sum())
    assert got == pytest.approx(true, rel=0.12)


def test_too_few_samples_give_no_rerun_error() -> None:
    assert np.isnan(rerun.pass_at_k_variance([5, 6], [2, 2], 3)).tolist() == [True, False]
    assert np.isnan(rerun.avg_at_n_variance(1, 1))
    assert rerun.rerun_stderr([0.04, math.nan]) is None
    assert rerun.rerun_stderr([0.04, 0.12]) == 0.2
    with pytest.raises(ValueError, match="k <= n"):
        rerun.pass_at_k_variance(2, 1, 3)


def test_certain_documents_have_a_small_rerun_error() -> None:
    for name, (_, variance, _) in LAWS.items():
        for n, k in ((8, 3), (300, 7)):
            found = variance(np.full(40, n), np.array([0, n] * 20), k)
            assert 0 < found.sum() < 0.2, name
    assert rerun.avg_at_n_variance([8, 8], [0, 8]).tolist() == [0.0, 0.0]


def test_rerun_variance_depends_on_the_set_of_documents_only() -> None:
    n, c = np.array([8, 16, 8, 8, 16]), np.array([8, 15, 0, 7, 16])
    found = rerun.pass_at_k_variance(n, c, 4)
    order = np.array([3, 0, 4, 2, 1])
    assert rerun.pass_at_k_variance(n[order], c[order], 4) == pytest.approx(found[order], rel=1e-12)
    wide = rerun.pass_at_k_variance(n * 1000, c * 1000, 4)  # pairs that are sorted, not counted
    assert np.isfinite(wide).all()
    assert wide.sum() < found.sum()


# ---- outputs -------------------------------------------------------------------------------------


def sums(of_sums: Any, **changes: Any) -> Output:
    return Output("made", ("x",), of_sums=of_sums, is_bounded=False, **changes)


def test_overflow_and_infinities_are_nan_and_said() -> None:
    matrix = {"x": np.array([800.0, 900.0])}

    def overflows(_: Any) -> float:
        return math.exp(1700)

    for output in (
        sums(lambda s: np.exp(s[..., 0])),
        Output("made", ("x",), of_rows=overflows, is_bounded=False),
        Output("made", ("x",), per_doc=lambda m: np.exp(m["x"]), is_bounded=False),
    ):
        got = error_of(output, matrix)
        assert math.isnan(got.value)
        assert math.isnan(got.stderr)
        assert (got.is_overflow, got.n_nan) == (True, 0)


def test_nan_documents_are_counted_and_not_dropped() -> None:
    matrix = {"x": np.array([1.0, math.nan, 0.0])}
    for output in (sums(lambda s: s[..., 0]), Output("made", ("x",), per_doc=lambda m: m["x"])):
        got = error_of(output, matrix)
        assert math.isnan(got.value)
        assert (got.n_nan, got.is_overflow) == (1, False)


def test_one_document_has_a_value_and_no_error() -> None:
    got = error_of(sums(lambda s: s[..., 0] * 2), {"x": np.array([3.0])})
    assert (got.value, got.stderr, got.ci_low, got.method) == (6.0, None, None, "none")


def test_a_value_outside_its_declared_range_is_refused() -> None:
    with pytest.raises(Fault, match=r"'made': values outside \[0, 1\]"):
        error_of(Output("made", ("x",), per_doc=lambda m: m["x"]), {"x": np.array([0.5, 1.5])})


def scored(
    key: str, counts: list[int], n: int, clusters: list[str | None] | None = None, **params: Any
) -> Any:
    metric = make_metric(key, {**params, "n": n})
    docs = [
        Doc(str(i), "t", i, "q", ("1",), cluster=cluster)
        for i, cluster in enumerate(clusters or [None] * len(counts))
    ]
    heads = [[Verdict(1.0, "1")] * c + [Verdict(0.0, "2")] * (n - c) for c in counts]
    given = tuple(params.items())
    plan = MetricPlan(key, (*given, ("n", n)), "number.v1", n, given=tuple(params))
    return statistics_of(metric, plan, docs, [Samples(("x",) * n, (False,) * n)] * len(docs), heads)


@pytest.mark.parametrize(
    ("n", "counts", "k", "passed", "averaged", "majority"),
    [
        (3, [2, 2, 1, 0], 3, 0.75, 0.416667, 0.5),
        (4, [2, 3, 4, 0], 4, 0.75, 0.5625, 0.5),
    ],
)
def test_the_three_numbers_of_a_run(
    n: int, counts: list[int], k: int, passed: float, averaged: float, majority: float
) -> None:
    for key, expected, params in (
        ("pass_at_k", passed, {"k": k}),
        ("avg_at_n", averaged, {}),
        ("cons_at_k", majority, {"k": k}),
    ):
        (found,) = estimates_of(scored(key, counts, n, **params), None, [["ok"] * n] * len(counts))
        assert found.value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("n", "c", "k"), [(2, 0, 5), (1, 0, 10), (2, 2, 5)])
def test_more_draws_than_samples_are_refused_while_planning(n: int, c: int, k: int) -> None:
    for key in ("pass_at_k", "pass_hat_k", "g_pass_at_k", "cons_at_k"):
        with pytest.raises(Fault, match=f"k={k} is larger than n={n}"):
            make_metric(key, {"n": n, "k": k})


@pytest.mark.parametrize("key", ["pass_at_k", "g_pass_at_k"])
def test_two_golds_are_refused_by_name(key: str) -> None:
    reason = make_metric(key, {"k": 1}).check_doc(Doc("d7", "t", 0, "q", ("4", "four")))
    assert reason is not None
    assert "'d7' has 2" in reason
    assert "ass@k needs exactly one gold" in reason


@pytest.mark.parametrize("thresholds", [(1.5,), (-0.1,), ("a",), (True,), (0.5, 0.5), 0.5])
def test_thresholds_are_shares(thresholds: Any) -> None:
    with pytest.raises(Fault, match="thresholds"):
        make_metric("g-pass@k", {"k": 2, "thresholds": thresholds})


def test_avg_is_over_questions_and_its_rerun_part_is_inside() -> None:
    (found,) = estimates_of(scored("avg_at_n", [4, 0], 4), None, [["ok"] * 4] * 2)
    assert (found.value, found.stderr, found.rerun_stderr) == (0.5, 0.5, 0.0)
    (found,) = estimates_of(scored("avg_at_n", [1, 3, 2, 2], 4), None, [["ok"] * 4] * 4)
    expected = math.sqrt(2 * 3 / 16 / 3 + 2 * 1 / 4 / 3) / 4
    assert found.rerun_stderr == pytest.approx(expected)


def test_few_clusters_and_a_missing_rerun_error_are_said() -> None:
    item = scored("pass_at_k", [1, 3, 2, 2], 4, ["a", "a", "b", "b"], k=3)
    assert remarks_of([item], "t") == [
        "the errors are over 2 clusters of documents; interval not assured: 2 clusters, fewer "
        "than 15",
        "rerun error of pass@k:k=3: not estimable; it needs n >= 2k samples (avg@n: two)",
    ]
    assert item.errors[0].method == "clustered+bounded"
    assert remarks_of([scored("pass_at_k", [1, 3], 4, k=2)], "t") == []


def test_the_table_shows_the_rerun_part_of_an_error() -> None:
    estimate = Estimate(
        *("avg_at_n", "avg@n", 1, 0.75, "fraction", True, 0.0433, 0.012, 0.6, 0.9, "clt+t"),
        *(10, 4, 10, 0, 0, 0, None, "avg_at_n|n:4"),
    )
    bare = dataclasses.replace(estimate, display="other", rerun_stderr=None)
    lines = md_text(
        [
            Record(
                "m", "t", "abcdef", "gen", "complete", None, None, 10, 4, estimates=(estimate, bare)
            )
        ]
    )
    assert "75.00 ± 4.33, of which rerun ± 1.20 |" in lines
    assert "75.00 ± 4.33 |" in lines
    assert "Of which rerun: the part that would change" in lines
