"""The saved rows of one cell, of every request kind that its metrics read, as answers in
document order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evalrun.errors import Fault
from evalrun.planning.samples import kinds_of
from evalrun.store.cell import predictions
from evalrun.store.cell import saved_docs as doc_store
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.likelihoods import LikelihoodRow, read_likelihoods
from evalrun.tasks import prompt
from evalrun.types import Answer, Cell, Choices, Doc, Key, Kind, Lost, Plan, Roll, Samples, Status

Rows = Mapping[str, Mapping[int, LikelihoodRow]]
"""doc_id -> index -> row."""


@dataclass(frozen=True)
class Saved:
    """The documents of a cell and their answers.

    Attributes:
        views: request kind -> the documents as its metrics see them (choices as they were sent).
        answers: kind -> per document.
        statuses: kind -> per document, of its samples; log-probabilities are one sample.
        n_rows, n_failed: rows of all kinds.
        holes: keys that have no row.
        notes: for the log.
        remarks: for readers.
        is_prefix: the run holds more documents.
    """

    docs: list[Doc]
    views: dict[Kind, list[Doc]]
    answers: dict[Kind, Sequence[Answer]]
    statuses: dict[Kind, list[list[str]]]
    holes: list[Key]
    n_rows: int = 0
    n_failed: int = 0
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_prefix: bool = False

    @property
    def samples(self) -> list[Samples]:
        """The generated texts of each document; none where none were asked for."""
        return [a for a in self.answers.get(Kind.GENERATE, ()) if isinstance(a, Samples)]


def read(plan: Plan, files: CellFiles, cell: Cell, reason: str | None = None) -> Saved | None:
    """What the cell has saved; None where it was never asked.

    Faults: too few samples; in eval a request kind that the run never asked, or rows that are
    missing.
    """
    is_eval = plan.mode == "eval"
    if not files.docs_file.exists():
        if is_eval:
            raise Fault(_no_rows(files))
        return None
    kinds = kinds_of(cell.metrics)
    every = [s.doc for s in doc_store.read_docs(files)]
    docs = every[: cell.limit]
    has_rows = files.predictions.file.exists() or files.predictions.shards()
    answers = predictions.read_answers(files) if has_rows else None
    needed = max(m.n for m in cell.metrics)
    stored_n = _stored_n(answers, cell.n)
    if needed > stored_n and not (is_eval and Kind.GENERATE.value in _never(kinds, cell)):
        raise Fault(_too_few(files, cell, needed, stored_n))
    saved = Saved(docs, {}, {}, {}, [], notes=_notes_of(answers), is_prefix=len(docs) < len(every))
    if Kind.GENERATE.value in kinds:
        saved = _with_samples(saved, answers.by_doc if answers is not None else {}, cell.n)
    if Kind.LOGLIKELIHOOD.value in kinds:
        bare = Kind.UNCONDITIONED.value in kinds
        saved = _with_choices(
            saved, cell, *(read_likelihoods(files, k.value) for k in _SCORED[: 1 + bare])
        )
    if Kind.ROLLING.value in kinds:
        saved = _with_rolls(saved, read_likelihoods(files, Kind.ROLLING.value))
    if saved.holes and is_eval:
        if never := _never(kinds, cell):
            raise Fault(_never_asked(files, cell, never))
        raise Fault(
            f"{files.run}: {hole_text(cell, saved, reason)}. --resume asks for the missing rows."
        )
    if answers is not None and set(kinds) - {Kind.GENERATE.value}:
        saved = replace(saved, remarks=(*saved.remarks, *_engine(answers.metadata)))
    return saved


def _never(kinds: Sequence[str], cell: Cell) -> list[str]:
    """The kinds that the run never asked."""
    return [kind for kind in kinds if kind not in cell.kinds]


_SCORED = (Kind.LOGLIKELIHOOD, Kind.UNCONDITIONED)


def _with_samples(
    saved: Saved, by_doc: Mapping[str, Sequence[tuple[int, str | None, str]]], n: int
) -> Saved:
    """Texts per document, in index order, and their states."""
    samples, statuses, holes = [], [], []
    for doc in saved.docs:
        rows = [row for row in by_doc.get(doc.id, ()) if row[0] < n]
        if len(rows) < n:
            present = {row[0] for row in rows}
            holes += [(doc.id, Kind.GENERATE.value, i, 0) for i in range(n) if i not in present]
        states = [row[2] for row in rows]
        samples.append(
            Samples(tuple(row[1] for row in rows), tuple(Status(s).is_failure for s in states))
        )
        statuses.append(states)
    flat = [Status(s).is_failure for row in statuses for s in row]
    return _added(saved, Kind.GENERATE, saved.docs, samples, statuses, holes, len(flat), sum(flat))


def _with_choices(saved: Saved, cell: Cell, rows: Rows, bare: Rows | None = None) -> Saved:
    """How likely each choice is, per document; lost where a row of it failed."""
    views = [prompt.as_scored(cell.prompt, doc) for doc in saved.docs]
    answers: list[Answer] = []
    holes: list[Key] = []
    used: list[LikelihoodRow] = []
    for doc in views:
        found: list[list[LikelihoodRow]] = []
        for kind, table in zip(_SCORED, (rows, bare), strict=True):
            if table is not None:
                mine = table.get(doc.id, {})
                holes += [
                    (doc.id, kind.value, i, 0) for i in range(len(doc.choices)) if i not in mine
                ]
                found.append([mine[i] for i in range(len(doc.choices)) if i in mine])
        used += [row for part in found for row in part]
        answers.append(_choices(found, len(doc.choices)))
    n_failed = sum(Status(row.status).is_failure for row in used)
    saved = replace(saved, remarks=(*saved.remarks, *_remarks(cell, views, rows)))
    states = [[(Status.ERROR if isinstance(a, Lost) else Status.OK).value] for a in answers]
    return _added(saved, Kind.LOGLIKELIHOOD, views, answers, states, holes, len(used), n_failed)


def _choices(found: Sequence[Sequence[LikelihoodRow]], n: int) -> Answer:
    """The answer of one document: conditioned rows, then those without the context where they
    are read.
    """
    first, *rest = found
    if len(first) < n or any(row.logprob is None for row in first):
        return Lost()
    bare = (
        rest[0]
        if rest and len(rest[0]) == n and all(row.logprob is not None for row in rest[0])
        else None
    )
    lengths = tuple(row.n_tokens for row in first)
    greedy = tuple(row.is_greedy for row in first)
    return Choices(
        logprobs=tuple(float(row.logprob or 0.0) for row in first),
        unconditioned=None if bare is None else tuple(float(row.logprob or 0.0) for row in bare),
        n_tokens=None if None in lengths else tuple(n for n in lengths if n is not None),
        is_greedy=None if None in greedy else tuple(bool(g) for g in greedy),
    )


def _with_rolls(saved: Saved, rows: Rows) -> Saved:
    """How likely each document's text is.

    Words and bytes are counted on the document's own query.
    """
    found = [rows.get(doc.id, {}).get(0) for doc in saved.docs]
    holes = [
        (doc.id, Kind.ROLLING.value, 0, 0)
        for doc, row in zip(saved.docs, found, strict=True)
        if row is None
    ]
    answers = [
        Lost() if row is None or row.logprob is None else Roll(doc.query, row.logprob, row.n_tokens)
        for doc, row in zip(saved.docs, found, strict=True)
    ]
    states = [[(Status.ERROR if isinstance(a, Lost) else Status.OK).value] for a in answers]
    n_failed = sum(row is not None and Status(row.status).is_failure for row in found)
    n_rows = sum(row is not None for row in found)
    return _added(saved, Kind.ROLLING, saved.docs, answers, states, holes, n_rows, n_failed)


def _added(
    saved: Saved,
    kind: Kind,
    docs: list[Doc],
    answers: Sequence[Answer],
    statuses: list[list[str]],
    holes: Sequence[Key],
    n_rows: int,
    n_failed: int,
) -> Saved:
    return replace(
        saved,
        views={**saved.views, kind: docs},
        answers={**saved.answers, kind: answers},
        statuses={**saved.statuses, kind: statuses},
        holes=[*saved.holes, *holes],
        n_rows=saved.n_rows + n_rows,
        n_failed=saved.n_failed + n_failed,
    )


def _remarks(cell: Cell, docs: Sequence[Doc], rows: Rows) -> list[str]:
    """How many documents had a token across the border, and how many a context that was cut."""
    said = [
        [json.loads(row.extra) for row in rows.get(doc.id, {}).values() if row.extra]
        for doc in docs
    ]
    boundary = dict(cell.asked).get("model.token_boundary", "joint")
    spanning = sum(any(extra.get("spanning") for extra in each) for each in said)
    cut = sum(any(extra.get("cut_tokens") for extra in each) for each in said)
    border = f"a token that spans context and continuation (model.token_boundary={boundary})"
    lines = [f"{spanning} of {len(docs)} documents have {border}"] if spanning else []
    return lines + (
        [f"{cut} of {len(docs)} documents were cut from the left to the model's limit"]
        if cut
        else []
    )


def _engine(metadata: Mapping[str, str]) -> list[str]:
    """In which number format log-probabilities were made: those of different formats are not
    comparable.
    """
    content = json.loads(metadata.get("content", "{}"))
    if not content.get("dtype"):
        return []
    return [
        f"log-probabilities were made in {content['dtype']} "
        f"({content.get('engine', 'an unnamed engine')})"
    ]


def _notes_of(answers: predictions.Answers | None) -> tuple[str, ...]:
    if answers is None:
        return ()
    notes = [f"{answers.n_duplicates} rows were stored twice; the last of each key counts"] * bool(
        answers.n_duplicates
    )
    notes += [f"{answers.n_dropped_tails} files end in a row cut short, which is left out"] * bool(
        answers.n_dropped_tails
    )
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


def _stored_n(answers: predictions.Answers | None, planned: int) -> int:
    stored = answers.metadata.get("n") if answers is not None else None
    return max(int(stored), planned) if stored is not None and stored.isdigit() else planned


def _too_few(files: CellFiles, cell: Cell, needed: int, stored: int) -> str:
    names = ", ".join(m.key for m in cell.metrics if m.n == needed)
    return (
        f"Task {cell.name}: {names} needs n={needed} samples per document, {files.run} holds "
        f"n={stored}. Ask for a smaller n, or infer the missing samples: --resume "
        f"num_return_sequences={needed}."
    )


_MISSING = {
    Kind.GENERATE.value: "sample",
    Kind.LOGLIKELIHOOD.value: "choice",
    Kind.UNCONDITIONED.value: "unconditioned choice",
    Kind.ROLLING.value: "text",
}


def hole_text(cell: Cell, saved: Saved, reason: str | None) -> str:
    """What is missing, and why, in one sentence."""
    wanted = saved.n_rows + len(saved.holes)
    first = ", ".join(f"{d} {_MISSING[kind]} {i}" for d, kind, i, _ in saved.holes[:5])
    why = f" ({reason.rstrip('.')})" if reason else ""
    of = f"{len(saved.docs)} documents x {cell.n} samples"
    if set(saved.answers) != {Kind.GENERATE}:
        of = f"{len(saved.docs)} documents, {' and '.join(kinds_of(cell.metrics))}"
    return (
        f"task {cell.name} wants {wanted} rows ({of}) and holds {saved.n_rows}{why}, so nothing is "
        f"scored; the first of {len(saved.holes)} missing: {first}"
    )
