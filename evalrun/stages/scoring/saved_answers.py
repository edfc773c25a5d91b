"""The saved rows of one cell, of every request kind that its metrics read, as answers in
document order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evalrun.errors import Fault
from evalrun.planning.samples import kinds_of
from evalrun.stages.scoring.kind_answers import SCORED, Holes, KindAnswers, chosen, rolled, sampled
from evalrun.store.cell import predictions, saved_docs
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.likelihoods import read_likelihoods
from evalrun.types import Cell, Doc, Kind, Plan, Samples


@dataclass(frozen=True)
class SavedAnswers:
    """The documents of a cell and their answers.

    Attributes:
        docs: in stored order.
        by_kind: request kind -> its answers; of log-likelihoods with and without context one entry.
        notes: for the log.
        remarks: for readers.
        is_prefix: the run holds more documents.
    """

    docs: list[Doc]
    by_kind: dict[Kind, KindAnswers] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_prefix: bool = False

    @property
    def samples(self) -> list[Samples]:
        """The generated texts of each document; none where none were asked for."""
        found = self.by_kind.get(Kind.GENERATE)
        return [a for a in found.answers if isinstance(a, Samples)] if found else []

    @property
    def statuses(self) -> list[str]:
        """How each sample of every kind ended."""
        return [s for kind in self.by_kind.values() for states in kind.statuses for s in states]

    @property
    def holes(self) -> Holes:
        """Keys that have no row, of all kinds."""
        return sum((kind.holes for kind in self.by_kind.values()), Holes())

    @property
    def n_rows(self) -> int:
        """Rows of all kinds."""
        return sum(kind.n_rows for kind in self.by_kind.values())

    @property
    def n_failed(self) -> int:
        """Rows of all kinds whose request failed."""
        return sum(kind.n_failed for kind in self.by_kind.values())


def read(
    plan: Plan, files: CellFiles, cell: Cell, reason: str | None = None
) -> SavedAnswers | None:
    """What the cell has saved; None where it was never asked.

    Faults: too few samples; in eval a request kind that the run never asked, or rows that are
    missing.

    Args:
        plan: its mode says whether only scoring is wanted.
        files: of the cell.
        cell: its metrics say which kinds are read.
        reason: why rows may be missing, for the error.
    """
    is_eval = plan.mode == "eval"
    if not files.docs_file.exists():
        if is_eval:
            raise Fault(_no_rows(files))
        return None
    every = [stored.doc for stored in saved_docs.read_docs(files)]
    docs = every[: cell.limit]
    answers = _answers(files)
    never = [kind for kind in kinds_of(cell.metrics) if kind not in cell.kinds] if is_eval else []
    if Kind.GENERATE not in never:  # else it is more to the point to say that none were asked for
        _refuse_too_few(files, cell, answers)
    by_kind = _by_kind(files, cell, docs, answers)
    is_prefix = len(docs) < len(every)
    saved = SavedAnswers(docs, by_kind, _notes(answers), is_prefix=is_prefix)
    if saved.holes.n and is_eval:
        if never:
            raise Fault(_never_asked(files, cell, never))
        text = hole_text(cell, saved, reason)
        raise Fault(f"{files.run}: {text}. --resume asks for the missing rows.")
    remarks = [line for kind in saved.by_kind.values() for line in kind.remarks]
    return replace(saved, remarks=(*remarks, *_engine(files, cell, answers)))


def _answers(files: CellFiles) -> predictions.Answers | None:
    """The generated texts; None where the cell has no rows at all."""
    has_rows = files.predictions.file.exists() or files.predictions.shards()
    return predictions.read_answers(files) if has_rows else None


def _by_kind(
    files: CellFiles, cell: Cell, docs: list[Doc], answers: predictions.Answers | None
) -> dict[Kind, KindAnswers]:
    """The answers of every kind that the cell's metrics read."""
    kinds = kinds_of(cell.metrics)
    found: dict[Kind, KindAnswers] = {}
    if Kind.GENERATE in kinds:
        by_doc = answers.by_doc if answers is not None else {}
        found[Kind.GENERATE] = sampled(docs, by_doc, cell.n)
    if Kind.LOGLIKELIHOOD in kinds:
        read_kinds = SCORED if Kind.UNCONDITIONED in kinds else SCORED[:1]
        tables = [read_likelihoods(files, kind.value) for kind in read_kinds]
        found[Kind.LOGLIKELIHOOD] = chosen(docs, cell, *tables)
    if Kind.ROLLING in kinds:
        found[Kind.ROLLING] = rolled(docs, read_likelihoods(files, Kind.ROLLING.value))
    return found


def _refuse_too_few(files: CellFiles, cell: Cell, answers: predictions.Answers | None) -> None:
    """Fault where a metric needs more samples than the run was ever asked for."""
    needed = max(metric.n for metric in cell.metrics)
    stored_n = predictions.n_of(answers.metadata) if answers is not None else None
    stored = max(stored_n or 0, cell.n)
    if needed > stored:
        names = ", ".join(m.key for m in cell.metrics if m.n == needed)
        raise Fault(
            f"Task {cell.name}: {names} needs n={needed} samples per document, {files.run} holds "
            f"n={stored}. Ask for a smaller n, or infer the missing samples: --resume "
            f"num_return_sequences={needed}."
        )


def _engine(files: CellFiles, cell: Cell, answers: predictions.Answers | None) -> list[str]:
    """In which number format log-probabilities were made: those of different formats are not
    comparable.
    """
    if answers is None or not set(kinds_of(cell.metrics)) - {Kind.GENERATE}:
        return []
    content = predictions.content_of(files, answers.metadata)
    if not content.get("dtype"):
        return []
    return [
        f"log-probabilities were made in {content['dtype']} "
        f"({content.get('engine', 'an unnamed engine')})"
    ]


def _notes(answers: predictions.Answers | None) -> tuple[str, ...]:
    notes = []
    if answers is not None and answers.n_duplicates:
        notes.append(f"{answers.n_duplicates} rows were stored twice; the last of each key counts")
    if answers is not None and answers.n_dropped_tails:
        notes.append(f"{answers.n_dropped_tails} files end in a row cut short, which is left out")
    return tuple(notes)


def _no_rows(files: CellFiles) -> str:
    return (
        f"There are no saved predictions of model {files.model}, task {files.task}: expected "
        f"{files.predictions.file} and the documents beside it, {files.docs_file.name}. Run "
        "--mode infer first; --resume goes on with this run."
    )


def _never_asked(files: CellFiles, cell: Cell, never: Sequence[str]) -> str:
    metrics = [m.key for m in cell.metrics if set(kinds_of([m])) & {*never}]
    return (
        f"Task {cell.name}: {', '.join(metrics)} reads requests of kind {' and '.join(never)}, and "
        f"{files.run} asked only for {' and '.join(cell.kinds)}. Ask for them with --resume "
        f"metric={metrics[0]}, or leave the metric out."
    )


_MISSING = {
    Kind.GENERATE.value: "sample",
    Kind.LOGLIKELIHOOD.value: "choice",
    Kind.UNCONDITIONED.value: "unconditioned choice",
    Kind.ROLLING.value: "text",
}


def hole_text(cell: Cell, saved: SavedAnswers, reason: str | None) -> str:
    """What is missing, and why, in one sentence."""
    wanted = saved.n_rows + saved.holes.n
    first = ", ".join(f"{doc_id} {_MISSING[kind]} {i}" for doc_id, kind, i, _ in saved.holes.first)
    why = f" ({reason.rstrip('.')})" if reason else ""
    of = f"{len(saved.docs)} documents x {cell.n} samples"
    if set(saved.by_kind) != {Kind.GENERATE}:
        of = f"{len(saved.docs)} documents, {' and '.join(kinds_of(cell.metrics))}"
    return (
        f"task {cell.name} wants {wanted} rows ({of}) and holds {saved.n_rows}{why}, so nothing is "
        f"scored; the first of {saved.holes.n} missing: {first}"
    )
