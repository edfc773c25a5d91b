"""Turn saved rows into numbers: rows -> verdict per sample -> statistics per document -> estimate. All are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from evalrun.errors import Fault
from evalrun.metrics import make_metric, make_scorer
from evalrun.metrics.base import Metric, Scorer
from evalrun.stages.estimate import Scored, estimates_of, statistics_of
from evalrun.stages.judged import Judged, judge
from evalrun.stages.log import TaskLog
from evalrun.store import docs as doc_store
from evalrun.store import predictions, results, statistics, verdicts
from evalrun.store.layout import Run
from evalrun.types import Cell, Counts, Doc, MetricPlan, Plan, Record, Samples, Status


def run(plan: Plan, outcomes: Sequence[tuple[str, str]] = (), is_debug: bool = False) -> tuple[Record, ...]:
    """Score every cell of the plan from its saved rows; one Record per cell, in order.

    outcomes: (task, reason) of cells that inference could not do. A cell with missing rows is not scored: in
    eval that is a Fault, else its record says so. Writes verdicts, statistics and results.
    """
    run_folder = Run(Path(plan.run_dir))
    reasons = dict(outcomes)
    records = []
    for cell in plan.cells:
        log_path = run_folder.log_file("eval", plan.model.name, cell.name)
        with TaskLog(None if is_debug else log_path) as log:
            records.append(_score_cell(plan, run_folder, cell, reasons.get(cell.name), log))
    return tuple(records)


def _score_cell(plan: Plan, run_folder: Run, cell: Cell, reason: str | None, log: TaskLog) -> Record:
    started = perf_counter()
    model = plan.model.name
    log_name = str(run_folder.log_file("infer", model, cell.name).relative_to(run_folder.path))
    blank = Record(
        model=model, task=cell.name, version=cell.version, mode="gen", state="failed", reason=reason, log=log_name,
        n_docs=0, n=cell.n,
    )  # fmt: skip
    if not run_folder.docs_file(model, cell.name).exists():
        if plan.mode == "eval":
            raise Fault(_no_rows(run_folder, cell, model))
        record = replace(blank, reason=reason or "nothing was asked")
    else:
        record = _from_rows(plan, run_folder, cell, blank, log)
    results.write_record(run_folder, record)
    results.write_times(run_folder, model, cell.name, {"score_s": perf_counter() - started})
    for estimate in record.estimates:
        log.line(f"{estimate.display} = {estimate.value} +- {estimate.stderr}  {estimate.signature}")
    log.line(f"{record.state}: {record.reason or 'all rows scored'}")
    return record


def _no_rows(run_folder: Run, cell: Cell, model: str) -> str:
    return (
        f"There are no saved predictions of model {model}, task {cell.name}: expected "
        f"{run_folder.predictions_file(model, cell.name)}. Run --mode infer first."
    )


def _from_rows(plan: Plan, run_folder: Run, cell: Cell, blank: Record, log: TaskLog) -> Record:
    model = plan.model.name
    docs = [s.doc for s in doc_store.read_docs(run_folder, model, cell.name)]
    docs = docs if cell.limit is None else docs[: cell.limit]
    answers = predictions.read_answers(run_folder, model, cell.name)
    needed = max(m.n for m in cell.metrics)
    stored_n = _stored_n(answers, cell.n)
    if needed > stored_n:
        raise Fault(_too_few(run_folder, cell, needed, stored_n))
    samples, statuses, holes = _samples(docs, answers, cell.n)
    if holes:
        text = _holes(blank, holes, cell.n * len(docs))
        if plan.mode == "eval":
            raise Fault(f"{run_folder.path}: {text}. --resume asks for the missing rows.")
        n_unsent = len(holes)
        return replace(blank, state="missing", reason=text, n_docs=len(docs), counts=Counts(n_unsent=n_unsent))
    judged: dict[str, Judged] = {}
    scored: list[Scored] = []
    for item in cell.metrics:
        metric, scorer = _metric_of(item, cell)
        reason = next((r for d in docs if (r := metric.check_doc(d)) is not None), None)
        if reason is not None:
            raise Fault(f"Task {cell.name}: {reason}. Leave metric {item.key} out.")
        if scorer is not None and scorer.signature not in judged:
            judged[scorer.signature] = judge(scorer, docs, samples)
        verdict_rows = judged[scorer.signature].rows if scorer is not None else [()] * len(docs)
        scored.append(statistics_of(metric, item, docs, samples, verdict_rows))
    for signature, found in judged.items():
        for line in found.notes:
            log.line(f"{signature}: {line}")
    verdicts.write_verdicts(run_folder, model, cell.name, {s: j.by_key(docs) for s, j in judged.items()})
    _write_statistics(run_folder, model, cell, docs, scored)
    return _record(plan, cell, blank, docs, statuses, judged, scored)


def _metric_of(item: MetricPlan, cell: Cell) -> tuple[Metric, Scorer | None]:
    metric = make_metric(item.key, dict(item.params))
    if not metric.has_scorer:
        return metric, None
    return metric, make_scorer(metric.scorer, cell.extract, where=f"task {cell.name}")


def _stored_n(answers: predictions.Answers, planned: int) -> int:
    stored = answers.metadata.get("n")
    return max(int(stored), planned) if stored is not None and stored.isdigit() else planned


def _too_few(run_folder: Run, cell: Cell, needed: int, stored: int) -> str:
    names = ", ".join(m.key for m in cell.metrics if m.n == needed)
    return (
        f"Task {cell.name}: {names} needs n={needed} samples per document, {run_folder.path} holds n={stored}. Ask for a "
        f"smaller n, or infer the missing samples: --resume num_return_sequences={needed}."
    )


def _samples(
    docs: Sequence[Doc], answers: predictions.Answers, n: int
) -> tuple[list[Samples], list[list[str]], list[tuple[str, int]]]:
    """Texts per document, in index order; their states; the (document, sample) pairs that have no row."""
    samples, statuses, holes = [], [], []
    for doc in docs:
        rows = [row for row in answers.by_doc.get(doc.id, ()) if row[0] < n]
        if len(rows) < n:
            present = {row[0] for row in rows}
            holes += [(doc.id, i) for i in range(n) if i not in present]
        states = [row[2] for row in rows]
        samples.append(Samples(tuple(row[1] for row in rows), tuple(Status(s).is_failure for s in states)))
        statuses.append(states)
    return samples, statuses, holes


def _holes(blank: Record, holes: Sequence[tuple[str, int]], wanted: int) -> str:
    first = ", ".join(f"{doc_id} sample {i}" for doc_id, i in holes[:5])
    why = f" ({blank.reason})" if blank.reason else ""
    return (
        f"task {blank.task}: {len(holes)} of {wanted} rows were never written{why}, so nothing is scored; the first are "
        f"{first}"
    )


def _write_statistics(run_folder: Run, model: str, cell: Cell, docs: Sequence[Doc], scored: Sequence[Scored]) -> None:
    columns: dict[str, Sequence[object]] = {"doc_id": [d.id for d in docs]}
    for item in scored:
        for name, values in item.columns_over_all().items():
            columns[f"{item.plan.key}.{name}.n{item.plan.n}"] = values
    statistics.write_statistics(run_folder, model, cell.name, columns, {"ask_id": cell.ask_id})


def _record(
    plan: Plan,
    cell: Cell,
    blank: Record,
    docs: Sequence[Doc],
    statuses: Sequence[Sequence[str]],
    judged: dict[str, Judged],
    scored: Sequence[Scored],
) -> Record:
    flat = [s for row in statuses for s in row]
    n_failed = sum(Status(s).is_failure for s in flat)
    n_unscored = max((j.n_unscored for j in judged.values()), default=0)
    counts = Counts(
        n_error=n_failed + n_unscored,
        n_truncated=flat.count(Status.TRUNCATED.value),
        n_unparsed=max((j.n_unparsed for j in judged.values()), default=0),
        n_filtered=flat.count(Status.FILTERED.value),
        n_empty=flat.count(Status.EMPTY.value),
    )
    estimates = tuple(e for item in scored for e in estimates_of(item, cell, statuses))
    state, reason = "complete", None
    if counts.n_error > plan.max_error_rate * len(flat):
        state = "incomplete"
        reason = (
            f"{n_failed} of {len(flat)} requests failed" if n_failed else f"{n_unscored} samples could not be scored"
        )
        reason += f", more than max_error_rate={plan.max_error_rate:g} allows; --resume asks for them again"
    return replace(
        blank,
        state=state,
        reason=reason,
        n_docs=len(docs),
        counts=counts,
        estimates=estimates,
        notes=_notes(cell, scored),
    )


def _notes(cell: Cell, scored: Sequence[Scored]) -> tuple[str, ...]:
    notes = []
    for item in scored:
        missing = len(item.docs) - item.n_scored
        if missing:
            notes.append(
                f"{item.plan.key}: {missing} of {len(item.docs)} documents could not be scored and are left out"
            )
    if cell.n > 1 and cell.sampling.temperature == 0:
        notes.append(f"n={cell.n} samples at temperature 0: equal samples, pass@k says no more than one sample")
    return tuple(notes)
