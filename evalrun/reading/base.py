"""What every reader returns: the stated answer, its place, its rule, and the runner-up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evalrun.errors import unknown
from evalrun.types import Candidate

__all__ = ["SEVERAL", "Candidate", "Reading", "Reason", "check_several"]


SEVERAL = ("wrong", "first", "last")
"""What several stated answers can mean: no reading, the first, the last."""


def check_several(several: str, where: str = "several") -> None:
    """Fault for a word that is none of SEVERAL, with the place that is named in the error."""
    if several not in SEVERAL:
        raise unknown("choice", several, SEVERAL, where)


class Reason(StrEnum):
    """Why a reading has no value."""

    NONE = "none"  # the text states no answer
    SEVERAL = "several"  # the text states several answers
    CUT = "cut"  # the text ends before an answer


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer that a text states.

    Attributes:
        value: the answer in canonical form; None where the text states none, and `reason` says why.
        span: its characters [start, end) in the text; None without a value.
        rule: name of the rule that decided; None without a value.
        is_weak: the rule is right in under 95 % of the labelled answers that it decides.
        reason: none, several or cut where value is None; else None.
        runner_up: the best candidate with another value; None where there was none.
    """

    value: str | None
    span: tuple[int, int] | None = None
    rule: str | None = None
    is_weak: bool = False
    reason: Reason | None = None
    runner_up: Candidate | None = None
