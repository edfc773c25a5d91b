"""How many documents are right always, mostly, unstably, never; and whether pass@k, cons@k and
avg@n agree with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from evalrun.metrics import signatures
from evalrun.metrics.samples.repeated_sampling import AvgAtN, ConsAtK, CountMetric, PassAtK
from evalrun.planning.samples import gives_verdicts
from evalrun.stages.scoring.estimates import ScoredMetric
from evalrun.stats import consistency as laws
from evalrun.types import Cell, Consistency
from evalrun.version import __version__

VERSION = 1
_Key: TypeAlias = tuple[str | None, int, float, tuple[bool, ...]]
"""Scorer, n, threshold, and which documents are scored: numbers that come of the same counts."""


@dataclass
class _Numbers:
    """What the metrics of one key say.

    Attributes:
        passed, agreed: k -> pass@k, cons@k.
        average: avg@n.
        first: a metric of it.
    """

    first: ScoredMetric
    passed: dict[int, float] = field(default_factory=dict)
    agreed: dict[int, float] = field(default_factory=dict)
    average: float | None = None


def consistency_of(
    scored: Sequence[ScoredMetric], ask_id: str | None, docs: int | None = None
) -> tuple[Consistency, ...]:
    """One Consistency per scorer, threshold and n > 1 that a metric over counts has, in the order
    of the metrics.

    Args:
        ask_id: of the cell.
        docs: the number of documents, where the run holds more.
    """
    found: dict[str, Consistency] = {}
    for (scorer, n, threshold, _), numbers in _by_key(scored).items():
        matrix = numbers.first.matrix
        if n < 2 or not numbers.first.n_scored:
            continue
        signature = signatures.write_signature(
            signatures.Signature(
                metric="consistency",
                version=VERSION,
                params=(("threshold", threshold),),
                scorer=scorer,
                n=n,
                agg="counts",
                err="none",
                ask_id=ask_id,
                evalrun=__version__,
                docs=docs,
            )
        )
        counts = laws.kinds(matrix["n"], matrix["c"])
        found.setdefault(signature, Consistency(n, *counts, int(matrix["c"].sum()), signature))
    return tuple(found.values())


def contradictions(scored: Sequence[ScoredMetric]) -> list[str]:
    """What pass@k, cons@k and avg@n say that cannot be together, or that the counts do not say.

    Else empty.

    The laws: evalrun.stats.consistency.contradictions; and at k = n the three follow from the kinds
    of documents.
    """
    found = []
    for (_, n, _, _), numbers in _by_key(scored).items():
        for k in dict.fromkeys((*numbers.passed, *numbers.agreed)):
            found += laws.contradictions(
                k, numbers.passed.get(k), numbers.agreed.get(k), numbers.average
            )
        found += _unlike_counts(numbers, n)
    return list(dict.fromkeys(found))


def no_verdicts(cell: Cell) -> list[str]:
    """Why a cell of several samples has no pass@k, cons@k, avg@n, where no metric gives a
    verdict per sample.
    """
    several = [item for item in cell.metrics if item.n > 1]
    if not several or any(gives_verdicts(item.scorer) for item in several):
        return []
    names = ", ".join(dict.fromkeys(item.key for item in several))
    return [
        f"no pass@k, cons@k, avg@n: {names} does not say right or wrong of a sample; its number is "
        f"the average over all {several[0].n} samples"
    ]


def _unlike_counts(numbers: _Numbers, n: int) -> list[str]:
    matrix, total = numbers.first.matrix, numbers.first.n_scored
    if not total:
        return []
    always, mostly, _, never = laws.kinds(matrix["n"], matrix["c"])
    wanted = (
        (f"pass@{n}", numbers.passed.get(n), 1 - never / total),
        (f"cons@{n}", numbers.agreed.get(n), (always + mostly) / total),
        (f"avg@{n}", numbers.average, int(matrix["c"].sum()) / (n * total)),
    )
    return [
        f"{name} = {number:.6g}, but the counts of right samples give {counted:.6g}"
        for name, number, counted in wanted
        if number is not None and laws.differs(number, counted)
    ]


def _by_key(scored: Sequence[ScoredMetric]) -> dict[_Key, _Numbers]:
    found: dict[_Key, _Numbers] = {}
    for item in scored:
        metric = item.metric
        if not isinstance(metric, CountMetric) or item.shared_n is None:
            continue
        key = (
            item.plan.scorer,
            item.plan.n,
            metric.threshold,
            tuple(row is not None for row in item.rows),
        )
        numbers = found.setdefault(key, _Numbers(item))
        values = [
            (dict(output.params).get("k"), error.value)
            for output, error in zip(metric.outputs(), item.errors, strict=True)
        ]
        if isinstance(metric, PassAtK):
            numbers.passed |= {
                k: value for k, value in values if k is not None and value is not None
            }
        elif isinstance(metric, ConsAtK):
            numbers.agreed |= {
                k: value for k, value in values if k is not None and value is not None
            }
        elif isinstance(metric, AvgAtN):
            numbers.average = values[0][1]
    return found
