"""A place of a text that may state its answer, and how clearly it says so."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Tier(IntEnum):
    """How clearly a place says that an answer stands there; a higher tier always wins."""

    CLOSING = 1  # what a finished text ends with
    CONCLUSION = 2  # a sentence that concludes, a heading "Result:"
    STATED = 3  # a mark of the answer: cue, box, hashes, tag


class AnswerPlace(NamedTuple):
    """Characters [start, end) that may state the answer.

    rule: who found it. group: places with the same number above 0 are one statement. is_whole: the
    place holds nothing but the answer.
    """

    start: int
    end: int
    rule: str
    tier: Tier
    group: int = 0
    is_whole: bool = False


RULES = (
    "hashes",
    "boxed",
    "field",
    "cue",
    "heading",
    "result_line",
    "correction",
    "cue_sentence",
    "lettered",
    "output",
    "first_line",
    "last_line",
    "conclusion",
    "closing",
)
"""Every rule that may decide a reading of a number or formula; docs/reading.md explains each."""
