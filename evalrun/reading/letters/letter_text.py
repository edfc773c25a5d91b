"""Answers by the text of an option without its letter, and statements that no option is right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from evalrun.reading.cues import SCRIPTED, any_of
from evalrun.reading.letters.letter_cues import OpenCue
from evalrun.reading.letters.letter_names import Name
from evalrun.reading.letters.letter_statement import Force, Statement, is_ruled_out, is_supposed
from evalrun.text.formulas import boxes

_LATEX = re.compile(r"\\(?:text|mathrm|mathbf|textbf|boxed|mbox)\s?\{([^{}]{0,200})\}")
_DRESS = re.compile(r"[$\\{}*_`\"'“”‘’\s]+")
_EDGES = " .,;:!?。，；：()[]"
_ENDS = re.compile(r"\n|[.;。；](?:\s|$)|,\s(?:which|because|since|as)\b|$")
_MOST = 300
_NOTHING_STEMS = (
    "there is no ",
    "no correct",
    "none of ",
    "cannot",
    "can't",
    "can’t",
    "unable",
    "could not",
)
_NOTHING = re.compile(
    r"\b(?:there is no (?:correct|right|valid) (?:answer|option|choice)"
    r"|none of (?:the|these) (?:[a-z]{1,12} ){0,2}?(?:options|choices"
    r"|answers)(?: [a-z]{1,12}){0,2}? (?:is|are)"
    r" (?:correct|right|valid)"
    r"|no correct (?:answer|option|choice) (?:is |exists|among|in )"
    r"|(?:i|we) (?:cannot|can't|can’t|am unable to|are unable to|could not)"
    r"(?: (?:definitively|accurately|confidently))?(?:"
    r" (?:provide|give|determine|offer) (?:a|an|the)(?: [a-z]{4,12})? (?:answer|option)"
    r"| answer (?:this|the|that)(?: [a-z]{4,10})? question"
    r"| (?:select|choose) (?:an?|any|one)(?: [a-z]{4,12})? (?:answer|option)| answer[.])"
    r"|(?:question|it|this) (?:cannot|can not|can't) be (?:definitively )?answered)"
)
_NONE_BEHIND = re.compile(
    r"[\s*_(\[\"'$]{0,8}(?:\\[a-z]{2,10}\{)?(?:therefore |thus |that )?"
    r"(?:none\b|n/a\b|not applicable|there is no|cannot\b|can't\b|can not\b|undetermin|unknown\b"
    r"|no (?:correct|answer|option|valid)|impossible to|not (?:determin|possible|enough|provided"
    r"|available|among|in |listed|one of|given|present))"
)
_ANY_NOTHING = re.compile(any_of("nothing", SCRIPTED))


def plain_option(text: str) -> str:
    """The words of an option in small letters, without LaTeX fonts, marks and a full stop."""
    if "\\" in text:
        text = _LATEX.sub(r"\1", text)
    return _DRESS.sub(" ", text).strip(_EDGES).casefold()


@lru_cache(maxsize=256)
def option_table(options: tuple[str, ...]) -> dict[str, str]:
    """Plain text -> letter, of options whose text no other option has."""
    table: dict[str, str] = {}
    for i, option in enumerate(options):
        words = plain_option(option)
        if words and len(words) <= _MOST:
            table[words] = "" if words in table else chr(65 + i)
    return {words: letter for words, letter in table.items() if letter}


def find_texts(
    text: str,
    low: str,
    opened: Sequence[OpenCue],
    options: Sequence[str] | None,
    *,
    has_scripts: bool,
    last_named: int,
) -> list[Statement]:
    """Statements by the whole text of exactly one option, and statements that none is right."""
    found = list(_behind_cues(text, low, opened, options))
    if any(stem in low for stem in _NOTHING_STEMS):
        for match in _NOTHING.finditer(low):
            found.append(Statement(match.start(), match.end(), (), "nothing", Force.STATED))
    if has_scripts:
        for match in _ANY_NOTHING.finditer(low):
            found.append(Statement(match.start(), match.end(), (), "nothing", Force.STATED))
    if options:
        found += _bare_texts(text, options, last_named)
    return found


def _behind_cues(
    text: str, low: str, opened: Sequence[OpenCue], options: Sequence[str] | None
) -> Iterator[Statement]:
    table = option_table(tuple(options)) if options and opened else {}
    for cue in opened:
        found = _equal(text, cue.end, table) if table else None
        if found is not None:
            if not is_supposed(low, cue.at) and not is_ruled_out(low, found):
                yield Statement(cue.at, found.end, (found,), "text", Force.STATED)
        elif (none := _NONE_BEHIND.match(low, cue.end)) is not None:
            is_weak = re.search(r"\bnot (?!appl|determ)", none[0]) is not None
            force = Force.HINT if is_weak else Force.STATED
            yield Statement(cue.at, none.end(), (), "nothing", force)


def _bare_texts(text: str, options: Sequence[str], last_named: int) -> Iterator[Statement]:
    """A box, the whole text or the last line that equals an option."""
    table: dict[str, str] = {}
    if "boxed{" in text or "fbox{" in text:
        table = option_table(tuple(options))
        for start, end in boxes(text):
            if end - start <= _MOST and (letter := table.get(plain_option(text[start:end]))):
                yield Statement(
                    start, end, (Name(letter, start, end, "text"),), "text", Force.STATED
                )
    stop = len(text.rstrip())
    begin = text.rfind("\n", 0, stop) + 1
    begin += len(text[begin:stop]) - len(text[begin:stop].lstrip())
    if stop - begin > _MOST or last_named >= begin:
        return
    table = table or option_table(tuple(options))
    letter = table.get(plain_option(text[begin:stop]))
    if letter:
        force = Force.STATED if not text[:begin].strip() else Force.HINT
        yield Statement(begin, stop, (Name(letter, begin, stop, "text"),), "text", force)


def _equal(text: str, at: int, table: dict[str, str]) -> Name | None:
    """The option whose text stands behind a cue, up to the end of the sentence or line."""
    while text[at : at + 1] in tuple(" \n*_:\t") and at < len(text):
        at += 1
    for end in _ENDS.finditer(text, at, min(len(text), at + _MOST)):
        letter = table.get(plain_option(text[at : end.start()]))
        if letter:
            return Name(letter, at, end.start(), "text")
        if end[0] == "\n" or not end[0]:
            return None
    return None
