"""The jobs of one command: one, or the many of a sweep.

Each composes into a plan and goes through its stages.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from evalrun.backends import Engines, register_entry_point
from evalrun.config import Mode, RunConfig, places
from evalrun.config.composing import to_run_config, to_yaml, unresolved
from evalrun.errors import Fault
from evalrun.planning import own_metrics, secrets
from evalrun.runs.arguments import Arguments
from evalrun.runs.border import shielded
from evalrun.types import Record

STOP_CODES = (130, 143)


class Jobs:
    """Runs each composed job and remembers how it ended, for the exit code and the joint
    summary.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.codes: list[int] = []
        self.records: list[Record] = []
        self.sweep: Path | None = None
        self.engines = Engines()
        self._settings: Any = ()
        self._made_output_dir = False

    def claim_sweep(self) -> Path:
        """The folder of a sweep: its jobs and its joint summary."""
        from evalrun.store.layout import Run

        output_dir = Path(self.arguments.value("output_dir") or "outputs")
        self._made_output_dir = not output_dir.exists()
        self.sweep = Run.claim(output_dir).path.resolve()
        return self.sweep

    def run(self, cfg: Any) -> None:
        """One job, called by Hydra. Never raises: an error would end the sweep's other jobs."""
        if any(code in STOP_CODES for code in self.codes):
            return
        self.codes.append(shielded(lambda: self._one(cfg), self.arguments.value("debug") == "true"))

    def _one(self, cfg: Any) -> int:
        from evalrun.runs import execute

        secrets.refuse_environment(unresolved(cfg))
        config = to_run_config(cfg)
        secrets.refuse_in_config(config)
        own_metrics.load_all(config, self.arguments.overrides, self._task_folders(config))
        if self._is_model_named():
            register_entry_point(config.model.backend)
        context = execute.Context(
            config=config,
            typed=tuple(self.arguments.overrides),
            overrides=self._job_overrides(),
            yaml=to_yaml(cfg),
            folder=self._job_folder(),
            time=f"{dt.datetime.now().astimezone():%Y%m%d_%H%M%S}",
            engines=self.engines,
        )
        code, records, settings = _stages(config)(context)
        self.records += records
        self._settings = settings
        return int(code)

    def _task_folders(self, config: RunConfig) -> dict[str, Path]:
        """Task -> folder of its file, for the tasks that name files of their own."""
        if not any(task.metric_files for task in config.tasks.values()):
            return {}
        return {
            name: path.parent
            for name, path in places.names("task", self.arguments.config_dir).items()
        }

    def _is_model_named(self) -> bool:
        """Whether the command, or a file of the user, names the model. With --reuse it may come
        from the stored run, and a stored run alone never makes us import a package.
        """
        reuse = self.arguments.value("reuse")
        return reuse in (None, "null") or bool({"model", "model.backend"} & {*self.arguments.given})

    def _job_overrides(self) -> tuple[str, ...]:
        """What the command says for this job: in a sweep, with its own choices."""
        if self.sweep is None:
            return tuple(self.arguments.overrides)
        from hydra.core.hydra_config import HydraConfig

        return tuple(HydraConfig.get().overrides.task)

    def _job_folder(self) -> Path | None:
        if self.sweep is None:
            return None
        from hydra.core.hydra_config import HydraConfig

        return self.sweep / str(HydraConfig.get().job.num)

    def close(self) -> None:
        """Free what the jobs left warm, and the folder of a sweep in which no job began."""
        self.engines.close()
        self._drop_empty_sweep()

    def finish(self) -> int:
        """Write the joint summary of a sweep; the exit code of all jobs together."""
        if self.sweep is not None and self.records:
            from evalrun.stages import summarize

            summarize.joint(self.sweep, self.records, dict(self._settings))
        return exit_code(self.codes)

    def _drop_empty_sweep(self) -> None:
        """Take away the folder of a sweep in which no job began: nothing is written where
        nothing could be asked.
        """
        if self.sweep is None:
            return
        files = list(self.sweep.iterdir())
        if all(file.name == "multirun.yaml" for file in files):
            for file in files:
                file.unlink()
            self.sweep.rmdir()
            if self._made_output_dir and not any(self.sweep.parent.iterdir()):
                self.sweep.parent.rmdir()
            self.sweep = None


def _stages(config: RunConfig) -> Any:
    from evalrun.runs import execute, preview

    if config.dry_run:
        if config.mode not in (Mode.all, Mode.infer):
            raise Fault(
                f"--dry-run shows what would be asked; --mode {config.mode.value} asks nothing."
            )
        return preview.run
    return {
        Mode.all: execute.ask,
        Mode.infer: execute.ask,
        Mode.eval: execute.evaluate,
        Mode.viz: execute.view,
    }[config.mode]


def exit_code(codes: list[int]) -> int:
    """One code for many jobs: a stop first, then an internal fault, then asked wrongly, then
    failed tasks.
    """
    for code in (*STOP_CODES, 1, 2, 3):
        if code in codes:
            return code
    return 0
