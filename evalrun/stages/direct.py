"""Score documents that are at hand, without a run: the same path as the score stage, with
nothing stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np

from evalrun.errors import Fault
from evalrun.grammar import name_of_call
from evalrun.interop import documents
from evalrun.interop.documents import Given
from evalrun.metrics import check_ready, foreign, make_metric, make_scorer, naming, samples_needed
from evalrun.metrics.base import Matrix, Metric, Output, Scorer
from evalrun.metrics.create import parameters
from evalrun.planning import own_metrics
from evalrun.stages.scoring import gold_inside
from evalrun.stages.scoring.estimates import ScoredMetric, estimates_of, matrix_of, statistics_of
from evalrun.stages.scoring.sample_verdicts import judge
from evalrun.types import Answer, Estimate, MetricPlan, Samples, Status, Verdict

Corpus = Sequence[Mapping[str, Any]] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scores(Mapping[str, Estimate]):
    """Output name -> Estimate.

    Attributes:
        per_doc: output name -> its value on each document, in order; None for a document that is
            not scored.
        ids: of the documents.
        notes: what was counted or could not be judged.
    """

    estimates: Mapping[str, Estimate]
    per_doc: Mapping[str, list[float | None]]
    ids: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)


def score(metric: str | PathLike[str] | Metric, docs: Corpus, **params: Any) -> Scores:
    """The numbers of one metric over documents: {output name: Estimate}, with the values per
    document.

    Args:
        metric: a name or alias, also with parameters (`pass@k:k=2&n=5`), a Metric, or the path of a
            user's own .py file.
        docs: mappings as in evalrun.interop.documents; one mapping alone; or {"samples": mappings,
            KEY: value for all}.
        params: parameters of the metric. An open n is each document's own number of answers.

    Raises evalrun.errors.Fault where the metric, a parameter or a document is not usable, naming
    the document.
    """
    rows, shared = _rows(docs)
    return score_rows(metric, rows, params, shared, [f"Document {i + 1}" for i in range(len(rows))])


def score_rows(
    metric: str | PathLike[str] | Metric,
    rows: Sequence[Mapping[str, Any]],
    params: Mapping[str, Any],
    shared: Mapping[str, Any],
    places: Sequence[str],
) -> Scores:
    """As `score`.

    Args:
        shared: keys that hold for every document.
        places: where each stands, for messages.
    """
    chosen = _metric(metric, params)
    if not rows:
        raise Fault(f"Metric {chosen.name}: there are no documents to score.")
    given = [
        documents.read(row, i, where, shared)
        for i, (row, where) in enumerate(zip(rows, places, strict=True))
    ]
    has_texts = any(each.verdicts is None for each in given)
    scorer = make_scorer(chosen.scorer, None) if chosen.has_scorer and has_texts else None
    answers = [_answer(chosen, *each) for each in zip(given, rows, places, strict=True)]
    _check(chosen, scorer, given)
    verdicts, notes = _verdicts(scorer, given)
    plan = MetricPlan(
        key=chosen.name,
        params=parameters(chosen),
        scorer=None if scorer is None else scorer.signature,
        n=getattr(chosen, "n", None) or max(_count(answer) for answer in answers),
        given=tuple(params),
    )
    scored = statistics_of(chosen, plan, [each.doc for each in given], answers, verdicts)
    if scored.notes:
        raise Fault(f"{scored.notes[0][0].upper()}{scored.notes[0][1:]}.")
    return _scores(scored, notes)


def _metric(metric: str | PathLike[str] | Metric, params: Mapping[str, Any]) -> Metric:
    if isinstance(metric, Metric):
        if params:
            raise Fault(
                f"Metric {metric.name} has its parameters already; got {', '.join(params)} beside "
                "it."
            )
        check_ready(metric)
        return metric
    name = fspath(metric)
    written: dict[str, Any] = {}
    if name.endswith(".py"):
        name = own_metrics.load(name).metric
    else:
        foreign.register_entry_point(name.partition(":")[0].strip())
        name, written = naming.parse_metric(name)
    for scorer in (written.get("scorer"), params.get("scorer")):
        if isinstance(scorer, str):
            foreign.register_entry_point(name_of_call(scorer))
    for twice in written.keys() & params.keys():
        raise Fault(f"Metric {name}: {twice} is given twice, in the name and beside it.")
    made = make_metric(name, {**written, **params})
    check_ready(made)
    return made


def _rows(docs: Corpus) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    if not isinstance(docs, Mapping):
        return list(docs), {}
    if "samples" not in docs:
        return [docs], {}
    return list(docs["samples"]), {key: value for key, value in docs.items() if key != "samples"}


def _answer(metric: Metric, given: Given, row: Mapping[str, Any], where: str) -> Answer:
    """The answers that the metric reads. Fault where there are none, or fewer than it needs."""
    answer = given.answer(metric.reads)
    if answer is None:
        raise documents.missing(metric.reads, row, where)
    if given.verdicts is not None and not metric.has_scorer:
        raise Fault(
            f"{where}: metric {metric.name} reads texts, and the document only counts n and c."
        )
    needed = samples_needed(metric) if isinstance(answer, Samples) else 1
    if _count(answer) < needed:
        raise Fault(
            f"{where}: metric {naming.write_metric(metric.name, _set(metric))} needs {needed} "
            f"answers, the document has {_count(answer)}. Nothing is filled up: give more answers, "
            "or ask for fewer."
        )
    return answer


def _set(metric: Metric) -> dict[str, Any]:
    return {
        name: value
        for name, value in parameters(metric)
        if name in ("k", "n") and value is not None
    }


def _count(answer: Answer) -> int:
    return len(answer.texts) if isinstance(answer, Samples) else 1


def _check(metric: Metric, scorer: Scorer | None, given: Sequence[Given]) -> None:
    for each in given:
        reason = metric.check_doc(each.doc)
        if reason is None and scorer is not None and each.verdicts is None:
            reason = scorer.check_doc(each.doc)
        if reason is not None:
            where = (
                ""
                if each.doc.gold
                else " Golds are read from golds (texts) or gold_index (places among the choices)."
            )
            raise Fault(f"Metric {metric.name}: {reason}.{where}")


def _verdicts(
    scorer: Scorer | None, given: Sequence[Given]
) -> tuple[list[tuple[Verdict, ...]], tuple[str, ...]]:
    """Per document, what it counts itself or the scorer's verdicts; the scorer's faults."""
    if scorer is None:
        return [each.verdicts or () for each in given], ()
    open_ones = [each for each in given if each.verdicts is None]
    samples = [each.samples for each in open_ones if each.samples is not None]
    judged = judge(scorer, [each.doc for each in open_ones], samples)
    found = iter(judged.rows)
    return [next(found) if each.verdicts is None else each.verdicts for each in given], judged.notes


def _scores(scored: ScoredMetric, notes: Sequence[str]) -> Scores:
    statuses = [[Status.OK.value] * _count(answer) for answer in scored.answers]
    outputs = scored.metric.outputs()
    estimates = estimates_of(scored, None, statuses)
    matrix = matrix_of(scored.metric, [row for row in scored.rows if row is not None])
    more = scored.metric.notes(matrix) if scored.n_scored else ()
    return Scores(
        estimates={output.name: e for output, e in zip(outputs, estimates, strict=True)},
        per_doc={output.name: _placed(scored, _values(output, matrix)) for output in outputs},
        ids=tuple(doc.id for doc in scored.docs),
        notes=(*notes, *gold_inside.note_of([scored]), *more),
    )


def _placed(scored: ScoredMetric, values: Sequence[float]) -> list[float | None]:
    """One value per document of the corpus, None where it is not scored."""
    found = iter(values)
    return [None if row is None else next(found) for row in scored.rows]


def _values(output: Output, matrix: Matrix) -> list[float]:
    """The output on each scored document alone."""
    n_docs = len(matrix[output.columns[0]])
    if output.per_doc is not None:
        return [float(value) for value in output.per_doc(matrix)]
    if output.of_sums is not None:
        return [
            float(value)
            for value in np.broadcast_to(output.of_sums(output.stacked(matrix)), n_docs)
        ]
    return [
        output.reduce({name: column[i : i + 1] for name, column in matrix.items()})
        for i in range(n_docs)
    ]
