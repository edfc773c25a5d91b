"""A statement about the answer, and what speaks against it."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

from evalrun.reading.cues import any_of
from evalrun.reading.letters.letter_names import Name


class Force(IntEnum):
    """How much a statement says. A stronger one wins; among equals the last."""

    HINT = 1  # counts where nothing else does and the text is whole
    CALLED = 2  # an option is called right, or opens the text
    STATED = 3  # the text says what its answer is


class Statement(NamedTuple):
    """A place that states an answer.

    at, end: its characters.
    names: the options named there; empty: it states that no option is right.
    rule: name of the rule that found it.
    force: how much it says.
    """

    at: int
    end: int
    names: tuple[Name, ...]
    rule: str
    force: Force

    @property
    def letters(self) -> frozenset[str]:
        """The capitals of the options named there."""
        return frozenset(name.letter for name in self.names)


_BACK = 140
_SENTENCE = re.compile(r"[.!?](?=\s)|[\n。！？；;]")
_SUPPOSED = re.compile(
    r"\b(?:if|whether|suppose|supposing|assume|assuming|unless|(?<!is )(?<!s )why|wenn|ob|si|se"
    r"|если)\b[^,.\n!?;:，]{0,60}$"
    r"|(?:如果|假如|假设|若|要是|是否)[^，。,]{0,20}$"
    r"|\b(?:i|we|you|one|some|many|people|students?)\b[^.,;\n]{0,20}\b(?:thought|might|may"
    r"|could)[ \t]"
    r"(?:think|say|assume|guess|expect|choose|pick|select|believe|conclude|argue"
    r"|be tempted)\b[^.,;\n]{0,30}$"
    r"|\b(?:you|one|some|many|people|students?)\b[^.,;\n]{0,20}\b(?:would|often|sometimes)[ \t]"
    r"(?:think|say|assume|guess|expect|choose|pick|select|believe)\b[^.,;\n]{0,30}$"
    r"|\b(?:tempting to|at first(?: glance)?|initially|mistakenly|wrongly|incorrectly"
    r"|i thought)\b[^.,;\n]{0,40}$"
    r"|\b(?:before|until|how|to see|check(?:ing)? (?:if|that|whether))\b[^,.\n]{0,20}$"
)
_REFUTED = re.compile(
    r"(?:[)\]*\s,]{0,5}(?:(?:and|or)\s)?[(*]{0,3}[a-z](?=[)*\s,])){0,9}"
    r"[)\]*_`\"'”\s}$,]{0,6}(?:(?:and|but)\s)?(?:,?\s?(?:which|this|that|it|option)\s{1,2})?"
    r"(?:(?:is|are|was|were|would be|seems|must be)(?:n't|n’t)?\s{1,2})"
    r"(?:also |clearly |therefore |definitely |only |still |simply |the )?"
    r"(?:not|never|incorrect|wrong|false|invalid|ruled out|eliminated|excluded|partially|partly"
    r"|unlikely|out\b"
    r"|too |inaccurate|untrue|impossible|implausible|irrelevant|a distractor)"
    r"|[)\]*_`\"'”\s}$]{0,6}(?:isn't|isn’t|doesn't|doesn’t|does not|cannot be|can't be)"
    r"|[)\]*_`\"'”]{0,4}\s?(?:项|选项|項)?(?:也)?(?:是|为)?(?:不|错|錯|并不|并非|有误)"
    r"|[)\]*_`\"'”\s]{0,4}(?:ist (?:nicht|falsch)|est (?:fausse?|incorrecte?)|n['’]est pas"
    r"|es (?:incorrecta|falsa)"
    r"|no es|non è|não é|неверн|не является)"
)
_ONLY_IF = re.compile(
    r"[)\]*_`\"'”}$]{0,4},?\s{0,2}(?:only )?(?:if|provided that|unless|assuming)\b(?! (?:we"
    r"|you) (?:round|approximate))"
)
_IF_FIRST = re.compile(
    r"[\s*_]{0,4}(?:however,? |but |alternatively,? |and |for example,? "
    r"|similarly,? )?if (?!(?:we|you|i) (?!want|assume\b))"
)
_RULED_OUT = re.compile(
    r"[^.\n!?]{0,60}(?:\.\d[^.\n!?]{0,60}){0,2}?\b(?:which|but|though|although"
    r"|however)\b[^.\n!?]{0,20}?"
    r"(?:is|it's|it’s|that's) (?:still )?(?:not (?:the |a )?(?:correct|right|valid|answer)"
    r"|incorrect"
    r"|wrong)\b"
    r"(?! (?:rounding|units?))"
)
_WRONG = re.compile(r"\b(?:wrong|incorrect|false)\s{1,2}$")
_ASKED = re.compile(r"[^.\n!?。！]{0,60}[?？]")
_NEGATED = re.compile(rf"[\s*_]{{0,6}}(?:{any_of('negated')})(?![a-z])")
_CONTRAST = re.compile(
    r"[^.\n;?!。]{0,60}?(?:[,;，]\s?|\s|\b)(?:but|rather|instead|it is|it's|it’s|it should be"
    r"|it must be"
    r"|sondern|mais|sino|ma|mas|а)(?:\s{1,2}(?:rather|it is|it's|is|should be))?(?![a-z])"
    r"|[^。\n]{0,20}?(?:而是|应该是|应为)"
)
_PLACEHOLDER = re.compile(r"[)\]*_`\"'”\s}$.,]{0,5}\s?(?:where|with)\s\(?x\b")


_ENDINGS = ("\n", ". ", "? ", "! ", "; ", "。", "！", "？", "；")


def sentence_start(text: str, at: int) -> int:
    """Where the sentence around `at` begins, at most 140 characters back."""
    least = max(0, at - _BACK)
    start = least
    for mark in _ENDINGS:
        found = text.rfind(mark, start, at)
        if found >= 0:
            start = found + len(mark)
    return start


def sentence_end(text: str, at: int, most: int = 240) -> int:
    """Where the sentence that goes on at `at` ends, at most `most` characters on."""
    match = _SENTENCE.search(text, at, min(len(text), at + most))
    return match.start() if match else min(len(text), at + most)


def is_supposed(low: str, at: int) -> bool:
    """An if, a whether, an opinion of others governs what begins at `at`."""
    start = sentence_start(low, at)
    return at - start > 2 and _SUPPOSED.search(low, start, at) is not None


def is_refuted(low: str, name: Name) -> bool:
    """`(A) is incorrect`, A项错误."""
    return _REFUTED.match(low, name.end) is not None


def is_conditional(low: str, at: int, name: Name) -> bool:
    """`B if the mass were doubled`, `If it was hearsay, the answer is B`."""
    if _ONLY_IF.match(low, name.end):
        return True
    return _IF_FIRST.match(low, sentence_start(low, at), at) is not None


def is_about_wrong(low: str, at: int) -> bool:
    """`the incorrect answer is`: an answer only where nothing else is stated."""
    return _WRONG.search(low, max(0, at - 16), at) is not None


def is_ruled_out(low: str, name: Name) -> bool:
    """The sentence goes on: `..., which is not the correct answer`."""
    return _RULED_OUT.match(low, name.end) is not None


def is_asked(low: str, name: Name) -> bool:
    """The sentence ends with a question mark."""
    return _ASKED.match(low, name.end) is not None


def is_placeholder(low: str, name: Name) -> bool:
    """`the answer is (X) where X is the letter`: the instruction repeated."""
    return name.letter == "X" and _PLACEHOLDER.match(low, name.end) is not None


def negation_end(low: str, at: int) -> int | None:
    """Where a "not" behind a link ends, None where there is none."""
    match = _NEGATED.match(low, at)
    return match.end() if match else None


def contrast_end(low: str, at: int) -> int | None:
    """Behind the "but" of `not (A) but (B)`."""
    match = _CONTRAST.match(low, at)
    return match.end() if match else None
