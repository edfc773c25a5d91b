"""Hints count where nothing else is stated: the last sentence, a tick, an option that fits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evalrun.reading.letters.letter_names import Name, goes_on, name_at, skip_fill, with_list
from evalrun.reading.letters.letter_statement import (
    Force,
    Statement,
    is_conditional,
    is_placeholder,
    is_refuted,
    is_ruled_out,
    is_supposed,
    sentence_end,
    sentence_start,
)

_CONCLUDES = re.compile(
    r"(?:^|\s)(?:is|are|be|as|by|in|with|to|choose|under|options?|choice|answer|matching|matches"
    r"|:|=|→"
    r"|选)[\s*_:]{0,3}"
    r"(?:the\s)?(?:option\s|choice\s|answer\s|statement\s)?(?P<open>[(\[*\"]{0,3})(?P<letter>[A-Z])"
    r"(?=[)\]*\"]|[.,]?\s*$)"
)
_DENIES = re.compile(r"\b(?:another|other|cannot|can't|can’t|don't|doesn't|isn't|won't)\b")
_THEREFORE = re.compile(
    r"(?:^|[.\n]\s{0,3})[*_ ]{0,4}(?:therefore|thus|so|hence|overall|in conclusion|in summary"
    r"|consequently"
    r"|this (?:corresponds|matches|means|is)|因此|所以|综上)"
)
_SO = re.compile(
    r"(?:(?:^|[.!?,;\n])[\s*_]{0,4}(?:(?:so|therefore|thus|hence|then|that|(?:i (?:think|believe"
    r"|guess|would say)|i'd say)(?: that)?|it's|it’s|it is|it must be|it has to be|must be|that's"
    r"|that is"
    r"|this is|probably|likely|maybe|perhaps|definitely|sure|certainly|因此"
    r"|所以)[,:!，]?\s{0,2}){1,4}"
    r"|\s(?:leaving|leaves)(?: us)?(?: with)?(?: only)?\s|[.!?]\s{1,3}(?=\([a-z]\)))"
    r"(?:option |choice |the answer )?"
)
_ENDS = re.compile(r"[.!*_)\]\s]{0,6}$")
_FITS = re.compile(
    r"[)\]*_.:]{0,4}\s[^.\n;]{0,60}?\b(?:best (?:describes|represents|fits|matches|explains"
    r"|answers|captures|reflects)"
    r"|(?:is|provides|offers|gives) the (?:best|most [a-z]{4,14}|closest)"
    r"|(?:matches|corresponds to|agrees with|fits|is consistent with|aligns with|is closest to)"
    r" (?:our|the|this|my) (?:[a-z]{1,14} ){0,2}?(?:results?|calculat|answer|description|value"
    r"|definition|scenario))"
)
_FITS_WORDS = re.compile(
    r" (?:best|matches|corresponds|agrees|fits|consistent|aligns|provides|offers|closest)\b"
)
_CANDIDATE = re.compile(r"(?:\(|(?<=option )|(?<=choice )|(?<=\s))[A-Z](?=\)|\s)")
_TICKED = re.compile(r"(?m:^)[ \t*_>#-]{0,6}[(]?(?P<letter>[A-Z])[).:、][^\n✓✔✅]{0,200}[✓✔✅]")


def find_hints(text: str, low: str) -> Iterator[Statement]:
    """All hints of a text that states nothing. Linear time."""
    yield from _ticks(text)
    yield from _so(text, low)
    yield from _fits(text, low)
    yield from _conclusions(text, low)


def _ticks(text: str) -> Iterator[Statement]:
    """The options that carry a tick."""
    if "✓" in text or "✔" in text or "✅" in text:
        for match in _TICKED.finditer(text):
            at = match.start("letter")
            yield Statement(
                at, match.end(), (Name(match["letter"], at, at + 1, "marked"),), "tick", Force.HINT
            )


def _so(text: str, low: str) -> Iterator[Statement]:
    """`So it's (C).`, `leaving C.` at the end of the text."""
    start = max(0, len(low.rstrip()) - 100)
    for match in _SO.finditer(low, start):
        name = name_at(text, low, skip_fill(low, match.end()), match.end() - 1)
        if name is not None and text[name.at].isupper() and _ENDS.match(text, name.end):
            yield Statement(match.start(), name.end, (name,), "so", Force.HINT)


def _fits(text: str, low: str) -> Iterator[Statement]:
    """`Option (C) best describes this.`"""
    for match in _FITS_WORDS.finditer(low):
        start = sentence_start(low, match.start())
        named = list(_CANDIDATE.finditer(text, start, match.start()))
        if len(named) != 1 or is_supposed(low, named[0].start()):
            continue
        name = name_at(text, low, named[0].end() - 1, start)
        if name is not None and name.form != "bare" and _FITS.match(low, name.end):
            yield Statement(name.at, match.end(), (name,), "fits", Force.HINT)


def _conclusions(text: str, low: str) -> Iterator[Statement]:
    """`The quality not listed is (C) lack of interest.` as last sentence, or behind a therefore."""
    stop = len(text.rstrip())
    starts = {sentence_start(low, stop - 1)}
    starts |= {match.end() for match in _THEREFORE.finditer(low)}
    for start in starts:
        end = sentence_end(low, start, 400)
        found = list(_CONCLUDES.finditer(text, start, max(start, end)))
        names = [name for match in found if (name := _concluded(text, low, match)) is not None]
        if not names or is_supposed(low, names[0].at) or is_placeholder(low, names[0]):
            continue
        if _DENIES.search(low, start, names[0].at) or goes_on(text, names[-1]):
            continue
        if not (
            is_refuted(low, names[-1])
            or is_ruled_out(low, names[-1])
            or is_conditional(low, start, names[-1])
        ):
            listed = with_list(text, low, names[-1])
            yield Statement(
                names[0].at, listed[-1].end, (*names, *listed[1:]), "conclusion", Force.HINT
            )


def _concluded(text: str, low: str, match: re.Match[str]) -> Name | None:
    at = match.start("letter")
    name = name_at(text, low, at, match.start("open"))
    if name is None:
        return None
    is_named = re.search(r"(?:option|choice|answer)\s$", low[max(0, at - 8) : at])
    return name if name.form == "wrapped" or is_named else None
