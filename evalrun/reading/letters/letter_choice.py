"""Which of the statements of a text decides, and what several of them mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set

from evalrun.reading.base import Candidate, Reading, Reason
from evalrun.reading.letters.letter_names import Name
from evalrun.reading.letters.letter_statement import Force, Statement

RULES = (
    *("answer", "choice", "best", "chosen", "correction", "field", "box", "whole", "last_line"),
    *("text", "called_right", "touching", "first_line"),
    *("conclusion", "called_true", "so", "fits", "tick"),
)
"""Rules that may decide, strong ones first; docs/reading.md has an example of each."""

EVIDENCE = (
    *("list", "parts", "contradiction", "refuted", "supposed", "conditional", "asked", "ruled_out"),
    *("nothing", "run_on", "cut", "enumeration", "placeholder", "thought", "self_correction"),
)
"""What speaks against a place that names an option, or for a later one."""

WEAK_RULES = frozenset({"conclusion", "called_true", "so", "fits", "tick"})
"""Rules right in under 95 % of the labelled rows that they decide; hints that decide none."""

_PART = re.compile(
    r"(?:^[\s).*,;]{0,8}|\n\s{0,4}|[.)]\s{1,3})[*_]{0,2}(?:for |part |and )?"
    r"(?:\((?:b|c|d|e|ii|iii|iv|2|3)\)\s|(?:b|c|d|ii|iii)[).]\s|part \(?(?:b|c|2|ii)\b"
    r"|for part|for the second (?:part|question|case|blank|situation|one)|similarly,"
    r"|in the second\b|in the other case)"
)
_NO_WORDS = re.compile(r"[\W_]*(?:(?:the|final|correct|question \d{1,2})[\W_]*){0,3}")


def decide(
    text: str,
    statements: Sequence[Statement],
    allowed: Set[str],
    *,
    is_cut: bool,
    several: str,
) -> Reading:
    """Weigh the statements, which come in the order of the text: the strongest, then the last.

    Args:
        text: what was read.
        statements: all that it states.
        allowed: letters of the options.
        is_cut: it ends before it is finished, so hints say nothing.
        several: wrong, first or last.
    """
    force = max((each.force for each in statements), default=None)
    if force is None or (force is Force.HINT and is_cut):
        return Reading(None, reason=Reason.CUT if is_cut else Reason.NONE)
    heard = [each for each in statements if each.force is force and not _is_stray(each, allowed)]
    if not heard:
        return Reading(None, reason=Reason.NONE)
    last = heard[-1]
    other = _candidate(statements, "", allowed)
    if not last.names or not last.letters - {""} <= allowed:
        return Reading(None, reason=Reason.NONE, runner_up=other)
    names = _several(text, heard)
    if not names:
        return _reading(last, last.names[-1], statements, allowed)
    if several == "wrong":
        return Reading(None, reason=Reason.SEVERAL, runner_up=other)
    return _reading(*names[0 if several == "first" else -1], statements, allowed)


def _is_stray(statement: Statement, allowed: Collection[str]) -> bool:
    """A bare letter that no option has: `the one on the far right is S`."""
    names = statement.names
    return bool(names) and all(
        name.form == "bare" and name.letter not in ("", *allowed) for name in names
    )


def _several(text: str, heard: Sequence[Statement]) -> list[tuple[Statement, Name]]:
    """The options between which the text does not decide; empty where it does."""
    last = heard[-1]
    if len(last.letters) > 1:
        return [(last, name) for name in last.names if name.letter]
    equals = heard if last.force is not Force.STATED else _one_breath(text, heard)
    pairs = [(each, name) for each in equals for name in each.names]
    return pairs if len({name.letter for _, name in pairs}) > 1 else []


def _one_breath(text: str, heard: Sequence[Statement]) -> list[Statement]:
    """The last statement and those before it that it does not correct."""
    chain = [heard[-1]]
    for each in reversed(heard[:-1]):
        if not each.names or not _is_same_breath(text, each, chain[0]):
            break
        chain.insert(0, each)
    return chain


def _is_same_breath(text: str, one: Statement, other: Statement) -> bool:
    """Nothing but marks between the two, or the second answers another part of the question."""
    if other.rule == "correction" or len(one.names) > 1 or len(other.names) > 1:
        return False
    gap = text[one.end : other.at].lower()
    if one.end > other.at:
        return one.letters == other.letters
    is_list = _word_before(text, one.at) == _word_before(text, other.at)
    is_list = is_list and one.rule == other.rule and _NO_WORDS.fullmatch(gap[:100]) is not None
    return is_list or _PART.search(gap[:600]) is not None


def _word_before(text: str, at: int) -> list[str]:
    """`the` of "the answer is", which is not the `closest` of "the closest answer is"."""
    return text[max(0, at - 12) : at].lower().split()[-1:]


def _reading(
    statement: Statement, name: Name, statements: Sequence[Statement], allowed: Collection[str]
) -> Reading:
    end = name.end if name.form == "text" else name.at + 1
    return Reading(
        name.letter,
        (name.at, end),
        statement.rule,
        is_weak=statement.rule in WEAK_RULES,
        runner_up=_candidate(statements, name.letter, allowed),
    )


def _candidate(
    statements: Sequence[Statement], value: str, allowed: Collection[str]
) -> Candidate | None:
    """The strongest, latest candidate with another value."""
    best: tuple[Force, int] | None = None
    found = None
    for place, each in enumerate(statements):
        for name in each.names:
            if name.letter == value or name.letter not in allowed:
                continue
            if best is None or (each.force, place) >= best:
                best = (each.force, place)
                end = name.end if name.form == "text" else name.at + 1
                found = Candidate(name.letter, name.at, end, each.rule)
    return found


def shifted(reading: Reading, by: int) -> Reading:
    """The reading of text[by:] as one of the whole text."""
    if by == 0:
        return reading
    span = None if reading.span is None else (reading.span[0] + by, reading.span[1] + by)
    other = reading.runner_up
    if other is not None:
        other = Candidate(other.value, other.start + by, other.end + by, other.rule)
    return Reading(reading.value, span, reading.rule, reading.is_weak, reading.reason, other)
