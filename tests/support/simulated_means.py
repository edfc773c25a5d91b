"""Simulated evaluations: means of bounded values whose truth is known, many draws at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalrun.stats import sampling
from evalrun.stats.bounded_mean import Sample

Floats: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = tuple[str, int, int]  # name, n, k

SHAPES = (
    *((0.3, 2), (2, 0.3), (0.3, 0.3), (0.5, 0.5), (1, 1), (2, 2), (5, 5), (20, 20), (1, 0.3)),
    *((5, 0.3), (20, 0.5), (0.5, 20), (5, 1), (1, 5), (10, 1), (20, 1), (3, 2), (20, 3)),
)
STATISTICS: tuple[Statistic, ...] = (
    *(("avg", 4, 1), ("avg", 8, 1), ("avg", 16, 1), ("avg", 64, 1), ("pass", 4, 2)),
    *(("pass", 8, 2), ("pass", 8, 4), ("pass", 16, 4), ("pass", 16, 8), ("hat", 8, 4)),
    *(("cons", 4, 3), ("cons", 8, 5), ("cons", 8, 8)),
)
SHARES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
DOCS = (15, 20, 30, 40, 60, 100, 200, 400, 1000)


@dataclass(frozen=True)
class Law:
    """Documents are independent; each has one of `values`, with these chances."""

    name: str
    docs: int
    values: Floats
    chances: Floats

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Sample, float]:
        """Samples of `draws` evaluations, and the true mean."""
        counts = self.counts(draws, rng)
        return sample_of_counts(counts, self.values), float(self.values @ self.chances)

    def counts(self, draws: int, rng: np.random.Generator) -> Floats:
        """How many documents have each value [draws, values]."""
        return rng.multinomial(self.docs, self.chances, draws).astype(np.float64)

    def rows(self, draws: int, rng: np.random.Generator) -> Floats:
        """The values themselves, in random order [draws, docs]."""
        return rng.choice(self.values, (draws, self.docs), p=self.chances)


@dataclass(frozen=True)
class Clusters:
    """Documents in clusters, all of one size (0: sizes 1, 2, 4, 7, 11 in turn).

    Each document has n samples that are right with a chance from Beta(shape); documents of a
    cluster share theirs, or (mixed) do so in half of all cases.
    """

    clusters: int
    size: int
    shape: tuple[float, float]
    statistic: Statistic
    is_mixed: bool

    @property
    def name(self) -> str:
        """Statistic, shape, how the clusters are made."""
        kind = "mixed" if self.is_mixed else "shared"
        return f"{named(self.statistic, self.shape)}, clusters of {self.size or '1 to 11'}, {kind}"

    @property
    def docs(self) -> int:
        """Number of clusters: what the error rests on."""
        return self.clusters

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Sample, float]:
        """Samples of `draws` evaluations, and the true mean."""
        name, n, k = self.statistic
        table, chances = table_of(name, n, k), beta_binomial(n, *self.shape)
        sizes = np.resize([self.size or x for x in (1, 2, 4, 7, 11)], self.clusters)
        wide = (draws, self.clusters, int(sizes.max()))
        chance = np.broadcast_to(rng.beta(*self.shape, (draws, self.clusters, 1)), wide)
        if self.is_mixed:
            chance = np.where(rng.random(wide) < 0.5, chance, rng.beta(*self.shape, wide))
        values = table[rng.binomial(n, chance)]
        is_doc = np.broadcast_to(np.arange(wide[2]) < sizes[:, None], wide)
        return _clustered(values, is_doc, sizes.astype(np.float64)), float(table @ chances)


def _clustered(values: Floats, is_doc: NDArray[np.bool_], sizes: Floats) -> Sample:
    levels = np.unique(values)
    counts = np.stack([((values == x) & is_doc).sum((1, 2)) for x in levels], 1).astype(np.float64)
    plain = sample_of_counts(counts, levels)
    sums = np.where(is_doc, values - plain.mean[:, None, None], 0.0).sum(2)
    sums[plain.spread == 0] = 0.0
    return Sample(
        **{
            **{name: getattr(plain, name) for name in plain.__slots__},
            "units": sizes.size,
            "unit_spread": (sums**2).sum(1),
            "sizes": float(sizes @ sizes),
            "lean": sums @ sizes,
        }
    )


def sample_of_counts(counts: Floats, values: Floats) -> Sample:
    """The Samples of evaluations [draws, values] that hold each (ascending) value so often."""
    docs = int(counts[0].sum())
    mean = np.clip(counts @ values / docs, 0.0, 1.0)
    spread = np.einsum("dv,dv->d", counts, (values - mean[:, None]) ** 2)
    spread[counts.max(1) == docs] = 0.0
    below = counts.cumsum(1)
    middle = [(below > place).argmax(1) for place in ((docs - 1) // 2, docs // 2)]
    rows = np.arange(len(counts))
    has = counts > 0
    ends = (values == 0) | (values == 1)
    columns: dict[str, Any] = {
        "mean": mean,
        "spread": spread,
        "unit_spread": spread,
        "equal": np.maximum(*(counts[rows, place] for place in middle)),
        "least": values[has.argmax(1)],
        "most": values[values.size - 1 - has[:, ::-1].argmax(1)],
        "sizes": float(docs),
        "lean": np.zeros_like(mean),
        "is_binary": (counts[:, ~ends].sum(1) == 0).astype(np.float64),
    }
    return Sample(docs, docs, **columns)


def table_of(name: str, n: int, k: int) -> Floats:
    """The statistic of a document with c = 0 .. n right samples."""
    c = np.arange(n + 1)
    if name == "avg":
        return sampling.avg_at_n(np.full(n + 1, n), c)
    law = {"pass": sampling.pass_at_k, "hat": sampling.pass_hat_k, "cons": sampling.cons_at_k}[name]
    return law(np.full(n + 1, n), c, k)


def beta_binomial(n: int, a: float, b: float) -> Floats:
    """Chances of c = 0 .. n right samples where the chance of a document is from Beta(a, b)."""
    logs = [
        math.lgamma(n + 1) - math.lgamma(c + 1) - math.lgamma(n - c + 1)
        + math.lgamma(a + c) + math.lgamma(b + n - c) - math.lgamma(a + b + n)
        for c in range(n + 1)
    ]  # fmt: skip
    chances = np.exp(np.asarray(logs) - max(logs))
    return np.asarray(chances / chances.sum(), dtype=np.float64)


def named(statistic: Statistic, shape: tuple[float, float]) -> str:
    """`pass@4 of 8, Beta(2, 0.3)`."""
    name, n, k = statistic
    title = f"avg@{n}" if name == "avg" else f"{name}@{k} of {n}"
    return f"{title}, Beta{shape}"


def sampled(shape: tuple[float, float], statistic: Statistic, docs: int) -> Law:
    """Documents with a chance from Beta(shape) each, of n samples a statistic."""
    values = table_of(*statistic)
    chances = beta_binomial(statistic[1], *shape)
    levels, place = np.unique(values, return_inverse=True)
    chances = np.bincount(place.ravel(), weights=chances)
    return Law(named(statistic, shape), docs, levels, chances)


def binary(share: float, docs: int) -> Law:
    """0/1 values."""
    return Law(f"0/1, p = {share}", docs, np.array([0.0, 1.0]), np.array([1 - share, share]))


def laws() -> Iterator[Law]:
    """The whole grid of independent documents."""
    for shape, statistic, docs in itertools.product(SHAPES, STATISTICS, DOCS):
        yield sampled(shape, statistic, docs)
    for share, docs in itertools.product(SHARES, DOCS):
        yield binary(share, docs)


def cluster_laws() -> Iterator[Clusters]:
    """The whole grid of clusters: graded and 0/1 values (avg@1)."""
    shapes = ((0.3, 2), (2, 0.3), (1, 1), (5, 1), (20, 0.5), (0.5, 20), (20, 1), (20, 20))
    binaries = ((0.02, 1), (0.1, 0.9), (1.9, 0.1), (20, 0.2), (1, 0.01))
    graded: tuple[Statistic, ...] = (("avg", 8, 1), ("pass", 8, 4), ("cons", 8, 5))
    for clusters, size, is_mixed in itertools.product((15, 25, 60), (5, 10, 0), (False, True)):
        for shape, statistic in itertools.product(shapes, graded):
            yield Clusters(clusters, size, shape, statistic, is_mixed)
        for shape in (*shapes, *binaries):
            yield Clusters(clusters, size, shape, ("avg", 1, 1), is_mixed)
