"""Tasks as they are typed: `NAME[:SUBSET][@k=2&n=8][|SHOTS]`. One writer, one reader, inverse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalrun.errors import unknown, visible
from evalrun.grammar import WrittenForm, read_pairs, split, write_pairs
from evalrun.metrics.base import METRICS
from evalrun.metrics.create import parameter_names

_FORM = "NAME[:SUBSET][@k=2&n=8][|SHOTS]"
_SHOTS = re.compile(r"[0-9]{1,6}")
# LightEval's name, read so that the planner can explain it
_FOREIGN_PARAMETERS = ("sample_scoring_function",)


@dataclass(frozen=True, slots=True)
class TaskString:
    """A task as written on the command line.

    Attributes:
        shots: None where the task's own number holds.
        suite: an old form.
    """

    name: str
    subset: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    shots: int | None = None
    suite: str | None = None


def parse_task(text: str) -> TaskString:
    """Read `NAME[:SUBSET][@k=2&n=8][|SHOTS]`; `@k=2@n=8` and the old `SUITE|NAME|SHOTS` are read
    too.

    Fault for any other form, and for a parameter that is neither k, n nor a parameter of any
    metric.
    """
    form = WrittenForm("task", text, _FORM)
    suite, body, shots = _parts(form)
    head, *rest = split(body, "@")
    name, subset = _named(head, form)
    pairs = read_pairs([pair for part in rest for pair in split(part, "&")], form)
    known = task_parameters()
    for given, _ in pairs:
        if given not in known:
            raise unknown("parameter", given, known, f"task {visible(text)!r}")
    return TaskString(name, subset, dict(pairs), shots, suite)


def _parts(form: WrittenForm) -> tuple[str | None, str, int | None]:
    """(suite, the part with the task's name, shots) of a task."""
    parts = split(form.text, "|")
    suite = parts.pop(0) if len(parts) == 3 else None
    if len(parts) > 2 or "" in parts or suite == "":
        raise form.broken()
    if len(parts) == 1:
        return suite, parts[0], None
    if not _SHOTS.fullmatch(parts[1]):
        raise form.broken(f"{visible(parts[1])!r} is no number of shots")
    return suite, parts[0], int(parts[1])


def _named(head: str, form: WrittenForm) -> tuple[str, str | None]:
    """(name, subset) of a task."""
    name, colon, subset = (part.strip() for part in head.partition(":"))
    if not name or (colon and not subset) or re.search(r"[\s&=,]", name + subset):
        raise form.broken()
    return name, subset or None


def write_task(task: TaskString) -> str:
    """The text that `parse_task` reads as `task`. A suite needs shots: `SUITE|NAME|SHOTS`."""
    head = task.name if task.subset is None else f"{task.name}:{task.subset}"
    pairs = write_pairs(task.params.items())
    text = f"{head}@{pairs}" if pairs else head
    if task.suite is not None:
        return f"{task.suite}|{text}|{task.shots or 0}"
    return text if task.shots is None else f"{text}|{task.shots}"


def task_parameters() -> tuple[str, ...]:
    """What may stand after the @ of a task: every parameter of every metric, k and n first."""
    names = {name: None for key in METRICS for name in parameter_names(METRICS.get(key))}
    return tuple(dict.fromkeys(("k", "n", *names, *_FOREIGN_PARAMETERS)))
