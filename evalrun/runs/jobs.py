"""One evaluation: from read words to a job, and from the job to how it ended.

The command line and evalrun.run both come through here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalrun.backends import Engines, register_entry_point
from evalrun.config import Mode, RunConfig, places
from evalrun.config.composing import to_run_config, to_yaml, unresolved
from evalrun.errors import Fault
from evalrun.planning import own_metrics, secrets
from evalrun.runs import execute, preview
from evalrun.runs.compose import checked, compose
from evalrun.runs.execute import JobResult, RunJob
from evalrun.runs.words.arguments import Arguments
from evalrun.types import Plan


def evaluate(arguments: Arguments) -> JobResult:
    """Run the one job of a command. Raises what goes wrong: a Fault, TaskFailure or Stopped."""
    arguments = checked(arguments)
    with Engines() as engines:
        return run_job(job_of(compose(arguments), arguments, engines))


def plan_of(arguments: Arguments) -> Plan:
    """The plan of the same command. Nothing is loaded, asked or written."""
    arguments = checked(arguments)
    return execute.plan_only(job_of(compose(arguments), arguments, Engines()))


def job_of(
    cfg: Any,
    arguments: Arguments,
    engines: Engines,
    folder: Path | None = None,
    overrides: tuple[str, ...] | None = None,
) -> RunJob:
    """The job of a composed configuration. Fault for secrets and code that it must not name.

    Args:
        cfg: Hydra's DictConfig.
        arguments: the whole command.
        engines: the models that are warm.
        folder: the place of the job in a sweep; None: a run folder is claimed.
        overrides: those of this job alone; None: all of the command.
    """
    secrets.refuse_environment(unresolved(cfg))
    config = to_run_config(cfg)
    secrets.refuse_in_config(config)
    own_metrics.load_all(config, arguments.overrides, _task_folders(config, arguments))
    if _is_model_named(arguments):
        register_entry_point(config.model.backend)
    return RunJob(
        config=config,
        typed=tuple(arguments.overrides),
        overrides=tuple(arguments.overrides) if overrides is None else overrides,
        yaml=to_yaml(cfg),
        folder=folder,
        time=f"{dt.datetime.now().astimezone():%Y%m%d_%H%M%S}",
        engines=engines,
    )


def run_job(job: RunJob) -> JobResult:
    """Run a job by its mode: ask, score, show, or only say what would be asked."""
    mode = job.config.mode
    if job.config.dry_run:
        if mode not in (Mode.all, Mode.infer):
            raise Fault(f"--dry-run shows what would be asked; --mode {mode.value} asks nothing.")
        return preview.run(job)
    stages: dict[Mode, Callable[[RunJob], JobResult]] = {
        Mode.all: execute.ask,
        Mode.infer: execute.ask,
        Mode.eval: execute.evaluate,
        Mode.viz: execute.view,
    }
    return stages[mode](job)


def _task_folders(config: RunConfig, arguments: Arguments) -> dict[str, Path]:
    """Task -> folder of its file, for the tasks that name files of their own."""
    if not any(task.metric_files for task in config.tasks.values()):
        return {}
    files = places.names("task", arguments.config_dir)
    return {name: path.parent for name, path in files.items()}


def _is_model_named(arguments: Arguments) -> bool:
    """Whether the command, or a file of the user, names the model. With --reuse it may come from
    the stored run, and a stored run alone never makes us import a package.
    """
    reuse = arguments.value("reuse")
    return reuse in (None, "null") or bool({"model", "model.backend"} & {*arguments.given})
