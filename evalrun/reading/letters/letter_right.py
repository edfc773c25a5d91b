"""Options that are called right: (B) is the correct answer, option C is best, B项正确."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evalrun.reading.cues import LATIN, SCRIPTED, any_of
from evalrun.reading.letters.letter_names import Name, name_at
from evalrun.reading.letters.letter_statement import Force, Statement, is_supposed, sentence_start

_VERBS = (
    " is ",
    " are ",
    " would be ",
    " must be ",
    " should be ",
    " seems ",
    " appears ",
    " ist ",
    " est ",
    " es ",
    " è ",
    " é ",
)
_RIGHT = re.compile(any_of("correct", LATIN))
_RIGHT_SCRIPTED = re.compile(any_of("correct", SCRIPTED))
_WEAK_WORD = re.compile(r"(?:true|accurate|likely|plausible|reasonable|suitable|logical)\b")
_ADJACENT = re.compile(
    r"(?:(?P<before>[^A-Za-z0-9]|^)(?P<open>[(\[*_\"“'`$]{0,4})(?P<letter>[A-Za-z])"
    r"(?P<close>[)\]*_\"”'`$.:]{0,4})(?P<text>项|选项|項)?)\s{0,2}$"
)
_LEAD = re.compile(
    r"(?:options?|choices?|answers?|alternatives?|letter|so|therefore|thus|hence|that|only|both"
    r"|and|or|then|like|think|believe|选项|因此|所以|故)"
    r"[\s,，*_:]{0,4}$|(?:^|[\n,，:;；。]|[.!?]\s)[\s*_#>-]{0,8}$"
)
_JOINED_BEFORE = re.compile(
    r"(?<![A-Za-z0-9])(?P<letter>[A-Z])[)*_\]]{0,4}(?:\s{0,2}[,/&、和与或]\s{0,2}|,?\s{1,2}(?:and"
    r"|or)\s{1,2})"
    r"(?:and\s|or\s)?(?:options?\s|choice\s)?[(*_\[]{0,4}$"
)
_SENTENCE_NAME = re.compile(
    r"[\s*_#>-]{0,8}(?:(?:therefore|thus|so|hence|overall|finally|in conclusion|in summary"
    r"|based on [^,]{0,40}),?\s{1,2})?"
    r"(?:the\s)?(?:correct\s|best\s)?(?:options?|choices?|answers?|选项)?[\s*_(]{0,4}"
)
_GOES_ON = re.compile(r"\b(?:is|are|was|because|since|which|that|and|but|not|if|when|while|so)\b")
_NONE_OF = re.compile(r"\b(?:none|neither|nor)\b|\bno (?:options?|choices?|answers?)\b")


def find_called_right(text: str, low: str, has_scripts: bool) -> Iterator[Statement]:
    """`(B) is the correct answer`, `Option B, the second one, is right`, B项正确."""
    for match in _right_places(low, has_scripts):
        names = _names_before(text, low, match.start())
        if not names or is_supposed(low, names[0].at):
            continue
        start = sentence_start(low, names[0].at)
        if _NONE_OF.search(low, start, names[0].at) or low[
            match.end() : match.end() + 12
        ].lstrip().startswith(("in ", "about ", "only if", "if ")):
            continue
        is_weak = _WEAK_WORD.search(match[0]) is not None
        rule = "called_true" if is_weak else "called_right"
        force = Force.HINT if is_weak else Force.CALLED
        yield Statement(names[0].at, match.end(), tuple(names), rule, force)


def _right_places(low: str, has_scripts: bool) -> Iterator[re.Match[str]]:
    for stem in _VERBS:
        at = low.find(stem) if stem in low else -1
        while at >= 0:
            match = _RIGHT.match(low, at + 1)
            if match is not None:
                yield match
            at = low.find(stem, at + len(stem))
    if has_scripts:
        yield from _RIGHT_SCRIPTED.finditer(low)


def _names_before(text: str, low: str, end: int) -> list[Name]:
    """The options named right before `end`, or by the opening of the sentence that ends there."""
    start = max(0, end - 40)
    match = _ADJACENT.search(text, start, end)
    if match is not None and (name := _adjacent(text, low, match)) is not None:
        return _earlier(text, low, name)
    begin = sentence_start(low, end - 1)
    lead = _SENTENCE_NAME.match(low, begin, end)
    at = lead.end() if lead else begin
    name = name_at(text, low, at, begin)
    if name is None or name.form not in ("wrapped", "named") or name.end >= end:
        return []
    return [] if _GOES_ON.search(low, name.end, end) else [name]


def _adjacent(text: str, low: str, match: re.Match[str]) -> Name | None:
    at = match.start("letter")
    is_open = bool(match["open"]) and match["close"][:1] in tuple(")]*_\"”'`")
    if match["letter"].islower() and not match["open"].startswith("("):
        return None
    lead = _LEAD.search(low, max(0, at - 24), match.start("open")) or match["text"]
    if not is_open and not lead:
        return None
    return Name(match["letter"].upper(), at, match.end("close"), "wrapped" if is_open else "named")


def _earlier(text: str, low: str, last: Name) -> list[Name]:
    """The list that ends with `last`: (A) and (C) are correct."""
    names = [last]
    while len(names) < 30:
        at = names[0].at
        match = _JOINED_BEFORE.search(text, max(0, at - 30), at)
        if match is None:
            break
        name = name_at(text, low, match.start("letter"), max(0, match.start("letter") - 1))
        if name is None:
            break
        names.insert(0, name)
    return names
