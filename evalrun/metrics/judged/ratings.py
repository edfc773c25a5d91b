"""Reading a judge model's words: ratings and grades.

A judgement that cannot be read is missing, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_DOUBLE = re.compile(r"\[\[(\d+\.?\d*)\]\]")
_SINGLE = re.compile(r"\[(\d+\.?\d*)\]")
_GRADE = re.compile(r"[ABC]")


def parse_rating(judgement: str, low: float = 1.0, high: float = 10.0) -> float | None:
    """The rating of a judgement: the first `[[x]]`, else the first `[x]`; None where there is none
    in [low, high].

    FastChat's rule for MT-Bench (Zheng et al. 2023, arXiv 2306.05685). A number off the scale is no
    rating.
    """
    match = _DOUBLE.search(judgement) or _SINGLE.search(judgement)
    if match is None:
        return None
    rating = float(match[1])
    return rating if low <= rating <= high else None


def mean_rating(ratings: Iterable[float | None]) -> float | None:
    """The mean of the ratings that could be read; None where there is none.

    FastChat, `show_result`.
    """
    read = [rating for rating in ratings if rating is not None]
    return math.fsum(read) / len(read) if read else None


def parse_simpleqa(judgement: str) -> float:
    """1.0 where the first of A, B, C in the judgement is A (correct), else 0.0; none of them counts
    as C.

    A: correct, B: incorrect, C: not attempted. simple-evals, SimpleQA grader (Wei et al. 2024,
    arXiv 2411.04368).
    """
    match = _GRADE.search(judgement)
    return float(match is not None and match[0] == "A")
