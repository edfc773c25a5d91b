"""The saved rows of one request kind as answers, one per document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from evalrun.errors import Fault
from evalrun.store.cell.likelihoods import LikelihoodRow
from evalrun.strict_json import Misfit, from_object
from evalrun.tasks import prompt
from evalrun.types import (
    Answer,
    Cell,
    Choices,
    Doc,
    Key,
    Kind,
    Lost,
    Roll,
    Samples,
    Status,
)

SCORED = (Kind.LOGLIKELIHOOD, Kind.UNCONDITIONED)
_SHOWN = 5

LikelihoodRows = Mapping[str, Mapping[int, LikelihoodRow]]
"""doc_id -> index -> row."""


@dataclass(frozen=True, slots=True)
class Holes:
    """Keys that have no row. Only the first are listed: a plan may ask for any number of samples.

    Attributes:
        n: how many there are.
        first: up to five of them, in document order.
    """

    n: int = 0
    first: tuple[Key, ...] = ()

    def __add__(self, other: Holes) -> Holes:
        return Holes(self.n + other.n, (*self.first, *other.first)[:_SHOWN])


@dataclass(frozen=True)
class KindAnswers:
    """The answers of one request kind.

    Attributes:
        docs: the documents as the metrics of this kind see them (choices as they were sent).
        answers: per document.
        statuses: per document, of its samples; log-probabilities are one sample.
        holes: keys that have no row.
        n_rows: rows that were read.
        n_failed: those of them whose request failed.
        remarks: for readers of the numbers.
    """

    docs: list[Doc]
    answers: Sequence[Answer]
    statuses: list[list[str]]
    holes: Holes
    n_rows: int
    n_failed: int
    remarks: tuple[str, ...] = ()


def sampled(
    docs: list[Doc], by_doc: Mapping[str, Sequence[tuple[int, str | None, str]]], n: int
) -> KindAnswers:
    """Texts per document, in index order.

    Args:
        docs: of the cell.
        by_doc: document id -> (index, text, status) by index.
        n: samples per document; rows beyond it are left out.
    """
    samples, statuses, holes = [], [], Holes()
    for doc in docs:
        rows = [row for row in by_doc.get(doc.id, ()) if row[0] < n]
        holes += _holes(doc, Kind.GENERATE, n, {row[0] for row in rows})
        states = [row[2] for row in rows]
        samples.append(Samples(tuple(row[1] for row in rows), tuple(map(_is_failure, states))))
        statuses.append(states)
    flat = [_is_failure(status) for row in statuses for status in row]
    return KindAnswers(docs, samples, statuses, holes, len(flat), sum(flat))


def chosen(
    docs: list[Doc], cell: Cell, rows: LikelihoodRows, bare: LikelihoodRows | None = None
) -> KindAnswers:
    """How likely each choice is, per document; no scores where a row of it failed.

    Args:
        docs: of the cell.
        cell: how choices are written.
        rows: of the choices after the document's context.
        bare: of the choices without it; None where no metric reads them.
    """
    views = [prompt.as_scored(cell.prompt, doc) for doc in docs]
    tables = [(SCORED[0], rows)] + ([] if bare is None else [(SCORED[1], bare)])
    answers: list[Answer] = []
    used: list[LikelihoodRow] = []
    holes = Holes()
    for doc in views:
        n = len(doc.choices)
        found: list[list[LikelihoodRow]] = []
        for kind, table in tables:
            mine = table.get(doc.id, {})
            holes += _holes(doc, kind, n, mine)
            found.append([mine[i] for i in range(n) if i in mine])
        used += [row for part in found for row in part]
        answers.append(_choices(found, n))
    n_failed = sum(_is_failure(row.status) for row in used)
    remarks = tuple(_remarks(cell, views, rows))
    return KindAnswers(views, answers, _states(answers), holes, len(used), n_failed, remarks)


def rolled(docs: list[Doc], rows: LikelihoodRows) -> KindAnswers:
    """How likely each document's text is.

    Words and bytes are counted on the document's own query.
    """
    holes = Holes()
    answers: list[Answer] = []
    used: list[LikelihoodRow] = []
    for doc in docs:
        row = rows.get(doc.id, {}).get(0)
        if row is None:
            holes += _holes(doc, Kind.ROLLING, 1, ())
        else:
            used.append(row)
        if row is None or row.logprob is None:
            answers.append(Lost())
        else:
            answers.append(Roll(doc.query, row.logprob, row.n_tokens))
    n_failed = sum(_is_failure(row.status) for row in used)
    return KindAnswers(docs, answers, _states(answers), holes, len(used), n_failed)


def _is_failure(status: str) -> bool:
    return Status(status).is_failure


def _holes(doc: Doc, kind: Kind, n: int, present: Collection[int]) -> Holes:
    """The keys of one document that have no row. `n` may be far more than there are rows."""
    n_missing = n - sum(0 <= i < n for i in present)
    missing = (i for i in range(n) if i not in present) if n_missing else iter(())
    return Holes(n_missing, tuple((doc.id, kind.value, i, 0) for i in islice(missing, _SHOWN)))


def _states(answers: Sequence[Answer]) -> list[list[str]]:
    is_missing = [isinstance(answer, Lost) for answer in answers]
    return [[(Status.ERROR if missing else Status.OK).value] for missing in is_missing]


def _choices(found: Sequence[Sequence[LikelihoodRow]], n: int) -> Answer:
    """The answer of one document: conditioned rows, then those without the context where they
    are read.
    """
    conditioned = _logprobs(found[0], n)
    if conditioned is None:
        return Lost()
    lengths = [row.n_tokens for row in found[0] if row.n_tokens is not None]
    greedy = [row.is_greedy for row in found[0] if row.is_greedy is not None]
    return Choices(
        logprobs=conditioned,
        unconditioned=_logprobs(found[1], n) if len(found) > 1 else None,
        # Given for every choice, or not at all: a metric never mixes what is known and what is not.
        n_tokens=tuple(lengths) if len(lengths) == n else None,
        is_greedy=tuple(greedy) if len(greedy) == n else None,
    )


def _logprobs(rows: Sequence[LikelihoodRow], n: int) -> tuple[float, ...] | None:
    """The log-probability of every choice; None where one of the `n` is missing."""
    found = [float(row.logprob) for row in rows if row.logprob is not None]
    return tuple(found) if len(found) == n else None


def _remarks(cell: Cell, docs: Sequence[Doc], rows: LikelihoodRows) -> list[str]:
    """How many documents had a token across the border, and how many a context that was cut."""
    extras = [_extras(doc, rows.get(doc.id, {}).values()) for doc in docs]
    boundary = dict(cell.asked).get("model.token_boundary", "joint")
    spanning = sum(any(extra.get("spanning") for extra in each) for each in extras)
    cut = sum(any(extra.get("cut_tokens") for extra in each) for each in extras)
    border = f"a token that spans context and continuation (model.token_boundary={boundary})"
    lines = [f"{spanning} of {len(docs)} documents have {border}"] if spanning else []
    return lines + (
        [f"{cut} of {len(docs)} documents were cut from the left to the model's limit"]
        if cut
        else []
    )


def _extras(doc: Doc, rows: Collection[LikelihoodRow]) -> list[dict[str, object]]:
    try:
        return [from_object(row.extra) for row in rows if row.extra]
    except Misfit as misfit:
        raise Fault(
            f"A saved row of document {doc.id} has no sound JSON in its column extra: {misfit}."
        ) from misfit
