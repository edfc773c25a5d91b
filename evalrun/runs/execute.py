"""One job: from a composed configuration through the plan and its stages to records."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from evalrun import backends
from evalrun.backends import Engines
from evalrun.config import Mode, RunConfig
from evalrun.console import say
from evalrun.errors import Fault
from evalrun.planning import build, own_metrics, to_json
from evalrun.runs import find, resume
from evalrun.runs.stored import Stored
from evalrun.stages import infer, score, summarize
from evalrun.store import state
from evalrun.store.layout import Run, refuse_clashes, write_text_atomic
from evalrun.store.state import Keeper, Phase
from evalrun.types import Pairs, Plan, Record

if TYPE_CHECKING:
    from evalrun.deploy import Checked

Outcome: TypeAlias = tuple[int, list[Record], Pairs]
"""Exit code, records for the tables, the summary's settings."""


@dataclass(frozen=True)
class Context:
    """What a job is given.

    Attributes:
        config: the composed configuration.
        typed: the command's overrides in order.
        overrides: those of this job alone.
        folder: its place in a sweep.
        time: of its start.
        engines: the models that are warm, shared by the jobs of a command.
    """

    config: RunConfig
    typed: tuple[str, ...]
    overrides: tuple[str, ...]
    yaml: str
    folder: Path | None
    time: str
    engines: Engines

    @property
    def keys(self) -> list[str]:
        """The keys that the user typed."""
        return [o.lstrip("+~").partition("=")[0] for o in self.typed]

    @property
    def output_dir(self) -> Path:
        """Where run folders are made and looked for."""
        return Path(self.config.output_dir)


def ask(context: Context) -> Outcome:
    """--mode all and --mode infer: a new run, or with --resume the one that is there."""
    config = context.config
    is_resumed = config.resume or config.reuse is not None
    plan, saved = _resumed(context) if is_resumed else _new(context)
    refuse_clashes([c.name for c in plan.cells], "task")
    checked, plan = deployed(plan)
    backends.check(plan.model)
    if config.mode is not Mode.infer:
        score.check_packages(plan)
    prepared = infer.prepare(plan)
    if is_resumed:
        infer.check_resumable(plan, prepared)
    else:
        if checked is None:
            # The engine loads before the folder is claimed, so that a model that does not exist
            # leaves no empty run.
            infer.start(plan, prepared, context.engines)
        _tell_unfinished(context, plan)
        path = str(context.folder or Run.claim(context.output_dir).path)
        plan, saved = replace(plan, run_dir=path), replace(saved, run_dir=path)
        say(f"run folder: {path}")
    run = Run(Path(plan.run_dir))
    with Keeper(run) as keeper:
        _save(context, run, saved)
        with _serving(checked, run, keeper, context.engines) as engines:
            outcomes = infer.run(plan, prepared, engines, is_debug=config.debug, keeper=keeper)
        return _finished(context, run, plan, outcomes, keeper)


def _finished(
    context: Context, run: Run, plan: Plan, outcomes: Sequence[infer.CellOutcome], keeper: Keeper
) -> Outcome:
    """Score what was asked, unless only asking was wanted, and say how the run ended."""
    config = context.config
    keeper.enter(Phase.TESTING)
    if config.mode is Mode.infer:
        for outcome in outcomes:
            print(outcome.line())
        told: Outcome = (0 if all(o.is_whole for o in outcomes) else 3), [], plan.summary
    else:
        failures = [(o.task, o.failure) for o in outcomes if o.failure is not None]
        told = _told(run, score.run(plan, failures, is_debug=config.debug), plan.summary)
    if told[0] == 0:
        keeper.enter(Phase.FINISHED)
    else:
        unwell = [o.line() for o in outcomes if not o.is_whole]
        unwell += [f"{r.task}: {r.reason or r.state}" for r in told[1] if r.state != "complete"]
        keeper.enter(Phase.FAILED, unwell[0] if unwell else None)
    return told


def planned(context: Context) -> Plan:
    """The plan of a new run."""
    config = context.config
    if config.model.repo is None or config.num_return_sequences is not None:
        return build(config, context.typed)
    from evalrun import deploy

    with_default = deploy.default_samples(config)
    plan = build(with_default, context.typed)
    return plan if with_default is config else deploy.with_origin(plan)


def deployed(plan: Plan) -> tuple[Checked | None, Plan]:
    """(the server that the run starts, the plan with its address); (None, the plan) where it
    starts none.
    """
    model = plan.model
    if model.repo is None and model.weights is None and (model.name != "deploy" or model.base_url):
        return None, plan
    from evalrun import deploy

    return deploy.check(plan), deploy.addressed(plan)


@contextmanager
def _serving(
    checked: Checked | None, run: Run, keeper: Keeper, engines: Engines
) -> Iterator[Engines]:
    """The engines to ask: those that are warm, or the server that the run starts."""
    if checked is None:
        keeper.enter(Phase.TESTING)
        yield engines
        return
    from evalrun import deploy

    with (
        deploy.serving(checked, run, keeper, say) as make,
        engines.with_maker(make) as deployed_engines,
    ):
        yield deployed_engines


def _new(context: Context) -> tuple[Plan, Plan]:
    plan = replace(planned(context), overrides=context.overrides)
    return plan, plan


def _tell_unfinished(context: Context, draft: Plan) -> None:
    other = find.unfinished(draft, context.output_dir)
    if other is not None:
        say(
            f"An unfinished run of the same address is there: {other.run.path}. --resume would go "
            "on with it."
        )


def _resumed(context: Context) -> tuple[Plan, Plan]:
    """(the plan of the cells asked for now, the whole plan of the run to save)."""
    config = context.config
    draft = resume.address_draft(config, context.typed)
    if config.reuse is not None:
        stored = find.by_name(config.reuse, context.output_dir)
        lines = resume.different(draft, stored.plan)
        if lines:
            raise Fault(
                f"{stored.run.path} was made with other settings and is not resumed onto: "
                f"{'; '.join(lines)}. Give its settings, or leave --reuse out to start a new run."
            )
    else:
        stored = find.for_resume(draft, context.output_dir)
    plan, whole = resume.resumed(config, context.typed, context.keys, stored.plan)
    say(f"Resuming {stored.run.path}.")
    for cell in plan.cells:
        if cell.limit is not None and not {"limit", f"tasks.{cell.task}.limit"} & {*context.keys}:
            say(
                f"Task {cell.name}: the first {cell.limit} documents, as stored. limit=null asks "
                "for all."
            )
    return replace(plan, run_dir=str(stored.run.path)), replace(whole, run_dir=str(stored.run.path))


def _save(context: Context, run: Run, plan: Plan) -> None:
    write_text_atomic(run.config_file(context.time, os.getpid()), context.yaml)
    write_text_atomic(run.plan_file, to_json(replace(plan, run_dir="")))


def evaluate(context: Context) -> Outcome:
    """--mode eval: score saved rows.

    The stored plan decides all about inference, the command line the metrics.
    """
    stored, plan = _stored(context)
    score.check_packages(plan)
    say(f"Scoring {stored.run.path}.")
    write_text_atomic(stored.run.config_file(context.time, os.getpid()), context.yaml)
    told = _told(stored.run, score.run(plan, (), is_debug=context.config.debug), plan.summary)
    if told[0] == 0:
        _settle(stored.run)
    return told


def _settle(run: Run) -> None:
    """A run that was stopped or failed after its last row was asked is finished, now that it is
    scored whole.
    """
    now = state.read(run)
    if now is not None and now.shown.phase in (Phase.TERMINATED, Phase.FAILED) and not now.is_alive:
        state.write(run, replace(now, phase=Phase.FINISHED, reason=None, updated_s=time.time()))


def view(context: Context) -> Outcome:
    """--mode viz: the summary of the stored results again."""
    stored, plan = _stored(context)
    records = summarize.stored_records(stored.run, plan)
    return _told(stored.run, records, plan.summary)


def _stored(context: Context) -> tuple[Stored, Plan]:
    """The run that is meant and the plan over it.

    One found by its address must be of the same data.
    """
    config, typed, keys = context.config, context.typed, context.keys
    if config.reuse:
        stored = find.by_name(config.reuse, context.output_dir)
        plan = resume.reused(config, typed, keys, stored)
    else:
        draft = resume.address_draft(config, typed)
        stored = find.for_eval(draft, context.output_dir)
        for note in find.check_data(draft, stored):
            say(note)
        plan = resume.for_eval(config, typed, keys, stored)
    own_metrics.check_stored(plan)
    return stored, replace(plan, run_dir=str(stored.run.path))


def _told(run: Run, records: Sequence[Record], settings: Pairs) -> Outcome:
    summarize.run(run, records, dict(settings))
    return (0 if all(r.state == "complete" for r in records) else 3), list(records), settings
