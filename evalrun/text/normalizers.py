"""Normalisers: text in, the form that is compared out. Pure, linear in the length of the text.

Each keeps the rule of the place where it comes from, because published numbers stand on it. None of
them applies Unicode normalisation.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import TypeAlias

from evalrun.registry import Registry
from evalrun.text.extract import last_box

Normalizer: TypeAlias = Callable[[str], str]
NORMALIZERS: Registry[Normalizer] = Registry("normalizer")

INVALID = "[invalid]"
"""What `gsm8k` gives for a text without an answer. It equals nothing, not even itself."""

_PUNCTUATION = string.punctuation.encode("ascii")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = frozenset(("a", "an", "the"))
# would part words as \b does, which white space does not
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NUMBERISH = re.compile(r"\d")
_GSM8K = re.compile(r"#### (-?[0-9.,]+)")
_BOX_WITH_SPACE = re.compile(r"\\boxed\s+([^\s{$][^$]*)")
_CANONICAL_RATIO = re.compile(r"(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)")
_BARE_ROOT = re.compile(r"\\sqrt(?!\\sqrt)([^{])", re.DOTALL)
_BEFORE_UNIT = re.compile(r"\\text\{ ")
_DROPPED = (
    ("\n", ""),
    ("\\!", ""),
    ("\\\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\left", ""),
    ("\\right", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\\$", ""),
)


def normalize(name: str, text: str) -> str:
    """`text` in the form of the normaliser `name`: helm, triviaqa, bigbench, gsm8k, math, ...

    Fault for no such name.
    """
    return NORMALIZERS.get(name)(text)


@NORMALIZERS.named("helm")
def helm(text: str) -> str:
    """Words without case, ASCII punctuation and articles; numbers as Python writes them.

    Split at blanks and hyphens. A word that is a number (3.14, 1e3, 1,000 without its comma)
    becomes str(float), any other loses its punctuation; a, an, the go; white space becomes one
    blank. As in DROP the sign of "-5" is lost, and so is the point of "3.14," (with its comma it is
    no number, and without punctuation it is 314). Source: QuAC's script as in HELM (Liang et al.
    2022), with DROP's rule for numbers (Dua et al. 2019).
    """
    return " ".join(helm_words(text))


def helm_words(text: str) -> list[str]:
    """The words that `helm` leaves."""
    lowered = text.lower().replace("-", " ")
    kept, place = [], 0
    for digit in _NUMBERISH.finditer(lowered):
        if digit.start() >= place:
            start = max(place, lowered.rfind(" ", place, digit.start()) + 1)
            end = lowered.find(" ", digit.start())
            end = len(lowered) if end < 0 else end
            kept += [_without_punctuation(lowered[place:start]), _number_word(lowered[start:end])]
            place = end
    joined = "".join([*kept, _without_punctuation(lowered[place:])])
    # the one word of letters alone that is written another way as a number
    if "infinity" in joined:
        joined = " ".join(
            "inf" if word.strip() == "infinity" else word for word in joined.split(" ")
        )
    if joined.isascii() and _CONTROL.search(joined) is None:
        return [word for word in joined.split() if word not in _ARTICLES]
    return _ARTICLE.sub(" ", joined).split()


def _without_punctuation(text: str) -> str:
    if text.isascii():  # bytes drop characters several times as fast
        return text.encode("ascii").translate(None, _PUNCTUATION).decode("ascii")
    return text.translate(_NO_PUNCTUATION)


def _number_word(word: str) -> str:
    number = _as_float(word)
    if number is None:
        word = _without_punctuation(word)
        number = _as_float(word)
    return word if number is None else number


def _as_float(word: str) -> str | None:
    try:
        return str(float(word))
    except ValueError:
        return None


def bare(text: str) -> str:
    """`text` in lower case, without ASCII punctuation, one blank between words; articles stay."""
    return " ".join(_without_punctuation(text.lower()).split())


@NORMALIZERS.named("triviaqa")
def triviaqa(text: str) -> str:
    """Lower case, ASCII punctuation deleted; articles and spaces stay.

    Source: lm-evaluation-harness, task triviaqa.
    """
    return _without_punctuation(text.lower())


@NORMALIZERS.named("bigbench")
def bigbench(text: str) -> str:
    """A full stop between blanks ends its line.

    Source: BIG-bench's text for ROUGE (Srivastava et al. 2022).
    """
    return text.replace(" . ", ".\n")


@NORMALIZERS.named("remove_braces")
def remove_braces(text: str) -> str:
    """Without one { at the start and one } at the end.

    Source: HELM's summarization and synthetic scenarios.
    """
    return text.removeprefix("{").removesuffix("}")


@NORMALIZERS.named("remove_braces_and_strip")
def remove_braces_and_strip(text: str) -> str:
    """White space off the ends first, then `remove_braces`; what stands inside the braces is
    kept as it is.
    """
    return remove_braces(text.strip())


@NORMALIZERS.named("gsm8k")
def gsm8k(text: str) -> str:
    """The number after the first `#### `, without commas; INVALID where there is none.

    Exactly one blank; a $ or nothing after the marks is invalid; "42." keeps its point. Source:
    Cobbe et al. 2021, grade-school-math.
    """
    match = _GSM8K.search(text)
    return match[1].replace(",", "") if match else INVALID


@NORMALIZERS.named("reasoning_tags", aliases=("strip_reasoning_tags",))
def reasoning_tags(
    text: str, tags: tuple[tuple[str, str], ...] = (("<think>", "</think>"),)
) -> str:
    """Without every closed pair of tags and what it holds; a tag without its partner stays."""
    for opening, closing in tags:
        kept, place = [], 0
        while (start := text.find(opening, place)) >= 0:
            end = text.find(closing, start + len(opening))
            if end < 0:
                break
            kept.append(text[place:start])
            place = end + len(closing)
        text = "".join([*kept, text[place:]])
    return text


@NORMALIZERS.named("math")
def math(text: str) -> str:
    r"""The LaTeX of the last \boxed{} or \fbox{} (also `\boxed 5`), else of the whole text, in one
    spelling.

    Fractions as \frac{a}{b} (also a/b and 0.5), roots as \sqrt{a}; no \left, \right, degrees,
    dollars, percent, spaces, no unit after `\text{ `, no short left side of one equation (x=5 is
    5). Not a computer algebra system: 0.25 is not 1/4. Source: Hendrycks et al. 2021 (arXiv
    2103.03874), strip_string.
    """
    found = _boxed(text)
    for old, new in _DROPPED:
        found = found.replace(old, new)
    if unit := _BEFORE_UNIT.search(found):
        found = found[: unit.start()].rstrip()
    found = found.replace("\\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if found.startswith("."):
        found = "0" + found
    sides = found.split("=")
    if len(sides) == 2 and len(sides[0]) <= 2:
        found = sides[1]
    found = _braced_fractions(_BARE_ROOT.sub(r"\\sqrt{\1}", found).replace(" ", ""))
    if found == "0.5":
        return "\\frac{1}{2}"
    ratio = _CANONICAL_RATIO.fullmatch(found)
    return f"\\frac{{{ratio[1]}}}{{{ratio[2]}}}" if ratio else found


def _boxed(text: str) -> str:
    box = last_box(text)
    spaced = max(_BOX_WITH_SPACE.finditer(text), key=lambda match: match.start(), default=None)
    if spaced is not None and (box is None or spaced.start() > box[0]):
        return spaced[1]
    return text if box is None else text[box[0] : box[1]]


def _braced_fractions(text: str) -> str:
    r"""\frac12 and \frac1{2} as \frac{1}{2}; left alone as a whole where a \frac has too little
    behind it.
    """
    head, *parts = text.split("\\frac")
    if any(len(part) == 1 and part != "{" for part in parts):
        return text
    done = [head]
    for part in parts:
        if part and part[0] != "{":
            rest = part[1:] if part[1] == "{" else f"{{{part[1]}}}{part[2:]}"
            part = f"{{{part[0]}}}{rest}"
        done.append(part)
    return "\\frac".join(done)
