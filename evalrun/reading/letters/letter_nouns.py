"""Nouns and verbs that announce an answer, with the links behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from evalrun.reading.cues import LANGUAGES, LATIN, SCRIPTED, Language

_COLON = r"[ \t*_\"'`>)\]】]{0,8}+(?::|=>|=|→|->|】|\||(?<=[ *])[-–—](?=[ *]))"
_OTHER_NOUNS = {
    "option": r"option(?:s(?=[ \t]are\b)|(?! of))",
    "choice": r"choice(?:s(?=[ \t]are\b)|(?! of))",
    "alternative": r"alternative",
    "solution": r"solution",
    "conclusion": r"conclusion",
    "guess": r"guess",
    "pick": r"pick",
    "selection": r"selection",
    "verdict": r"verdict",
    "decision": r"decision",
    "response": r"response",
    "prediction": r"prediction",
    "candidate": r"candidate",
    "statement": r"statement",
}
_ADJECTIVES = {
    "best": r"best",
    "closest": r"closest",
    "nearest": r"nearest",
    "correct": r"(?<!in)correct(?:ly)?",
    "right": r"right (?:one|statement|response|match|letter)",
    "most ": r"most\s[a-z]{4,14}",
    "ans:": r"(?<![a-z])ans",
    "ans.": r"(?<![a-z])ans\.",
}
_CHOICE_WORD = re.compile(
    r"(?:correct|right|best|better|closest|nearest|only|appropriate|suitable|accurate|plausible"
    r"|likely|logical|final|valid"
    r"|remaining|reasonable|matching|chosen|selected|my|our|possible|probable|single|sole|true"
    r"|the)\s{1,2}$"
    r"|(?:^|\n)[ \t*_#>-]{0,6}$|[\"']$"
)
_NOT_CHOICE = re.compile(
    r"(?:each|every|this|that|first|second|third|last|other|another|next|incorrect|wrong|no|which"
    r"|answer)\s{1,2}$"
    r"|(?:first|second|other|only other|next|wrong|incorrect|previous) $"
)
_CHOOSER = re.compile(
    r"(?:\b(?:i|we|to|would|will|should|must|can|let's|let’s|therefore|thus|so|hence|have|had|is"
    r"|am|ich|je|yo|io"
    r"|eu|ik)|['’](?:d|ll|m|ve|re))\s{1,2}(?:therefore |thus |then |also |now |just )?$|(?:^"
    r"|[.,:;\n])[\s*]{0,4}$"
)
_DENIED_VERB = re.compile(
    r"(?:\bnot|cannot|can't|can’t|n't|n’t|\bnever|不能?|不应该?|未|无法)\s{0,2}(?:[a-z]{1,12}\s)?$"
)


class Noun(NamedTuple):
    """A noun that announces an answer; its link may stand some words behind it."""

    noun: re.Pattern[str]
    rule: str
    link: re.Pattern[str]


@lru_cache(maxsize=2)
def noun_table(has_scripts: bool) -> list[tuple[str, Noun]]:
    """(stem, noun) of all languages, and of the English ones with an adjective.

    has_scripts: with the languages of other scripts than Latin.
    """
    rows: list[tuple[str, Noun]] = []
    for code in LANGUAGES if has_scripts else LATIN:
        language = LANGUAGES[code]
        link = _link(language, is_scripted=code in SCRIPTED)
        ends = "" if code in SCRIPTED else "(?![a-zß-ÿ])"
        noun = re.compile(rf"(?:{language.noun}){ends}")
        rows += [(stem, Noun(noun, "answer", link)) for stem in language.stems]
    english = _link(LANGUAGES["en"], is_scripted=False)
    for rule, nouns in (("choice", _OTHER_NOUNS), ("best", _ADJECTIVES)):
        for stem, pattern in nouns.items():
            rows.append((stem, Noun(re.compile(rf"(?:{pattern})(?![a-z])"), rule, english)))
    return rows


def _link(language: Language, *, is_scripted: bool) -> re.Pattern[str]:
    ends = "" if is_scripted else "(?![a-z'’])"
    return re.compile(rf"{_COLON}|[\s*_]{{0,4}}(?<![a-z])(?:{language.link}){ends}")


@lru_cache(maxsize=2)
def chosen_table(has_scripts: bool) -> list[tuple[str, re.Pattern[str], bool]]:
    """(stem, pattern, is_scripted) of the verbs of choosing."""
    rows = []
    for code in LANGUAGES if has_scripts else LATIN:
        ends = "" if code in SCRIPTED else "(?![a-z])"
        for stem, pattern in LANGUAGES[code].chosen.items():
            rows.append((stem, re.compile(rf"(?:{pattern}){ends}"), code in SCRIPTED))
    return rows


def places(low: str, stem: str) -> Iterator[int]:
    """Where a stem begins, within words of Latin letters not."""
    is_latin = stem.isascii()
    at = low.find(stem)
    while at >= 0:
        if not (is_latin and at and (low[at - 1].isalpha() or low[at - 1] == "\\")):
            yield at
        at = low.find(stem, at + len(stem))


def is_choice(low: str, at: int) -> bool:
    """An adjective or the start of a line makes "option" the one that is chosen."""
    before = low[max(0, at - 24) : at]
    return _CHOICE_WORD.search(before) is not None and not _NOT_CHOICE.search(before)


def chooses(low: str, at: int, *, is_scripted: bool) -> bool:
    """The writer chooses, and does not deny it: `many pick A` and `cannot choose A` say nothing."""
    start = max(0, at - 24)
    if not is_scripted and _CHOOSER.search(low, start, at) is None:
        return False
    return _DENIED_VERB.search(low, start, at) is None
