"""Verdicts -> statistics per document -> estimates with error, counts, bounds and signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics import naming, signatures
from evalrun.metrics.base import Matrix, Metric, Output, Statistic
from evalrun.stages.scoring.error_bars import OutputError, error_of
from evalrun.stats.bounded_mean import ASSURED
from evalrun.stats.clustered import cluster_codes
from evalrun.types import Answer, Doc, Estimate, Lost, MetricPlan, Samples, State, Status, Verdict
from evalrun.version import __version__


@dataclass(frozen=True)
class ScoredMetric:
    """One metric over all documents.

    Attributes:
        answers: of the request kind that the metric reads.
        verdicts: of its scorer; empty rows where it has none.
        rows: statistics, None for a document that cannot be scored.
        faults: place of a document -> how the metric failed on it.
    """

    metric: Metric
    plan: MetricPlan
    docs: tuple[Doc, ...]
    answers: tuple[Answer, ...]
    verdicts: tuple[tuple[Verdict, ...], ...]
    rows: tuple[tuple[Statistic, ...] | None, ...]
    faults: Mapping[int, str]

    @property
    def n_scored(self) -> int:
        """Documents that are in the matrix."""
        return sum(row is not None for row in self.rows)

    @property
    def n_error(self) -> int:
        """Samples whose request failed, that the scorer could not judge, or on whose document
        the metric failed.
        """
        return sum(
            place in self.faults or has_failed or (v is not None and v.value is None)
            for place, (answer, head) in enumerate(zip(self.answers, self.verdicts, strict=True))
            for has_failed, v in zip(
                _failed(answer), head or [None] * len(_failed(answer)), strict=True
            )
        )

    @property
    def n_failed(self) -> int:
        """Samples whose request failed."""
        return sum(has_failed for answer in self.answers for has_failed in _failed(answer))

    @property
    def shared_n(self) -> int | None:
        """Samples per document: the plan's n, or None where some document has fewer (only with
        an n left open).
        """
        return self.plan.n if all(len(_failed(a)) == self.plan.n for a in self.answers) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """How the metric failed, for the log."""
        return tuple(f"document {self.docs[place].id}: {why}" for place, why in self.faults.items())

    @cached_property
    def matrix(self) -> dict[str, Any]:
        """Column name -> array over the scored documents."""
        return matrix_of(self.metric, [row for row in self.rows if row is not None])

    @cached_property
    def codes(self) -> NDArray[np.int64] | None:
        """The cluster of each scored document; None where all are independent."""
        return cluster_codes(
            [doc.cluster for doc, row in zip(self.docs, self.rows, strict=True) if row is not None]
        )

    @cached_property
    def errors(self) -> tuple[OutputError, ...]:
        """The number of each output with its error; without a value where no document could be
        scored.
        """
        outputs = self.metric.outputs()
        if not self.n_scored:
            return (OutputError(None),) * len(outputs)
        return tuple(error_of(output, self.matrix, self.codes) for output in outputs)

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
    answers: Sequence[Answer],
    verdicts: Sequence[Sequence[Verdict]],
) -> ScoredMetric:
    """The statistics of every document, from its first n samples.

    A verdict without a value leaves it out, and so do log-probabilities that never came.
    """
    n = plan.n
    cut = tuple(
        Samples(a.texts[:n], a.failed[:n]) if isinstance(a, Samples) else a for a in answers
    )
    heads = tuple(tuple(v[:n]) for v in verdicts)
    places = [
        i
        for i, (answer, head) in enumerate(zip(cut, heads, strict=True))
        if not isinstance(answer, Lost) and all(v.value is not None for v in head)
    ]
    found = _scored_rows(metric, docs, cut, heads, places)
    faults = {place: row for place, row in found.items() if isinstance(row, str)}
    rows = [None if isinstance(row := found.get(i), str) else row for i in range(len(docs))]
    return ScoredMetric(metric, plan, tuple(docs), cut, heads, tuple(rows), faults)


def _scored_rows(
    metric: Metric,
    docs: Sequence[Doc],
    answers: Sequence[Answer],
    heads: Sequence[tuple[Verdict, ...]],
    places: Sequence[int],
) -> dict[int, tuple[Statistic, ...] | str]:
    """Place -> its row; where the metric raises on a document, what it raised."""
    try:
        rows = metric.score_batch(
            [docs[i] for i in places], [answers[i] for i in places], [heads[i] for i in places]
        )
        return dict(zip(places, rows, strict=True))
    except Exception:  # noqa: BLE001
        # One document makes it fail; find out which and leave that one out.
        return {i: _score_one(metric, docs[i], answers[i], heads[i]) for i in places}


def _score_one(
    metric: Metric, doc: Doc, answer: Answer, head: Sequence[Verdict]
) -> tuple[Statistic, ...] | str:
    try:
        return metric.score(doc, answer, head)
    except Exception as error:  # noqa: BLE001
        return f"{metric.name} raised {type(error).__name__}: {error}"[:500]


def _failed(answer: Answer) -> tuple[bool, ...]:
    """Per sample, whether its request failed. Log-probabilities are one sample."""
    return answer.failed if isinstance(answer, Samples) else (isinstance(answer, Lost),)


def estimates_of(
    item: ScoredMetric,
    ask_id: str | None,
    statuses: Sequence[Sequence[str]],
    is_prefix: bool = False,
) -> tuple[Estimate, ...]:
    """One Estimate per output of the metric. value is None where no document could be scored.

    Args:
        ask_id: of the cell, None where there is no run.
        statuses: per document, of its samples.
        is_prefix: the run holds more documents than these.
    """
    n = item.plan.n
    shared = {
        "metric": item.plan.key,
        "version": item.metric.version,
        "n_docs": len(item.docs),
        "n": n,
        "n_scored": item.n_scored,
        "n_error": item.n_error,
        "n_truncated": sum(s == Status.TRUNCATED.value for row in statuses for s in row[:n]),
        "n_unparsed": sum(v.state is State.UNPARSED for head in item.verdicts for v in head),
    }
    return tuple(
        _estimate(item, ask_id, output, error, shared, len(item.docs) if is_prefix else None)
        for output, error in zip(item.metric.outputs(), item.errors, strict=True)
    )


def _estimate(
    item: ScoredMetric,
    ask_id: str | None,
    output: Output,
    error: OutputError,
    shared: Mapping[str, Any],
    docs: int | None,
) -> Estimate:
    # The rule of the error, not how it was found (clustered or not): a run that grows keeps its
    # signatures.
    signature = signatures.signature(
        item.metric,
        output,
        scorer=item.plan.scorer,
        n=item.shared_n,
        error=output.error.value,
        ask_id=ask_id,
        evalrun_version=__version__,
        docs=docs,
    )
    return Estimate(
        display=naming.display_name(item.metric, output, item.plan.given, item.plan.is_service),
        value=error.value,
        unit=output.unit,
        is_higher_better=output.is_higher_better,
        stderr=error.stderr,
        rerun_stderr=error.rerun_stderr,
        ci_low=error.ci_low,
        ci_high=error.ci_high,
        method=error.method,
        bounds=_bounds(item, output) if shared["n_error"] else None,
        signature=signature,
        **shared,
    )


def remarks_of(scored: Sequence[ScoredMetric], task: str) -> list[str]:
    """What a reader of the numbers of a task must know of them: overflow, NaN, few clusters, no
    rerun error.
    """
    notes = [item.metric.notes(item.matrix) if item.n_scored else () for item in scored]
    lines = [f"task {task}: {line}" for line in _named(scored, notes)]
    rerun_open = []
    for item, own in zip(scored, notes, strict=True):
        for output, error in zip(item.metric.outputs(), item.errors, strict=True):
            name = naming.display_name(item.metric, output, item.plan.given, item.plan.is_service)
            lines += [
                f"task {task}: {name} {line}"
                for line in _open_ends(error, item.n_scored, is_explained=bool(own))
            ]
            rerun_open += [name] if error.is_rerun_open else []
    lines += _cluster_lines(scored)
    if rerun_open:
        lines.append(
            f"rerun error of {', '.join(rerun_open)}: not estimable; it needs n >= 2k samples "
            "(avg@n: two)"
        )
    return lines


def _open_ends(error: OutputError, n_scored: int, is_explained: bool) -> Iterator[str]:
    """Why a number or its error is NaN."""
    if error.is_overflow and not is_explained:  # the metric's own note says it better
        yield "is NaN: the formula leaves the range of floats"
    if error.n_nan:
        yield f"is NaN: so are {error.n_nan} of {n_scored} documents"
    if error.n_open_draws:
        yield f"has no error: {error.n_open_draws} bootstrap draws have no finite value"


def _cluster_lines(scored: Sequence[ScoredMetric]) -> Iterator[str]:
    """One line per number of clusters that the errors are over."""
    for n in sorted({int(item.codes.max()) + 1 for item in scored if item.codes is not None}):
        few = f"; interval not assured: {n} clusters, fewer than {ASSURED}" if n < ASSURED else ""
        yield f"the errors are over {n} clusters of documents{few}"


def _named(scored: Sequence[ScoredMetric], notes: Sequence[Sequence[str]]) -> list[str]:
    """Each note once, with the metrics that it is about where it is not about all."""
    about: dict[str, list[str]] = {}
    for item, own in zip(scored, notes, strict=True):
        for line in own:
            about.setdefault(line, []).append(item.plan.key)
    return [
        line if len(keys) == len(scored) else f"{line} ({', '.join(keys)})"
        for line, keys in about.items()
    ]


def matrix_of(metric: Metric, rows: Sequence[tuple[Statistic, ...]]) -> dict[str, Any]:
    """Column name -> array over these rows, in the types that the metric declares.

    Labels become their place among the sorted labels of all label columns: equal texts are equal
    numbers.
    """
    columns = {column.name: [row[i] for row in rows] for i, column in enumerate(metric.columns)}
    labels = {
        str(x) for column in metric.columns if column.type == "label" for x in columns[column.name]
    }
    places = {label: place for place, label in enumerate(sorted(labels))}
    matrix: dict[str, Any] = {}
    for column in metric.columns:
        values: list[Any] = columns[column.name]
        if column.type == "label":
            values = [places[str(x)] for x in values]
        matrix[column.name] = np.array(
            values, dtype=np.float64 if column.type == "float" else np.int64
        )
    return matrix


def _bounds(item: ScoredMetric, output: Output) -> tuple[float, float] | None:
    """The number with everything that failed taken as wrong, and as right.

    None where that has no meaning.
    """
    if not output.is_bounded or output.per_doc is None:
        return None
    ends = [_assuming(item, output.per_doc, value) for value in (0.0, 1.0)]
    return min(ends), max(ends)


def _assuming(
    item: ScoredMetric, per_doc: Callable[[Matrix], NDArray[np.float64]], value: float
) -> float:
    """The number with `value` for every sample that failed; a document on which the metric fails
    has it as a whole.
    """
    heads = [tuple(_assumed(v, value) for v in head) for head in item.verdicts]
    places = [
        i
        for i, answer in enumerate(item.answers)
        if i not in item.faults and not isinstance(answer, Lost)
    ]
    found = _scored_rows(item.metric, item.docs, item.answers, heads, places)
    rows = [row for row in found.values() if not isinstance(row, str)]
    known = per_doc(matrix_of(item.metric, rows)) if rows else np.empty(0)
    return float(np.mean([*known, *[value] * (len(item.docs) - len(rows))]))


def _assumed(verdict: Verdict, value: float) -> Verdict:
    is_open = verdict.value is None or verdict.state is State.FAILED
    return replace(verdict, value=value, state=State.SCORED) if is_open else verdict
