"""Verdicts -> statistics per document -> estimates with error, counts, bounds and signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalrun import __version__
from evalrun.metrics import naming
from evalrun.metrics.base import Metric, Output, Statistic
from evalrun.stats.errorbars import MeanError, mean_error
from evalrun.types import Cell, Doc, Estimate, MetricPlan, Samples, State, Status, Verdict


@dataclass(frozen=True)
class Scored:
    """One metric over all documents.

    rows: statistics, None for a document that cannot be scored. faults: place of a document -> how the metric
    failed on it.
    """

    metric: Metric
    plan: MetricPlan
    docs: tuple[Doc, ...]
    samples: tuple[Samples, ...]
    verdicts: tuple[tuple[Verdict, ...], ...]
    rows: tuple[tuple[Statistic, ...] | None, ...]
    faults: Mapping[int, str]

    @property
    def n_scored(self) -> int:
        """Documents that are in the matrix."""
        return sum(row is not None for row in self.rows)

    @property
    def n_error(self) -> int:
        """Samples whose request failed, that the scorer could not judge, or on whose document the metric failed."""
        return sum(
            place in self.faults or has_failed or (v is not None and v.value is None)
            for place, (answer, head) in enumerate(zip(self.samples, self.verdicts, strict=True))
            for has_failed, v in zip(answer.failed, head or [None] * len(answer.failed), strict=True)
        )

    @property
    def n_failed(self) -> int:
        """Samples whose request failed."""
        return sum(has_failed for answer in self.samples for has_failed in answer.failed)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the metric failed, for the log."""
        return tuple(f"document {self.docs[place].id}: {why}" for place, why in self.faults.items())

    def columns_over_all(self) -> dict[str, list[Statistic | None]]:
        """Column name -> one value per document, None where it is not scored."""
        return {
            column.name: [None if row is None else row[i] for row in self.rows]
            for i, column in enumerate(self.metric.columns)
        }


def statistics_of(
    metric: Metric,
    plan: MetricPlan,
    docs: Sequence[Doc],
    samples: Sequence[Samples],
    verdicts: Sequence[Sequence[Verdict]],
) -> Scored:
    """The statistics of every document, from its first n samples. A verdict without a value leaves it out."""
    n = plan.n
    cut = tuple(Samples(s.texts[:n], s.failed[:n]) for s in samples)
    heads = tuple(tuple(v[:n]) for v in verdicts)
    places = [i for i, head in enumerate(heads) if all(v.value is not None for v in head)]
    found = _scored_rows(metric, docs, cut, heads, places)
    faults = {place: row for place, row in found.items() if isinstance(row, str)}
    rows = [None if isinstance(row := found.get(i), str) else row for i in range(len(docs))]
    return Scored(metric, plan, tuple(docs), cut, heads, tuple(rows), faults)


def _scored_rows(
    metric: Metric,
    docs: Sequence[Doc],
    samples: Sequence[Samples],
    heads: Sequence[tuple[Verdict, ...]],
    places: Sequence[int],
) -> dict[int, tuple[Statistic, ...] | str]:
    """Place -> its row; where the metric raises on a document, what it raised."""
    try:
        rows = metric.score_batch([docs[i] for i in places], [samples[i] for i in places], [heads[i] for i in places])
        return dict(zip(places, rows, strict=True))
    except Exception:  # noqa: BLE001
        # One document makes it fail; find out which and leave that one out.
        return {i: _score_one(metric, docs[i], samples[i], heads[i]) for i in places}


def _score_one(metric: Metric, doc: Doc, answer: Samples, head: Sequence[Verdict]) -> tuple[Statistic, ...] | str:
    try:
        return metric.score(doc, answer, head)
    except Exception as error:  # noqa: BLE001
        return f"{metric.name} raised {type(error).__name__}: {error}"[:500]


def estimates_of(item: Scored, cell: Cell, statuses: Sequence[Sequence[str]]) -> tuple[Estimate, ...]:
    """One Estimate per output of the metric. value is None where no document could be scored."""
    matrix = _matrix(item.metric, [row for row in item.rows if row is not None])
    n = item.plan.n
    shared = {
        "metric": item.plan.key,
        "version": item.metric.version,
        "rerun_stderr": None,
        "n_docs": len(item.docs),
        "n": n,
        "n_scored": item.n_scored,
        "n_error": item.n_error,
        "n_truncated": sum(s == Status.TRUNCATED.value for row in statuses for s in row[:n]),
        "n_unparsed": sum(v.state is State.UNPARSED for head in item.verdicts for v in head),
    }
    return tuple(_estimate(item, cell, output, matrix, shared) for output in item.metric.outputs())


def _estimate(
    item: Scored, cell: Cell, output: Output, matrix: Mapping[str, Any], shared: Mapping[str, Any]
) -> Estimate:
    error = mean_error(output.per_doc(matrix), output.is_bounded) if item.n_scored else _NOTHING
    # The rule of the error, not what the data made of it (Wilson, t): a run that grows keeps its signatures.
    signature = naming.signature(
        item.metric, output, scorer=item.plan.scorer, n=item.plan.n, error=output.error.value, ask_id=cell.ask_id,
        evalrun_version=__version__,
    )  # fmt: skip
    return Estimate(
        display=naming.display_name(item.metric, output, item.plan.given, item.plan.is_service),
        value=error.value if item.n_scored else None,
        unit=output.unit,
        is_higher_better=output.is_higher_better,
        stderr=error.stderr,
        ci_low=error.ci_low,
        ci_high=error.ci_high,
        method=error.method,
        bounds=_bounds(item, output) if shared["n_error"] and output.is_bounded else None,
        signature=signature,
        **shared,
    )


_NOTHING = MeanError(float("nan"), None, None, None, "none")


def _matrix(metric: Metric, rows: Sequence[tuple[Statistic, ...]]) -> dict[str, Any]:
    types = {"int": np.int64, "float": np.float64, "label": np.str_}
    return {
        column.name: np.array([row[i] for row in rows], dtype=types[column.type])
        for i, column in enumerate(metric.columns)
    }


def _bounds(item: Scored, output: Output) -> tuple[float, float]:
    """The number with everything that failed taken as wrong, and as right."""
    ends = [_assuming(item, output, value) for value in (0.0, 1.0)]
    return min(ends), max(ends)


def _assuming(item: Scored, output: Output, value: float) -> float:
    """The number with `value` for every sample that failed; a document on which the metric fails has it as a whole."""
    heads = [tuple(_assumed(v, value) for v in head) for head in item.verdicts]
    places = [i for i in range(len(item.docs)) if i not in item.faults]
    found = _scored_rows(item.metric, item.docs, item.samples, heads, places)
    rows = [row for row in found.values() if not isinstance(row, str)]
    known = output.per_doc(_matrix(item.metric, rows)) if rows else np.empty(0)
    return float(np.mean([*known, *[value] * (len(item.docs) - len(rows))]))


def _assumed(verdict: Verdict, value: float) -> Verdict:
    is_open = verdict.value is None or verdict.state is State.FAILED
    return replace(verdict, value=value, state=State.SCORED) if is_open else verdict
