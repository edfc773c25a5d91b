"""A job: from a composed configuration through the plan and its stages to records."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class RunJob:
    """What one evaluation is given.

    Attributes:
        config: the composed configuration.
        typed: the command's overrides in order.
        overrides: those of this job alone.
        yaml: the configuration as it is saved beside the plan.
        folder: its place in a sweep; None: a run folder is claimed.
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


@dataclass(frozen=True)
class JobResult:
    """How a job ended.

    Attributes:
        plan: what was asked or scored, with its run folder where it has one.
        states: of the cells: complete, incomplete, missing or failed.
        records: for the tables; empty where nothing was scored.
    """

    plan: Plan
    states: tuple[str, ...]
    records: tuple[Record, ...] = ()

    @property
    def code(self) -> int:
        """The exit code: 0 where every cell is complete, else 3."""
        return 0 if all(state == "complete" for state in self.states) else 3

    @property
    def settings(self) -> Pairs:
        """How the summary is shown."""
        return self.plan.summary


def ask(job: RunJob) -> JobResult:
    """--mode all and --mode infer: a new run, or with --resume the one that is there."""
    config = job.config
    plan, saved = _plans(job)
    is_resumed = bool(plan.run_dir)
    if is_resumed:
        _say_resumed(job, plan)
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
            infer.start(plan, prepared, job.engines)
        _say_unfinished(job, plan)
        path = str(job.folder or Run.claim(job.output_dir).path)
        plan, saved = replace(plan, run_dir=path), replace(saved, run_dir=path)
        say(f"run folder: {path}")
    run = Run(Path(plan.run_dir))
    with Keeper(run) as keeper:
        _save(job, run, saved)
        with _serving(checked, run, keeper, job.engines) as engines:
            outcomes = infer.run(plan, prepared, engines, is_debug=config.debug, keeper=keeper)
        return _finished(job, run, plan, outcomes, keeper)


def _finished(
    job: RunJob, run: Run, plan: Plan, outcomes: Sequence[infer.CellOutcome], keeper: Keeper
) -> JobResult:
    """Score what was asked, unless only asking was wanted, and record how the run ended."""
    keeper.enter(Phase.TESTING)
    if job.config.mode is Mode.infer:
        for outcome in outcomes:
            print(outcome.line())
        result = JobResult(plan, tuple(_state(outcome) for outcome in outcomes))
    else:
        failures = [(o.task, o.failure) for o in outcomes if o.failure is not None]
        result = _shown(run, plan, score.run(plan, failures, is_debug=job.config.debug))
    if result.code == 0:
        keeper.enter(Phase.FINISHED)
    else:
        problems = [o.line() for o in outcomes if not o.is_whole]
        problems += [
            f"{r.task}: {r.reason or r.state}" for r in result.records if r.state != "complete"
        ]
        keeper.enter(Phase.FAILED, problems[0] if problems else None)
    return result


def _state(outcome: infer.CellOutcome) -> str:
    if outcome.is_whole:
        return "complete"
    return "incomplete" if outcome.failure is None else "failed"


def plan_only(job: RunJob) -> Plan:
    """The plan that the job would follow; nothing is loaded, asked or written."""
    if job.config.mode in (Mode.eval, Mode.viz):
        return _stored(job)[1]
    return _plans(job)[0]


def _plans(job: RunJob) -> tuple[Plan, Plan]:
    """(the plan of the cells asked for now, the whole plan to save); with a run_dir where they go
    on with a run.
    """
    if job.config.resume or job.config.reuse is not None:
        return _resumed(job)
    plan = replace(planned(job), overrides=job.overrides)
    return plan, plan


def planned(job: RunJob) -> Plan:
    """The plan of a new run."""
    config = job.config
    if config.model.repo is None or config.num_return_sequences is not None:
        return build(config, job.typed)
    from evalrun import deploy

    with_default = deploy.default_samples(config)
    plan = build(with_default, job.typed)
    return plan if with_default is config else deploy.with_origin(plan)


def deployed(plan: Plan) -> tuple[Checked | None, Plan]:
    """(the server that the run starts, the plan with its address); (None, the plan) where it
    starts none.

    The run starts one where the model names folders for it. Fault where there is neither an address
    nor a folder.
    """
    model = plan.model
    if model.repo is None and model.weights is None:
        address = backends.facts_of(model.backend).needs.get("base_url")
        if address is not None and not model.base_url:
            raise Fault(
                f"Model {model.name} (backend {model.backend}) has no model.base_url. Say "
                f"model.base_url={address} where a server is up; to let the run start one, name "
                "both folders: model.repo=DIR (deploy.sh at its root) and model.weights=DIR (what "
                "deploy.sh gets as $MODEL_PATH)."
            )
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


def _say_unfinished(job: RunJob, draft: Plan) -> None:
    other = find.unfinished(draft, job.output_dir)
    if other is not None:
        say(
            f"An unfinished run of the same address is there: {other.run.path}. --resume would go "
            "on with it."
        )


def _resumed(job: RunJob) -> tuple[Plan, Plan]:
    """(the plan of the cells asked for now, the whole plan of the run to save)."""
    config = job.config
    draft = resume.address_draft(config, job.typed)
    if config.reuse is not None:
        stored = find.by_name(config.reuse, job.output_dir)
        lines = resume.different(draft, stored.plan)
        if lines:
            raise Fault(
                f"{stored.run.path} was made with other settings and is not resumed onto: "
                f"{'; '.join(lines)}. Give its settings, or leave --reuse out to start a new run."
            )
    else:
        stored = find.for_resume(draft, job.output_dir)
    plan, whole = resume.resumed(config, job.typed, job.keys, stored.plan)
    return replace(plan, run_dir=str(stored.run.path)), replace(whole, run_dir=str(stored.run.path))


def _say_resumed(job: RunJob, plan: Plan) -> None:
    say(f"Resuming {plan.run_dir}.")
    for cell in plan.cells:
        if cell.limit is not None and not {"limit", f"tasks.{cell.task}.limit"} & {*job.keys}:
            say(
                f"Task {cell.name}: the first {cell.limit} documents, as stored. limit=null asks "
                "for all."
            )


def _save(job: RunJob, run: Run, plan: Plan) -> None:
    write_text_atomic(run.config_file(job.time, os.getpid()), job.yaml)
    write_text_atomic(run.plan_file, to_json(replace(plan, run_dir="")))


def evaluate(job: RunJob) -> JobResult:
    """--mode eval: score saved rows.

    The stored plan decides all about inference, the command line the metrics.
    """
    stored, plan, notes = _stored(job)
    for note in notes:
        say(note)
    score.check_packages(plan)
    say(f"Scoring {stored.run.path}.")
    write_text_atomic(stored.run.config_file(job.time, os.getpid()), job.yaml)
    result = _shown(stored.run, plan, score.run(plan, (), is_debug=job.config.debug))
    if result.code == 0:
        _settle(stored.run)
    return result


def _settle(run: Run) -> None:
    """A run that was stopped or failed after its last row was asked is finished, now that it is
    scored whole.
    """
    now = state.read(run)
    if now is not None and now.shown.phase in (Phase.TERMINATED, Phase.FAILED) and not now.is_alive:
        state.write(run, replace(now, phase=Phase.FINISHED, reason=None, updated_s=time.time()))


def view(job: RunJob) -> JobResult:
    """--mode viz: the summary of the stored results again."""
    stored, plan, notes = _stored(job)
    for note in notes:
        say(note)
    return _shown(stored.run, plan, summarize.stored_records(stored.run, plan))


def _stored(job: RunJob) -> tuple[Stored, Plan, list[str]]:
    """The run that is meant, the plan over it, and notes for the user.

    A run that is found by its address must hold the same data.
    """
    config, typed, keys = job.config, job.typed, job.keys
    notes: list[str] = []
    if config.reuse:
        stored = find.by_name(config.reuse, job.output_dir)
        plan = resume.reused(config, typed, keys, stored)
    else:
        draft = resume.address_draft(config, typed)
        stored = find.for_eval(draft, job.output_dir)
        notes = find.check_data(draft, stored)
        plan = resume.for_eval(config, typed, keys, stored)
    own_metrics.check_stored(plan)
    return stored, replace(plan, run_dir=str(stored.run.path)), notes


def _shown(run: Run, plan: Plan, records: Sequence[Record]) -> JobResult:
    """Write the summary and print the table."""
    summarize.run(run, records, dict(plan.summary))
    return JobResult(plan, tuple(r.state for r in records), tuple(records))
