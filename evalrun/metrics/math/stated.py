"""The formula that an answer or a gold states, found by the search patterns of math-verify.

May take for ever on hostile input: run it under a deadline.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from evalrun.metrics.math.spelling import body, spelled
from evalrun.metrics.math.symbolic import UNREADABLE, expressions
from evalrun.text.extract import Extraction, extract_number
from evalrun.text.formulas import (
    boxed_answers,
    has_formula,
    is_bare_formula,
    quantity,
    sequence,
)
from evalrun.text.numbers import find_numbers, plain

_RULES = (
    (0, "final_answer"),
    (50, "final_answer"),
    (100, "answer"),
    (200, "answer"),
    (300, "last"),
)
_PARTS = re.compile(r"(?:first_|next\d_)?(?:latex|integer|decimal|expr|percent)\w*")
_PLAIN_PARTS = ("integer1", "integer2", "integer3", "decimal3", "expr")
_LONG_SPACE = re.compile(r"\s{64,}")
_FORMULA = re.compile(r"\$[^$]*\$|\\\(.*?\\\)|\\\[.*?\\\]", re.DOTALL)
_WORD = re.compile(r"(?!(?:and|or|percent)\b)[A-Za-z]{3,}|\d")


def read_answer(text: str) -> tuple[tuple[Extraction, ...], tuple[Any, ...]] | None:
    """The formulas that a text gives as its answer, several where boxes are joined, and what the
    library reads a plain number as; None without a formula.

    What the last boxes hold, else the whole of a text that is one formula, else what `read_text`
    finds.
    """
    if found := boxed_answers(text):
        return found, ()
    if is_bare_formula(text):
        return (whole(text),), ()
    read = read_text(text)
    return None if read is None else ((read[0],), read[1])


def whole(text: str) -> Extraction:
    """The whole text without white space at its ends."""
    start = len(text) - len(text.lstrip())
    return Extraction(text.strip(), (start, len(text.rstrip())), "whole")


@lru_cache(maxsize=512)
def formula_of(gold: str) -> str:
    """The formula of a gold that sets it off in a sentence; any other gold as it is."""
    if not has_formula(gold) or not _WORD.search(_FORMULA.sub(" ", gold)):
        return gold
    found = read_text(gold)
    return gold if found is None else found[0].text


def read_text(text: str) -> tuple[Extraction, tuple[Any, ...]] | None:
    """The formula or number that a text without a box gives as its answer, and what the library
    reads it as where it is a plain number; None without one.

    The rightmost one after "final answer is", else after "answer", else at all. The search patterns
    are math-verify's; where they see nothing (所以答案是5。), it is the number that
    `extract_number` reads.
    """
    from math_verify import ExprExtractionConfig, LatexExtractionConfig
    from math_verify.parser import extract_match, get_extraction_regexes

    text = _LONG_SPACE.sub(_shaded, text)
    known = get_extraction_regexes((LatexExtractionConfig(), ExprExtractionConfig()))
    first: Extraction | None = None
    for priority, rule in _RULES:
        for match, kind in _hits(text, known, priority):
            try:
                value = extract_match(match, kind)[0]
            except UNREADABLE:
                value = None
            found = _extraction(text, match, rule)
            if value is not None:
                return _whole_number(text, match, found, value)
            if _is_read(found.text):
                return found, ()
            if sequence(found.text):  # compared term by term; no number inside it is the answer
                return found, ()
            first = first or found
    number = extract_number(text) if first is None else None
    first = first or (number and Extraction(text[slice(*number.span)], number.span, number.rule))
    return None if first is None else (first, ())


def _hits(text: str, known: Any, priority: int) -> list[tuple[re.Match[str], Any]]:
    """What the patterns of one priority match, the rightmost first."""
    hits = [
        (match, kind)
        for patterns, kind in known
        for pattern, level in patterns
        if level == priority
        for match in pattern.finditer(text)
    ]
    return sorted(hits, key=lambda hit: (-hit[0].end(), hit[0].start()))


def _is_read(text: str) -> bool:
    r"""Whether a formula that the library does not read is a number (35\%), or is read once it is
    spelled for it.
    """
    bare, better = body(text), spelled(text)
    return quantity(bare) is not None or (
        better != bare and any(not isinstance(each, str) for each in expressions(better))
    )


def _whole_number(
    text: str, match: re.Match[str], found: Extraction, value: Any
) -> tuple[Extraction, tuple[Any, ...]]:
    """A plain number keeps what the library reads it as, a formula is read from its text.

    The library stops at the 1 of 1/2杯; the number goes on.
    """
    groups = match.groupdict()
    if not any(groups.get(name) for name in _PLAIN_PARTS):
        return found, ()
    start, end = found.span
    stop = min(len(text), end + 40)
    hit = next(find_numbers(plain(text[start:stop]), 0), None)
    if (
        hit
        and not groups.get("expr")
        and hit.start == 0
        and hit.denominator
        and hit.end > end - start
    ):
        end = start + hit.end
        return Extraction(text[start:end], (start, end), found.rule), ()
    return found, (value,)


def _shaded(space: re.Match[str]) -> str:
    """White space that keeps its length, with a middle that the search patterns do not try again
    and again.
    """
    return space[0][:8] + "\0" * (len(space[0]) - 16) + space[0][-8:]


def _extraction(text: str, match: re.Match[str], rule: str) -> Extraction:
    spans = [
        match.span(name)
        for name, part in match.groupdict().items()
        if part and _PARTS.fullmatch(name)
    ]
    start, end = min(s for s, _ in spans), max(e for _, e in spans)
    return Extraction(text[start:end], (start, end), rule)
