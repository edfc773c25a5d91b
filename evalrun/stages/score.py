"""Turn saved rows into numbers: rows -> verdict per sample -> statistics per document -> estimate.

All are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from evalrun.backends.packages import is_installed
from evalrun.errors import Fault
from evalrun.metrics import METRICS, make_metric, make_scorer
from evalrun.metrics.base import Metric, Scorer
from evalrun.metrics.repeated import over_samples
from evalrun.stages.log import TaskLog
from evalrun.stages.scoring import saved_answers as saved_rows
from evalrun.stages.scoring.consistency_check import consistency_of, contradictions, no_verdicts
from evalrun.stages.scoring.estimates import Scored, estimates_of, remarks_of, statistics_of
from evalrun.stages.scoring.sample_verdicts import Judged, judge
from evalrun.stages.scoring.saved_answers import Saved
from evalrun.store.cell import results, statistics, verdicts
from evalrun.store.cell.failed_rows import first_failure
from evalrun.store.cell.files import CellFiles
from evalrun.store.layout import Run
from evalrun.types import Cell, Counts, Doc, Kind, MetricPlan, Plan, Record, Status


def run(
    plan: Plan, outcomes: Sequence[tuple[str, str]] = (), is_debug: bool = False
) -> tuple[Record, ...]:
    """Score every cell of the plan from its saved rows; one Record per cell, in order.

    Args:
        outcomes: (task, reason) of cells that inference could not do. A cell with missing rows is
            not scored: in eval that is a Fault, else its record says so. Writes verdicts,
            statistics and results.
    """
    run_folder = Run(Path(plan.run_dir))
    reasons = dict(outcomes)
    if plan.mode == "eval" and len(plan.cells) > 1:
        for cell in plan.cells:  # before anything is scored
            saved_rows.read(plan, run_folder.cell(plan.model.name, cell.name), cell)
    records = []
    for cell in plan.cells:
        files = run_folder.cell(plan.model.name, cell.name)
        with TaskLog(None if is_debug else files.log_file("eval")) as log:
            records.append(_score_cell(plan, files, cell, reasons.get(cell.name), log))
    return tuple(records)


def check_packages(plan: Plan) -> None:
    """Fault for a metric or scorer of the plan whose package is not installed.

    Imports none of them.
    """
    for cell in plan.cells:
        for item in cell.metrics:
            metric, scorer = _metric_of(item, cell)
            needed = dict.fromkeys(
                (*metric.packages, *(scorer.packages if scorer is not None else ()))
            )
            missing = [package for package in needed if not is_installed(package)]
            if missing:
                names = " ".join(missing)
                raise Fault(
                    f"Metric {item.key} of task {cell.name} needs {names}, not installed here: pip "
                    f"install {names}. Nothing was asked or scored; --mode infer alone does not "
                    "need it."
                )


def _score_cell(
    plan: Plan, files: CellFiles, cell: Cell, reason: str | None, log: TaskLog
) -> Record:
    started = perf_counter()
    blank = Record(
        model=files.model,
        task=cell.name,
        version=cell.version,
        mode=mode_of(cell),
        state="failed",
        reason=reason,
        log=files.log_name("infer"),
        n_docs=0,
        n=cell.n,
    )
    saved = saved_rows.read(plan, files, cell, reason)
    if saved is None:
        record = replace(blank, reason=reason or "nothing was asked")
    elif saved.holes:
        counts = Counts(n_unsent=len(saved.holes))
        text = saved_rows.hole_text(cell, saved, reason)
        record = replace(blank, state="missing", reason=text, n_docs=len(saved.docs), counts=counts)
    else:
        record = _from_rows(plan, files, cell, replace(blank, n_docs=len(saved.docs)), saved, log)
    results.write_record(files, record)
    results.write_times(files, {"score_s": perf_counter() - started})
    for estimate in record.estimates:
        log.line(
            f"{estimate.display} = {estimate.value} +- {estimate.stderr}  {estimate.signature}"
        )
    log.line(f"{record.state}: {record.reason or 'all rows scored'}")
    return record


def mode_of(cell: Cell) -> str:
    """gen, ll or ppl: what the first metric of the cell reads."""
    return METRICS.get(cell.metrics[0].key).reads.mode


def _from_rows(
    plan: Plan, files: CellFiles, cell: Cell, blank: Record, saved: Saved, log: TaskLog
) -> Record:
    judged: dict[str, Judged] = {}
    scored: list[Scored] = []
    for item in cell.metrics:
        metric, scorer = _metric_of(item, cell)
        docs, answers = saved.views[metric.reads], saved.answers[metric.reads]
        checks = [] if item.is_added else [metric.check_doc]
        checks += [scorer.check_doc] if scorer is not None else []
        reason = next((r for d in docs for check in checks if (r := check(d)) is not None), None)
        if reason is not None:
            raise Fault(f"Task {cell.name}: {reason}. Leave metric {item.key} out.")
        if scorer is not None and scorer.signature not in judged:
            judged[scorer.signature] = judge(scorer, docs, saved.samples)
        verdict_rows = judged[scorer.signature].rows if scorer is not None else [()] * len(docs)
        scored.append(statistics_of(metric, item, docs, answers, verdict_rows))
    docs = saved.docs
    for line in saved.notes:
        log.line(line)
    for line in [f"{s}: {line}" for s, found in judged.items() for line in found.notes]:
        log.line(line)
    for line in [line for item in scored for line in item.notes]:
        log.line(line)
    rows = {signature: found.by_key(docs) for signature, found in judged.items()}
    if saved.is_prefix:  # the verdicts of the other documents stay
        old = verdicts.read_verdicts(files)
        rows = {signature: {**old.get(signature, {}), **found} for signature, found in rows.items()}
    verdicts.write_verdicts(files, rows)
    _write_statistics(files, cell, docs, scored)
    return _record(plan, files, cell, blank, saved, judged, scored)


def _metric_of(item: MetricPlan, cell: Cell) -> tuple[Metric, Scorer | None]:
    metric = over_samples(make_metric(item.key, dict(item.params)), item.n)
    if not metric.has_scorer:
        return metric, None
    return metric, make_scorer(metric.scorer, cell.extract, where=f"task {cell.name}")


def _write_statistics(
    files: CellFiles, cell: Cell, docs: Sequence[Doc], scored: Sequence[Scored]
) -> None:
    columns: dict[str, Sequence[object]] = {"doc_id": [d.id for d in docs]}
    for item in scored:
        for name, values in item.columns_over_all().items():
            columns[f"{item.plan.key}.{name}.n{item.plan.n}"] = values
    statistics.write_statistics(files, columns, {"ask_id": cell.ask_id})


def _record(
    plan: Plan,
    files: CellFiles,
    cell: Cell,
    blank: Record,
    saved: Saved,
    judged: dict[str, Judged],
    scored: Sequence[Scored],
) -> Record:
    flat = [s for rows in saved.statuses.values() for row in rows for s in row]
    n_failed = saved.n_failed
    lacking = [item for item in scored if _is_lacking(item, plan.max_error_rate)]
    n_unscored = max(
        [j.n_unscored for j in judged.values()] + [item.n_error - item.n_failed for item in scored],
        default=0,
    )
    counts = Counts(
        n_error=n_failed + n_unscored,
        n_truncated=flat.count(Status.TRUNCATED.value),
        n_unparsed=max((j.n_unparsed for j in judged.values()), default=0),
        n_filtered=flat.count(Status.FILTERED.value),
        n_empty=flat.count(Status.EMPTY.value),
    )
    state, reason, log = "complete", None, None
    if n_unscored:
        log = files.log_name("eval")
    elif n_failed:
        log = blank.log
    if lacking or counts.n_error > plan.max_error_rate * saved.n_rows:
        state, reason = (
            "incomplete",
            _too_many(n_failed, n_unscored, saved.n_rows, len(flat), lacking),
        )
        reason += f", more than max_error_rate={plan.max_error_rate:g} allows"
        reason += "; --resume asks for the failed ones again" if n_failed else ""
    if wrong := contradictions(scored):
        state, reason = (
            "failed",
            f"numbers contradict each other, which is a fault of evalrun: {'; '.join(wrong)}",
        )
    return replace(
        blank,
        state=state,
        reason=reason,
        log=log,
        counts=counts,
        estimates=tuple(
            e
            for item in scored
            for e in estimates_of(
                item, cell.ask_id, saved.statuses[item.metric.reads], saved.is_prefix
            )
        ),
        notes=(*saved.remarks, *_failure_note(files, saved), *_notes(plan, cell, scored)),
        consistency=consistency_of(
            scored, cell.ask_id, len(saved.docs) if saved.is_prefix else None
        ),
    )


def _failure_note(files: CellFiles, saved: Saved) -> tuple[str, ...]:
    """What the first failed request of a cell was told, where one failed."""
    if not saved.n_failed or (first := first_failure(files)) is None:
        return ()
    return (f"{saved.n_failed} of {saved.n_rows} requests failed, the first of {first}",)


def _is_lacking(item: Scored, rate: float) -> bool:
    """Whether a metric of log-probabilities lacks too many documents: one failed choice of many
    loses its document.
    """
    return item.metric.reads is not Kind.GENERATE and item.n_error > rate * len(item.docs)


def _too_many(
    n_failed: int, n_unscored: int, n_rows: int, n_samples: int, lacking: Sequence[Scored]
) -> str:
    parts = [f"{n_failed} of {n_rows} requests failed"] if n_failed else []
    parts += [f"{n_unscored} of {n_samples} samples could not be scored"] if n_unscored else []
    worst = max(lacking, key=lambda item: item.n_error, default=None)
    if n_failed and worst is not None:
        parts += [f"{worst.plan.key} lacks {worst.n_error} of {len(worst.docs)} documents"]
    return " and ".join(parts)


def _notes(plan: Plan, cell: Cell, scored: Sequence[Scored]) -> tuple[str, ...]:
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
    said = {"num_return_sequences": plan.num_return_sequences or 1, **dict(cell.task_params)}
    if Kind.GENERATE.value not in cell.kinds:
        many = [f"{name}={value}" for name, value in said.items() if value != 1]
        if many:
            draw = "draws" if len(many) == 1 else "draw"
            notes.append(
                f"{' and '.join(many)} {draw} samples; log-probabilities are asked once per choice "
                "or text"
            )
    notes += remarks_of(scored, cell.name)
    return tuple(notes)
