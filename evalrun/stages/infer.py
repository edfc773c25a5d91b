"""Ask the model: documents x cells -> requests, minus the keys already stored -> replies -> the
store.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

from evalrun.backends import Engines
from evalrun.backends.base import Backend, ScoreProbe, document_seed
from evalrun.errors import Fault, TaskFailure
from evalrun.metrics import METRICS, make_metric, make_scorer
from evalrun.stages.log import TaskLog
from evalrun.stages.progress import Progress, TaskProgress
from evalrun.store.cell import predictions as prediction_store
from evalrun.store.cell import results as result_store
from evalrun.store.cell import saved_docs as doc_store
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.predictions import Writer
from evalrun.store.layout import Run
from evalrun.store.lock import Lock
from evalrun.store.state import Keeper
from evalrun.tasks import cell_requests, fewshot, prompt, rows, template_checks
from evalrun.tasks.docs import make_docs
from evalrun.tasks.prompt import Asked
from evalrun.types import Cell, Doc, Key, Kind, Plan, Reply, Request
from evalrun.version import __version__


@dataclass(frozen=True)
class Prepared:
    """A cell with its documents and prompts; or why it has none (a hub that cannot be reached)."""

    cell: Cell
    docs: tuple[Doc, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)
    digest: str = ""
    failure: str | None = None

    def keys(self) -> list[Key]:
        """Every key that the plan asks for, in document order."""
        return [key for doc in self.docs for key in cell_requests.keys_of(self.cell, doc)]


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


def prepare(plan: Plan) -> tuple[Prepared, ...]:
    """Read all data and render all messages before anything is asked.

    Fault for data that is not as declared.

    A cell whose data lies on a hub that cannot be reached is marked as failed; the others go on.
    """
    prepared = []
    for cell in plan.cells:
        try:
            prepared.append(_prepare(plan, cell))
        except TaskFailure as failure:
            prepared.append(Prepared(cell, failure=str(failure)))
    return tuple(prepared)


def _prepare(plan: Plan, cell: Cell) -> Prepared:
    columns = template_checks.template_columns(cell.prompt)
    loaded = rows.load_rows(cell.dataset)
    template_checks.check_template(cell.prompt, [*loaded.columns, *dict(cell.dataset.columns)])
    # The pool for few-shot examples may be the dataset's own rows, so all are read where examples
    # are wanted.
    pool_plan = fewshot.pool_dataset(cell.dataset, cell.fewshot)
    is_own_pool = cell.fewshot.n > 0 and pool_plan is None
    every = make_docs(
        cell.name, cell.subset, cell.dataset, loaded, None if is_own_pool else cell.limit, columns
    )
    docs = every[: cell.limit] if cell.limit is not None else every
    pool = every
    if pool_plan is not None:
        pool = make_docs(
            cell.name, cell.subset, pool_plan, rows.load_rows(pool_plan), None, columns
        )
    chosen = fewshot.choose(docs, pool, cell.fewshot)
    docs = [replace(d, fewshot=tuple(e.id for e in c)) for d, c in zip(docs, chosen, strict=True)]
    asked = {
        d.id: prompt.asked(cell, d, c, plan.model.system) for d, c in zip(docs, chosen, strict=True)
    }
    if plan.mode != "infer":
        _refuse_unjudgeable(cell, docs)
    return Prepared(cell, tuple(docs), asked, loaded.digest)


def _refuse_unjudgeable(cell: Cell, docs: Sequence[Doc]) -> None:
    """Fault for a document that a metric of the cell could never score, before anything is
    asked.
    """
    is_scored = Kind.LOGLIKELIHOOD.value in cell.kinds
    views = (
        {Kind.LOGLIKELIHOOD: [prompt.as_scored(cell.prompt, doc) for doc in docs]}
        if is_scored
        else {}
    )
    for item in cell.metrics:
        metric = make_metric(item.key, dict(item.params))
        judges = [] if item.is_added else [metric.check_doc]
        if metric.has_scorer:
            judges.append(
                make_scorer(metric.scorer, cell.extract, where=f"task {cell.name}").check_doc
            )
        for doc in views.get(metric.reads, docs):
            reason = next((r for check in judges if (r := check(doc)) is not None), None)
            if reason is not None:
                raise Fault(
                    f"Task {cell.name}, row {doc.row + 1} of its dataset (document {doc.id}): "
                    f"{reason}"
                )


def check_resumable(plan: Plan, prepared: Sequence[Prepared]) -> None:
    """Fault where another process writes a cell of the run, or its data has changed; before the
    run's plan grows.
    """
    for item in prepared:
        files = _files(plan, item)
        Lock(files.predictions.lock_file).release()
        stored = doc_store.metadata(files)
        known = {"dataset": stored["dataset"]} if "dataset" in stored else {}
        lines = _changes(item.cell, known, {"dataset": item.digest}) if item.failure is None else []
        if lines:
            raise Fault(
                f"Task {item.cell.name}: the stored rows were made of other content "
                f"({'; '.join(lines)}). Rows of the two do not mix: start a new run without "
                "--resume."
            )


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
        backend.check_scores(all(_is_single_token(cell) for cell in cells))
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
            log_path = _files(plan, item).log_file("infer")
            with TaskLog(None if is_debug else log_path) as log:
                outcomes.append(_ask_cell(plan, item, engines, progress, log))
    return tuple(outcomes)


def _files(plan: Plan, item: Prepared) -> CellFiles:
    return Run(Path(plan.run_dir)).cell(plan.model.name, item.cell.name)


def _n_stored(plan: Plan, item: Prepared) -> int:
    """How many rows are there before the cell is asked, failures too; at most as many as are
    wanted.
    """
    return min(prediction_store.count(_files(plan, item)), len(item.keys()))


def _ask_cell(
    plan: Plan, item: Prepared, engines: Engines, progress: Progress, log: TaskLog
) -> CellOutcome:
    name = item.cell.name
    log.line(f"model {plan.model.name}, task {name}: n={item.cell.n}, {item.cell.sampling}")
    if item.failure is not None:
        log.line(item.failure)
        return CellOutcome(name, 0, 0, 0, item.failure)
    files = _files(plan, item)
    started = perf_counter()
    with Writer(files, {"ask_id": item.cell.ask_id}) as writer:
        for note in writer.notes:
            log.line(note)
            progress.note(f"{name}: {note}")
        _refuse_other_content(item, {"dataset": item.digest}, writer)
        wanted = item.keys()
        missing = writer.missing(wanted)
        log.line(f"{len(wanted)} rows wanted, {len(missing)} to ask for")
        failure = (
            _ask_missing(plan, item, engines, missing, writer, progress, log) if missing else None
        )
        lost = len(wanted) - len(writer.stored_keys() & set(wanted))
        failed = writer.failed_keys() & set(wanted)
        writer.finalize(_document_order(item, files))
    result_store.write_times(files, {"infer_s": perf_counter() - started})
    log.line(f"done: {len(wanted) - lost} rows, {len(failed)} failed, {lost} never written")
    share = _share_lost(failed, len(item.docs))
    return CellOutcome(
        name, len(wanted) - lost, len(failed), lost, failure, plan.max_error_rate, share
    )


def _share_lost(failed: Iterable[Key], n_docs: int) -> float:
    """The share of documents that a failed row of log-probabilities loses, for the kind that
    loses most.
    """
    lost = Counter(kind for _, kind in {(doc_id, kind) for doc_id, kind, _, _ in failed})
    return max((n / n_docs for kind, n in lost.items() if kind != Kind.GENERATE.value), default=0.0)


def _document_order(item: Prepared, files: CellFiles) -> list[str]:
    """The documents of this command, then those that the run holds besides, as they are stored."""
    ours = [d.id for d in item.docs]
    if not files.docs_file.exists():
        return ours
    known = set(ours)
    return ours + [s.doc.id for s in doc_store.read_docs(files) if s.doc.id not in known]


def _ask_missing(
    plan: Plan,
    item: Prepared,
    engines: Engines,
    missing: Sequence[Key],
    writer: Writer,
    progress: Progress,
    log: TaskLog,
) -> str | None:
    """Start the engine, fix the content, send the requests.

    The reason where the engine gave up, else None.
    """
    cell = item.cell
    if writer.stored_keys():
        progress.note(f"{cell.name}: {len(missing)} rows to ask for, {_loading(plan)}")
    try:
        backend = engines.warm(plan.model)
        backend.start()
        _refuse_other_content(item, {**backend.facts(), "dataset": item.digest}, writer)
        _store_docs(item, backend, writer)
        requests = requests_of(item, missing)
        n_wanted = len(item.keys())
        with closing(progress.task(cell.name, n_wanted, n_wanted - len(missing))) as handle:
            backend.run(requests, _sink(writer, handle, log))
    except TaskFailure as failure:
        log.line(str(failure))
        engines.drop(plan.model)
        return str(failure)
    return None


def requests_of(item: Prepared, keys: Sequence[Key]) -> Iterator[Request]:
    """The requests that bring these keys, in the order of the documents."""
    seed = partial(document_seed, item.cell.sampling.seed)
    return cell_requests.requests(
        item.docs, item.asked, item.cell, keys, seed, _is_single_token(item.cell)
    )


def _is_single_token(cell: Cell) -> bool:
    """Whether every metric that reads log-likelihoods wants choices of one token, and none reads
    whole texts.
    """
    metrics = [METRICS.get(m.key) for m in cell.metrics]
    return all(m.is_single_token for m in metrics if m.reads is not Kind.GENERATE)


def _sink(writer: Writer, handle: TaskProgress, log: TaskLog) -> Callable[[Reply], None]:
    def store(reply: Reply) -> None:
        writer.append(reply)
        handle.advance(reply)
        if reply.is_failure:
            log.line(
                f"{reply.doc_id} {reply.kind} {reply.index}: {reply.error_type}: "
                f"{reply.error_message}"
            )

    return store


def _refuse_other_content(item: Prepared, content: Mapping[str, str], writer: Writer) -> None:
    """Fault where stored rows came from another dataset, model or engine; else the content goes
    into the files.
    """
    cell, stored = item.cell, json.loads(writer.stored_metadata.get("content", "{}"))
    lines = _changes(cell, stored, content)
    if lines and writer.stored_keys():
        raise Fault(
            f"Task {cell.name}: the stored rows were made of other content ({'; '.join(lines)}). "
            "Rows of the two do not mix: start a new run without --resume."
        )
    stored_n = writer.stored_metadata.get("n", "")
    writer.describe(
        {
            "content": json.dumps(dict(sorted({**stored, **content}.items()))),
            "n": str(max(cell.n, int(stored_n) if stored_n.isdigit() else 0)),
            "evalrun": __version__,
        }
    )


def _changes(cell: Cell, stored: Mapping[str, str], content: Mapping[str, str]) -> list[str]:
    """One line for each entry that both know and that differs; long digests are cut."""
    names = {"dataset": f"dataset {cell.dataset.path}"}
    return [
        f"{names.get(key, key)}: stored {stored[key][:12]}, now {content[key][:12]}"
        for key in sorted(stored.keys() & content.keys())
        if stored[key] != content[key]
    ]


def _store_docs(item: Prepared, backend: Backend, writer: Writer) -> None:
    """Write the documents with their rendered prompts.

    Fault where a stored document has changed since.
    """
    cell, files = item.cell, writer.files
    stored = {}
    if files.docs_file.exists():
        stored = {s.doc.id: s for s in doc_store.read_docs(files)}
    first_keys = [cell_requests.keys_of(cell, doc)[0] for doc in item.docs]
    prompts = {r.doc_id: backend.render(r) for r in requests_of(item, first_keys)}
    changed = [
        d.id
        for d in item.docs
        if d.id in stored and stored[d.id].prompt not in (None, prompts[d.id])
    ]
    if changed and writer.stored_keys():
        raise Fault(
            f"Task {cell.name}: the prompts of {len(changed)} stored documents have changed "
            f"({', '.join(changed[:5])}). Rows of the two do not mix: start a new run without "
            "--resume."
        )
    metadata = {"ask_id": cell.ask_id, "dataset": item.digest}
    everything = list(item.docs) + [s.doc for i, s in stored.items() if i not in prompts]
    prompts |= {i: s.prompt for i, s in stored.items() if i not in prompts and s.prompt is not None}
    doc_store.write_docs(files, everything, prompts, metadata)
