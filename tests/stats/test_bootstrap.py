"""Bootstrap against the analytic error, another implementation, and itself in other chunks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from evalrun.metrics.base import Output
from evalrun.stages.scoring.error_bars import error_of
from evalrun.stats import bootstrap
from evalrun.stats.clustered import clustered_stderr
from evalrun.stats.errorbars import mean_stderr

RNG = np.random.default_rng(7)
ROWS = np.stack([RNG.gamma(2.0, 1.0, 60), RNG.integers(1, 9, 60)], axis=1)


def ratio(sums: Any) -> Any:
    return sums[..., 0] / sums[..., 1]


def ratio_of_rows(matrix: Any) -> float:
    return float(matrix["a"].sum() / matrix["b"].sum())


MATRIX = {"a": ROWS[:, 0], "b": ROWS[:, 1]}


def test_the_error_of_a_mean_is_the_analytic_one() -> None:
    values = np.tile([0.0, 1.0], 50)
    got = bootstrap.bootstrap_stderr(
        bootstrap.replicates_of_sums(values[:, None], lambda s: s[..., 0] / 100)
    )
    assert got == pytest.approx(0.0503, abs=0.006)
    assert got == pytest.approx(mean_stderr(values), rel=0.1)


def test_rows_and_sums_draw_alike() -> None:
    by_sums = bootstrap.replicates_of_sums(ROWS, ratio, 50, seed=3)
    by_rows = bootstrap.replicates_of_rows(MATRIX, ratio_of_rows, 50, seed=3)
    assert by_rows == pytest.approx(by_sums, rel=1e-12)


def test_chunks_change_nothing_and_the_seed_does(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bootstrap.replicates_of_sums(ROWS, ratio, 37)
    monkeypatch.setattr(bootstrap, "CELLS", 250)
    assert bootstrap.replicates_of_sums(ROWS, ratio, 37) == pytest.approx(whole, rel=1e-12)
    assert not np.allclose(bootstrap.replicates_of_sums(ROWS, ratio, 37, seed=1), whole)


def test_clusters_are_drawn_whole() -> None:
    codes = np.repeat(np.arange(30), 4)
    values = np.repeat(RNG.random(30), 4)
    for replicates in (
        bootstrap.replicates_of_sums(np.stack([values, np.ones(120)], 1), ratio, 2000, codes=codes),
        bootstrap.replicates_of_rows(
            {"v": values}, lambda m: float(m["v"].mean()), 2000, codes=codes
        ),
    ):
        assert bootstrap.bootstrap_stderr(replicates) == pytest.approx(
            clustered_stderr(values, codes), rel=0.1
        )


def test_bca_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")

    def statistic(a: Any, b: Any, axis: int) -> Any:
        return a.sum(axis=axis) / b.sum(axis=axis)

    known = stats.bootstrap(
        (ROWS[:, 0], ROWS[:, 1]),
        statistic,
        paired=True,
        n_resamples=8000,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    replicates = bootstrap.replicates_of_sums(ROWS, ratio, 8000)
    value = float(ratio(ROWS.sum(axis=0)))
    got = bootstrap.bca_interval(value, replicates, bootstrap.left_out_of_sums(ROWS, ratio))
    assert got == pytest.approx((known.low, known.high), rel=0.02)
    same = bootstrap.bca_interval(
        value, replicates, bootstrap.left_out_of_rows(MATRIX, ratio_of_rows)
    )
    assert same == pytest.approx(got, rel=1e-9)


def test_outputs_of_both_forms_get_the_same_error() -> None:
    by_sums = error_of(Output("r", ("a", "b"), of_sums=ratio, is_bounded=False), MATRIX)
    by_rows = error_of(Output("r", ("a", "b"), of_rows=ratio_of_rows, is_bounded=False), MATRIX)
    assert (by_sums.stderr, by_sums.ci_low) == pytest.approx(
        (by_rows.stderr, by_rows.ci_low), rel=1e-9
    )
    assert by_sums.method == "bootstrap+percentile"
    assert by_sums.ci_low < by_sums.value < by_sums.ci_high
    bca = error_of(Output("r", ("a", "b"), of_sums=ratio, is_bounded=False), MATRIX, interval="bca")
    assert bca.method == "bootstrap+bca"
    assert (bca.ci_low, bca.ci_high) != (by_sums.ci_low, by_sums.ci_high)
    codes = np.repeat(np.arange(6), 10)
    assert (
        error_of(Output("r", ("a", "b"), of_sums=ratio), MATRIX, codes).method
        == "clustered-bootstrap+percentile"
    )


def test_draws_without_a_number_are_counted() -> None:
    def fragile(matrix: Any) -> float:
        if matrix["v"].max() < 3:
            raise OverflowError
        return float(matrix["v"].mean())

    got = error_of(Output("f", ("v",), of_rows=fragile, is_bounded=False), {"v": np.arange(4.0)})
    assert got.value == 1.5
    assert 200 < got.n_open_draws < 450  # (3/4)^4 of 1,000
    assert math.isnan(got.stderr)
    assert math.isnan(got.ci_low)


def test_equal_replicates_have_a_point() -> None:
    replicates = np.full(100, 2.0)
    assert bootstrap.bootstrap_stderr(replicates) == 0.0
    assert bootstrap.bca_interval(2.0, replicates, np.full(5, 2.0)) == (2.0, 2.0)
    assert bootstrap.percentile_interval(replicates) == (2.0, 2.0)
    with pytest.raises(ValueError, match="need a row"):
        bootstrap.replicates_of_sums(np.zeros((0, 2)), ratio)


def test_labels_of_a_draw_come_from_the_draw() -> None:
    """A class that is not drawn is no class of that draw: macro F1 of a draw without errors is
    1.
    """
    from evalrun.metrics import make_metric

    (output,) = make_metric("f1_score_macro").outputs()
    matrix = {"gold": np.array([0, 0, 0, 1]), "predicted": np.array([0, 0, 0, 0])}
    assert output.of_rows is not None
    replicates = bootstrap.replicates_of_rows(matrix, output.of_rows)
    assert np.mean(replicates == 1.0) == pytest.approx((3 / 4) ** 4, abs=0.05)
