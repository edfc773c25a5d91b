"""The choice between the places that a reader could read: the clearest one, of equal ones the
last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple, TypeAlias

from evalrun.reading.base import Candidate, Reading, Reason
from evalrun.reading.numbers.number_place import AnswerPlace, Tier
from evalrun.reading.numbers.number_values import FoundNumber
from evalrun.reading.numbers.number_view import View

Several: TypeAlias = Literal["wrong", "first", "last"]
_DOUBT = re.compile(
    r"\b(?:wait|actually|correction|correct(?:ed|ing)|sorry|oops|mistake|error|no,|re-?check"
    r"|re-?calculat\w{1,4}|revised?|instead)\b"
    r"|等等|不对|更正|重新",
    re.IGNORECASE,
)


class Resolved(NamedTuple):
    """A place and what it states: several values where is_several; none where found is empty (then
    it says none)."""

    place: AnswerPlace
    found: tuple[FoundNumber, ...]
    is_several: bool = False

    @property
    def first(self) -> FoundNumber:
        """The first value; only where there is one."""
        return self.found[0]


def resolve(
    places: Sequence[AnswerPlace], read: Callable[[AnswerPlace], Resolved | None]
) -> list[Resolved]:
    """What the places state, in order; those less clear than a statement only where there is
    none."""
    stated = [
        each for place in places if place.tier is Tier.STATED and (each := read(place)) is not None
    ]
    if any(each.place.tier is Tier.STATED for each in stated):
        return stated
    others = [
        each
        for place in places
        if place.tier is not Tier.STATED and (each := read(place)) is not None
    ]
    return sorted([*stated, *others], key=lambda each: each.place.start)


def choose(
    seen: View, resolved: Sequence[Resolved], several: str, weak: Collection[str]
) -> Reading:
    """The reading of the clearest statement, or why there is none."""
    if not resolved:
        return Reading(None, reason=Reason.CUT if seen.is_cut else Reason.NONE)
    tier = max(each.place.tier for each in resolved)
    best = _of_equals(seen.text, [each for each in resolved if each.place.tier == tier])
    if not best.found:
        return Reading(None, reason=Reason.NONE, runner_up=_runner_up(resolved, None))
    if best.is_several and several == "wrong":
        return Reading(None, reason=Reason.SEVERAL, runner_up=_candidate(best, best.first))
    found = best.found[-1] if best.is_several and several == "last" else best.first
    rule = best.place.rule
    return Reading(
        found.value,
        (found.start, found.end),
        rule,
        rule in weak,
        None,
        _runner_up(resolved, found.value),
    )


def _of_equals(text: str, equals: list[Resolved]) -> Resolved:
    """The last of equally clear places; but the first line of hashes, which ends an answer, unless
    it is corrected."""
    hashes = [each for each in equals if each.place.rule == "hashes" and each.found]
    if hashes and equals[-1].place.rule == "hashes":
        for one, later in itertools.pairwise(hashes):
            if not _DOUBT.search(text, one.place.end, later.place.start):
                return one
        return hashes[-1]
    last = equals[-1]
    if last.place.group:
        group = [each for each in equals if each.place.group == last.place.group]
        return _grouped(group)
    return last


def _grouped(group: list[Resolved]) -> Resolved:
    """Boxes joined by a comma or "and" are one statement."""
    found = tuple(each for one in group for each in one.found)
    is_several = len({each.value for each in found}) > 1 or any(each.is_several for each in group)
    return Resolved(group[0].place, found, is_several)


def _runner_up(resolved: Sequence[Resolved], value: str | None) -> Candidate | None:
    for each in sorted(resolved, key=lambda one: (one.place.tier, one.place.start), reverse=True):
        for found in each.found:
            if found.value != value:
                return _candidate(each, found)
    return None


def _candidate(resolved: Resolved, found: FoundNumber) -> Candidate:
    return Candidate(found.value, found.start, found.end, resolved.place.rule)
