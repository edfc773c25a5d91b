"""The cells of a plan with their documents and prompts, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from evalrun.backends.base import document_seed
from evalrun.errors import Fault, TaskFailure
from evalrun.metrics import METRICS, make_metric, make_scorer
from evalrun.tasks import cell_requests, fewshot, prompt, rows, template_checks
from evalrun.tasks.docs import make_docs
from evalrun.tasks.prompt import Asked
from evalrun.types import Cell, Doc, Key, Kind, MetricPlan, Plan, Request


@dataclass(frozen=True)
class Prepared:
    """A cell with its documents and prompts; or why it has none (a hub that cannot be reached).

    Attributes:
        cell: of the plan.
        docs: its documents, in order.
        asked: document id -> what is asked of it.
        digest: of the dataset's rows.
        failure: why there are no documents; None where there are.
    """

    cell: Cell
    docs: tuple[Doc, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)
    digest: str = ""
    failure: str | None = None

    def keys(self) -> list[Key]:
        """Every key that the plan asks for, in document order."""
        return [key for doc in self.docs for key in cell_requests.keys_of(self.cell, doc)]


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
    views: dict[Kind, Sequence[Doc]] = {}
    if Kind.LOGLIKELIHOOD in cell.kinds:
        views[Kind.LOGLIKELIHOOD] = [prompt.as_scored(cell.prompt, doc) for doc in docs]
    for item in cell.metrics:
        reads, checks = _checks(item, cell)
        for doc in views.get(reads, docs):
            reason = next((r for check in checks if (r := check(doc)) is not None), None)
            if reason is not None:
                raise Fault(
                    f"Task {cell.name}, row {doc.row + 1} of its dataset (document {doc.id}): "
                    f"{reason}"
                )


def _checks(item: MetricPlan, cell: Cell) -> tuple[Kind, list[Callable[[Doc], str | None]]]:
    """The request kind that a metric reads, and what must hold of a document that it scores."""
    metric = make_metric(item.key, dict(item.params))
    checks: list[Callable[[Doc], str | None]] = []
    if not item.is_added:
        checks.append(metric.check_doc)
    if metric.has_scorer:
        scorer = make_scorer(metric.scorer, cell.extract, where=f"task {cell.name}")
        checks.append(scorer.check_doc)
    return metric.reads, checks


def requests_of(item: Prepared, keys: Sequence[Key]) -> Iterator[Request]:
    """The requests that bring these keys, in the order of the documents."""
    seed = partial(document_seed, item.cell.sampling.seed)
    return cell_requests.requests(
        item.docs, item.asked, item.cell, keys, seed, is_single_token(item.cell)
    )


def is_single_token(cell: Cell) -> bool:
    """Whether every metric that reads log-likelihoods wants choices of one token, and none reads
    whole texts.
    """
    metrics = [METRICS.get(m.key) for m in cell.metrics]
    return all(m.is_single_token for m in metrics if m.reads is not Kind.GENERATE)
