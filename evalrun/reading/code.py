"""The program in a text."""

from __future__ import annotations

import re

from evalrun.reading.base import Candidate, Reading, Reason
from evalrun.reading.numbers.number_view import after_thought

_FENCE = re.compile(r"(?m:^)[ \t]{0,12}(?:```+|~~~+)[^`\n]{0,40}(?:\n|$)")
_BLANK_LINES = re.compile(r"(?:[ \t]*+\n)++")


def read_code(text: str, *, truncated: bool | None = None) -> Reading:
    """The program in `text`. Rules, the first that finds one:

    fence: inside the first fenced block that is not empty; a language tag may follow the fence;
    open_fence: after a fence that is never closed (the answer was cut off);
    whole: the text itself.

    Indentation is kept; empty lines at the ends are not. A thought before the answer is not read;
    one that never
    ends states no program (reason cut). An empty text states none.
    truncated: whether it was cut off; it only decides between the reasons none and cut. Linear
    time.
    """
    start, is_open = after_thought(text)
    if is_open:
        return Reading(None, reason=Reason.CUT)
    blocks = _blocks(text, start)
    if not blocks:
        return Reading(None, reason=Reason.CUT if truncated else Reason.NONE)
    first = blocks[0]
    other = next((each for each in blocks[1:] if each.value != first.value), None)
    return Reading(first.value, (first.start, first.end), first.rule, runner_up=other)


def _blocks(text: str, start: int) -> list[Candidate]:
    fences = list(_FENCE.finditer(text, start))
    spans = [
        (opening.end(), closing.start(), "fence")
        for opening, closing in zip(fences[::2], fences[1::2], strict=False)
    ]
    if len(fences) % 2:
        spans.append((fences[-1].end(), len(text), "open_fence"))
    filled = [span for span in spans if text[span[0] : span[1]].strip()]
    if not filled and text[start:].strip():
        filled = [(start, len(text), "whole")]
    return [_program(text, *span) for span in filled]


def _program(text: str, start: int, end: int, rule: str) -> Candidate:
    blank = _BLANK_LINES.match(text, start, end)
    start = blank.end() if blank else start
    end = start + len(text[start:end].rstrip())
    return Candidate(text[start:end], start, end, rule)
