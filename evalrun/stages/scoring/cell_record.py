"""What scoring one cell came to: counts, state and reason, estimates, notes for readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evalrun.stages.scoring import gold_inside
from evalrun.stages.scoring.consistency_check import consistency_of, contradictions, no_verdicts
from evalrun.stages.scoring.estimates import ScoredMetric, estimates_of, remarks_of
from evalrun.stages.scoring.sample_verdicts import Judged
from evalrun.stages.scoring.saved_answers import SavedAnswers
from evalrun.store.cell.failed_rows import first_failure
from evalrun.store.cell.files import CellFiles
from evalrun.types import Cell, Counts, Kind, Plan, Record, Status


def record_of(
    plan: Plan,
    files: CellFiles,
    cell: Cell,
    blank: Record,
    saved: SavedAnswers,
    judged: Mapping[str, Judged],
    scored: Sequence[ScoredMetric],
) -> Record:
    """The record of a cell whose rows are all there.

    Args:
        plan: its max_error_rate says how much may fail.
        files: of the cell.
        cell: of the plan.
        blank: the record with what was known before scoring.
        saved: the answers.
        judged: scorer signature -> its verdicts.
        scored: the metrics, in the plan's order.
    """
    n_unscored = _n_unscored(judged, scored)
    state, reason = _state(plan.max_error_rate, saved, n_unscored, scored)
    log = None
    if n_unscored:
        log = files.log_name("eval")
    elif saved.n_failed:
        log = blank.log
    n_docs = len(saved.docs) if saved.is_prefix else None
    return replace(
        blank,
        state=state,
        reason=reason,
        log=log,
        counts=_counts(saved, judged, n_unscored),
        estimates=tuple(
            estimate
            for item in scored
            for estimate in estimates_of(
                item, cell.ask_id, saved.by_kind[item.metric.reads].statuses, saved.is_prefix
            )
        ),
        notes=(*saved.remarks, *_failure_note(files, saved), *_notes(plan, cell, scored)),
        consistency=consistency_of(scored, cell.ask_id, n_docs),
    )


def _n_unscored(judged: Mapping[str, Judged], scored: Sequence[ScoredMetric]) -> int:
    """Samples that were answered and could not be scored: of the scorer or metric that lacks most.

    The same sample is often lost to several of them, so they are not added up.
    """
    by_scorer = [found.n_unscored for found in judged.values()]
    by_metric = [item.n_error - item.n_failed for item in scored]
    return max(by_scorer + by_metric, default=0)


def _counts(saved: SavedAnswers, judged: Mapping[str, Judged], n_unscored: int) -> Counts:
    statuses = saved.statuses
    return Counts(
        n_error=saved.n_failed + n_unscored,
        n_truncated=statuses.count(Status.TRUNCATED),
        n_unparsed=max((found.n_unparsed for found in judged.values()), default=0),
        n_filtered=statuses.count(Status.FILTERED),
        n_empty=statuses.count(Status.EMPTY),
    )


def _state(
    max_error_rate: float, saved: SavedAnswers, n_unscored: int, scored: Sequence[ScoredMetric]
) -> tuple[str, str | None]:
    """State of the record, and why it is not complete."""
    if wrong := contradictions(scored):
        text = f"numbers contradict each other, which is a fault of evalrun: {'; '.join(wrong)}"
        return "failed", text
    lacking = [item for item in scored if _is_lacking(item, max_error_rate)]
    n_error = saved.n_failed + n_unscored
    if not lacking and n_error <= max_error_rate * saved.n_rows:
        return "complete", None
    reason = _too_many(saved, n_unscored, lacking)
    reason += f", more than max_error_rate={max_error_rate:g} allows"
    reason += "; --resume asks for the failed ones again" if saved.n_failed else ""
    return "incomplete", reason


def _failure_note(files: CellFiles, saved: SavedAnswers) -> tuple[str, ...]:
    """What the first failed request of a cell was told, where one failed."""
    if not saved.n_failed or (first := first_failure(files)) is None:
        return ()
    return (f"{saved.n_failed} of {saved.n_rows} requests failed, the first of {first}",)


def _is_lacking(item: ScoredMetric, rate: float) -> bool:
    """Whether a metric of log-probabilities lacks too many documents: one failed choice of many
    loses its document.
    """
    return item.metric.reads is not Kind.GENERATE and item.n_error > rate * len(item.docs)


def _too_many(saved: SavedAnswers, n_unscored: int, lacking: Sequence[ScoredMetric]) -> str:
    n_failed, n_samples = saved.n_failed, len(saved.statuses)
    parts = [f"{n_failed} of {saved.n_rows} requests failed"] if n_failed else []
    parts += [f"{n_unscored} of {n_samples} samples could not be scored"] if n_unscored else []
    worst = max(lacking, key=lambda item: item.n_error, default=None)
    if n_failed and worst is not None:
        parts += [f"{worst.plan.key} lacks {worst.n_error} of {len(worst.docs)} documents"]
    return " and ".join(parts)


def _notes(plan: Plan, cell: Cell, scored: Sequence[ScoredMetric]) -> list[str]:
    notes = []
    for item in scored:
        missing = len(item.docs) - item.n_scored
        if missing:
            notes.append(
                f"{item.plan.key}: {missing} of {len(item.docs)} documents could not be scored and "
                "are left out"
            )
    if cell.n > 1 and cell.sampling.temperature == 0:
        notes.append(
            f"n={cell.n} samples at temperature 0: equal samples, pass@k says no more than one "
            "sample"
        )
    notes += no_verdicts(cell)
    notes += _unused_counts(plan, cell)
    notes += [f"task {cell.name}: {line}" for line in gold_inside.note_of(scored)]
    return notes + remarks_of(scored, cell.name)


def _unused_counts(plan: Plan, cell: Cell) -> list[str]:
    """Counts of samples that were asked for on a cell that draws none."""
    if Kind.GENERATE in cell.kinds:
        return []
    given = {"num_return_sequences": plan.num_return_sequences or 1, **dict(cell.task_params)}
    many = [f"{name}={value}" for name, value in given.items() if value != 1]
    if not many:
        return []
    draw = "draws" if len(many) == 1 else "draw"
    return [
        f"{' and '.join(many)} {draw} samples; log-probabilities are asked once per choice or text"
    ]
