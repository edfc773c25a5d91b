"""Ask the model: documents x cells -> requests, minus the keys already stored -> replies -> the
store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from evalrun.backends import Engines
from evalrun.backends.base import ScoreProbe
from evalrun.errors import Fault, TaskFailure
from evalrun.stages.asking.prepared import Prepared, is_single_token, prepare, requests_of
from evalrun.stages.asking.stored_content import (
    check_cell,
    document_order,
    settle_content,
    store_docs,
)
from evalrun.stages.log import TaskLog
from evalrun.stages.progress import Progress, TaskProgress
from evalrun.store.cell import predictions, results
from evalrun.store.cell.failed_rows import failure_text
from evalrun.store.cell.files import CellFiles
from evalrun.store.layout import Run
from evalrun.store.rows.row_writer import RowWriter
from evalrun.store.state import Keeper
from evalrun.types import Cell, Key, Kind, Plan, Reply

__all__ = [
    "CellOutcome",
    "Prepared",
    "check_resumable",
    "prepare",
    "requests_of",
    "run",
    "start",
]


@dataclass(frozen=True)
class CellOutcome:
    """How asking one cell ended.

    Attributes:
        n_missing: keys without any row.
        n_failed: rows that are failures.
        max_error_rate: the share of failures that is allowed.
        share_lost: of the documents of a kind of log-probabilities, those that lack some; the
            largest over the kinds.
    """

    task: str
    n_rows: int
    n_failed: int
    n_missing: int
    failure: str | None = None
    max_error_rate: float = 0.0
    share_lost: float = 0.0

    @property
    def is_whole(self) -> bool:
        """True where every row is there, and no more rows failed and documents are lost than is
        allowed.
        """
        allowed = self.max_error_rate * (self.n_rows + self.n_missing)
        is_enough = self.n_failed <= allowed and self.share_lost <= self.max_error_rate
        return self.failure is None and not self.n_missing and is_enough

    def line(self) -> str:
        """One line for people."""
        parts = [f"{self.task}: {self.n_rows} rows saved"]
        parts += [f"{self.n_failed} failed"] if self.n_failed else []
        parts += [f"{self.n_missing} never written"] if self.n_missing else []
        way_out = "; --resume asks for them" if self.n_failed or self.n_missing else ""
        return ", ".join(parts) + (f" ({self.failure})" if self.failure else "") + way_out


@dataclass(frozen=True)
class _CellJob:
    """One cell that is asked, and what that needs."""

    plan: Plan
    item: Prepared
    files: CellFiles
    engines: Engines
    progress: Progress
    log: TaskLog

    @property
    def name(self) -> str:
        return self.item.cell.name


def check_resumable(plan: Plan, prepared: Sequence[Prepared]) -> None:
    """Fault where another process writes a cell of the run, or its data has changed; before the
    run's plan grows.
    """
    for item in prepared:
        check_cell(_files(plan, item), item)


def start(plan: Plan, prepared: Sequence[Prepared], engines: Engines) -> None:
    """Load the engine, where there is anything to ask. Fault: the model cannot be loaded."""
    if any(item.docs for item in prepared):
        Progress().note(_loading(plan))
        backend = engines.warm(plan.model)
        backend.start()
        scored = [
            item for item in prepared if item.docs and set(item.cell.kinds) - {Kind.GENERATE.value}
        ]
        if scored and isinstance(backend, ScoreProbe):
            _check_scores(backend, [item.cell for item in scored])


def _check_scores(backend: ScoreProbe, cells: Sequence[Cell]) -> None:
    """Fault where a server gives no log-probabilities; it names the tasks that ask the same by
    generating.
    """
    try:
        backend.check_scores(all(is_single_token(cell) for cell in cells))
    except Fault as fault:
        variants = list(dict.fromkeys(cell.generative for cell in cells if cell.generative))
        if not variants:
            raise
        raise Fault(
            f"{fault} The same questions by generating: task={','.join(variants)}."
        ) from fault


def _loading(plan: Plan) -> str:
    return f"loading {plan.model.name} ({plan.model.backend})"


def run(
    plan: Plan,
    prepared: Sequence[Prepared],
    engines: Engines,
    is_debug: bool = False,
    keeper: Keeper | None = None,
) -> tuple[CellOutcome, ...]:
    """Ask for every key of the cells that is not stored. One CellOutcome per cell, in order.

    Args:
        plan: of the run, its folder named.
        prepared: its cells with their documents.
        engines: where the model's engine is taken from; they stay open.
        is_debug: write no log files.
        keeper: receives progress updates.

    An engine that dies fails its cell and, where it cannot be started again, those after it. Fault:
    the model cannot be loaded, or the stored rows were made of other content.
    """
    outcomes = []
    if keeper is not None:
        keeper.expect(
            {item.cell.name: (_n_stored(plan, item), len(item.keys())) for item in prepared}
        )
    with Progress(on_count=None if keeper is None else keeper.count) as progress:
        for item in prepared:
            files = _files(plan, item)
            with TaskLog(None if is_debug else files.log_file("infer")) as log:
                job = _CellJob(plan, item, files, engines, progress, log)
                outcomes.append(_ask_cell(job))
    return tuple(outcomes)


def _files(plan: Plan, item: Prepared) -> CellFiles:
    return Run(Path(plan.run_dir)).cell(plan.model.name, item.cell.name)


def _n_stored(plan: Plan, item: Prepared) -> int:
    """How many rows are there before the cell is asked, failures too; at most as many as are
    wanted.
    """
    return min(predictions.count(_files(plan, item)), len(item.keys()))


def _ask_cell(job: _CellJob) -> CellOutcome:
    item, log, name = job.item, job.log, job.name
    log.line(f"model {job.plan.model.name}, task {name}: n={item.cell.n}, {item.cell.sampling}")
    if item.failure is not None:
        log.line(item.failure)
        return CellOutcome(name, 0, 0, 0, item.failure)
    started = perf_counter()
    with predictions.open_writer(job.files, {"ask_id": item.cell.ask_id}) as writer:
        for note in writer.notes:
            log.line(note)
            job.progress.note(f"{name}: {note}")
        # Before the engine is loaded: data that has changed must not cost its loading first.
        settle_content(job.files, item, {"dataset": item.digest}, writer)
        wanted = item.keys()
        missing = writer.missing(wanted)
        log.line(f"{len(wanted)} rows wanted, {len(missing)} to ask for")
        failure = _ask_missing(job, missing, writer) if missing else None
        lost = len(wanted) - len(writer.stored_keys() & set(wanted))
        failed = writer.failed_keys() & set(wanted)
        writer.finalize(document_order(job.files, item))
    results.write_times(job.files, {"infer_s": perf_counter() - started})
    log.line(f"done: {len(wanted) - lost} rows, {len(failed)} failed, {lost} never written")
    return CellOutcome(
        task=name,
        n_rows=len(wanted) - lost,
        n_failed=len(failed),
        n_missing=lost,
        failure=failure,
        max_error_rate=job.plan.max_error_rate,
        share_lost=_share_lost(failed, len(item.docs)),
    )


def _share_lost(failed: Iterable[Key], n_docs: int) -> float:
    """The share of documents that a failed row of log-probabilities loses, for the kind that
    loses most.
    """
    lost = Counter(kind for _, kind in {(doc_id, kind) for doc_id, kind, _, _ in failed})
    return max((n / n_docs for kind, n in lost.items() if kind != Kind.GENERATE.value), default=0.0)


def _ask_missing(job: _CellJob, missing: Sequence[Key], writer: RowWriter[Reply]) -> str | None:
    """Start the engine, fix the content, send the requests.

    The reason where the engine gave up, else None.
    """
    item, model = job.item, job.plan.model
    if writer.stored_keys():
        job.progress.note(f"{job.name}: {len(missing)} rows to ask for, {_loading(job.plan)}")
    try:
        backend = job.engines.warm(model)
        backend.start()
        settle_content(job.files, item, {**backend.facts(), "dataset": item.digest}, writer)
        store_docs(job.files, item, backend, writer)
        requests = requests_of(item, missing)
        n_wanted = len(item.keys())
        with closing(job.progress.task(job.name, n_wanted, n_wanted - len(missing))) as handle:
            backend.run(requests, _sink(writer, handle, job))
    except TaskFailure as failure:
        job.log.line(str(failure))
        job.engines.drop(model)  # the next cell starts it anew, or fails likewise
        return str(failure)
    return None


def _sink(writer: RowWriter[Reply], handle: TaskProgress, job: _CellJob) -> Callable[[Reply], None]:
    """Stores each row; failures go to the log, and the first one to the terminal at once: whoever
    waits for a long run must not learn at its end that every request was refused.
    """
    was_said = False

    def store(reply: Reply) -> None:
        nonlocal was_said
        writer.append(reply)
        handle.advance(reply)
        if reply.error_type is None:
            return
        job.log.line(
            f"{reply.doc_id} {reply.kind} {reply.index}: {reply.error_type}: {reply.error_message}"
        )
        if not was_said:
            was_said = True
            job.progress.note(f"{job.name}: the first failed request: {failure_text(reply)}")

    return store
