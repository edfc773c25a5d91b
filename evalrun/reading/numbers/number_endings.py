"""What a finished text ends with: printed output, a bare first or last line, a sentence that
concludes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from evalrun.reading.numbers.number_place import AnswerPlace, Tier
from evalrun.reading.numbers.number_sentences import Sentences
from evalrun.reading.numbers.number_view import View
from evalrun.reading.stems import Stems

MAX_WHOLE = 3
"""Words of a text that is read as one statement: 5 or 9."""
MAX_BACK = 8
"""Sentences looked through from the end for the one that states the result."""

_CONCLUDES = re.compile(
    r"(?:(?:^|[.,;:] |\n)[\s*_>-]{0,4}(?:so|therefore|thus|hence|in total|altogether|finally"
    r"|overall"
    r"|in conclusion|consequently|as a result|this means|that means|which means"
    r"|we (?:get|find|have|conclude)|to sum up|in summary|in all|together|then|it follows)\b"
    r"|\b(?:therefore|thus|hence|total|altogether)\b|∴|\\therefore)"
    r"|所以|因此|故|综上|总共|一共|可得|由此|得到|答[:：]",
    re.IGNORECASE,
)
_PASSED = re.compile(
    r"[?？]$|\b(?:hope|let me know|feel free|please|note|noted|check|verif\w{1,5}|thank|remember"
    r"|recall|confiden\w{1,3}|alternatively|for example|explanation|source|hint|see also|rounded)\b"
    r"|注意?[:：]|验证|检验|备注|说明",
    re.IGNORECASE,
)
"""A question, a note, a check: no statement of the result."""
_STEP = re.compile(r"[\s*_#>(-]{0,6}(?i:step|case|example|part) ?\d{1,2}\b[^=]*$")
_UNKNOWN = re.compile(
    r"\b(?:cannot|can['’]?t|can not|impossible|not possible|unable|not enough|insufficient"
    r"|no (?:unique )?(?:solution|answer)|don['’]t (?:have|know)|do not (?:have|know)|undetermined"
    r"|indeterminate|not (?:given|provided|specified|sufficient))\b"
    r"|无法|不能确定|条件不足|没有足够",
    re.IGNORECASE,
)
# Pieces, in small letters, without one of which the patterns above match nothing.
_CONCLUDING = Stems(
    "so", "then", "therefore", "thus", "hence", "total", "togeth", "final", "overall", "conclu",
    "consequen", "result", "means", "we get", "we find", "we have", "sum", "in all", "it follows",
    other=("∴", "所以", "因此", "故", "综上", "总共", "一共", "可得", "由此", "得到", "答"),
)  # fmt: skip
_PASSING = Stems(
    "?", "note", "check", "verif", "please", "hope", "let me know", "feel free", "thank",
    "rememb", "recall", "confiden", "alternativ", "example", "expla", "source", "hint",
    "see also", "rounded",
    other=("？", "注", "验证", "检验", "备注", "说明"),
)  # fmt: skip
_DENYING = Stems(
    "not", "n't", "cant", "mpossible", "unable", "nsufficient", "determin", "no solution",
    "no answer", "no unique",
    other=("n’t", "无法", "不能确定", "条件不足", "没有足够"),
)  # fmt: skip
_SOLID = re.compile(r"\S")
_BARE = re.compile(
    r"[\s*_#>(]{0,6}(?:\\?[A-Za-z]{1,3}\s?=\s?)?(?:(?:about|approximately|approx\.?|around|~"
    r"|≈)\s?)?"
    r"[-+−$€£¥\\({]{0,5}[\d.][\d.,/ \u00a0^{}]{0,40}[ \t]?[%°]?[)$*_\\]{0,4}"
    r"(?:[ \t]?[^\W\d_]{1,16}(?:[/^][\w^]{1,6})?){0,4}[\s*_.。)$]{0,6}"
)


def concludes(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] holds a word that concludes."""
    if not _CONCLUDING.may_match(text[start:end].lower()):
        return False
    return _CONCLUDES.search(text, start, end) is not None


def find_endings(
    seen: View, sentences: Sentences, has_value: Callable[[str], bool]
) -> Iterator[AnswerPlace]:
    """The bare first line, and the last sentence that may hold a value; `unknown`: the text says it
    has none.

    sentences: where they end.
    """
    text, start, end = seen.text, seen.start, seen.end
    if seen.outputs and not text[seen.outputs[-1][1] : end].strip(" \n`"):
        yield AnswerPlace(*seen.outputs[-1], "output", Tier.CLOSING)
        return
    yield from _first_line(text, start, end)
    stop = start + len(text[start:end].rstrip())
    edge = sentences.before(stop - 1)
    for _ in range(MAX_BACK):
        left = start if edge is None else edge + 1
        sentence = text[left:stop].strip()
        lowered = sentence.lower()
        if _DENYING.may_match(lowered) and _UNKNOWN.search(sentence):
            yield AnswerPlace(left, left, "unknown", Tier.CLOSING)
            return
        if has_value(sentence) and not _is_passed(sentence, lowered):
            yield _ending(text, start, left, stop)
            return
        if edge is None or left == start:
            return
        stop = edge
        edge = sentences.before(edge)


def _is_passed(sentence: str, lowered: str) -> bool:
    """Whether a sentence asks, checks, adds a note or names a step."""
    if _PASSING.may_match(lowered) and _PASSED.search(sentence):
        return True
    return _STEP.match(sentence) is not None


def _ending(text: str, start: int, left: int, stop: int) -> AnswerPlace:
    if _BARE.fullmatch(text, left, stop):
        return AnswerPlace(left, stop, "last_line", Tier.CLOSING, is_whole=True)
    if concludes(text, max(0, left - 1), stop):
        return AnswerPlace(left, stop, "conclusion", Tier.CONCLUSION)
    is_whole = left == start and len(text[left:stop].split()) <= MAX_WHOLE
    return AnswerPlace(left, stop, "closing", Tier.CLOSING, is_whole=is_whole)


def _first_line(text: str, start: int, end: int) -> Iterator[AnswerPlace]:
    """A number, perhaps with its unit, alone in the first line; a blank line or nothing follows."""
    first = _SOLID.search(text, start, end)
    body = first.start() if first else end
    line = text.find("\n", body, end)
    stop = line if line >= 0 else end
    if text[stop + 1 : stop + 80].partition("\n")[0].strip():
        return
    if stop - body <= 80 and _BARE.fullmatch(text, body, stop):
        yield AnswerPlace(body, stop, "first_line", Tier.CONCLUSION, is_whole=True)
