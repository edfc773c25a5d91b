"""A command meets a stored plan: what is inherited, what contradicts, what grows, what is scored
anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evalrun.backends.limits import positive_int
from evalrun.config import RunConfig
from evalrun.errors import Fault, unknown
from evalrun.planning.address import differing
from evalrun.planning.plan_builder import build, metric_requests, positive_or_none
from evalrun.planning.samples import MetricRequest, SampleCounts, resolve
from evalrun.runs.stored import Stored
from evalrun.types import Cell, Kind, MetricPlan, Plan


def address_draft(config: RunConfig, typed: Sequence[str]) -> Plan:
    """What the command asks, for finding stored runs by it: n, k and metrics left out, as the
    run may decide them.
    """
    return build(
        replace(config, metrics={"exact_match": {}}, task_params={}, num_return_sequences=None),
        typed,
    )


def inherited(stored: Plan) -> dict[str, SampleCounts]:
    """What the stored run's command counts of n and k, per task: the default where this command
    says nothing.
    """
    return {
        c.task: SampleCounts(dict(c.task_params), stored.num_return_sequences, c.task, True)
        for c in stored.cells
    }


def different(draft: Plan, stored: Plan) -> list[str]:
    """Lines for every setting of the draft that differs from the stored run's, for a run that
    was named.
    """
    lines: list[str] = []
    if draft.model.name != stored.model.name:
        lines.append(f"model.name: stored {stored.model.name!r}, asked {draft.model.name!r}")
    names = {c.name: c for c in stored.cells}
    for cell in draft.cells:
        if cell.name not in names:
            lines.append(f"task: stored {', '.join(names)}, asked {cell.name}")
        else:
            lines += differing(cell.asked, names[cell.name].asked)
    return list(dict.fromkeys(lines))


def resumed(
    config: RunConfig, typed: Sequence[str], keys: Sequence[str], stored: Plan
) -> tuple[Plan, Plan]:
    """(the plan of the cells that the command asks for, the whole plan of the run as it grows by
    them).

    n and k that the command does not say, and a limit that it does not, are the stored ones. Fault
    where a run at temperature 0 would be extended to more samples, where sampling differs, or where
    fewer samples are asked for.
    """
    draft = build(config, typed, inherited(stored))
    cells = {c.name: c for c in stored.cells}
    asked = []
    for cell in draft.cells:
        old = cells[cell.name]
        _check_no_fewer(config, cell, old)
        if not {"limit", f"tasks.{cell.task}.limit"} & {*keys}:
            cell = replace(cell, limit=old.limit)
        cells[cell.name] = _grown(old, cell)
        asked.append(replace(cells[cell.name], limit=cell.limit))
    whole = replace(
        _scored_as(stored, draft, keys),
        cells=tuple(cells.values()),
        model=draft.model,
        deploy=draft.deploy,
        num_return_sequences=draft.num_return_sequences or stored.num_return_sequences,
    )
    return replace(whole, cells=tuple(asked), mode=draft.mode), whole


def _scored_as(stored: Plan, draft: Plan, keys: Sequence[str]) -> Plan:
    """The stored plan with the command's ways of showing, and its max_error_rate where it was
    typed.
    """
    rate = draft.max_error_rate if "max_error_rate" in keys else stored.max_error_rate
    return replace(stored, summary=draft.summary, max_error_rate=rate)


def _check_no_fewer(config: RunConfig, new: Cell, old: Cell) -> None:
    if (
        new.n >= old.n
        or config.first_n
        or not (config.num_return_sequences or config.task_params.get(new.task))
    ):
        return
    raise Fault(
        f"Task {old.name}: the stored run has n={old.n} samples per document, n={new.n} was asked. "
        f"Leave it out to go on with n={old.n}, say first_n=true to score the first {new.n} of "
        "each document, or start a new run without --resume."
    )


def _grown(old: Cell, new: Cell) -> Cell:
    n = max(old.n, new.n)
    if new.sampling != old.sampling and not (new.n == 1 and old.n > 1):
        where = f"The stored run of task {old.name} was drawn"
        if old.sampling.temperature == 0 and n > 1:
            raise Fault(
                f"{where} at temperature 0 (n={old.n}); {new.n} samples would be drawn at "
                f"temperature {new.sampling.temperature}. Rows of the two do not mix: start a new "
                "run without --resume."
            )
        raise Fault(
            f"{where} with {old.sampling}; this command asks for {new.sampling}. Rows of the two "
            "do not mix: start a new run without --resume."
        )
    limit = None if old.limit is None or new.limit is None else max(old.limit, new.limit)
    kinds = tuple(kind.value for kind in Kind if kind.value in (*old.kinds, *new.kinds))
    return replace(new, n=n, limit=limit, sampling=old.sampling, kinds=kinds)


def for_eval(config: RunConfig, typed: Sequence[str], keys: Sequence[str], stored: Stored) -> Plan:
    """The plan that scores a run found by its address: the command's metrics over the stored
    plan's inference.
    """
    config = replace(config, allow_equal_samples=True)  # the samples are there already
    draft = build(config, typed, inherited(stored.plan))
    cells = []
    for cell in draft.cells:
        old = stored.cell(cell.name)
        if old is not None:
            _check_extent(config, old, _sample_counts(config, cell.task, old, stored.plan))
            cells.append(
                replace(
                    old, metrics=cell.metrics, extract=cell.extract, limit=_eval_limit(config, old)
                )
            )
    return replace(_scored_as(stored.plan, draft, keys), cells=tuple(cells), mode="eval")


def reused(config: RunConfig, typed: Sequence[str], keys: Sequence[str], stored: Stored) -> Plan:
    """The plan that scores a run named by --reuse: model and tasks come from it, metrics from the
    command if typed.

    Fault where a typed setting contradicts the stored plan, and for a task that the run does not
    have.
    """
    draft = address_draft(config, typed)
    wanted = _wanted(draft, keys, stored)
    lines = _contradictions(draft, stored.plan, keys)
    if lines:
        raise Fault(
            f"The command contradicts the run {stored.run.path}: {'; '.join(lines)}. In eval the "
            "stored plan decides all about inference. Leave these settings out, or infer again "
            "with them."
        )
    config = replace(config, allow_equal_samples=True)
    own: dict[str, Cell] = {}
    if any(_is_typed(keys, cell.task) for cell in wanted):
        own = {c.name: c for c in build(config, typed, inherited(stored.plan)).cells}
    cells = [_rescored(config, typed, cell, own.get(cell.name), stored.plan) for cell in wanted]
    return replace(_scored_as(stored.plan, draft, keys), cells=tuple(cells), mode="eval")


def _rescored(
    config: RunConfig, typed: Sequence[str], cell: Cell, own: Cell | None, stored: Plan
) -> Cell:
    """The stored cell with the metrics that the command names, else its own ones;

    Args:
        own: the task as typed anew.
    """
    counts = _sample_counts(config, cell.task, cell, stored)
    _check_extent(config, cell, counts)
    extract = own.extract if own is not None else cell.extract
    metrics = own.metrics if own is not None else cell.metrics
    if config.metrics:
        metrics = resolve(
            metric_requests(config.metrics, typed),
            counts,
            extract,
            is_own=False,
            backend=stored.model.backend,
        )
    elif own is None and config.first_n:
        metrics = resolve(
            [_as_requested(m) for m in metrics],
            counts,
            extract,
            is_own=False,
            backend=stored.model.backend,
        )
    return replace(cell, metrics=metrics, extract=extract, limit=_eval_limit(config, cell))


def _as_requested(metric: MetricPlan) -> MetricRequest:
    """The metric as it was asked for: n and k are open again where no parameter had set them."""
    origins, params = dict(metric.origins), dict(metric.params)
    kept = [
        name for name in metric.given if origins.get(name, "metric parameter") == "metric parameter"
    ]
    return MetricRequest(
        metric.key, {name: params[name] for name in kept}, tuple(kept), is_added=metric.is_added
    )


def _wanted(draft: Plan, keys: Sequence[str], stored: Stored) -> list[Cell]:
    if "task" not in keys and "suite" not in keys:
        return list(stored.plan.cells)
    names = {c.name: c for c in stored.plan.cells}
    for cell in draft.cells:
        if cell.name not in names:
            raise unknown("task", cell.name, names, f"the run {stored.run.path}")
    return [names[c.name] for c in draft.cells]


def _is_typed(keys: Sequence[str], task: str) -> bool:
    prefixes = (f"tasks.{task}.extract", f"tasks.{task}.metrics")
    return any(key.startswith(prefixes) for key in keys)


def _sample_counts(config: RunConfig, task: str, old: Cell, stored: Plan) -> SampleCounts:
    """n and k of this command, else of the stored one."""
    params = config.task_params.get(task) or {}
    if config.num_return_sequences is not None:
        positive_int(config.num_return_sequences, "num_return_sequences")
    if params or config.num_return_sequences is not None:
        return SampleCounts(params, config.num_return_sequences, task)
    return SampleCounts(dict(old.task_params), stored.num_return_sequences, task, True)


def _check_extent(config: RunConfig, cell: Cell, counts: SampleCounts) -> None:
    """Fault for an explicit n other than the stored one: never filled up, never dropped.

    Log-likelihoods are asked once, whatever the number of samples.
    """
    name, stored_n = cell.name, cell.n
    if Kind.GENERATE.value not in cell.kinds:
        return
    for value, key in (
        (config.num_return_sequences, "num_return_sequences"),
        (counts.task_params.get("n"), "n"),
    ):
        if (
            value is None
            or value == stored_n
            or (config.first_n and isinstance(value, int) and value < stored_n)
        ):
            continue
        ways = "Leave it out to use all stored samples"
        if isinstance(value, int) and value < stored_n:
            ways += f", or say first_n=true to score the first {value} of each document"
        else:
            ways += f", or infer the missing ones: --resume num_return_sequences={value}"
        raise Fault(
            f"Task {name}: the run stored n={stored_n} samples per document, {key}={value} was "
            f"asked. {ways}."
        )


def _eval_limit(config: RunConfig, old: Cell) -> int | None:
    limit = positive_or_none(config.limit, "limit")
    if limit is None:
        return old.limit
    if old.limit is not None and limit > old.limit:
        raise Fault(
            f"Task {old.name}: the run holds the first {old.limit} documents, limit={limit} was "
            f"asked. Infer the missing ones with --resume --limit {limit}, or leave the limit out."
        )
    return limit


def _contradictions(draft: Plan, stored: Plan, keys: Sequence[str]) -> list[str]:
    lines: list[str] = []
    typed = {_asked_key(k) for k in keys}
    others = {c.name: c for c in stored.cells}
    for cell in draft.cells:
        other = others.get(cell.name)
        if other is None and len(draft.cells) == 1:
            other = stored.cells[0]
        if other is not None:
            lines += [
                line
                for line in differing(cell.asked, other.asked)
                if line.partition(":")[0] in typed
            ]
    return sorted(set(lines))


def _asked_key(typed: str) -> str:
    if typed == "model":
        return "model.name"
    return typed.split(".", 2)[2] if typed.startswith("tasks.") and typed.count(".") >= 2 else typed
