"""The places of a text where a number or formula may be stated as its answer, and who finds
each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from evalrun.reading.numbers.number_cues import find_cues
from evalrun.reading.numbers.number_endings import concludes, find_endings
from evalrun.reading.numbers.number_place import AnswerPlace, Tier
from evalrun.reading.numbers.number_sentences import Sentences
from evalrun.reading.numbers.number_view import View
from evalrun.text.formulas import boxes

MAX_FIRST, MAX_LAST = 8, 32
"""Of the marks of an answer so many from the start and the end of a text are read."""

_BLANK = re.compile(r"(?:[^\w.!?;。！？；\\$(\[]|_){0,200}+")
_HASHES = re.compile(r"####+")
_DIRECT = re.compile(r"(?:\\[a-z]{1,10}\{|[^\w\n]|_|(?i:the |final |answer|is |a:)){0,40}")
_HEADING = re.compile(r"\s{0,4}[-$\\]{0,3}\d{1,2}(?:[.)][ \t*]{1,4}|[ \t]*[:–—-][ \t]+)[^\W\d_]")
_TITLE = re.compile(r"(?!(?i:sqrt|sin|cos|tan|log|about|approx))[^\W\d_]{3,}")
_FIELD = re.compile(
    r"<(?P<tag>(?:final[ _-]?)?(?:answer|result|solution))>(?P<in>[^<]{0,400}+)(?:</(?P=tag)>|$)"
    r"|\"(?:final[_ ]?)?(?:answer|result|solution)\"\s{0,3}:\s{0,3}"
    r"(?P<json>\"(?:[^\"\\\n]|\\.){0,400}+\"|[-\d.,eE+]{1,60})",
    re.IGNORECASE,
)
_BOX_JOINT = re.compile(
    r"(?:[\s$*]|\\[\])]){0,8}"
    r"(?:[,;，；、]|\band\b|\bor\b|,\s{0,3}(?:and|or)\b|\\text\{ ?(?:and|or) ?\}|[和或]|\\q?quad)"
    r"(?:[\s$*]|\\[(\[]|\\q?quad|\\?[A-Za-z]{1,8}(?:\([^()\n]{0,40}\))?\s?=){0,8}"
)


def find_places(seen: View, has_value: Callable[[str], bool]) -> list[AnswerPlace]:
    """All places, in order of their start; has_value: whether a sentence may hold a value. Linear
    time."""
    text, start, end = seen.text, seen.start, seen.end
    sentences = Sentences(text, start, end)
    places = [*_cues(text, start, end, sentences)]
    if "####" in text:
        places += _hashes(text, start, end)
    if "box" in text:
        places += _boxes(text, start, end)
    if "<" in text or '"' in text:
        places += _fields(text, start, end)
    if len(places) > 1:
        places.sort()
    if len(places) > MAX_FIRST + MAX_LAST:
        places = places[:MAX_FIRST] + places[-MAX_LAST:]
    if not seen.is_cut:
        places += find_endings(seen, sentences, has_value)
        places.sort()
    return places


def _clause_end(sentences: Sentences, text: str, start: int, end: int) -> int:
    """End of the sentence that begins at `start`; marks and empty lines before its first word
    belong to it."""
    blank = _BLANK.match(text, start, end)
    at = sentences.after(blank.end() if blank else start)
    return end if at is None else at


def _hashes(text: str, start: int, end: int) -> Iterator[AnswerPlace]:
    """`#### N`; a heading such as `#### 3. Total` or `#### Example A` is none."""
    for mark in _HASHES.finditer(text, start, end):
        line = text.find("\n", mark.end(), end)
        stop = line if line >= 0 else end
        gap = _DIRECT.match(text, mark.end(), stop)
        is_first = not text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()].strip()
        if is_first and _HEADING.match(text, mark.end(), stop):
            continue
        if text[mark.end() : stop].strip() and not _TITLE.match(
            text, gap.end() if gap else mark.end(), stop
        ):
            yield AnswerPlace(mark.end(), stop, "hashes", Tier.STATED)


def _boxes(text: str, start: int, end: int) -> Iterator[AnswerPlace]:
    """Boxes; those joined by a comma, "and" or "or" form one group."""
    found = [at for at in (text.find("boxed", start), text.find("fbox", start)) if at >= 0]
    if not found:
        return
    begin = min(found)  # braces before the first box do not matter
    while begin > start and text[begin - 1] == "\\":
        begin -= 1
    group, last = 1, None
    for left, right in boxes(text[begin:end]):
        left, right = begin + left, begin + right
        if not text[left:right].strip(" $\n\t"):
            continue
        if last is not None and not _BOX_JOINT.fullmatch(
            text, last + 1, text.rfind("\\", last, left)
        ):
            group += 1
        last = right
        yield AnswerPlace(left, right, "boxed", Tier.STATED, group, True)


def _fields(text: str, start: int, end: int) -> Iterator[AnswerPlace]:
    """<answer>...</answer> and "answer": ... of a JSON object."""
    for match in _FIELD.finditer(text, start, end):
        kind = "in" if match["in"] is not None else "json"
        if match[kind].strip():
            yield AnswerPlace(*match.span(kind), "field", Tier.STATED, is_whole=True)


def _cues(text: str, start: int, end: int, sentences: Sentences) -> Iterator[AnswerPlace]:
    for cue in find_cues(text, start, end):
        if cue.kind == "letter":
            yield from _lettered(text, start, cue.start, sentences)
        else:
            tier = Tier.CONCLUSION if cue.kind == "result_line" else Tier.STATED
            yield AnswerPlace(cue.end, _clause_end(sentences, text, cue.end, end), cue.kind, tier)


def _lettered(text: str, start: int, cue: int, sentences: Sentences) -> Iterator[AnswerPlace]:
    """Before "the answer is (C)": the concluding sentence whose result was found among the
    choices."""
    stop = sentences.before(cue)
    while stop is not None:
        earlier = sentences.before(stop)
        left = start if earlier is None else earlier + 1
        if text[left:stop].strip():
            if concludes(text, max(0, left - 1), stop):
                yield AnswerPlace(left, stop, "lettered", Tier.CONCLUSION)
            return
        stop = earlier
