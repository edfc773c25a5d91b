"""evalrun as a library: run, plan, score, results, samples, read.

What the command line does, as functions: the same settings, the same errors (raised as Fault, never
printed), the same files. Nothing global is left changed: not Hydra, nor sys.argv, the environment,
the working folder, logging or signal handlers. A run may be started in a notebook, in a thread, and
as often as wanted in one process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalrun.errors import Fault, Stopped

if TYPE_CHECKING:
    import pandas as pd

    from evalrun.metrics.base import Metric
    from evalrun.reading.base import Reading
    from evalrun.stages.direct import Scores
    from evalrun.types import Plan, Record

__all__ = ["RunResult", "plan", "read", "results", "run", "samples", "score"]


@dataclass(frozen=True, repr=False)
class RunResult:
    """How a run ended. `repr` shows its table.

    It can be given to `evalrun.results` and `evalrun.samples` in place of a folder.

    Attributes:
        path: the run's folder, absolute; None after a dry run, which makes none.
        state: "complete"; "incomplete" where rows are missing or too many requests failed; "failed"
            where a task could not be asked or scored at all.
        code: the exit code of the same command: 0 complete, else 3.
        plan: what was asked, or scored.
    """

    path: Path | None
    state: str
    code: int
    plan: Plan
    _records: tuple[Record, ...] = field(default=())

    def table(self) -> pd.DataFrame:
        """The tidy table, as `evalrun.results`: one row per (dataset, metric, model)."""
        return results(self)

    def samples(self, task: str | None = None, model: str | None = None) -> pd.DataFrame:
        """Every answer with its verdicts, as `evalrun.samples`."""
        return samples(self, task, model)

    def __fspath__(self) -> str:
        if self.path is None:
            raise Fault("A dry run has no folder: nothing was asked and nothing was written.")
        return str(self.path)

    def __repr__(self) -> str:
        head = f"RunResult: {self.state}, {self.path or 'dry run'}"
        if not self._records:
            return f"{head}\n{self.plan!r}"
        from evalrun.stages.summary import SummarySettings, txt_text
        from evalrun.stages.summary.group_rows import with_groups

        settings = SummarySettings.from_mapping({**dict(self.plan.summary), "reading": False})
        return f"{head}\n{txt_text(with_groups(self._records, settings.weighted), settings)}"


def run(*overrides: str, **settings: Any) -> RunResult:
    """Run one evaluation, as the command `evalrun` does with the same settings.

        evalrun.run(model="smollm2", task="demo_math", limit=10)
        evalrun.run("task=gsm8k@k=2&n=8", model="qwen", **{"model.temperature": 0.2})
        evalrun.run(mode="eval", reuse="latest", metric=["exact_match", "pass@k:k=1&n=2"])

    Progress and the table are printed, as the command does. An interrupt (KeyboardInterrupt) keeps
    the rows that were finished; the same call with resume=True goes on.

    Args:
        overrides: settings as they are typed on the command line: "task=gsm8k@k=2&n=8".
        settings: key=value; keys with dots as `**{"model.temperature": 0.2}`. Values: str, int,
            float, bool, None (absent), paths, lists and dicts of them. Text stays text. The flags
            of the command line are mode, reuse, resume, limit, dry_run, debug and config_dir.

    Raises:
        Fault: what was asked cannot be done; nothing was sent.
        TaskFailure: the disk cannot be written, and the like.
    """
    from evalrun.runs import jobs
    from evalrun.runs.words.from_python import arguments_of

    with _session(settings.get("debug") is True):
        result = jobs.evaluate(arguments_of(overrides, settings, "evalrun.run"))
    path = Path(result.plan.run_dir).absolute() if result.plan.run_dir else None
    return RunResult(path, _state(result.states), result.code, result.plan, result.records)


def _state(states: Sequence[str]) -> str:
    if "failed" in states:
        return "failed"
    return "complete" if all(state == "complete" for state in states) else "incomplete"


@contextmanager
def _session(is_debug: bool) -> Iterator[None]:
    """With debug, our loggers say everything within the block; an interrupt says how to go on."""
    logger = logging.getLogger("evalrun")
    before = logger.level
    if is_debug:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    except (KeyboardInterrupt, Stopped) as stop:
        stop.add_note("Rows that were finished are saved; evalrun.run(..., resume=True) goes on.")
        raise
    finally:
        logger.setLevel(before)


def plan(*overrides: str, **settings: Any) -> Plan:
    """The plan that `evalrun.run` would follow with the same arguments: composed and checked.

    Nothing is loaded, asked or written. With resume, reuse or mode="eval" it is the plan over the
    stored run.

    Args:
        overrides: as for `run`.
        settings: as for `run`.

    Raises:
        Fault: what was asked cannot be done.
    """
    from evalrun.runs import jobs
    from evalrun.runs.words.from_python import arguments_of

    with _session(settings.get("debug") is True):
        return jobs.plan_of(arguments_of(overrides, settings, "evalrun.plan"))


def results(
    run: str | os.PathLike[str] = "latest", output_dir: str | os.PathLike[str] = "outputs"
) -> pd.DataFrame:
    """The results of a run as a tidy DataFrame: one row per (dataset, metric, model), as in its
    summary CSV. Values in their own unit, unrounded.

    Args:
        run: a RunResult, a run's folder, its time stamp within output_dir, "latest", or the folder
            of a sweep (all its jobs).
        output_dir: where runs lie.

    Raises:
        Fault: there is no such run, or nothing of it was scored yet.
    """
    from evalrun.runs import tables

    return tables.results(os.fspath(run), Path(output_dir))


def samples(
    run: str | os.PathLike[str] = "latest",
    task: str | None = None,
    model: str | None = None,
    output_dir: str | os.PathLike[str] = "outputs",
) -> pd.DataFrame:
    """The stored answers of a run as a DataFrame: one row for each answer and each scorer that
    judged it; an answer without a verdict has one row with an empty scorer.

    For log-likelihoods there is one row per choice: `index` is the choice, `answer` its text,
    `logprob` the sum of its tokens' log-probabilities in nats. The columns are
    those of docs/python.md, which says what each holds.

    Args:
        run: as for `results`; an unfinished run shows the rows that it has.
        task: only this task (or task:subset).
        model: only this model.
        output_dir: where runs lie.

    Raises:
        Fault: there is no such run, task or model.
    """
    from evalrun.runs import samples_table

    return samples_table.samples(os.fspath(run), Path(output_dir), task, model)


def score(
    metric: str | os.PathLike[str] | Metric,
    docs: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    **params: Any,
) -> Scores:
    """The numbers of one metric over documents, without a run: a mapping output name -> Estimate.

    `.per_doc` of the result holds the values per document.

    Args:
        metric: a name (`rouge1`, `pass@k`, `pass@k:k=2&n=5`), a Metric, or the path of your own .py
            file.
        docs: mappings with `golds` and `preds`, `choices`, `gold_index` and `logprobs`, `text` and
            `logprobs`, counts `n` and `c`, ... (evalrun.interop.documents names all keys).
        params: parameters of the metric.

    Raises:
        Fault: the metric, a parameter or a document is not usable.
    """
    from evalrun.stages import direct

    return direct.score(metric, docs, **params)


def read(
    text: str,
    kind: str | Mapping[str, Any],
    options: Sequence[str] | int | None = None,
    truncated: bool | None = None,
) -> Reading:
    """The answer that a text states, as the scorers read it.

    Args:
        text: the answer of a model.
        kind: letter, number, expression (or math), boxed, code, none (the whole text); or a mapping
            {json: FIELD}, {tag: NAME}, {regex: PATTERN, group: 1, which: first|last}.
        options: only for letter: the texts of the options, or how many there are; None: 26.
        truncated: whether the text was cut off at the token limit; None: judged from the text.

    Returns:
        Reading: value (None where the text states none, with the reason: none, several or cut),
        span, rule, is_weak, runner_up. The rules and their error rates: docs/reading.md.

    Raises:
        Fault: an unknown kind, with the nearest name.
        TimeoutError: a regular expression of the caller takes too long.
    """
    from evalrun.reading import kinds

    return kinds.read(text, kind, options, truncated)
