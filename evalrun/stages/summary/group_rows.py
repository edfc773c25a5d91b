"""Group rows of a summary: `mmlu:_average` over the subtasks of a name, `all` over every task of
a model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from evalrun.metrics import signatures
from evalrun.stages.summary.blocks import Lane, lanes
from evalrun.stats.task_averages import ALL, Member, average, group_names
from evalrun.types import Counts, Estimate, Record
from evalrun.version import __version__

_Key: TypeAlias = tuple[str, str, bool, str]
"""Shown name, unit, direction, and what tells two numbers of one name in one task apart: numbers
that may be averaged.
"""

MOST_NAMED = 5  # members that withhold an average


def with_groups(records: Sequence[Record], is_weighted: bool = False) -> list[Record]:
    """The records, then their group rows."""
    return [*records, *groups(records, is_weighted)]


def groups(records: Sequence[Record], is_weighted: bool = False) -> list[Record]:
    """One Record per group and model: `NAME:_average` for two subtasks or more, `all` for two tasks
    or more.

    A number is averaged over the tasks that report it, per shown name and unit, plainly or weighted
    by documents. A member that is not complete withholds the averages that it belongs to and is
    named; one without any number withholds all. Subtasks of differing definition (few-shot, prompt)
    form groups of their own.
    """
    by_lane: dict[Lane, list[Record]] = {}
    for lane, record in lanes(records):
        by_lane.setdefault(lane, []).append(record)
    found: dict[str, list[Record]] = {}
    for (_, number), members in by_lane.items():
        by_name = {_dated(record): record for record in members}
        if number or len(members) < 2:
            continue
        for group, names in group_names(list(by_name)).items():
            record = _group(group.partition("|")[0], [by_name[name] for name in names], is_weighted)
            found.setdefault(group, []).append(record)
    ordered = sorted(found, key=lambda group: group == ALL)
    return [record for group in ordered for record in found[group]]


def _dated(record: Record) -> str:
    return f"{record.task}|{record.version}"


def _group(name: str, members: Sequence[Record], is_weighted: bool) -> Record:
    estimates, holes, notes = _averages(members, is_weighted)
    reason = _withheld(holes)
    modes = {record.mode for record in members}
    versions = "|".join(_dated(record) for record in members)
    kind = "mean weighted by documents" if is_weighted else "plain mean"
    return Record(
        model=members[0].model,
        task=name,
        version=hashlib.sha256(versions.encode()).hexdigest()[:6],
        mode=modes.pop() if len(modes) == 1 else "mixed",
        state="withheld" if reason else "complete",
        reason=reason,
        log=None,
        n_docs=sum(record.n_docs for record in members),
        n=max(record.n for record in members),
        counts=Counts(),
        notes=(f"{kind} over {len(members)} tasks", *notes),
        estimates=tuple(estimates),
    )


def _averages(
    members: Sequence[Record], is_weighted: bool
) -> tuple[list[Estimate], list[Record], list[str]]:
    """The averages of a group, the members that withhold some of them, and notes."""
    blocked = [r for r in members if r.state != "complete" and not _has_value(r)]
    numbers = _by_number(members)
    if not numbers:
        return [], blocked, []
    holes: list[Record] = []
    estimates, notes = [], []
    for having in numbers:
        own_holes = [*blocked, *(r for r, e in having if _is_hole(r, e) and r not in blocked)]
        holes += own_holes
        estimates.append(_estimate(having, not own_holes, is_weighted))
        if len(having) < len(members) and not own_holes:
            notes.append(
                f"{having[0][1].display} is over the {len(having)} of {len(members)} tasks that "
                "report it"
            )
    return estimates, holes, notes


def _by_number(members: Sequence[Record]) -> list[list[tuple[Record, Estimate]]]:
    """The estimates that may be averaged together, each with its record."""
    repeated = _repeated(members)
    numbers: dict[_Key, list[tuple[Record, Estimate]]] = {}
    for record in members:
        for e in record.estimates:
            numbers.setdefault(_key(e, repeated), []).append((record, e))
    return list(numbers.values())


def _is_hole(record: Record, e: Estimate) -> bool:
    return record.state != "complete" or e.value is None


def _withheld(holes: Sequence[Record]) -> str | None:
    """Why there is no average, naming the first few members that withhold it; None without one."""
    names = list(dict.fromkeys(_hole(record) for record in holes))
    if not names:
        return None
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"no average over holes: {', '.join(names[:MOST_NAMED])}{more}"


def _has_value(record: Record) -> bool:
    return any(e.value is not None for e in record.estimates)


def _hole(record: Record) -> str:
    return f"{record.task} is {'unscored' if record.state == 'complete' else record.state}"


def _repeated(members: Sequence[Record]) -> set[_Key]:
    """Names that some task has twice: they are told apart by what else the signature says."""
    found = set()
    for record in members:
        keys = [_key(e, set()) for e in record.estimates]
        found |= {key for key in keys if keys.count(key) > 1}
    return found


def _key(e: Estimate, repeated: set[_Key]) -> _Key:
    key = (e.display, e.unit, e.is_higher_better, "")
    lasting = re.sub(r"\|?\b(?:err|ask_id|evalrun):[^|]*", "", e.signature)
    return (*key[:3], lasting) if key in repeated else key


def _estimate(
    having: Sequence[tuple[Record, Estimate]], is_whole: bool, is_weighted: bool
) -> Estimate:
    estimates = [e for _, e in having]
    first = estimates[0]
    shared = replace(
        first,
        value=None,
        stderr=None,
        rerun_stderr=None,
        ci_low=None,
        ci_high=None,
        method="members",
        n_docs=sum(e.n_docs for e in estimates),
        n=max(e.n for e in estimates),
        n_scored=sum(e.n_scored for e in estimates),
        n_error=sum(e.n_error for e in estimates),
        n_truncated=sum(e.n_truncated for e in estimates),
        n_unparsed=sum(e.n_unparsed for e in estimates),
        bounds=None,
        signature=_signature(estimates, is_weighted),
    )
    if not is_whole:
        return shared
    mean = average([_member(e, e.value) for e in estimates if e.value is not None], is_weighted)
    return replace(
        shared,
        value=mean.value,
        stderr=mean.stderr,
        rerun_stderr=mean.rerun_stderr,
        ci_low=mean.ci_low,
        ci_high=mean.ci_high,
    )


def _member(e: Estimate, value: float) -> Member:
    return Member(value, e.stderr, e.ci_low, e.ci_high, e.rerun_stderr, e.n_scored)


def _signature(estimates: Sequence[Estimate], is_weighted: bool) -> str:
    """What the members share; agg says how many there are and how they weigh, ask_id stands for
    all of theirs.
    """
    read = [signatures.read_signature(e.signature) for e in estimates]
    first = read[0]
    scorers, counts, params = (
        {getattr(each, name) for each in read} for name in ("scorer", "n", "params")
    )
    asked = "|".join(sorted(str(each.ask_id) for each in read))
    weights = "weighted" if is_weighted else "plain"
    return signatures.write_signature(
        signatures.Signature(
            metric=first.metric,
            version=first.version,
            params=first.params if len(params) == 1 else (),
            scorer=first.scorer if len(scorers) == 1 else None,
            n=first.n if len(counts) == 1 else None,
            agg=f"{weights} mean of {len(read)}",
            err="members",
            ask_id=hashlib.sha256(asked.encode()).hexdigest()[: len(str(first.ask_id))],
            evalrun=__version__,
        )
    )
