"""--dry-run: the plan, how many requests it makes, one rendered prompt.

Sends nothing, writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from evalrun import backends
from evalrun.config import Mode
from evalrun.errors import EvalrunError, visible
from evalrun.runs.execute import JobResult, RunJob, deployed, planned
from evalrun.stages import infer, score
from evalrun.tasks import cell_requests
from evalrun.types import Cell, Generate, Kind, Loglikelihood, MetricPlan, Plan, Request, Rolling

MOST_SHOWN = 1000  # characters of a continuation


def run(job: RunJob) -> JobResult:
    """Print what the same command without --dry-run would ask."""
    checked, plan = deployed(planned(job))
    backends.check(plan.model)
    if job.config.mode is not Mode.infer:
        score.check_packages(plan)
    prepared = infer.prepare(plan)
    total = sum(len(item.keys()) for item in prepared)
    print(
        f"model {plan.model.name}: backend {plan.model.backend}, path "
        f"{plan.model.path or 'asked of the server'}"
    )
    if checked is not None:
        print("\nserver, started by the run:", *checked.steps(), sep="\n  ")
    for item in prepared:
        print(_cell_text(item.cell, len(item.docs), item.failure, plan.model.backend))
    print(f"\nrequests: {total} answers in all. Nothing was sent or written.")
    first = next((item for item in prepared if item.docs), None)
    for text in _first_requests(plan, first) if first is not None else ():
        print(text)
    return JobResult(plan, tuple("failed" if p.failure else "complete" for p in prepared))


def _first_requests(plan: Plan, item: infer.Prepared) -> Iterator[str]:
    """The requests of the first document: one of each kind, and every further choice."""
    doc, has_own = item.docs[0], item.cell.prompt.context is not None
    for request in infer.requests_of(item, cell_requests.keys_of(item.cell, doc)):
        if request.keys()[0][2] == 0:
            yield _request_text(plan, item.cell, request)
        elif isinstance(request, Loglikelihood) and request.is_conditioned:
            # A context of its own for each choice is shown with it.
            text = _request_text(plan, item.cell, request) if has_own else None
            yield text or _continuation_text(request)


def _cell_text(cell: Cell, n_docs: int, failure: str | None, backend: str) -> str:
    origins = dict(cell.origins)
    sampling = cell.sampling
    lines = [
        "",
        f"task {cell.name}, version {cell.version}, address {cell.ask_id}",
        f"  dataset      {cell.dataset.path}"
        + (f" [{cell.dataset.split}]" if cell.dataset.split else ""),
        f"  documents    {n_docs}" + (f" (limit {cell.limit})" if cell.limit is not None else ""),
        f"  few-shot     {cell.fewshot.n}",
        f"  requests     {', '.join(cell.kinds)}",
    ]
    if Kind.GENERATE.value in cell.kinds:  # nothing is drawn otherwise, and no text is judged
        lines += [
            f"  n            {cell.n}  ({origins.get('n', 'default')})",
            f"  temperature  {sampling.temperature:g}  ({origins.get('temperature', 'default')})",
            f"  max_tokens   {sampling.max_tokens}  ({origins.get('max_tokens', 'task')})",
            f"  top_p        {sampling.top_p:g}; {_others(cell, backend)}",
            f"  scorer       {cell.extract or 'exact text'}",
        ]
    lines += [f"  metric       {_metric_text(m)}" for m in cell.metrics]
    if failure is not None:
        lines.append(f"  FAILED       {visible(failure)}")
    return "\n".join(lines)


def _others(cell: Cell, backend: str) -> str:
    """What is not set is not sent: the engine, or the server, has a default of its own."""
    is_server = backends.facts_of(backend).is_server
    default = "server default" if is_server else "engine default"
    named = [(k, getattr(cell.sampling, k)) for k in ("top_k", "min_p", "repetition_penalty")]
    return ", ".join(f"{k} {default}" if v is None else f"{k} {v:g}" for k, v in named)


def _metric_text(metric: MetricPlan) -> str:
    params = ", ".join(f"{k}={v}" for k, v in metric.params if v is not None)
    origins = ", ".join(f"{k}: {v}" for k, v in metric.origins)
    return f"{metric.key}({params})" + (f"  [{origins}]" if origins else "")


def _request_text(plan: Plan, cell: Cell, request: Request) -> str:
    """The first request of a kind: prompt, context with the first continuation, or text."""
    doc = f"document {request.doc_id} (task {cell.name})"
    match request:
        case Generate():
            return f"\nprompt of {doc}:\n{_prompt_text(plan, request)}"
        case Loglikelihood():
            of = "context" if request.is_conditioned else "context without the question"
            shown = (
                _prompt_text(plan, request)
                if request.messages
                else "(none: the first token stands after BOS)"
            )
            return f"\n{of} of {doc}:\n{shown}\n{_continuation_text(request)}"
        case Rolling():
            return f"\ntext of {doc}:\n{_prompt_text(plan, request)}"
        case _:
            assert_never(request)


def _continuation_text(request: Loglikelihood) -> str:
    text = request.continuation
    more = f"... ({len(text)} characters)" if len(text) > MOST_SHOWN else ""
    return f"continuation {request.index}: {visible(repr(text[:MOST_SHOWN]))}{more}"


def _prompt_text(plan: Plan, request: Request) -> str:
    backend = backends.create(plan.model)
    try:
        return visible(backend.render(request))
    except EvalrunError as error:
        if isinstance(request, Rolling):
            return visible(request.text)
        lines = [f"[{m.role}]\n{visible(m.content)}" for m in request.messages]
        return "\n".join([*lines, f"(the chat template is not applied here: {error})"])
    finally:
        backend.close()
