"""Group rows of a summary: `mmlu:_average` over the subtasks of a name, `all` over every task of
a model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TypeAlias

from evalrun.metrics import naming
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
    numbers: dict[_Key, list[tuple[Record, Estimate]]] = {}
    repeated = _repeated(members)
    for record in members:
        for e in record.estimates:
            numbers.setdefault(_key(e, repeated), []).append((record, e))
    notes = [
        f"{'mean weighted by documents' if is_weighted else 'plain mean'} over {len(members)} tasks"
    ]
    blocked = [
        record for record in members if record.state != "complete" and not _has_value(record)
    ]
    reasons: dict[str, None] = {}
    estimates = []
    for having in numbers.values():
        holes = [
            *blocked,
            *(
                r
                for r, e in having
                if (r.state != "complete" or e.value is None) and r not in blocked
            ),
        ]
        reasons.update(dict.fromkeys(_hole(record) for record in holes))
        estimates.append(_estimate(having, not holes, is_weighted))
        if len(having) < len(members) and not holes:
            notes.append(
                f"{having[0][1].display} is over the {len(having)} of {len(members)} tasks that "
                "report it"
            )
    if not numbers:
        reasons.update(dict.fromkeys(_hole(record) for record in blocked))
    more = f" and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    reason = (
        f"no average over holes: {', '.join([*reasons][:MOST_NAMED])}{more}" if reasons else None
    )
    modes = {record.mode for record in members}
    versions = "|".join(_dated(record) for record in members)
    return Record(
        model=members[0].model,
        task=name,
        version=hashlib.sha256(versions.encode()).hexdigest()[:6],
        mode=modes.pop() if len(modes) == 1 else "mixed",
        state="withheld" if reasons else "complete",
        reason=reason,
        log=None,
        n_docs=sum(record.n_docs for record in members),
        n=max(record.n for record in members),
        counts=Counts(),
        notes=tuple(notes),
        estimates=tuple(estimates),
    )


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
    mean = None
    if is_whole:
        mean = average(
            [
                Member(e.value, e.stderr, e.ci_low, e.ci_high, e.rerun_stderr, e.n_scored)
                for e in estimates
                if e.value is not None
            ],
            is_weighted,
        )
    return Estimate(
        metric=first.metric,
        display=first.display,
        version=first.version,
        value=None if mean is None else mean.value,
        unit=first.unit,
        is_higher_better=first.is_higher_better,
        stderr=None if mean is None else mean.stderr,
        rerun_stderr=None if mean is None else mean.rerun_stderr,
        ci_low=None if mean is None else mean.ci_low,
        ci_high=None if mean is None else mean.ci_high,
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


def _signature(estimates: Sequence[Estimate], is_weighted: bool) -> str:
    """What the members share; agg says how many there are and how they weigh, ask_id stands for
    all of theirs.
    """
    read = [naming.read_signature(e.signature) for e in estimates]
    first = read[0]
    scorers, counts, params = (
        {getattr(each, name) for each in read} for name in ("scorer", "n", "params")
    )
    asked = "|".join(sorted(str(each.ask_id) for each in read))
    weights = "weighted" if is_weighted else "plain"
    return naming.write_signature(
        naming.Signature(
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
