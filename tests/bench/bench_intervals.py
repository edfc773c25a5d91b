"""Intervals of a mean of values in [0, 1] side by side: how often they hold, how wide, how slow.

python tests/bench/bench_intervals.py [draws]

The tables of docs/intervals.md. Width: mean width over that of Student's t, over the cells where t
holds its level (94.5 % and more). The two slow methods get a tenth of the draws. Then the rerun
error of pass@k: from each document's own samples without bias, and pooled over the documents.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from support.simulated_means import Law, binary, sample_of_counts, sampled

from evalrun.stats import bounded_mean, rerun, sampling
from evalrun.stats.bounded_mean import Sample, interval_of

Floats: TypeAlias = NDArray[np.float64]
Ends: TypeAlias = tuple[Floats, Floats]

ALPHA = 0.05
RESAMPLES = 400
BISECTIONS = 24


def student(s: Sample) -> Ends:
    """mean +- t s / sqrt(N), cut to [0, 1]."""
    half = stdtrit(s.n - 1, 1 - ALPHA / 2) * np.sqrt(s.spread / (s.n - 1) / s.n)
    return np.maximum(s.mean - half, 0), np.minimum(s.mean + half, 1)


def wilson_effective(s: Sample) -> Ends:
    """Wilson's with n_eff = m (1 - m) / stderr^2 and t; N where there is no spread."""
    error2 = s.spread / (s.n - 1) / s.n
    n = np.where(error2 > 0, s.mean * (1 - s.mean) / np.where(error2 > 0, error2, 1), s.n)
    z = stdtrit(s.n - 1, 1 - ALPHA / 2)
    centre = (s.mean + z * z / n / 2) / (1 + z * z / n)
    half = z * np.sqrt(s.mean * (1 - s.mean) / n + z * z / n / n / 4) / (1 + z * z / n)
    return centre - half, centre + half


def logit_t(s: Sample) -> Ends:
    """t on the logit, after half a document at each end."""
    mean = (s.n * s.mean + 0.5) / (s.n + 1)
    error = np.sqrt((s.spread + 0.25) / (s.n - 1) / s.n) / (mean * (1 - mean))
    half = stdtrit(s.n - 1, 1 - ALPHA / 2) * error
    logit = np.log(mean / (1 - mean))
    return 1 / (1 + np.exp(half - logit)), 1 / (1 + np.exp(-half - logit))


def added_t(s: Sample) -> Ends:
    """t after one document at each end."""
    n = s.n + 2
    mean = (s.n * s.mean + 1) / n
    spread = s.spread + s.n * (s.mean - mean) ** 2 + mean**2 + (1 - mean) ** 2
    half = stdtrit(n - 1, 1 - ALPHA / 2) * np.sqrt(spread / (n - 1) / n)
    return np.maximum(mean - half, 0), np.minimum(mean + half, 1)


def gaffke(s: Sample) -> Ends:
    """A whole document at the far end for every sample; the beta law for Gaffke's quantile."""
    from dataclasses import replace

    return interval_of(replace(s, is_binary=np.ones_like(s.mean)))


def bootstrap_t(counts: Floats, values: Floats, rng: np.random.Generator) -> Ends:
    """Studentised bootstrap (Efron and Tibshirani 1993, chapter 12.5), cut to [0, 1]."""
    ends = []
    for row in counts:
        n = row.sum()
        drawn = rng.multinomial(int(n), row / n, RESAMPLES)
        mean = drawn @ values / n
        error = np.sqrt(np.maximum(drawn @ values**2 / n - mean**2, 0) / (n - 1))
        value = row @ values / n
        own = np.sqrt(max(row @ values**2 / n - value**2, 0) / (n - 1))
        known = error > 1e-12
        ratios = (mean[known] - value) / error[known] if known.any() else np.zeros(1)
        low, high = np.quantile(ratios, (ALPHA / 2, 1 - ALPHA / 2))
        ends.append((max(0.0, value - high * own), min(1.0, value - low * own)))
    low, high = np.asarray(ends).T
    return low, high


def betting(rows: Floats) -> Ends:
    """Hedged betting (Waudby-Smith and Ramdas 2023, section 4.3): fixed n, plug-in bets, theta 1/2.

    rows: values in the order seen [draws, documents]: another order gives another interval.
    """
    draws, n = rows.shape
    count = np.arange(1, n + 1)
    means = (0.5 + rows.cumsum(1)) / (count + 1)
    spreads = (0.25 + ((rows - means) ** 2).cumsum(1)) / (count + 1)
    before = np.concatenate([np.full((draws, 1), 0.25), spreads[:, :-1]], 1)
    bets = np.sqrt(2 * np.log(2 / ALPHA) / (n * before))
    centre = means[:, -1]

    def is_inside(at: Floats) -> NDArray[np.bool_]:
        m = at[:, None]
        up = np.log1p(np.minimum(bets, 0.5 / np.maximum(m, 1e-12)) * (rows - m)).cumsum(1)
        down = np.log1p(-np.minimum(bets, 0.5 / np.maximum(1 - m, 1e-12)) * (rows - m)).cumsum(1)
        return np.asarray(np.maximum(up, down).max(1) + np.log(0.5) < np.log(1 / ALPHA))

    return _edge(is_inside, centre, 0.0), _edge(is_inside, centre, 1.0)


def _edge(is_inside: Callable[[Floats], NDArray[np.bool_]], start: Floats, end: float) -> Floats:
    inside, outside = start.copy(), np.full_like(start, end)
    for _ in range(BISECTIONS):
        middle = (inside + outside) / 2
        holds = is_inside(middle)
        inside, outside = np.where(holds, middle, inside), np.where(holds, outside, middle)
    return outside


FAST: dict[str, Callable[[Sample], Ends]] = {
    "Student's t": student,
    "Wilson, effective number": wilson_effective,
    "logit-t, half a document at each end": logit_t,
    "t, one document at each end": added_t,
    "Gaffke: a whole document at the end": gaffke,
    "**evalrun: in part, as the sample asks**": interval_of,
}


def cells() -> Iterator[Law]:
    """A part of the grid of the tests, so that the slow methods end."""
    shapes = ((0.3, 2), (2, 0.3), (0.3, 0.3), (1, 1), (5, 1), (20, 0.5), (20, 3), (20, 20))
    statistics = (("avg", 8, 1), ("avg", 64, 1), ("pass", 8, 4), ("cons", 8, 5))
    for shape, statistic, docs in itertools.product(shapes, statistics, (15, 40, 100, 400)):
        yield sampled(shape, statistic, docs)
    for share, docs in itertools.product((0.005, 0.05, 0.2, 0.5, 0.95, 0.995), (15, 40, 200, 400)):
        yield binary(share, docs)


def held(ends: Ends, truth: float) -> float:
    """How often the interval holds the truth."""
    return float(np.mean((ends[0] <= truth + 1e-12) & (truth - 1e-12 <= ends[1])))


def measured(draws: int) -> dict[str, list[tuple[float, float]]]:
    """Method -> (coverage, mean width) of each cell."""
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[float, float]]] = {}
    for law in cells():
        counts, truth = law.counts(draws, rng), float(law.values @ law.chances)
        few = max(2, draws // 10)
        sample = sample_of_counts(counts, law.values)
        ends = {name: method(sample) for name, method in FAST.items()}
        ends["bootstrap-t"] = bootstrap_t(counts[:few], law.values, rng)
        ends["betting"] = betting(law.rows(few, rng))
        for name, (low, high) in ends.items():
            found.setdefault(name, []).append(
                (held((low, high), truth), float(np.mean(high - low)))
            )
    return found


def costs() -> dict[str, float]:
    """Method -> milliseconds for one interval of 1,000 documents."""
    rng = np.random.default_rng(1)
    law = sampled((2, 0.3), ("avg", 8, 1), 1000)
    values = law.rows(1, rng)
    counts = law.counts(1, rng)
    works: dict[str, Callable[[], object]] = {
        name: lambda method=method: method(bounded_mean.sample_of(values[0]))  # type: ignore[misc]
        for name, method in FAST.items()
    }
    works["bootstrap-t"] = lambda: bootstrap_t(counts, law.values, rng)
    works["betting"] = lambda: betting(values)
    times = {}
    for name, work in works.items():
        work()
        started = perf_counter()
        for _ in range(20):
            work()
        times[name] = (perf_counter() - started) * 50
    return times


def own_variances(n: int, k: int) -> Floats:
    """q^2 - C(n-c, 2k)/C(n, 2k), q = C(n-c, k)/C(n, k), c = 0 .. n: unbiased, from c alone."""
    wrong = [n - c for c in range(n + 1)]
    once, twice = math.comb(n, k), math.comb(n, 2 * k)
    return np.array(
        [(math.comb(w, k) / once) ** 2 - math.comb(w, 2 * k) / twice for w in wrong],
        dtype=np.float64,
    )


def rerun_errors(
    shape: tuple[float, float], n: int, k: int, docs: int, draws: int
) -> tuple[list[float], list[float]]:
    """Of both errors: how often value +- t stderr holds what reruns give; median over the truth."""
    rng = np.random.default_rng(n)
    c, t = np.arange(n + 1), float(stdtrit(docs - 1, 1 - ALPHA / 2))
    ways = np.array([math.comb(n, int(x)) for x in c])
    table, own = sampling.pass_at_k(np.full(n + 1, n), c, k), own_variances(n, k)
    inside, ratios = np.zeros((draws, 2)), np.zeros((draws, 2))
    for i in range(draws):
        p = rng.beta(*shape, docs)[:, None]
        laws = ways * p**c * (1 - p) ** (n - c)
        truth, fresh = float((laws @ table).mean()), laws @ table**2 - (laws @ table) ** 2
        right = rng.binomial(n, p[:, 0])
        both = (own[right], rerun.pass_at_k_variance(np.full(docs, n), right, k))
        errors = np.sqrt([max(0.0, float(x.sum())) for x in both]) / docs
        inside[i] = np.abs(table[right].mean() - truth) <= t * errors + 1e-12
        ratios[i] = errors / (math.sqrt(float(fresh.sum())) / docs)
    return inside.mean(0).tolist(), np.median(ratios, 0).tolist()


def print_reruns(draws: int) -> None:
    """The second table."""
    print("\n| pass@k, 40 documents | own: holds | median | pooled: holds | median |")
    print("|---|---|---|---|---|")
    for shape, (n, k) in itertools.product(
        ((1, 1), (5, 1), (2, 0.3), (20, 0.5)), ((8, 4), (16, 8))
    ):
        holds, medians = rerun_errors(shape, n, k, 40, draws)
        cells = [f"{h:.1%} | {m:.2f}" for h, m in zip(holds, medians, strict=True)]
        print(f"| pass@{k} of {n}, Beta{shape} | {' | '.join(cells)} |")


def main(draws: int) -> int:
    """Print the tables; 1 where evalrun's interval holds too seldom or costs too much."""
    found, times = measured(draws), costs()
    base = found["Student's t"]
    print("| interval | least coverage | cells under 93.5 % | width | widest | ms |")
    print("|---|---|---|---|---|---|")
    for name, cell in found.items():
        ratios = [w / b for (_, w), (c, b) in zip(cell, base, strict=True) if c >= 0.945]
        low = sum(c < 0.935 for c, _ in cell)
        print(
            f"| {name} | {min(c for c, _ in cell):.1%} | {low} of {len(cell)} "
            f"| {np.mean(ratios):.3f} | {max(ratios):.2f} | {times[name]:.2f} |"
        )
    print_reruns(max(2, draws // 4))
    own = "**evalrun: in part, as the sample asks**"
    return int(min(c for c, _ in found[own]) < 0.935 or times[own] > 1.0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000))
