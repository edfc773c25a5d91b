"""The number that a text states as its answer."""

from __future__ import annotations

import re

from evalrun.reading.base import Reading, Reason, check_several
from evalrun.reading.numbers.number_choice import Resolved, choose, resolve
from evalrun.reading.numbers.number_clause import has_number, read_clause
from evalrun.reading.numbers.number_place import AnswerPlace, Tier
from evalrun.reading.numbers.number_places import find_places
from evalrun.reading.numbers.number_view import View, view

WEAK_RULES: frozenset[str] = frozenset({"lettered"})
"""Rules that are right in under 95 % of the labelled rows that they decide."""

_ITEM = re.compile(r"[\s*_:]{0,12}(?:1[.)]|[-*•])[ \t]+[*_]{0,2}[A-Za-z]")
_DRESSING = re.compile(r"[^\w\n\\$]{0,20}")
_ALONE = re.compile(r"[^\d\n]{0,30}[\d.,/ ^{}\\$%-]{1,60}[^\d\n]{0,60}")


def read_number(text: str, *, truncated: bool | None = None, several: str = "wrong") -> Reading:
    r"""The number that `text` states as its answer, in the spelling of `evalrun.text.numbers`
    (1234, -0.5, 1/3).

    text: the answer of a model.
    truncated: whether it was cut off at the length limit; None: judged from the text.
    several: what several different stated numbers mean: wrong (no value, reason several), first,
    last.

    Statements, from clear to weak: `#### N`, \boxed{}, an answer tag or JSON field, a cue ("the
    answer is", A:, 答案)
    that the number follows; a concluding sentence, a first line that is only the number; what a
    finished text ends
    with. Of equal ones the last counts. A text that was cut off states only what a mark or cue gave
    before. Thought,
    program code and invented further questions are not read. Linear time. Rules: docs/reading.md.
    """
    check_several(several)
    seen = view(text, truncated)
    if seen.has_open_thought:
        return Reading(None, reason=Reason.CUT)
    resolved = resolve(find_places(seen, has_number), lambda place: _resolve(seen, place))
    return choose(seen, resolved, several, WEAK_RULES)


def _resolve(seen: View, place: AnswerPlace) -> Resolved | None:
    """What `place` states; None where it is no statement of a number."""
    if place.rule == "unknown":
        return Resolved(place, ())
    if place.rule in ("cue", "heading", "result_line", "correction"):
        return _after_cue(seen, place)
    outcome = read_clause(
        seen.text, place.start, place.end, place.tier >= Tier.STATED or place.is_whole
    )
    if outcome.found is None:
        return Resolved(place, ()) if place.rule == "boxed" else None
    if _is_unfinished(seen, place, outcome.found.end):
        return None
    found = (outcome.found, *outcome.rest) if outcome.is_several else (outcome.found,)
    return Resolved(place, found, outcome.is_several)


def _after_cue(seen: View, place: AnswerPlace) -> Resolved | None:
    """A number close behind a cue is stated; one further on in its sentence only where the sentence
    makes it the point."""
    text = seen.text
    if _ITEM.match(text, place.start, place.end + 40):
        return None
    outcome = read_clause(text, place.start, place.end, True)
    if outcome.found is None or _is_unfinished(seen, place, outcome.found.end):
        return None
    gap = text[place.start : outcome.found.start]
    if "\n" in gap.lstrip(" \t*_:") or (place.rule == "heading" and "\n" in gap):
        begin = outcome.found.start - len(gap.rpartition("\n")[2])
        if not outcome.is_direct or not _ALONE.fullmatch(text, begin, place.end):
            return None
    if not outcome.is_direct:
        if place.rule == "correction":
            return None
        place = place._replace(tier=Tier.CONCLUSION, rule="cue_sentence")
    found = (outcome.found, *outcome.rest) if outcome.is_several else (outcome.found,)
    return Resolved(place, found, outcome.is_several)


def _is_unfinished(seen: View, place: AnswerPlace, end: int) -> bool:
    """True where a text that was cut off ends right after the number: more digits may have
    followed."""
    return seen.is_cut and not place.is_whole and not seen.text[end : seen.end].strip(" \n")
