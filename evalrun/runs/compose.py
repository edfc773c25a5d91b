"""From read arguments to a composed configuration; what is wrong with them becomes a Fault."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

from evalrun.config import places, yaml_files
from evalrun.config.keys import KeyKind, kind, unknown_key
from evalrun.errors import Fault, unknown
from evalrun.grammar import elements, split
from evalrun.metrics import METRICS
from evalrun.runs.words.arguments import GROUPS, Arguments
from evalrun.runs.words.reopen import with_stored_settings

DEFAULT_TASK = "demo_math"
FULL_ERROR = "HYDRA_FULL_ERROR"


def checked(arguments: Arguments) -> Arguments:
    """The command with what a named run adds to it. Fault for names that do not exist."""
    yaml_files.check(arguments.config_dir)
    arguments = with_stored_settings(arguments)
    _check_choices(arguments)
    _check_subsets(arguments)
    _check_task_keys(arguments)
    return arguments


def compose(arguments: Arguments) -> Any:
    """The composed configuration of a command that runs one job.

    Fault where it cannot be composed.
    """
    from evalrun.config import composing

    try:
        return composing.composed_settings(arguments.overrides, arguments.config_dir)
    except composing.ERRORS as error:
        raise _fault(error, arguments) from error


def call_hydra(words: list[str], job: Callable[[Any], None], arguments: Arguments) -> None:
    """Let hydra.main compose `words` and call `job` once for each job; for sweeps, and for what
    Hydra prints.

    Its errors become a Fault of one paragraph.
    """
    from hydra import main as hydra_main

    from evalrun.config import composing

    before, sys.argv = sys.argv, ["evalrun", *words]
    full_error = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"  # Hydra raises, and does not print and exit
    conf = str(places.own("conf"))
    try:
        with composing.own_hydra():
            hydra_main(version_base="1.3", config_path=conf, config_name="config")(job)()
    except composing.ERRORS as error:
        raise _fault(error, arguments) from error
    finally:
        sys.argv = before
        if full_error is None:
            del os.environ[FULL_ERROR]
        else:
            os.environ[FULL_ERROR] = full_error


def _check_choices(arguments: Arguments) -> None:
    """Fault with the nearest name for an unknown choice: Hydra's own message lists the options
    without one.
    """
    for group in GROUPS:
        value = arguments.value(group)
        if value is None or (group == "suite" and value == "null"):
            continue
        known = {*places.names(group, arguments.config_dir)}
        for name in _named(group, value, arguments.is_sweep):
            if group == "metric":
                _check_metric(name, known, value)
            elif name not in known:
                raise unknown(group, name, known, f"{group}={value}")


def _named(group: str, value: str, is_sweep: bool) -> list[str]:
    """The names that a choice holds: tasks and metrics may be lists."""
    if group not in ("task", "metric"):
        return split(value)
    choices = split(value) if is_sweep else [value]
    return [name for choice in choices for name in elements(choice, group)[0]]


def _check_metric(name: str, files: set[str], value: str) -> None:
    """Fault for a name that is neither a metric nor a file with a set of them."""
    known = files | set(METRICS)
    if name in known:
        return
    if name in METRICS.offered():
        METRICS.key(name)  # says that the command must name it
    raise unknown("metric", name, known - {"task"}, f"metric={value}")


def _check_subsets(arguments: Arguments) -> None:
    """Fault for a subset that the task file does not list. tasks.NAME.subsets sets another list,
    for own data.
    """
    known = places.names("task", arguments.config_dir)
    for name, subset in arguments.subsets:
        listed = yaml_files.subsets(known[name])
        if listed and subset not in listed:
            where = (
                f"task={name}:{subset} (tasks.{name}.subsets=[{subset}] asks for it all the same)"
            )
            raise unknown("subset", subset, listed, where)


def _check_task_keys(arguments: Arguments) -> None:
    """Fault for tasks.NAME.KEY where the task does not exist, or is not asked for."""
    known = places.names("task", arguments.config_dir)
    has_suite = arguments.value("suite") not in (None, "null")
    typed = arguments.value("task") or DEFAULT_TASK
    asked = {
        n
        for choice in (split(typed) if arguments.is_sweep else [typed])
        for n in elements(choice, "task")[0]
    }
    for key in arguments.typed:
        group, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        if group not in ("tasks", "task_params"):
            continue
        if name not in known:
            raise unknown("task", name, known, key)
        if name not in asked and not has_suite:
            raise Fault(
                f"{key} sets task {name}, which is not asked for: {', '.join(sorted(asked))}. Add "
                f"task={name}."
            )


def _fault(error: Exception, arguments: Arguments) -> Fault:
    """Hydra's or OmegaConf's error as one paragraph."""
    from hydra.errors import OverrideParseException
    from omegaconf.errors import GrammarParseError

    if isinstance(error, OverrideParseException):
        override = error.override.lstrip("+")
        why = (
            str(error)
            .split("\n")[0]
            .removeprefix(f"Error parsing override '{error.override}'")
            .strip()
        )
        return Fault(
            f"{override} cannot be read{f' ({why})' if why else ''}. Put a value with special "
            "characters in quotes, once for the shell and once for the value: "
            f"'{override.partition('=')[0]}=\"VALUE\"'."
        )
    lines = [line.strip() for line in str(error).strip().split("\n")]
    causes = [error.__cause__, getattr(error.__cause__, "__cause__", None)]
    lines += [str(cause).split("\n")[0].strip() for cause in causes if cause is not None]
    kept = [line for line in lines if line and not line.startswith(_NOISE)]
    text = ". ".join(line.rstrip(".") for line in dict.fromkeys(kept))
    if match := re.match(r"Could not override '([^']+)'", text):
        return _not_there(match[1])
    if isinstance(error.__cause__, GrammarParseError) or isinstance(error, GrammarParseError):
        text += ". ${NAME} stands for another setting; a plain one is written \\${"
    text = re.sub(r"^Error merging override \+*(\S+?)(=.*?)?(\. |$)", r"\1\2: ", text)
    return Fault(f"The configuration cannot be composed: {text}.")


def _not_there(key: str) -> Fault:
    group, _, rest = key.partition(".")
    name = rest.partition(".")[0]
    if group == "tasks" and name:
        return Fault(
            f"{key} sets task {name}, which is not asked for here. Add task={name}, or leave the "
            "setting out."
        )
    if kind(key) is KeyKind.section:
        return Fault(
            f"{key} is a section and is not set as a whole. Set its keys one by one: "
            f"{key}.KEY=VALUE."
        )
    return unknown_key(key, "the configuration")


_NOISE = (
    "full_key",
    "object_type",
    "reference_type",
    "To append",
    "Set the",
    "See https",
    "^",
    "Config search path",
    "provider=",
)
"""Beginnings of the lines of Hydra's messages that say nothing to a user."""
