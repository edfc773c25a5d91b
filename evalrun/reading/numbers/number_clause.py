"""Which number a clause states: the result of its arithmetic, else the one that its words make the
point."""

from __future__ import annotations

import re
from typing import NamedTuple

from evalrun.reading.numbers.number_context import (
    has_confidence,
    is_confidence,
    is_operand,
    is_point,
    score,
    words_between,
)
from evalrun.reading.numbers.number_values import FoundNumber, chinese_at, find_values, find_words
from evalrun.reading.stems import Stems

MAX_CLAUSE = 1200
"""Characters of a clause that are read: the first and the last half of these."""

_REASON = re.compile(
    r"\s\([^()\n]*=|(?i:(?<!and)(?<!but)(?<!so),?\s\b(?:because|since|where|when|given that|if"
    r"|as (?:he|she|it|they|we|there))\b)"
)
_REASONS = Stems(
    "because", "since", "where", "when", "given that", " if", "\nif", "as he", "as she", "as it",
    "as the", "as we",
)  # fmt: skip
_CONCLUDES = re.compile(
    r"\b(?:so|therefore|thus|hence|which (?:means|is|gives|equals|makes|leaves|comes)|meaning"
    r"|for a total of|totaling|"
    r"totalling|a total of|the total (?:is|was|of)|it means|this means|that means|leaving"
    r"|making it|giving|we (?:get|find|obtain)|gives us|results in)\b|[所因]以|因此|故|共|等于|则",
    re.IGNORECASE,
)
_CONCLUDING = Stems(
    "therefore", "thus", "hence", "which", "mean", "total", "leaving", "making it", "giving",
    "we get", "we find", "we obtain", "gives us", "results in",
    other=("以", "因此", "故", "共", "等于", "则"),
)  # fmt: skip
_SO = re.compile(r"so(?<!\w..)(?!\w)")
_LEAD = re.compile(
    r"[\s\"'*_>-]{0,6}(?:(?:and|but|now|then|so|thus|hence|therefore|finally),? )?(?:since|because"
    r"|if|as|when|while|given|with|using"
    r"|for|after|before|plugging|substituting|dividing|multiplying|adding|subtracting|taking"
    r"|solving|in|on|at|by|to)\b",
    re.IGNORECASE,
)
_COMMA = re.compile(r",\s(?!(?:and|or|which|where|but)\b)")
_EQUALS = re.compile(
    r"(?<![=<>!:+*/-])=(?![=>])|≈|\\approx|\\Rightarrow\b|\bequals?\b|\bis equal to\b"
    r"|\bcomes? (?:out )?to\b"
)
_EQUALS_SIGN = re.compile(
    r"[=≈\\](?:(?<![=<>!:+*/-]=)(?<==)(?![=>])|(?<=≈)|(?<=\\)(?:approx|Rightarrow\b))"
)
_NEGATED = re.compile(
    r"[\s:*$\\(]{0,6}(?:(?:is|was|are)\s)?(?:not|n['’]t|never|isn['’]t|不是|并非|不等于"
    r"|不为)(?![A-Za-z])(?!\s(?:only|just))",
    re.IGNORECASE,
)
_BUT = re.compile(
    r"\b(?:but(?: rather)?|it(?:['’]s| is| was| should be)|rather|instead)\b|[而应]是|应为|应该是",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"[^.;:=\d]{0,48}?(?:,|;|\band\b|\bor\b|[和或、，]|\\text\{ ?(?:and|or) ?\})[^.;:=\d]{0,24}$",
    re.IGNORECASE,
)
_RANGE = re.compile(r"[^\d\n.;]{0,12}?(?:-|~|[<≤]|\\leq?\b|\bto\b|至|到|\\sim|:|：)[ $€£\\]{0,3}$")
_SUBJECT = re.compile(r"\b(?:we|he|she|they|there|you|let|I|now|first|than)\b", re.IGNORECASE)
_PRONOUN = re.compile(
    r"one\s(?:that|of|which|who|where|with|in|closest|way|thing|possible|option)\b", re.IGNORECASE
)
_GAP = re.compile(r"[\s:：*_$\\(]{0,12}")
_DIGIT = re.compile(r"[\d¼-¾⅐-⅞]")


class ClauseReading(NamedTuple):
    """What a clause states. found: the number, or the first of several; rest: the others;
    is_several: more than one.

    is_direct: few words stand between the start of the clause and the number.
    """

    found: FoundNumber | None
    is_several: bool = False
    rest: tuple[FoundNumber, ...] = ()
    is_direct: bool = False


NOTHING = ClauseReading(None)


def read_clause(text: str, start: int, end: int, is_stated: bool) -> ClauseReading:
    """The number that text[start:end] states; is_stated: a cue, a box or another mark says that an
    answer follows."""
    start, is_negated = after_negation(text, start, end)
    if is_negated and start == end:
        return NOTHING
    lowered = text[start:end].lower()
    reason = _reason(text, start, end, lowered)
    stop = reason.start() if reason else end
    values = _read_values(text, start, stop, is_stated)
    if not values and reason:
        stop = end
        values = _read_values(text, start, stop, is_stated)
    if not values:
        return NOTHING
    if not is_stated:
        start, values = _main_clause(text, start, stop, values, lowered)
    return _result(text, start, stop, values, is_stated, lowered) or _point(
        text, start, stop, values, is_stated
    )


def _reason(text: str, start: int, end: int, lowered: str) -> re.Match[str] | None:
    """Where the clause goes on to say why; lowered: the clause in small letters."""
    if _REASONS.may_match(lowered) or ("(" in lowered and "=" in lowered):
        return _REASON.search(text, start, min(end, start + MAX_CLAUSE))
    return None


def _main_clause(
    text: str, start: int, end: int, values: list[FoundNumber], lowered: str
) -> tuple[int, list[FoundNumber]]:
    """Without what leads to the main clause: "Since 1 L = 1 kg, the mass is 20 kg", "5 * 3 = 15, so
    he has 2 left"."""
    begin = _after_lead(text, start, end, values[-1].start)
    if _CONCLUDING.may_match(lowered) or _SO.search(lowered):
        for conclusion in _CONCLUDES.finditer(text, begin, end):
            stop = conclusion.end()
            if any(each.start >= stop and not is_operand(text, each, end) for each in values):
                begin = stop
    return begin, [each for each in values if each.start >= begin] or values


def _after_lead(text: str, start: int, end: int, last: int) -> int:
    """Where the main clause begins behind "Since 1 L = 1 kg,"; last: where its last number is."""
    if not _LEAD.match(text, start, end):
        return start
    commas = (comma.end() for comma in _COMMA.finditer(text, start, end))
    return next((comma for comma in commas if comma <= last), start)


def _read_values(text: str, start: int, end: int, is_stated: bool) -> list[FoundNumber]:
    if end - start > MAX_CLAUSE:
        half = MAX_CLAUSE // 2
        values = [*find_values(text, start, start + half), *find_values(text, end - half, end)]
    else:
        values = find_values(text, start, end)
    if values and has_confidence(text, start, end):
        values = [each for each in values if not is_confidence(text, each)]
    return values or _read_words(text, start, end, is_stated)


def _read_words(text: str, start: int, end: int, is_stated: bool) -> list[FoundNumber]:
    """The one number that is written in words."""
    if is_stated:
        gap = _GAP.match(text, start, end)
        chinese = chinese_at(text, gap.end() if gap else start, end)
        if chinese:
            return [chinese]
    words = [
        each
        for each in find_words(text, start, min(end, start + MAX_CLAUSE))
        if (is_stated and each.start - start < 12 and not _PRONOUN.match(text, each.start))
        or (each.value != "1" and is_point(text, start, each))
    ]
    return words if len(words) == 1 else []


def has_number(sentence: str) -> bool:
    """Whether a sentence holds a number: in digits, or a word that its verb makes the point (has
    twelve apples)."""
    if _DIGIT.search(sentence):
        return True
    words = find_words(sentence, 0, len(sentence))
    return any(each.value != "1" and is_point(sentence, 0, each) for each in words)


def after_negation(text: str, start: int, end: int) -> tuple[int, bool]:
    """Where the statement goes on after "not 12, it is"; the end where nothing is put in its
    place."""
    negated = _NEGATED.match(text, start, end)
    if negated is None:
        return start, False
    but = _BUT.search(text, negated.end(), end)
    return (but.end() if but else end), True


def _result(
    text: str, start: int, end: int, values: list[FoundNumber], is_stated: bool, lowered: str
) -> ClauseReading | None:
    """The number right after an equals sign: of the last one, where none of the others stands in a
    list with it."""
    results = _after_equals(text, start, end, values, lowered)
    if not results:
        return None
    last = results[-1]
    if is_stated:
        others = [each for each in results[:-1] if each.value != last.value]
        if others and _is_list(text, others[-1], last):
            return ClauseReading(results[0], True, tuple(results[1:]))
        after = [each for each in values if each.start >= last.end]
        if after and _joins(text, last, after[0]) and after[0].value != last.value:
            return ClauseReading(last, True, tuple(after))
    is_direct = is_stated or words_between(text, start, results[0].start) <= 3
    return ClauseReading(last, is_direct=is_direct)


def _after_equals(
    text: str, start: int, end: int, values: list[FoundNumber], lowered: str
) -> list[FoundNumber]:
    """The numbers right behind equals signs, without the parts of a calculation."""
    results: list[FoundNumber] = []
    has_words = "equal" in lowered or "come" in lowered
    for equals in (_EQUALS if has_words else _EQUALS_SIGN).finditer(text, start, end):
        stop = equals.end()
        nxt = next((each for each in values if each.start >= stop), None)
        if nxt is None or words_between(text, stop, nxt.start) > 1 or nxt in results:
            continue
        if not is_operand(text, nxt, end):
            results.append(nxt)
    return results


def _is_list(text: str, one: FoundNumber, other: FoundNumber) -> bool:
    """x = 5 or x = -3; 3 + 4 = 7 apples, and 2 + 4 = 6 pears: results side by side, not one
    chain."""
    between = text[one.end : other.start]
    return re.search(
        r"\b(?:and|or)\b|[和或、，;,]|\\quad", between
    ) is not None and not _CONCLUDES.search(between)


def _point(
    text: str, start: int, end: int, values: list[FoundNumber], is_stated: bool
) -> ClauseReading:
    kept = [each for each in values if not is_operand(text, each, end)]
    if not kept:
        return NOTHING
    scores = [score(text, start, each) for each in kept]
    first = kept[0]
    is_direct = words_between(text, start, first.start) <= 3 and not _SUBJECT.search(
        text, start, first.start
    )
    if is_stated and is_direct and scores[0] > -3:
        return _direct(text, kept)
    if max(scores) <= -3 and not is_stated:
        return NOTHING
    best = scores.index(max(scores))
    if scores[best] >= 2 and best + 1 < len(kept):
        outcome = _direct(text, kept[best:])
        if outcome.is_several:
            return outcome
    return ClauseReading(kept[best], rest=tuple(kept[:best] + kept[best + 1 :]), is_direct=False)


def _direct(text: str, kept: list[FoundNumber]) -> ClauseReading:
    """The first number after a cue, with those that stand in one list or range with it."""
    group = [kept[0]]
    for each in kept[1:]:
        if not _joins(text, group[-1], each):
            break
        group.append(each)
    different = {each.value for each in group}
    if len(different) > 1:
        return ClauseReading(group[0], True, tuple(group[1:]), True)
    return ClauseReading(kept[0], rest=tuple(kept[1:]), is_direct=True)


def _joins(text: str, one: FoundNumber, other: FoundNumber) -> bool:
    between = text[one.end : other.start]
    if len(between) > 80:
        return False
    if re.search(r"[(=]|\b(?:than|which|that|so|but|not|out of|of)\b", between):
        return False
    if _RANGE.fullmatch(between) is not None:
        return True
    if _LIST.fullmatch(between) is None:
        return False
    return not re.search(
        r"\b(?:is|are|was|has|have|had|will|would|each|every|per|for|in|at|with|from|by|on"
        r"|after)\b",
        between,
    )
