"""The interval of a mean of bounded values: what it is by definition, and how often it holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import pytest
from support.simulated_means import (
    Clusters,
    Law,
    binary,
    cluster_laws,
    laws,
    sample_of_counts,
    sampled,
)

from evalrun.stats.bounded_mean import bounded_interval, interval_of, sample_of
from evalrun.stats.errorbars import mean_stderr, t_interval

DRAWS = 4000
LEAST = 0.935


def close(ends: tuple[float, float]) -> object:
    return pytest.approx(ends, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, table I: Clopper-Pearson
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
        # scipy.stats.binomtest(k, n).proportion_ci(0.95, "exact")
        (3, 4, 0.1941204496832434, 0.9936905367902901),
        (997, 1000, 0.9912579767613423, 0.9993809000683501),
        (1, 1, 0.025, 1.0),
    ],
)
def test_0_1_values_get_the_exact_interval(right: int, n: int, low: float, high: float) -> None:
    found = bounded_interval(np.repeat([1.0, 0.0], [right, n - right]))
    assert found == pytest.approx((low, high), abs=5e-5 if high == round(high, 4) else 1e-10)


def test_the_middle_of_the_range_gets_students_t() -> None:
    values = np.random.default_rng(1).normal(0.5, 0.02, 200)
    low, high = t_interval(float(values.mean()), mean_stderr(values) or math.nan, values.size)
    assert bounded_interval(values) == pytest.approx((low, high), abs=2e-5)


def test_by_hand() -> None:
    # 9 of 10 equal 1, one 0.5: apart 1, tie 8/9. At the upper end 1 is added with weight
    # far = (8/9)^2; near is cv^2 tiny and place 1.
    from scipy.special import betaincinv, stdtrit

    values = [1.0] * 9 + [0.5]
    far = (8 / 9) ** 2
    mean, spread = 0.95, 9 * 0.05**2 + 0.45**2
    cv2 = spread / 10 / mean**2
    near = (1 - far) * cv2 * min(1.0, 15 * cv2 / 10)
    total = 10 + far + near
    centre = (9.5 + far + near) / total
    squares = spread + 10 * (mean - centre) ** 2 + (far + near) * (1 - centre) ** 2
    factor = 1.1 * 10 / 9 * (stdtrit(9, 0.975) / 1.959963984540054) ** 2
    variance = squares / total / (total + 1) * factor ** (1 - far - near)
    number = centre * (1 - centre) / variance - 1
    expected = betaincinv(centre * number, (1 - centre) * number, 0.975)
    assert bounded_interval(values)[1] == pytest.approx(expected, rel=1e-9)


SAMPLES = [
    *([x] for x in (0.0, 1.0, 0.3, 1e-300, 1 - 1e-16)),
    *([[0.0, 1.0], [0.2, 0.4], [1.0, 1.0], [0.0, 0.0], [0.5, 0.5 + 1e-16], [0.0, 1e-9]]),
    *([x] * 5 for x in (0.0, 1.0, 0.8333, 5 / 6, 1e-12, 1 - 1e-12)),
    *([x] * 3000 for x in (0.0, 1.0, 0.1, 0.7)),
    [0.1 + 0.2, 0.3, 0.3],
    [1.0] * 99 + [1 - 1 / 70],
    [0.5 + 1e-10, 0.5, 0.5 - 1e-10],
    [0.0] * 50 + [1.0] * 50,
    np.random.default_rng(0).beta(20, 0.1, 40).tolist(),
]


@pytest.mark.parametrize("values", SAMPLES, ids=range(len(SAMPLES)))
def test_laws_of_the_interval(values: list[float]) -> None:
    low, high = bounded_interval(values)
    mean = math.fsum(values) / len(values)
    assert 0 <= low < high <= 1
    assert low - 1e-12 <= mean <= high + 1e-12
    rng = np.random.default_rng(0)
    assert bounded_interval(rng.permutation(values)) == close((low, high))
    mirrored = bounded_interval(1 - np.asarray(values))
    assert mirrored == pytest.approx((1 - high, 1 - low), rel=1e-6, abs=1e-12)
    wide, narrow = bounded_interval(values, 0.99), bounded_interval(values, 0.8)
    assert wide[0] <= low <= narrow[0] <= narrow[1] <= high <= wide[1]
    singles = bounded_interval(values, codes=np.arange(len(values)))
    assert singles == close((low, high))
    scaled = bounded_interval(1 + 4 * np.asarray(values), low=1, high=5)
    assert scaled == pytest.approx((1 + 4 * low, 1 + 4 * high), rel=1e-6)


def test_the_range_is_reached_only_where_all_values_lie_there() -> None:
    assert bounded_interval([1.0] * 7)[1] == 1.0
    assert bounded_interval([0.0] * 7)[0] == 0.0
    assert bounded_interval([1.0] * 7 + [0.99])[1] < 1.0


def test_five_equal_documents_get_an_honest_interval() -> None:
    """Up to half of all documents may have another value: 0.025 = 0.48^5."""
    low, high = bounded_interval([0.8333] * 5)
    assert low == pytest.approx(0.444, abs=0.001)
    assert high == pytest.approx(0.904, abs=0.001)


def test_more_right_answers_move_both_ends_up() -> None:
    for n in (1, 2, 5, 40, 301):
        counts = np.stack([n - np.arange(n + 1), np.arange(n + 1)], 1).astype(float)
        low, high = interval_of(sample_of_counts(counts, np.array([0.0, 1.0])))
        assert (np.diff(low) > 0).all()
        assert (np.diff(high) > 0).all()


def test_copies_of_the_sample_narrow_it() -> None:
    values = [0.0, 0.4, 0.9, 1.0, 1.0, 1.0]
    widths = [high - low for low, high in (bounded_interval(values * k) for k in (1, 2, 5, 50))]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.2 * widths[0]


def test_copies_within_clusters_do_not_narrow_it() -> None:
    values = np.array([1.0] * 30 + [0.0, 0.5, 0.0, 0.3, 0.9] * 2)
    plain, fourfold = bounded_interval(values), bounded_interval(np.repeat(values, 4))
    codes = np.repeat(np.arange(values.size), 4)
    clustered = bounded_interval(np.repeat(values, 4), codes=codes)
    assert clustered == pytest.approx(plain, abs=0.01)  # t with 39 degrees of freedom, not z
    assert fourfold[1] - fourfold[0] < 0.6 * (plain[1] - plain[0])


def test_one_cluster_is_one_document() -> None:
    found = bounded_interval([1.0, 0.0, 1.0], codes=np.zeros(3, dtype=np.int64))
    assert found == bounded_interval([2 / 3])


def test_equal_clusters_have_no_spread_and_still_an_interval() -> None:
    codes = np.repeat(np.arange(20), 3)
    low, high = bounded_interval([1.0, 0.0, 1.0] * 20, codes=codes)
    assert 0.01 < high - low < 0.5
    assert low < 2 / 3 < high


def test_a_million_documents() -> None:
    values = np.random.default_rng(3).random(1_000_000)
    stderr = mean_stderr(values)
    assert stderr is not None
    low, high = t_interval(float(values.mean()), stderr, values.size)
    assert bounded_interval(values) == pytest.approx((low, high), abs=1e-6)
    assert bounded_interval(np.repeat([1.0, 0.0], [999_999, 1])) == pytest.approx(
        (1 - 5.5716e-6, 1 - 2.5318e-8), abs=1e-9
    )  # Poisson: 5.5716 and 0.025318


@pytest.mark.parametrize(
    ("values", "given", "message"),
    [
        ([], {}, r"one per document, got shape \(0,\)"),
        ([[0.5]], {}, r"got shape \(1, 1\)"),
        ([0.5, 1.5], {}, r"values outside \[0, 1\]: 0.5 to 1.5"),
        ([0.5, math.inf], {}, "values outside"),
        ([0.5], {"low": 1, "high": 1}, "need low < high, got 1 and 1"),
        ([0.5], {"level": 95}, r"a confidence level lies in \(0, 1\), got 95"),
        ([0.5, 1.0], {"codes": np.zeros(3, dtype=np.int64)}, "one cluster per value"),
    ],
)
def test_what_is_refused(values: list[float], given: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bounded_interval(values, **given)


def test_nan_stays_nan() -> None:
    assert all(math.isnan(end) for end in bounded_interval([0.5, math.nan]))


def test_simulated_samples_are_those_of_their_values() -> None:
    rng = np.random.default_rng(5)
    levels = np.array([0.0, 0.25, 0.5, 1.0])
    for docs in (1, 2, 7, 20):
        values = rng.choice(levels, docs)
        counts = np.array([[(values == x).sum() for x in levels]], dtype=float)
        batch, one = sample_of_counts(counts, levels), sample_of(values)
        for name in one.__slots__:
            expected = pytest.approx(getattr(one, name), abs=1e-12)
            assert np.ravel(getattr(batch, name))[0] == expected, name


def missed(found: Iterable[Law | Clusters], seed: int) -> tuple[list[str], int]:
    """The cells in which the interval holds too seldom, and how many were looked at."""
    rng = np.random.default_rng(seed)
    lines, cells = [], 0
    for law in found:
        sample, truth = law.draw(DRAWS, rng)
        low, high = interval_of(sample)
        assert (high > low).all()
        held = float(np.mean((low <= truth + 1e-12) & (truth - 1e-12 <= high)))
        cells += 1
        if held < LEAST:
            lines.append(f"{law.name}, N = {law.docs}: {held:.4f}")
    return lines, cells


def test_coverage_in_short() -> None:
    shapes = [(0.3, 2), (2, 0.3), (20, 0.5), (20, 20), (1, 1)]
    statistics = [("avg", 8, 1), ("pass", 8, 4), ("cons", 8, 5)]
    grid: list[Law | Clusters] = [
        sampled(shape, statistic, docs)
        for shape, statistic, docs in itertools.product(shapes, statistics, (15, 40, 1000))
    ]
    grid += [
        binary(p, n) for p, n in itertools.product((0.005, 0.05, 0.5, 0.9, 0.995), (15, 200, 1000))
    ]
    grid += [
        Clusters(15, size, shape, statistic, False)
        for size, shape in itertools.product((5, 10), [(0.3, 2), (2, 0.3), (20, 0.5)])
        for statistic in (("avg", 1, 1), ("pass", 8, 4))
    ]
    assert missed(grid, 1) == ([], 72)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_coverage_of_independent_documents() -> None:
    assert missed(laws(), 2) == ([], 2250)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_coverage_of_clusters() -> None:
    assert missed(cluster_laws(), 3) == ([], 666)
