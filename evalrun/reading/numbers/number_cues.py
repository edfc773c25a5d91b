"""Words that say that an answer follows: in English and Chinese whole, in ten languages by the
table of `cues`.

A stem ("answer", 答) is found first, which is cheap, and the whole cue is tried only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from evalrun.reading.cues import OTHER_SCRIPTS, OTHERS, unnamed
from evalrun.reading.stems import Stems

_VERB = (
    r"(?::|：|=|→|(?:is(?=n['’]t)|is|are|was|would be|will be|should be|must be|comes? (?:out )?to"
    r"|becomes|equals"
    r"|be)(?:(?=n['’]t)|\b))"
)
_STEMS = (("nswer", "aA"), ("NSWER", "aA"), ("esult", "rR"), ("ESULT", "rR"))
"""Tails of the nouns, with the letters before them; a plain search finds them fast."""
_ENGLISH = re.compile(
    rf"answers?\b(?:[\s*_\"'’)]|\\\)){{0,8}}{_VERB}"
    r"|answers?\b(?! (?:choice|question|key|sheet|option)|-)[^\n.:=?!;]{1,80}?(?:\b(?:is|equals)\b"
    r"|:|=)",
    re.IGNORECASE,
)
_FINAL = re.compile(
    rf"answers?\b|results?\b(?=[\s*_]{{0,8}}{_VERB})[\s*_]{{0,8}}{_VERB}", re.IGNORECASE
)
_FINALS = ("final", "overall", "end")
_LETTER = re.compile(
    r"answer (?:is|would be)(?: option| choice)?:? {0,2}\(?(?-i:[A-J])[).]", re.IGNORECASE
)
_CHINESE = re.compile(
    r"[答填结解得最【\[故应](?:"
    r"(?:(?<=答)案?|(?<=填)|(?<=结)果|(?<=解)得|(?<=得)数|(?<=最)终结果)"
    r"(?:应该|应|就|即|分别)?[\s*_】\]]{0,8}(?:[是为為:：=]|等于)+"
    r"|(?<=[【\[])答案[】\]]|(?:(?<=故)答|(?<=答))案(?=[\s$\\\d])"
    r"|(?:(?<=应)填|(?<=填))(?:入|写)?[:：]?(?=\s?[$\\\d-]))"
)  # a set of first letters makes the search fast
_OTHER_STEMS = Stems(
    "ntwor", "NTWOR", "espuesta", "esposta", "isposta", "eponse", "opcion correcta",
    other=("ntwoo", "NTWOO", "ösung", "ÖSUNG", "ponse", "PONSE", "puesta", "PUESTA", "posta",
           "POSTA", "orrecta", "ORRECTA", "orreta", "ORRETA", "orretta", "ORRETTA"),
)  # fmt: skip
_CHINESE_STEMS = Stems(other="答填果解数")
_HEAD = (
    r"(?=[ \t>*_#]{0,8}+[AaBbCcFfOoRrSsTt答最结])"  # turns most lines away at once
    r"(?:[ \t>]{0,4}(?P<a>[*_]{0,2}A[*_]{0,2}[:：])|[ \t>*_#]{0,8}(?:"
    r"(?P<heading>(?i:(?:the )?(?:final |correct |short |boxed )?(?:answer|result|solution)"
    r"|答案|最终答案|结论|最终结果)[ \t*_:：#.\]】]{0,8}(?m:$))"
    r"|(?P<result>(?i:(?:final |overall )?(?:result|solution|ans)\b\.?)[ \t*_]{0,4}[:：=])"
    r"|(?P<zh>答(?:案)?[*_]{0,2}[:：])))"
)
_FIRST_LINE = re.compile(_HEAD)
_LINE = re.compile(r"\n" + _HEAD)
_REFUSED = re.compile(
    r"(?:\b(?:if|suppose|assum\w{1,4}|whether|unless|possible|your|wrong|incorrect|previous|initial"
    r"|their|student['’]s|which|what|whose|other|another|check(?:ing)?|verify|say(?:ing)? that"
    r"|expected|intermediate|partial|sub-?|original|choose the|select the|question and|of the)\b"
    r"[^.\n]{0,24}|\b(?:to|an?|the following|no|any|every|each|such) )$",
    re.IGNORECASE,
)
_HARMLESS = frozenset(
    ("", "the", "so the", "so, the", "thus, the", "therefore, the", "hence, the", "the correct")
)
_DOUBTS = Stems(
    "ctually", "orrection", "Sorry", "sorry", "Oops", "oops", "Wait", "wait,", "No,", "no,",
    "nstead", "Rather", "rather,",
    other=("应该是", "应为", "更正"),
)  # fmt: skip
_CORRECTED = re.compile(
    r"\b(?:actually|correction|sorry|oops|no|wait|instead"
    r"|rather)[,:;.—-]{0,3}\s{0,3}(?:the (?:answer|result|total) |it |that |this )"
    r"(?:is|should be|must be|would be)\b|应该是|应为|更正[:：]",
    re.IGNORECASE,
)


class Cue(NamedTuple):
    """A cue in a text. start, end: its characters. kind: cue, heading, result_line, correction,
    letter."""

    start: int
    end: int
    kind: str


def find_cues(text: str, start: int, end: int) -> list[Cue]:
    """All cues of text[start:end], in no order. Linear time."""
    found = [*_english(text, start, end), *_lines(text, start, end)]
    if _CHINESE_STEMS.may_match(text):
        found += [Cue(*m.span(), "cue") for m in _CHINESE.finditer(text, start, end)]
    found += _others(text, start, end)
    if _DOUBTS.may_match(text):
        found += [Cue(*m.span(), "correction") for m in _CORRECTED.finditer(text, start, end)]
    return found


def _nouns(text: str, start: int, end: int) -> list[tuple[int, bool]]:
    """Where "answer" and "result" begin, in order; True for "result"."""
    found = []
    for tail, heads in _STEMS:
        at = text.find(tail, start + 1, end)
        while at >= 0:
            if text[at - 1] in heads:
                found.append((at - 1, heads == "rR"))
            at = text.find(tail, at + len(tail), end)
    if len(found) > 1:
        found.sort()
    return found


def _english(text: str, start: int, end: int) -> Iterator[Cue]:
    done = start
    for at, is_result in _nouns(text, start, end):
        if at < done:
            continue
        before = text[max(start, at - 60) : at].rpartition("\n")[2]
        cue = None
        if not is_result:
            if _LETTER.match(text, at, end):
                yield Cue(at, at, "letter")
            cue = _ENGLISH.match(text, at, end)
        if cue is None and before.rstrip().lower().endswith(_FINALS):
            cue = _FINAL.match(text, at, end)
        if cue is None or (at > start and text[at - 1].isalnum()):
            continue
        if not _is_refused(before):
            yield Cue(at, cue.end(), "cue")
        done = cue.end()


def _is_refused(before: str) -> bool:
    """Whether what stands before the noun in its line makes it another answer than the stated
    one."""
    if "." in before:  # no refusing word reaches over a full stop
        before = before.rpartition(".")[2]
    if before.strip(" *_").lower() in _HARMLESS:
        return False
    return _REFUSED.search(before[-48:]) is not None


def _lines(text: str, start: int, end: int) -> Iterator[Cue]:
    if not start or text[start - 1] == "\n":
        cue = _FIRST_LINE.match(text, start, end)
        if cue:
            yield Cue(start, cue.end(), _kind(cue))
    for cue in _LINE.finditer(text, start, end):
        yield Cue(cue.start() + 1, cue.end(), _kind(cue))


def _kind(cue: re.Match[str]) -> str:
    return "heading" if cue["heading"] else "result_line" if cue["result"] else "cue"


def _others(text: str, start: int, end: int) -> Iterator[Cue]:
    """Cues of the ten further languages."""
    if not _OTHER_STEMS.may_match(text) and (text.isascii() or not OTHER_SCRIPTS.search(text)):
        return
    lowered = text.lower()
    for name, language in OTHERS.items():
        if any(stem in lowered for stem in language.stems):
            yield from (Cue(*m.span(), "cue") for m in _pattern(name).finditer(text, start, end))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    language = OTHERS[name]
    noun, link = unnamed(language.noun), unnamed(language.link)
    return re.compile(rf"(?:{noun})[\s*_]{{0,6}}(?:(?:{link})(?!\w)|[:：])+", re.IGNORECASE)
