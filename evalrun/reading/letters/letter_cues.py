"""Statements with a cue: "the answer is (B)", "closest option is C", 故选, "answer": "B"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from evalrun.reading.letters.letter_names import Name, letters_run, name_at, skip_fill, with_list
from evalrun.reading.letters.letter_nouns import (
    Noun,
    chooses,
    chosen_table,
    is_choice,
    noun_table,
    places,
)
from evalrun.reading.letters.letter_statement import (
    Force,
    Statement,
    contrast_end,
    is_about_wrong,
    is_asked,
    is_conditional,
    is_placeholder,
    is_refuted,
    is_ruled_out,
    is_supposed,
    negation_end,
    sentence_end,
)

_HEADING = re.compile(r"[ \t*_:#]{0,8}+\n")
_FIELD = re.compile(r"[\"']\s{0,3}:\s{0,3}|>\s{0,3}|\]\s{0,3}")
_CORRECTIONS = (
    "wait",
    "actually",
    "correction",
    "apolog",
    "sorry",
    "mistake",
    "error",
    "reevaluat",
    "re-evaluat",
    "upon reflection",
    "on second thought",
    "更正",
    "抱歉",
    "纠正",
)
_CORRECTION = re.compile(
    r"(?:(?:wait|actually|correction|apologi[sz]e|apologies|sorry|mistake|error|re-?evaluat\w{2,4}"
    r"|upon reflection|on second thought)(?![a-z])(?:[^.\n,:;]{0,30})?[,.:;—–!]|更正|抱歉"
    r"|纠正)\s{0,3}"
    r"(?:[^.\n]{0,40}?\b(?:it is|it's|it should be|it must be|should be|(?:the )?answer|is)"
    r"|应该是|应为|是)"
    r"(?![a-z])\s{0,2}:?"
)
_FORMULA = re.compile(r"[$=\\{}]|(?<!part )\([a-z]\)|(?<![\w'’(])[b-hj-z](?![\w'’)])")
_MOST_LINKS = 4
_WINDOW = 200
_LETTER = re.compile(r"(?<![A-Za-z])(?:[A-Za-z](?![A-Za-z])|[A-J]{2,8}(?![A-Za-z]))")
_IN_BRACKETS = re.compile(
    r"(?:(?!\s(?:we|is|are|not|than|as|between|because|since|eliminate|if|from"
    r"|or)\s)[^\n.?!;,()]){1,60}?"
    r"(?:[.,]\d[^\n.?!;,()]{0,40}?)?[ \t*]\((?P<letter>[A-Z])\)[*_]{0,2}(?:[.!](?=\s|$)"
    r"|\s{0,3}(?=\n|$))"
)
_PLURAL = re.compile(r"(?:answer|option|choice|solution)s[ \t]+are\b")
_DENIED_LINK = re.compile(
    r"\s(?:isn't|isn’t|is not|cannot be|can't be|can’t be|wouldn't be|shouldn't be|ist nicht"
    r"|n['’]est pas|no es|non è|não é)\s"
    r"|(?:不是|并不是|不应该是|不可能是)"
)
_TOUCHING = re.compile(r"[.\n,;!)]|$|\s{0,2}(?:is|would be) (?:the )?(?:correct|right|best)")


class OpenCue(NamedTuple):
    """A cue without a letter behind it: `The answer is 42`.

    at: where the noun begins.
    end: behind the link.
    """

    at: int
    end: int


def find_cues(text: str, low: str, *, has_scripts: bool) -> tuple[list[Statement], list[OpenCue]]:
    """All statements with a cue, and the cues that no letter follows.

    Linear time: the windows behind a cue are bounded.
    """
    opened: list[OpenCue] = []
    found = list(_noun_cues(text, low, opened, has_scripts))
    found += _chosen_cues(text, low, has_scripts)
    found += _corrections(text, low)
    return found, opened


def _noun_cues(
    text: str, low: str, opened: list[OpenCue], has_scripts: bool
) -> Iterator[Statement]:
    for stem, row in [each for each in noun_table(has_scripts) if each[0] in low]:
        for at in places(low, stem):
            match = row.noun.match(low, at)
            if match is None or (row.rule == "choice" and not is_choice(low, at)):
                continue
            end = match.end()
            found = []
            if _LETTER.search(text, end, end + _WINDOW):
                found = list(_behind_noun(text, low, at, end, row))
            yield from found
            cue = row.link.match(low, match.end()) or _HEADING.match(low, match.end())
            if cue is not None and not found:
                opened.append(OpenCue(at, cue.end()))


def _chosen_cues(text: str, low: str, has_scripts: bool) -> Iterator[Statement]:
    for stem, pattern, is_scripted in chosen_table(has_scripts):
        if stem not in low:
            continue
        for at in places(low, stem):
            match = pattern.match(low, at)
            if match is None or not _LETTER.search(text, match.end(), match.end() + _WINDOW):
                continue
            if chooses(low, at, is_scripted=is_scripted):
                yield from _statement(text, low, at, match.end(), "chosen", is_near=True)


def _behind_noun(text: str, low: str, at: int, end: int, row: Noun) -> Iterator[Statement]:
    """The option behind the noun: in a field, under a heading, behind a link, in its sentence."""
    is_quoted = at > 0 and low[at - 1] in "\"'<_["
    field = _FIELD.match(low, end) if is_quoted else None
    heading = _HEADING.match(low, end) if row.rule == "answer" else None
    if field is not None:
        yield from _statement(text, low, at, field.end(), "field", is_near=True)
    elif heading is not None and _is_heading(low, at):
        yield from _statement(text, low, at, heading.end() - 1, row.rule, is_near=True)
    else:
        yield from _behind_link(text, low, at, end, row)


def _behind_link(text: str, low: str, at: int, end: int, row: Noun) -> list[Statement]:
    near = row.link.match(low, end)
    if near is None and (denied := _DENIED_LINK.match(low, end)):
        return list(_contrast(text, low, at, denied.end(), row.rule))
    begin = near.end() if near else end
    found = list(_statement(text, low, at, begin, row.rule, is_near=True)) if near else []
    found = found or _behind_words(text, low, at, begin, row)
    if row.rule == "answer" and not found:
        found = list(_touching(text, low, at, end)) or _behind_text(text, low, at, begin)
    return found


def _behind_words(text: str, low: str, at: int, end: int, row: Noun) -> list[Statement]:
    """`The answer that fits best is (B)`: the link stands later in the sentence."""
    stop = _words_end(low, end)
    for match in islice(row.link.finditer(low, end, min(len(low), stop + 2)), _MOST_LINKS):
        if match.start() > stop:
            break
        found = list(_statement(text, low, at, match.end(), row.rule, is_near=False))
        if found:
            return found
    return []


def _behind_text(text: str, low: str, at: int, end: int) -> list[Statement]:
    """`The answer is 0.5 mol (I).`: the letter ends the sentence, in brackets."""
    match = _IN_BRACKETS.match(text, end)
    if match is None or is_supposed(low, at) or negation_end(low, end) is not None:
        return []
    start = match.start("letter")
    name = Name(match["letter"], start, start + 2, "wrapped")
    return [Statement(at, name.end, (name,), "answer", Force.STATED)]


def _words_end(low: str, at: int) -> int:
    """Where the words behind a noun end: with the sentence, at a formula, or 110 characters on."""
    stop = sentence_end(low, at, 110)
    formula = _FORMULA.search(low, at, stop)
    return formula.start() if formula else stop


def _is_heading(low: str, at: int) -> bool:
    line = low[max(0, at - 24) : at].rsplit("\n", 1)[-1]
    return len(line) < 24 and not re.sub(r"[\W_]|final|correct|the|best|my", "", line)


def _touching(text: str, low: str, at: int, end: int) -> Iterator[Statement]:
    """`we get the answer (E).`: nothing stands between the noun and the option."""
    begin = skip_fill(low, end)
    name = (
        name_at(text, low, begin, end) if begin - end < 8 and "\n" not in low[end:begin] else None
    )
    if name is None or name.form != "wrapped" or text[name.at - 1] not in "(*[":
        return
    if _TOUCHING.match(low, name.end) and not is_refuted(low, name) and not is_supposed(low, at):
        yield Statement(at, name.end, (name,), "touching", Force.CALLED)


def _statement(
    text: str, low: str, at: int, begin: int, rule: str, *, is_near: bool
) -> Iterator[Statement]:
    """The statement whose option is looked for at `begin`, behind marks and filling words."""
    denied = negation_end(low, begin)
    if denied is not None:
        yield from _contrast(text, low, at, denied, rule)
        return
    names = _names(text, low, begin)
    if not names:
        return
    first, last = names[0], names[-1]
    if is_placeholder(low, first) or not _is_stated(text, low, first, rule, is_near):
        return
    if is_supposed(low, at) or (
        len(names) == 1 and (is_refuted(low, last) or is_ruled_out(low, last))
    ):
        yield from _contrasted(text, low, at, last.end, rule)
        return
    if _PLURAL.match(low, at) and len(names) == 1:
        names.append(last._replace(letter=""))  # the others are not named as options
    force = Force.STATED
    if is_conditional(low, at, last) or is_asked(low, last) or is_about_wrong(low, at):
        force = Force.HINT
    yield Statement(at, last.end, tuple(names), rule, force)


def _names(text: str, low: str, begin: int) -> list[Name]:
    start = skip_fill(low, begin)
    if many := letters_run(text, start):
        return many
    first = name_at(text, low, start, begin)
    if first is None or _is_far_line(text, begin, first):
        return []
    return with_list(text, low, first)


def _is_far_line(text: str, begin: int, name: Name) -> bool:
    """A bare letter on a later line counts where the line ends with it."""
    if "\n" not in text[begin : name.at] or name.form in ("wrapped", "marked"):
        return False
    return text[name.end : name.end + 3].strip(" .*\t").split("\n")[0] != ""


def _is_stated(text: str, low: str, name: Name, rule: str, is_near: bool) -> bool:
    """Whether the name is clear enough: behind "the best buy is" a bare letter may be anything."""
    if rule in ("answer", "field") and is_near:
        return True
    if text[name.at].islower() and (
        name.form not in ("wrapped", "named") or text[name.at - 1] != "("
    ):
        return name.form == "named"
    if name.form in ("wrapped", "named", "marked"):
        return text[name.at - 1] not in "${" or is_near
    if rule != "answer" and name.letter == "I":
        return False
    rest = text[name.end : name.end + 2]
    if rest[:1] in ("", "\n", ".", ",", ";", ")", "!") or not rest[:1].isascii():
        return True
    return is_near and name.letter not in "AI"


def _contrast(text: str, low: str, at: int, begin: int, rule: str) -> Iterator[Statement]:
    """`not (A), it is (B)` names B."""
    denied = _names(text, low, begin)
    if denied:
        yield from _contrasted(text, low, at, denied[-1].end, rule)


def _contrasted(text: str, low: str, at: int, begin: int, rule: str) -> Iterator[Statement]:
    """The option behind a "but it is", where the one before it was denied."""
    end = contrast_end(low, begin)
    names = _names(text, low, end) if end is not None else []
    if names and not is_refuted(low, names[-1]):
        yield Statement(at, names[-1].end, tuple(names), rule, Force.STATED)


def _corrections(text: str, low: str) -> Iterator[Statement]:
    """`Wait, it should be (C)`."""
    for at in sorted(at for stem in _CORRECTIONS if stem in low for at in places(low, stem)):
        match = _CORRECTION.match(low, at)
        if match is None:
            continue
        names = _names(text, low, match.end())
        if not names or (names[0].form == "bare" and names[0].letter in "AI"):
            continue
        if names[0].form != "named" and text[names[0].at - 1] in "${":
            continue
        if negation_end(low, match.end()) is None and not is_refuted(low, names[-1]):
            yield Statement(match.start(), names[-1].end, tuple(names), "correction", Force.STATED)
