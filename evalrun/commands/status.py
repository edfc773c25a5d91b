"""evalrun status [RUN]: what runs do, how far they are, and how they ended.

Readable at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from evalrun.commands.parser import RunParser
from evalrun.errors import visible
from evalrun.runs.inspect import Seen, every, named
from evalrun.store.state import RunState

LONGEST_CELL = 255  # as long as the name of a folder may be
LONGEST_PROBLEM = 1000
LONGEST_TEXT = 20_000
UNKNOWN = "unknown"
"""Shown for a run whose state, plan and rows cannot be read."""


def main(argv: list[str]) -> int:
    """Print a table of all runs, or all about one. Returns the exit code."""
    parser = RunParser("status", __doc__)
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run folder, its time stamp, or latest"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON: a list of runs, or with RUN one object"
    )
    args = parser.read(argv)
    output_dir = Path(args.output_dir)
    runs = every(output_dir) if args.run is None else named(args.run, output_dir, "evalrun status")
    is_one = args.run is not None and len(runs) == 1
    if args.json:
        found = [facts(run) for run in runs]
        print(json.dumps(found[0] if is_one else found, indent=1))
    elif is_one:
        print(_details(runs[0]))
    elif not runs:
        print(f"There is no run in {output_dir}.")
    else:
        print(_table(runs))
        for run in runs:
            if run.problem:
                print(f"{_one_line(run.name)}: {_one_line(run.problem, LONGEST_PROBLEM)}")
    return 0


def facts(run: Seen) -> dict[str, Any]:
    """All that is known of a run, for programs. Absent is null; times are seconds since 1970."""
    state = run.current
    logs = sorted(str(path) for path in run.run.logs_dir.rglob("*.out"))
    summaries = sorted(run.run.summary_dir.glob("summary_*.txt"))
    backend = run.plan.get("model")
    return {
        "run": run.name,
        "path": str(run.run.path),
        "state": None if state is None else str(state.phase),
        "reason": getattr(state, "reason", None),
        "problem": run.problem,
        **{name: getattr(state, name, None) for name in ("done", "total", "task")},
        "model": run.model,
        "backend": backend.get("backend") if isinstance(backend, dict) else None,
        "tasks": run.tasks,
        "created_s": run.created_s,
        **{name: getattr(state, name, None) for name in ("started_s", "updated_s", "pid")},
        "is_alive": state is not None and state.is_alive,
        **{name: getattr(state, name, None) for name in ("host", "supervisor_pid", "server_pid")},
        "logs": logs,
        "summary": str(summaries[-1]) if summaries else None,
    }


def _table(runs: Sequence[Seen]) -> str:
    rows = [("run", "state", "rows", "model", "tasks", "made")]
    for run in runs:
        state = run.current
        phase = UNKNOWN if state is None else str(state.phase)
        rows.append(
            (
                run.name,
                phase,
                _rows(state),
                run.model or "-",
                _tasks(run.tasks),
                _moment(run.created_s),
            )
        )
    shown = [[_one_line(text) for text in row] for row in rows]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    return "\n".join(
        "  ".join(f"{t:<{w}}" for t, w in zip(row, widths, strict=True)).rstrip() for row in shown
    )


def _one_line(text: str, most: int = LONGEST_CELL) -> str:
    """Foreign text in one line of a table: line ends and tabs as escapes, what is too long cut."""
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return visible(cut.replace("\n", "\\n").replace("\t", "\\t"))


def _details(run: Seen) -> str:
    known = facts(run)
    lines = {
        "run": known["path"],
        "state": known["state"] or UNKNOWN,
        "reason": known["reason"],
        "problem": known["problem"],
        "rows": _rows_now(run.current),
        "model": _model(known["model"], known["backend"]),
        "tasks": ", ".join(known["tasks"]) or "-",
        "made": _moment(run.created_s),
        **_of_process(run.current),
        "summary": known["summary"],
        "logs": "\n".join(name.replace("\n", "\\n") for name in known["logs"]) or None,
    }
    return "\n".join(f"{name:<9}  {_indented(text)}" for name, text in lines.items() if text)


def _rows_now(state: RunState | None) -> str:
    is_asking = state is not None and state.task and not state.phase.is_end
    return _rows(state) + (f" (now {state.task})" if state is not None and is_asking else "")


def _model(name: str | None, backend: str | None) -> str:
    return f"{name or '-'}" + (f" ({backend})" if backend else "")


def _of_process(state: RunState | None) -> dict[str, str | None]:
    """The lines about the process of a run and its server; none where its state is not known."""
    if state is None:
        return {}
    started, updated = state.started_s, state.updated_s
    return {
        "started": None if started is None else _moment(started),
        "updated": None if updated is None else _moment(updated, is_ago=True),
        "process": _process(state),
        "server": _server(state),
    }


def _indented(text: str) -> str:
    """Foreign text below its name: further lines are indented, so that none looks like a line of
    ours.
    """
    cut = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
    return visible(cut).replace("\n", "\n           ")


def _rows(state: RunState | None) -> str:
    if state is None or state.done is None:
        return "-"
    return f"{state.done}/{'?' if state.total is None else state.total}"


def _tasks(names: Sequence[str]) -> str:
    more = f", +{len(names) - 3}" if len(names) > 3 else ""
    return (", ".join(names[:3]) + more) or "-"


def _process(state: RunState) -> str | None:
    if state.pid is None:
        return None
    if state.is_elsewhere:
        return f"pid {state.pid} on {state.host}, which cannot be seen from here"
    return f"pid {state.pid}" + ("" if state.is_alive else ", gone")


def _server(state: RunState) -> str | None:
    alive = {"supervisor": state.is_supervisor_alive, "server": state.is_server_alive}
    pids = {"supervisor": state.supervisor_pid, "server": state.server_pid}
    parts = [
        f"{who} pid {pid}" + ("" if alive[who] else ", gone")
        for who, pid in pids.items()
        if pid is not None
    ]
    return "; ".join(parts) or None


def _moment(seconds: float, is_ago: bool = False) -> str:
    try:
        text = f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "-"  # of a folder whose time is damaged
    return text + (f", {max(0.0, time.time() - seconds):.0f} s ago" if is_ago else "")
