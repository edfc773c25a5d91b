r"""What the last \boxed{} or \fbox{} of a text holds."""

from __future__ import annotations

from evalrun.reading.base import Candidate, Reading, Reason
from evalrun.reading.numbers.number_view import view
from evalrun.text.formulas import boxes


def read_boxed(text: str, *, truncated: bool | None = None) -> Reading:
    r"""What stands inside the last balanced \boxed{} or \fbox{} that is not empty, without white
    space at its ends.

    text: the answer of a model; thought, programs and invented further questions are not read.
    truncated: whether it was cut off; None: judged from the text. It only decides between the
    reasons none and cut.

    Rule: boxed. Linear time.
    """
    seen = view(text, truncated)
    found = [
        _candidate(text, seen.start + left, seen.start + right)
        for left, right in boxes(seen.text[seen.start : seen.end])
    ]
    filled = [each for each in found if each.value]
    if not filled:
        return Reading(None, reason=Reason.CUT if seen.is_cut else Reason.NONE)
    last = filled[-1]
    other = next((each for each in reversed(filled) if each.value != last.value), None)
    return Reading(last.value, (last.start, last.end), last.rule, runner_up=other)


def _candidate(text: str, start: int, end: int) -> Candidate:
    body = text[start:end]
    left = start + len(body) - len(body.lstrip())
    return Candidate(body.strip(), left, left + len(body.strip()), "boxed")
