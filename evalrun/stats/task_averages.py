"""Averages over tasks: `mmlu:_average` over the subtasks of one name, `all` over every task.

Value: sum w x with w = 1/K, or documents over all documents where weighted. stderr: sqrt(sum w^2
se^2), the members being independent. Interval: the members' own, combined (MOVER: Zou and Donner
2008, Statistics in Medicine 27): low = value - sqrt(sum w^2 (x - low_i)^2), high likewise; it stays
in the range of its members and is never a point where theirs are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

AVERAGE = "_average"
ALL = "all"


@dataclass(frozen=True, slots=True)
class Member:
    """A task's number. Absent is None.

    Attributes:
        n_docs: its documents, the weight where the average is weighted.
    """

    value: float
    stderr: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    rerun_stderr: float | None = None
    n_docs: int = 1


def group_names(tasks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Group row -> its members, in order: `NAME:_average` for each name before `:` with two members
    or more, then `all`.

    A part after `|` (the number of shots) tells groups apart and stays: `mmlu:_average|5`.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        head, bar, shots = task.partition("|")
        name, colon, _ = head.partition(":")
        if colon:
            found.setdefault((name, bar + shots), []).append(task)
    groups = {
        f"{name}:{AVERAGE}{shots}": tuple(each)
        for (name, shots), each in found.items()
        if len(each) > 1
    }
    return {**groups, ALL: tuple(tasks)} if tasks else {}


def is_group(task: str) -> bool:
    """True for the name of a group row."""
    return task == ALL or task.partition("|")[0].endswith(f":{AVERAGE}")


def average(members: Sequence[Member], is_weighted: bool = False) -> Member:
    """Their mean with its error.

    NaN in a member is NaN; what one member lacks, the mean lacks. ValueError for none.
    """
    if not members:
        raise ValueError("no member to average over")
    total = sum(member.n_docs for member in members)
    weights = [member.n_docs / total if is_weighted else 1 / len(members) for member in members]
    if is_weighted:
        value = math.fsum(w * member.value for w, member in zip(weights, members, strict=True))
    else:
        value = math.fsum(member.value for member in members) / len(members)
    below = _norm(weights, [_gap(member.value, member.ci_low) for member in members])
    above = _norm(weights, [_gap(member.value, member.ci_high) for member in members])
    return Member(
        value=value,
        stderr=_norm(weights, [member.stderr for member in members]),
        ci_low=None if below is None else value - below,
        ci_high=None if above is None else value + above,
        rerun_stderr=_norm(weights, [member.rerun_stderr for member in members]),
        n_docs=total,
    )


def aggregate(
    tasks: Mapping[str, Mapping[str, Member]], is_weighted: bool = False
) -> dict[str, dict[str, Member]]:
    """The tasks and then their group rows, each a mapping from metric to number.

    A metric is averaged over the members that have it.
    """
    rows = {task: dict(numbers) for task, numbers in tasks.items()}
    for group, members in group_names(list(tasks)).items():
        names = dict.fromkeys(name for task in members for name in tasks[task])
        rows[group] = {
            name: average(
                [tasks[task][name] for task in members if name in tasks[task]], is_weighted
            )
            for name in names
        }
    return rows


def _gap(value: float, end: float | None) -> float | None:
    return None if end is None else end - value


def _norm(weights: Sequence[float], parts: Sequence[float | None]) -> float | None:
    """sqrt(sum w^2 x^2), None where a part is absent.

    The same for equal weights and one common factor.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if len(set(weights)) == 1:
        return math.sqrt(math.fsum(part * part for part in known)) * weights[0]
    return math.sqrt(math.fsum((w * part) ** 2 for w, part in zip(weights, known, strict=True)))
