"""Runs as their folders show them, found by name; neither plans nor rows are loaded for it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from evalrun.errors import Fault, nearest, visible
from evalrun.store import lock, state
from evalrun.store.disk import read_small
from evalrun.store.layout import LONGEST_PLAN_BYTES, Run, run_folders, sweep_jobs
from evalrun.store.state import Phase, RunState

LONGEST_NAME = 100


LATEST = "latest"
REUSE = "--reuse"
"""Who asks for a run where it is the flag; else a command (`evalrun stop`) or a function."""


@dataclass(frozen=True)
class Seen:
    """A run folder from outside.

    Attributes:
        name: below the output folder.
        problem: what could not be read.
        state: as stored.
        created_s: when the plan was made; without a plan, when the run was started or its folder
            changed.
    """

    run: Run
    name: str
    created_s: float
    plan: dict[str, Any]
    state: RunState | None
    problem: str | None

    @property
    def model(self) -> str | None:
        """The model's name."""
        model = self.plan.get("model")
        return str(model["name"]) if isinstance(model, dict) and "name" in model else None

    @property
    def tasks(self) -> list[str]:
        """The names of the cells."""
        cells = self.plan.get("cells")
        named = (
            [c for c in cells if isinstance(c, dict) and "task" in c]
            if isinstance(cells, list)
            else []
        )
        return [
            str(c["task"]) + (f":{c['subset']}" if c.get("subset") is not None else "")
            for c in named
        ]

    @cached_property
    def current(self) -> RunState | None:
        """The state as it should be shown; derived from the plan and the rows where none can be
        read.

        None where these cannot be read either; `problem` then says why.
        """
        return self.state.shown if self.state is not None else _derived(self)


def every(output_dir: Path) -> list[Seen]:
    """All runs below, newest first; the jobs of sweeps too."""
    return _newest_first([seen(run, output_dir) for run in run_folders(output_dir)])


def _newest_first(runs: list[Seen]) -> list[Seen]:
    return sorted(runs, key=lambda s: (s.created_s, str(s.run.path)), reverse=True)


def seen(run: Run, output_dir: Path) -> Seen:
    """One run folder. Damaged files make a `problem`, never an error."""
    problems, stored, plan = [], None, {}
    try:
        stored = state.read(run)
    except Fault as fault:
        problems.append(str(fault))
    try:
        plan = json.loads(read_small(run.plan_file, LONGEST_PLAN_BYTES))
        if not isinstance(plan, dict):
            raise ValueError("it holds no JSON object")
    except FileNotFoundError:
        plan = {}
        if stored is None:
            problems.append(f"{run.plan_file} is missing.")
    except (OSError, ValueError, RecursionError) as cause:
        plan = {}
        problems.append(f"{run.plan_file} cannot be read ({visible(str(cause))}).")
    is_below = run.path.is_relative_to(output_dir)
    name = str(run.path.relative_to(output_dir) if is_below else run.path)
    return Seen(run, name, _created(run, plan, stored), plan, stored, " ".join(problems) or None)


def _created(run: Run, plan: dict[str, Any], stored: RunState | None) -> float:
    try:
        made = datetime.fromisoformat(plan["created"]).timestamp()
        if 0 <= made <= state.LATEST_S:
            return made
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        pass
    if stored is not None and stored.started_s is not None:
        return stored.started_s
    try:
        return run.path.stat().st_mtime
    except OSError:
        return 0.0


def named(name: str, output_dir: Path, asker: str) -> list[Seen]:
    """The run of that folder or time stamp, or the newest; of a sweep all jobs, newest first.

    Fault where there is none. A folder that only holds runs has no name of a run: an empty or
    mistyped name must not mean all of them.

    Args:
        name: a folder, its name within output_dir, or `latest`.
        output_dir: where runs lie.
        asker: who asks, for the errors: `--reuse`, `evalrun stop`, `evalrun.results`.
    """
    if name == LATEST:
        runs = every(output_dir)
        if not runs:
            raise no_latest(output_dir, asker)
        return runs[:1]
    for folder in (output_dir / name, Path(os.path.expanduser(name))) if name else ():
        if not os.path.isdir(folder):
            continue
        run = Run(folder)
        if run.plan_file.exists() or run.state_file.exists():
            return [seen(run, output_dir)]
        if jobs := sweep_jobs(folder):
            return _newest_first([seen(job, output_dir) for job in jobs])
        raise _not_a_run(folder, asker)
    raise _no_such(name, output_dir, asker)


def no_latest(output_dir: Path, asker: str) -> Fault:
    """The Fault for `latest` where there is no run at all."""
    elsewhere = {
        REUSE: "Run --mode infer first, or set output_dir=DIR.",
    }.get(asker, "--output-dir DIR looks elsewhere.")
    return Fault(f"{asker} {LATEST}: there is no run in {output_dir}. {elsewhere}")


def _not_a_run(folder: Path, asker: str) -> Fault:
    holds = (
        f", though it holds runs: --output-dir {folder} looks there" if run_folders(folder) else ""
    )
    return Fault(
        f"{asker}: {folder} is not a run folder: it has no configs/plan.json and no "
        f"state.json{holds}."
    )


def _no_such(name: str, output_dir: Path, asker: str) -> Fault:
    known = [s.name for s in every(output_dir)]
    hint = nearest(name, [*known, LATEST])
    guess = f" Did you mean {hint}?" if hint else ""
    more = {REUSE: "`--reuse latest` takes the newest."}.get(asker, "`evalrun status` lists all.")
    return Fault(
        f"{asker} {_quoted(name)}: no such run, neither as a folder nor in {output_dir}.{guess} "
        f"Newest: {', '.join(known[:5]) or 'none'}. {more}"
    )


def _quoted(name: str) -> str:
    """A name for a message: shortened, and quoted where it would not show otherwise."""
    short = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
    return short if short.isprintable() and short.strip() == short != "" else visible(repr(short))


def one(name: str, output_dir: Path, asker: str) -> Seen:
    """As `named`, for those who take a single run. Fault for a sweep, with its jobs."""
    runs = named(name, output_dir, asker)
    if len(runs) > 1:
        jobs = ", ".join(sorted(s.name for s in runs)[:10])
        raise Fault(
            f"{asker}: {visible(name)} is a sweep of {len(runs)} runs. Name one of them: {jobs}."
        )
    return runs[0]


def _derived(run: Seen) -> RunState | None:
    """The state of a run that keeps none (made by an older evalrun, or damaged), from its plan
    and its rows.
    """
    from evalrun.runs.stored import load
    from evalrun.store.cell import predictions, saved_docs

    try:
        stored = load(run.run.path)
        done, total, is_whole = 0, 0, True
        for cell in stored.plan.cells:
            done += predictions.count(stored.files(cell))
            total += (saved_docs.count(stored.files(cell)) or 0) * cell.n
            is_whole = is_whole and stored.is_complete(cell)
    except Fault:
        return None
    known = RunState(Phase.FINISHED, done=done, total=total or None)
    if is_whole:
        return known
    for cell in stored.plan.cells:
        owner = lock.owner_of(stored.files(cell).predictions.lock_file)
        if lock.is_alive(owner):
            return replace(
                known,
                phase=Phase.TESTING,
                task=cell.name,
                pid=owner["pid"],
                pid_start=owner.get("started"),
                boot_id=owner.get("boot_id"),
                host=owner.get("host"),
            )
    return replace(
        known, phase=Phase.TERMINATED, reason="unfinished, and no process is at work on it"
    )
