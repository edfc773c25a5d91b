"""evalrun pack RUN: the whole run folder as one archive to hand on, and its logs as another."""

from __future__ import annotations

import os
from pathlib import Path

from evalrun.commands.parser import RunParser
from evalrun.errors import Fault, visible
from evalrun.runs.inspect import Seen, one
from evalrun.store import archive

SHORTEST_SECRET = 8
"""A shorter value of an environment variable is not a key, and would be found by chance."""


def main(argv: list[str]) -> int:
    """Write both archives into the output folder and print their paths. Returns the exit code.

    Fault where the run is still at work (unless --partial), or a file holds the API key of its
    model.
    """
    parser = RunParser("pack", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run folder, its time stamp, or latest")
    parser.add_argument(
        "--partial", action="store_true", help="pack a run that is still at work, as far as it is"
    )
    args = parser.read(argv)
    output_dir = Path(args.output_dir)
    run = one(args.run, output_dir, "evalrun pack")
    _refuse_running(run, args.partial)
    path = run.run.path
    folder = (
        output_dir if path.resolve().is_relative_to(output_dir.resolve()) else path.resolve().parent
    )
    packed = archive.pack(run.run, folder, _digits(run), _secrets(run))
    if packed.left_out:
        print(f"evalrun: left out: {visible(', '.join(packed.left_out))}.")
    print(packed.archive)
    print(packed.logs)
    return 0


def _refuse_running(run: Seen, is_partial: bool) -> None:
    now = run.current
    if now is not None and not now.phase.is_end and not is_partial:
        raise Fault(
            f"{run.name} is {now.phase} (pid {now.pid}), so its report is not whole. Wait for it, "
            f"end it with `evalrun stop {run.name}`, or pack it as far as it is: evalrun pack "
            f"{run.name} --partial."
        )


def _digits(run: Seen) -> str:
    """Of the moment in which the run was planned, its model and the folder's own name."""
    return archive.digits(
        [str(run.plan.get("created", run.created_s)), run.model or "", run.run.path.resolve().name]
    )


def _secrets(run: Seen) -> list[tuple[str, str]]:
    """The API key of the model, where this environment knows it: it must stand in no file."""
    model = run.plan.get("model")
    name = model.get("api_key_env") if isinstance(model, dict) else None
    value = os.environ.get(name, "") if isinstance(name, str) else ""
    return [(f"the environment variable {name}", value)] if len(value) >= SHORTEST_SECRET else []
