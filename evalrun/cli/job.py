"""One job: from a composed configuration through the plan and its stages to records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from evalrun import backends
from evalrun.cli.shield import say
from evalrun.config import Mode, RunConfig
from evalrun.errors import Fault
from evalrun.plan import build, find, merge, own_metrics, to_json
from evalrun.stages import infer, score, summarize
from evalrun.store.layout import Run, refuse_clashes, write_text_atomic
from evalrun.types import Pairs, Plan, Record

Outcome: TypeAlias = tuple[int, list[Record], Pairs]
"""Exit code, records for the tables, the summary's settings."""


@dataclass(frozen=True)
class Context:
    """What a job is given. typed: overrides in order. folder: its place in a sweep. time: of its start."""

    config: RunConfig
    typed: tuple[str, ...]
    yaml: str
    folder: Path | None
    time: str

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
    backends.check(plan.model)
    if config.mode is not Mode.infer:
        score.check_packages(plan)
    prepared = infer.prepare(plan)
    if is_resumed:
        infer.check_resumable(plan, prepared)
    else:
        # The engine loads before the folder is claimed, so that a model that does not exist leaves no empty run.
        infer.start(plan, prepared)
        _tell_unfinished(context, plan)
        path = context.folder or Run.claim(context.output_dir).path
        plan = saved = replace(plan, run_dir=str(path))
        say(f"run folder: {path}")
    run = Run(Path(plan.run_dir))
    _save(context, run, saved)
    outcomes = infer.run(plan, prepared, is_debug=config.debug)
    if config.mode is Mode.infer:
        for outcome in outcomes:
            print(outcome.line())
        return (0 if all(o.is_whole for o in outcomes) else 3), [], plan.summary
    failures = [(o.task, o.failure) for o in outcomes if o.failure is not None]
    return _told(run, score.run(plan, failures, is_debug=config.debug), plan.summary)


def _new(context: Context) -> tuple[Plan, Plan]:
    plan = build(context.config, context.typed)
    return plan, plan


def _tell_unfinished(context: Context, draft: Plan) -> None:
    other = find.unfinished(draft, context.output_dir)
    if other is not None:
        say(f"An unfinished run of the same address is there: {other.run.path}. --resume would go on with it.")


def _resumed(context: Context) -> tuple[Plan, Plan]:
    """(the plan of the cells asked for now, the whole plan of the run to save)."""
    config = context.config
    draft = merge.address_draft(config, context.typed)
    if config.reuse is not None:
        stored = find.by_name(config.reuse, context.output_dir)
        lines = merge.different(draft, stored.plan)
        if lines:
            raise Fault(
                f"{stored.run.path} was made with other settings and is not resumed onto: {'; '.join(lines)}. Give its "
                "settings, or start a new run without --resume."
            )
    else:
        stored = find.for_resume(draft, context.output_dir)
    plan, whole = merge.resumed(config, context.typed, context.keys, stored.plan)
    say(f"Resuming {stored.run.path}.")
    for cell in plan.cells:
        if cell.limit is not None and not {"limit", f"tasks.{cell.task}.limit"} & {*context.keys}:
            say(f"Task {cell.name}: the first {cell.limit} documents, as stored. limit=null asks for all.")
    return replace(plan, run_dir=str(stored.run.path)), replace(whole, run_dir=str(stored.run.path))


def _save(context: Context, run: Run, plan: Plan) -> None:
    write_text_atomic(run.config_file(context.time, os.getpid()), context.yaml)
    write_text_atomic(run.plan_file, to_json(replace(plan, run_dir="")))


def evaluate(context: Context) -> Outcome:
    """--mode eval: score saved rows. The stored plan decides all about inference, the command line the metrics."""
    stored, plan = _stored(context)
    score.check_packages(plan)
    say(f"Scoring {stored.run.path}.")
    write_text_atomic(stored.run.config_file(context.time, os.getpid()), context.yaml)
    records = score.run(plan, (), is_debug=context.config.debug)
    return _told(stored.run, records, plan.summary)


def view(context: Context) -> Outcome:
    """--mode viz: the summary of the stored results again."""
    stored, plan = _stored(context)
    records = summarize.stored_records(stored.run, plan)
    return _told(stored.run, records, plan.summary)


def _stored(context: Context) -> tuple[find.Stored, Plan]:
    """The run that is meant and the plan over it. One found by its address must be of the same data."""
    config, typed, keys = context.config, context.typed, context.keys
    if config.reuse:
        stored = find.by_name(config.reuse, context.output_dir)
        plan = merge.reused(config, typed, keys, stored)
    else:
        draft = merge.address_draft(config, typed)
        stored = find.for_eval(draft, context.output_dir)
        for note in find.check_data(draft, stored):
            say(note)
        plan = merge.for_eval(config, typed, keys, stored)
    own_metrics.check_stored(plan)
    return stored, replace(plan, run_dir=str(stored.run.path))


def _told(run: Run, records: Sequence[Record], settings: Pairs) -> Outcome:
    summarize.run(run, records, dict(settings))
    return (0 if all(r.state == "complete" for r in records) else 3), list(records), settings
