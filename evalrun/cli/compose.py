"""From read arguments to Hydra, and from Hydra to jobs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

from evalrun.cli.arguments import Arguments
from evalrun.cli.jobs import Jobs
from evalrun.cli.strings import elements, split
from evalrun.config import places
from evalrun.config.quoting import quoted
from evalrun.errors import Fault, nearest, unknown
from evalrun.metrics import METRICS

GROUPS = ("task", "model", "suite", "metric", "dataset", "judge", "summary")


def run(arguments: Arguments) -> int:
    """Compose and run every job of the command. Returns the exit code of all together."""
    for group in GROUPS:
        places.names(group, arguments.config_dir)
    places.check_headers(arguments.config_dir)
    _check_choices(arguments)
    jobs = Jobs(arguments)
    with _sweep_folder(arguments, jobs) as sweep:
        try:
            _hydra_main([*arguments.hydra_flags, *sweep, *arguments.overrides], jobs, arguments)
        finally:
            jobs.close()
        return jobs.finish()


@contextlib.contextmanager
def _sweep_folder(arguments: Arguments, jobs: Jobs) -> Iterator[list[str]]:
    """Hydra writes multirun.yaml into the sweep's folder: ours, or for a dry run one that is thrown away."""
    if not arguments.is_sweep:
        yield []
        return
    if arguments.value("dry_run") == "true":
        folder = tempfile.mkdtemp(prefix="evalrun-dry-")
        try:
            yield [f"hydra.sweep.dir={quoted(folder)}"]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    yield [f"hydra.sweep.dir={quoted(str(jobs.claim_sweep()))}"]


def _hydra_main(words: list[str], jobs: Jobs, arguments: Arguments) -> None:
    from hydra import main as hydra_main

    from evalrun.config import composing

    os.environ["HYDRA_FULL_ERROR"] = "1"
    composing.register()
    saved, sys.argv = sys.argv, ["evalrun", *words]
    try:
        hydra_main(version_base="1.3", config_path=str(places.own("conf")), config_name="config")(jobs.run)()
    except composing.ERRORS as error:
        raise _fault(error, arguments) from error
    finally:
        sys.argv = saved


def _check_choices(arguments: Arguments) -> None:
    """Fault with the nearest name for an unknown choice: Hydra's own message lists the options without one."""
    for group in ("task", "model", "suite", "metric", "judge", "summary"):
        value = arguments.value(group)
        if value is None or (group == "suite" and value == "null"):
            continue
        known = {*places.names(group, arguments.config_dir)}
        if group == "metric":
            known |= set(METRICS)
        for name in elements(value)[0] if group in ("task", "metric") else split(value):
            if name not in known and not name.startswith("["):
                raise unknown(group, name, known - {"task"} if group == "metric" else known, f"{group}={value}")


def _fault(error: Exception, arguments: Arguments) -> Fault:
    """Hydra's or OmegaConf's error as one paragraph with the nearest name."""
    from evalrun.config.keys import all_keys

    lines = [line.strip() for line in str(error).strip().split("\n")]
    causes = [error.__cause__, getattr(error.__cause__, "__cause__", None)]
    lines += [str(cause).split("\n")[0].strip() for cause in causes if cause is not None]
    kept = [
        line for line in lines if line and not line.startswith(("full_key", "object_type", "To append", "Set the"))
    ]
    text = " ".join(dict.fromkeys(kept)).rstrip(".")
    tasks = elements(arguments.value("task") or "demo_math")[0]
    known = all_keys(tasks)
    for key in arguments.typed:
        if key.rsplit(".", 1)[-1] in text and key not in known:
            hint = nearest(key, known)
            text += f". Did you mean {hint}?" if hint else ""
            break
    return Fault(f"The configuration cannot be composed: {text}")
