"""The answer inside a text: which number was meant, where it stands, and the rule that found it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from evalrun.registry import Registry
from evalrun.text.numbers import Hit, find_numbers, plain


@dataclass(frozen=True, slots=True)
class Extraction:
    """An answer read from a text.

    Attributes:
        text: its canonical form.
        span: its characters [start, end); rule: who found it.
    """

    text: str
    span: tuple[int, int]
    rule: str


Extractor: TypeAlias = Callable[[str], Extraction | None]
EXTRACTORS: Registry[Extractor] = Registry("extractor")

_CUE = re.compile(
    r"(?=[AaFf答])(?:"  # one cheap look per character before the six forms
    r"(?i:\banswers?\b[\s*_]{0,8}(?::|=|\bis\b|\bare\b|\bwas\b|\bwould\s{1,4}be\b|\bwill\s{1,4}be\b))"
    r"|(?i:(?:\bfinal\s{1,4})?\banswer\b[^\n.:=?!;]{1,60}?\bis\b)"
    r"|(?i:\bfinal\s{1,4}answers?\b)"
    r"|答案(?:应该|应|就|即)?[\s*_]{0,8}(?:[是为為:=]|等于))"
    r"|(?m:^)(?:(?i:[^\w\n]{0,8}answer[^\w\n]{0,8}(?m:$))|[ \t>*_]{0,8}A[*_]{0,2}:)"
)
_CLAUSE_END = re.compile(r"\n|[.!?;](?=\s)|[。！？；]")
_BLANK = re.compile(r"[^\w.!?;。！？；]{0,200}+")
_HASHES = re.compile(r"####+")
_DIRECT = re.compile(r"(?:\\[a-z]{1,10}\{|[^\w\n]|_){0,40}")
_HEADING = re.compile(r"(?:[.)][ \t*]{1,4}|[ \t]*[:–—-][ \t]+)[^\W\d_]")
_REASON = re.compile(r"\s\([^()\n]*=|(?i:\b(?:because|since|where|when|if)\b)")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CUT = re.compile(r'[);|"!?=]|[,-] ')  # no number goes on across one of these
_WINDOW = 1 << 14
_FENCE = re.compile(r"(?m:^)[ \t]{0,12}(?:```+|~~~+)[^`\n]{0,40}(?:\n|$)")
_BLANK_LINES = re.compile(r"(?:[ \t]*+\n)++")
_BRACES = re.compile(r"\\(?:boxed|fbox)\s{0,4}\{|\\[{}]|[{}]")


@EXTRACTORS.named("number")
def extract_number(text: str) -> Extraction | None:
    r"""The number that `text` gives as its answer, or None. Rules, the first that finds one:

    1. hashes: after the last `####` that a number follows at once (a heading such as `#### 3.
       Total` is none);
    2. boxed: inside the last balanced \boxed{} or \fbox{};
    3. cue: in the sentence after the last "answer is", "answer:", "final answer", "A:" at the start
       of a line, 答案是, that a number follows;
    4. last: the last number of the text.

    Within 1 to 3 it is the first number, with arithmetic (=) the first after the last equals sign.
    Ordinals (3rd) count only where there is nothing else. Linear time. What a number is:
    evalrun.text.numbers.
    """
    mapped = plain(text)
    for rule, found in (
        ("hashes", _after_hashes),
        ("boxed", _in_box),
        ("cue", _after_cue),
        ("last", _last_number),
    ):
        hit = found(mapped)
        if hit is not None:
            return Extraction(hit.canonical, (hit.start, hit.end), rule)
    return None


@EXTRACTORS.named("none")
def extract_whole(text: str) -> Extraction:
    """The whole text without white space at its ends."""
    body = text.strip()
    start = len(text) - len(text.lstrip()) if body else 0
    return Extraction(body, (start, start + len(body)), "whole")


@EXTRACTORS.named("boxed")
def extract_boxed(text: str) -> Extraction | None:
    r"""What stands inside the last balanced \boxed{} or \fbox{}, without white space at its
    ends; else None.
    """
    box = last_box(text)
    if box is None:
        return None
    body = text[box[0] : box[1]]
    start = box[0] + len(body) - len(body.lstrip())
    return Extraction(body.strip(), (start, start + len(body.strip())), "boxed")


@EXTRACTORS.named("code")
def extract_code(text: str) -> Extraction:
    """The program in a text. Rules, the first that finds one:

    1. fence: inside the first fenced block that is not empty; a language tag may follow the fence;
    2. open_fence: after a fence that is never closed (the answer was cut off);
    3. whole: the text itself.

    Indentation is kept; empty lines at the ends are not.
    """
    fences = list(_FENCE.finditer(text))
    for opening, closing in zip(fences[::2], fences[1::2], strict=False):
        if text[opening.end() : closing.start()].strip():
            return _program(text, opening.end(), closing.start(), "fence")
    if len(fences) % 2 and text[fences[-1].end() :].strip():
        return _program(text, fences[-1].end(), len(text), "open_fence")
    return _program(text, 0, len(text), "whole")


def _program(text: str, start: int, end: int, rule: str) -> Extraction:
    blank = _BLANK_LINES.match(text, start, end)
    start = blank.end() if blank else start
    end = start + len(text[start:end].rstrip())
    return Extraction(text[start:end], (start, end), rule)


def _after_hashes(text: str) -> Hit | None:
    marks = list(_HASHES.finditer(text))
    ends = _clause_ends(text) if marks else []
    limit = len(text)
    for mark in reversed(marks):
        gap = _DIRECT.match(text, mark.end())
        stop = min(limit, _clause_end(ends, text, mark.end()))
        first = next(find_numbers(text, mark.end(), stop), None)
        limit = mark.start()
        if (
            first is None
            or gap is None
            or first.start > gap.end()
            or _is_heading(text, mark, first)
        ):
            continue
        return _stated(text, mark.end(), stop)
    return None


def _is_heading(text: str, mark: re.Match[str], first: Hit) -> bool:
    """`#### 3. Total` and `#### 2: Costs` at the start of a line number a section."""
    is_at_start = not text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()].strip()
    is_small = first.end - first.start <= 2
    return is_at_start and is_small and _HEADING.match(text, first.end) is not None


def _in_box(text: str) -> Hit | None:
    box = last_box(text)
    return _stated(text, *box) if box else None


def last_box(text: str) -> tuple[int, int] | None:
    """Characters [start, end) inside the balanced \\boxed{} or \\fbox{} that opens last, or None.

    Linear time.
    """
    opened: list[int | None] = []
    last: tuple[int, int] | None = None
    for match in _BRACES.finditer(text):
        token = match[0]
        if token == "}":
            start = opened.pop() if opened else None
            if start is not None and (last is None or start > last[0]):
                last = (start, match.start())
        elif token not in ("\\{", "\\}"):
            opened.append(match.end() if len(token) > 1 else None)
    return last


def _after_cue(text: str) -> Hit | None:
    cues = list(_CUE.finditer(text))
    ends = _clause_ends(text) if cues else []
    limit = len(text)
    for cue in reversed(cues):
        start = cue.end()
        end = min(limit, _clause_end(ends, text, start))
        hit = _stated(text, start, end)
        if hit is not None and _is_statement(text, start, end, hit, cue[0]):
            return hit
        limit = cue.start()
    return None


def _is_statement(text: str, start: int, end: int, hit: Hit, cue: str) -> bool:
    """False where prose follows the cue: `Answer:` is often the heading of a whole solution.

    On the line of the cue at most three words may stand between a colon and the number; on a later
    line the number must stand alone, but for a unit.
    """
    gap, rest = text[start : min(hit.start, start + 400)], text[hit.end : min(end, hit.end + 40)]
    is_next_line = "\n" in gap or cue.endswith("\n")
    if is_next_line:
        return (
            not _WORD.search(gap.replace("boxed", "").replace("text", ""))
            and len(rest) <= 20
            and "=" not in rest
        )
    if cue.rstrip("*_ ")[-1:] not in ":=" or "=" in gap:
        return True
    return len(_WORD.findall(gap)) <= 3


def _last_number(text: str) -> Hit | None:
    """The last number; lines are read from the end, since no number crosses one."""
    ordinal: Hit | None = None
    stop = len(text)
    while stop >= 0:
        line = text.rfind("\n", 0, stop) + 1
        start = _window(text, line, stop)
        hits = list(find_numbers(text, start, stop, line))
        for hit in reversed(hits):
            if not hit.is_ordinal:
                return hit
        ordinal = ordinal or (hits[-1] if hits else None)
        stop = start if start > line else line - 1
    return ordinal


def _window(text: str, line: int, stop: int) -> int:
    """Where to begin reading text[line:stop] from behind: a place near the end that no number
    crosses.
    """
    size = _WINDOW
    while stop - size > line:
        cut = _CUT.search(text, stop - size, stop - 1)
        if cut is not None:
            return cut.end()
        size *= 2
    return line


def _clause_ends(text: str) -> list[int]:
    return [match.start() for match in _CLAUSE_END.finditer(text)]


def _clause_end(ends: list[int], text: str, start: int) -> int:
    """End of the sentence that begins at `start`; marks and empty lines before its first word
    belong to it.
    """
    blank = _BLANK.match(text, start)
    at = bisect_left(ends, blank.end() if blank else start)
    return ends[at] if at < len(ends) else len(text)


def _stated(text: str, start: int, end: int) -> Hit | None:
    """The number that a clause states: the first one after the last = that one follows, else the
    first.
    """
    reason = _REASON.search(text, start, end)
    stop = limit = reason.start() if reason else end
    while (equals := text.rfind("=", start, stop)) >= 0:
        hit = _first(find_numbers(text, equals + 1, stop))
        if hit is not None:
            return hit
        stop = equals
    first = _first(find_numbers(text, start, stop))
    return first if first is not None or limit == end else _first(find_numbers(text, limit, end))


def _first(hits: Iterator[Hit]) -> Hit | None:
    ordinal: Hit | None = None
    for hit in hits:
        if not hit.is_ordinal:
            return hit
        ordinal = ordinal or hit
    return ordinal
