"""Turn saved rows into numbers: rows -> verdict per sample -> statistics per document -> estimate.

All are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from evalrun.backends.packages import is_installed
from evalrun.errors import Fault
from evalrun.metrics import METRICS, make_metric, make_scorer
from evalrun.metrics.base import Metric, Scorer
from evalrun.metrics.naming import numbered
from evalrun.metrics.repeated import over_samples
from evalrun.stages.log import TaskLog
from evalrun.stages.scoring import saved_answers
from evalrun.stages.scoring.cell_record import record_of
from evalrun.stages.scoring.estimates import ScoredMetric, statistics_of
from evalrun.stages.scoring.sample_verdicts import Judged, judge
from evalrun.stages.scoring.saved_answers import SavedAnswers
from evalrun.store.cell import results, statistics, verdicts
from evalrun.store.cell.files import CellFiles
from evalrun.store.layout import Run
from evalrun.types import Cell, Counts, Doc, MetricPlan, Plan, Record, Verdict


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
            saved_answers.read(plan, run_folder.cell(plan.model.name, cell.name), cell)
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
    saved = saved_answers.read(plan, files, cell, reason)
    if saved is None:
        record = replace(blank, reason=reason or "nothing was asked")
    elif saved.holes.n:
        counts = Counts(n_unsent=saved.holes.n)
        text = saved_answers.hole_text(cell, saved, reason)
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
    plan: Plan, files: CellFiles, cell: Cell, blank: Record, saved: SavedAnswers, log: TaskLog
) -> Record:
    """Judge every sample, compute every metric, store both."""
    judged: dict[str, Judged] = {}  # a scorer that several metrics share judges once
    scored: list[ScoredMetric] = []
    for item in cell.metrics:
        metric, scorer = _metric_of(item, cell)
        found = saved.by_kind[metric.reads]
        _refuse_unfit(item, metric, scorer, found.docs, cell)
        rows: Sequence[tuple[Verdict, ...]] = [()] * len(found.docs)
        if scorer is not None:
            if scorer.signature not in judged:
                judged[scorer.signature] = judge(scorer, found.docs, saved.samples)
            rows = judged[scorer.signature].rows
        scored.append(statistics_of(metric, item, found.docs, found.answers, rows))
    for line in _lines(saved, judged, scored):
        log.line(line)
    _write_verdicts(files, saved, judged)
    _write_statistics(files, cell, saved.docs, scored)
    return record_of(plan, files, cell, blank, saved, judged, scored)


def _refuse_unfit(
    item: MetricPlan, metric: Metric, scorer: Scorer | None, docs: Sequence[Doc], cell: Cell
) -> None:
    """Fault for a document that the metric or its scorer can never score."""
    checks: list[Callable[[Doc], str | None]] = []
    if not item.is_added:
        checks.append(metric.check_doc)
    if scorer is not None:
        checks.append(scorer.check_doc)
    reason = next((r for doc in docs for check in checks if (r := check(doc)) is not None), None)
    if reason is not None:
        raise Fault(f"Task {cell.name}: {reason}. Leave metric {item.key} out.")


def _lines(
    saved: SavedAnswers, judged: Mapping[str, Judged], scored: Sequence[ScoredMetric]
) -> list[str]:
    """What the log says of the rows, the scorers and the metrics."""
    lines = list(saved.notes)
    lines += [f"{name}: {line}" for name, found in judged.items() for line in found.notes]
    return lines + [line for item in scored for line in item.notes]


def _metric_of(item: MetricPlan, cell: Cell) -> tuple[Metric, Scorer | None]:
    metric = over_samples(make_metric(item.key, dict(item.params)), item.n)
    if not metric.has_scorer:
        return metric, None
    return metric, make_scorer(metric.scorer, cell.extract, where=f"task {cell.name}")


def _write_verdicts(files: CellFiles, saved: SavedAnswers, judged: Mapping[str, Judged]) -> None:
    rows = {signature: found.by_key(saved.docs) for signature, found in judged.items()}
    if saved.is_prefix:  # the verdicts of the other documents stay
        old = verdicts.read_verdicts(files)
        rows = {signature: {**old.get(signature, {}), **found} for signature, found in rows.items()}
    verdicts.write_verdicts(files, rows)


def _write_statistics(
    files: CellFiles, cell: Cell, docs: Sequence[Doc], scored: Sequence[ScoredMetric]
) -> None:
    columns: dict[str, Sequence[object]] = {"doc_id": [d.id for d in docs]}
    times = Counter[str]()
    for item in scored:
        times[item.plan.key] += 1
        key = numbered(item.plan.key, times[item.plan.key])
        for name, values in item.columns_over_all().items():
            columns[f"{key}.{name}.n{item.plan.n}"] = values
    statistics.write_statistics(files, columns, {"ask_id": cell.ask_id})
