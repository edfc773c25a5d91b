"""The short formula that a text states as its answer: number, expression, interval, set, tuple or
equation."""

from __future__ import annotations

import re

from evalrun.reading.base import Reading, Reason
from evalrun.reading.formulas.expression_text import spelled
from evalrun.reading.numbers.number_choice import Resolved, choose, resolve
from evalrun.reading.numbers.number_clause import after_negation, has_number, read_clause
from evalrun.reading.numbers.number_place import AnswerPlace, Tier
from evalrun.reading.numbers.number_places import find_places
from evalrun.reading.numbers.number_values import FoundNumber
from evalrun.reading.numbers.number_view import View, view

WEAK_RULES: frozenset[str] = frozenset({"lettered"})
"""Rules that are right in under 95 % of the labelled rows that they decide."""

_MATH = re.compile(
    r"\$\$(?P<a>[^$]{1,800}+)\$\$|(?<![\\\d])\$(?P<b>(?:[^$\n\\]|\\.){1,400}+)\$"
    r"|\\\((?P<c>.{1,400}?)\\\)|\\\[(?P<d>(?s:.{1,800}?))\\\]"
)
_GAP = re.compile(
    r"(?:[\s*_:：>\"'“”`=]|\b(?:then|thus|simply|just|given by|equal to|that|the|a|an|about"
    r"|approximately|therefore)\b){0,40}"
)
_JOINED = re.compile(
    r"(?:\s|\*){0,4}(?:[,，、；]|\band\b|\bor\b|,\s?(?:and|or)\b|[和或且与]){1,2}(?:\s|\*){0,4}"
)
_PROSE_END = re.compile(
    r",?\s(?:which|because|since|where|when|so|as|for|if|after|by|in order|is|are|that|this|at)\s"
    r"|,\s(?=[a-z]{3})|\s\((?=[^()]*[a-z]{4})|，(?=[\u4e00-\u9fff])"
)
_PLAIN = re.compile(r"[-\w\s.,+*/^=(){}\[\]<>|!'\\√π∞∪∩±≤≥≠≈²³°%$:;×·①-⑩、和或]+")
_NAMES = re.compile(
    r"\\[A-Za-z]+|\b(?:arc)?(?:sin|cos|tan|cot|sec|csc|ln|log|exp|sqrt|pi|max|min|or|and|inf"
    r"|infinity|mod)\b|\b(?:[A-Za-z]{1,2}|[A-Z]{2,3})\b"
)
_WORD = re.compile(r"[A-Za-z]{3,}|[\u4e00-\u9fff]{2,}")
_VALUE = re.compile(r"\d|\$|\\\(|\\\[|\\(?:frac|sqrt|pi|infty)|[π∞√]|[①-⑩]")
_SIGN = re.compile(r"[=+*/^]")
_PERCENT = re.compile(r"\s?\\?%")
_ITEM = re.compile(r"(?:1[.)]|[-*•])\s+[A-Za-z]")
_LEADS = re.compile(
    r"(?:\b(?:is|are|equals?|be|gives?|get|obtain|have|has|to|becomes|yields?)|[是为得有:：即=]|等于|→"
    r"|\\Rightarrow|\\implies)\s{0,3}[*_]{0,2}$"
)
_VERB = re.compile(r"\s{0,3}(?:is|are|has|have|was)\b")
_TEXT = re.compile(r"\\text\{[^{}]{1,40}\}\.?")
_MEMBER = r"[A-Za-z]\w?\s?=\s?[^\s,;=]{1,60}"
_SOLUTIONS = re.compile(rf"(?<!\w){_MEMBER}(?:\s?(?:,|,?\s(?:or|and)\s)\s?{_MEMBER}){{1,5}}$")
_CHOICES = re.compile(r"[①-⑩](?:[、,，和 ]{0,2}[①-⑩]){0,9}")


def read_expression(text: str, *, truncated: bool | None = None) -> Reading:
    r"""The number or short formula that `text` states as its answer, in one plain spelling.

    text: the answer of a model.
    truncated: whether it was cut off at the length limit; None: judged from the text.

    Statements as in `read_number`. Boxes that a comma or "and" joins are one list of solutions.
    Dressing goes: names before a value (x = 5 is 5), units, spacing, text and box commands,
    \dfrac; an equation in unknowns stays. Compare the value as the content of a \boxed{}.
    Linear time. Rules: docs/reading.md.
    """
    seen = view(text, truncated)
    if seen.has_open_thought:
        return Reading(None, reason=Reason.CUT)
    resolved = resolve(find_places(seen, _has_value), lambda place: _resolve(text, seen, place))
    return choose(seen, _joined(text, resolved), "first", WEAK_RULES)


def _has_value(sentence: str) -> bool:
    return _VALUE.search(sentence) is not None or has_number(sentence)


def _joined(text: str, resolved: list[Resolved]) -> list[Resolved]:
    """Boxes of one group as one list."""
    merged: list[Resolved] = []
    for each in resolved:
        last = merged[-1] if merged else None
        if (
            last
            and each.place.group
            and last.place.group == each.place.group
            and last.found
            and each.found
        ):
            value = f"{last.first.value}, {each.first.value}"
            merged[-1] = Resolved(
                last.place, (FoundNumber(last.first.start, each.first.end, value),)
            )
        else:
            merged.append(each)
    return merged


def _resolve(original: str, seen: View, place: AnswerPlace) -> Resolved | None:
    if place.rule == "unknown":
        return Resolved(place, ())
    if place.rule in ("boxed", "field", "hashes"):
        found = _whole(original, place.start, place.end)
        if found and _is_prose(found.value):
            found = None
        if found is None and place.rule == "boxed":
            return Resolved(place, ())
    elif place.rule in ("cue", "heading", "result_line", "correction"):
        found, is_near = _after_cue(original, seen, place)
        if found and not is_near:
            place = place._replace(rule="cue_sentence", tier=Tier.CONCLUSION)
    else:
        found = _in_sentence(original, seen, place)
    if found is None or not found.value or _is_unfinished(seen, place, found.end):
        return None
    return Resolved(place, (found,))


def _is_prose(value: str) -> bool:
    """A whole sentence, or words without any value: Example A."""
    words = len(_WORD.findall(_NAMES.sub(" ", value)))
    return words >= 4 or (words >= 1 and len(value) > 40 and not _VALUE.search(value))


def _is_unfinished(seen: View, place: AnswerPlace, end: int) -> bool:
    return seen.is_cut and not place.is_whole and not seen.text[end : seen.end].strip(" \n")


def _whole(original: str, start: int, end: int) -> FoundNumber | None:
    body = original[start:end]
    left = start + len(body) - len(body.lstrip())
    value = spelled(body)
    return FoundNumber(left, left + len(body.strip()), value) if value else None


def _after_cue(original: str, seen: View, place: AnswerPlace) -> tuple[FoundNumber | None, bool]:
    """(the formula, whether it stands close behind the cue)."""
    begin, _ = after_negation(seen.text, place.start, place.end)
    gap = _GAP.match(original, begin, seen.end)
    begin = gap.end() if gap else begin
    if math := _MATH.match(original, begin, seen.end):
        line = original.find("\n", math.end(), seen.end)
        return _group(original, math, line if line >= 0 else seen.end), True
    if begin > place.end:  # the sentence goes on in a later line
        line = original.find("\n", begin, seen.end)
        place = place._replace(end=line if line >= 0 else seen.end)
    if _ITEM.match(original, begin, begin + 12):
        return None, False
    inline = _formulas(original, begin, place.end)
    if inline:
        words = len(_WORD.findall(original[begin : inline[0].start()]))
        is_subject = _VERB.match(original, inline[0].end(), place.end) is not None
        if words <= 4 and "=" not in original[begin : inline[0].start()] and not is_subject:
            return _group(original, inline[0], place.end), words <= 3
        return _led(original, inline, place.end), False
    return _plain(original, seen, place, begin)


def _formulas(original: str, start: int, end: int) -> list[re.Match[str]]:
    """What stands between dollar signs or LaTeX's brackets."""
    if original.find("$", start, end) < 0 and original.find("\\", start, end) < 0:
        return []
    return list(_MATH.finditer(original, start, end))


def _group(original: str, first: re.Match[str], end: int) -> FoundNumber:
    """The formula and those that "and" or a comma joins to it."""
    parts, last = [_inside(first)], first
    while (joint := _JOINED.match(original, last.end(), end)) and (
        nxt := _MATH.match(original, joint.end(), end)
    ):
        parts.append(_inside(nxt))
        last = nxt
    return FoundNumber(first.start(), last.end(), ", ".join(filter(None, map(spelled, parts))))


def _inside(match: re.Match[str]) -> str:
    return next(part for part in match.groups() if part is not None)


def _led(original: str, inline: list[re.Match[str]], end: int) -> FoundNumber:
    """Of the formulas of a sentence the last that "is" or 为 leads to, else the last; with those
    joined to it."""
    heads = [
        each
        for before, each in zip([None, *inline], inline, strict=False)
        if before is None or not _JOINED.fullmatch(original, before.end(), each.start())
    ]
    led = [
        each for each in heads if _LEADS.search(original, max(0, each.start() - 24), each.start())
    ]
    return _group(original, (led or heads)[-1], end)


def _plain(
    original: str, seen: View, place: AnswerPlace, begin: int
) -> tuple[FoundNumber | None, bool]:
    """A formula in running text: "2 * (3y-1)", "12 apples", "x = 5 or x = -3"."""
    stop = _PROSE_END.search(original, begin, place.end)
    end = stop.start() if stop and stop.start() > begin else place.end
    body = original[begin:end].strip()
    if not body:
        return None, False
    if _TEXT.fullmatch(body):
        return _whole(original, begin, end), True
    if choices := _CHOICES.match(body):
        return FoundNumber(
            begin, begin + choices.end(), re.sub(r"[、,，和 ]", "", choices[0])
        ), True
    if len(body) <= 200 and _is_formula(body) and (_VALUE.search(body) or _SIGN.search(body)):
        return _whole(original, begin, end), True
    value = spelled(body)
    if value != body and ", " not in value and _is_formula(value):
        return _whole(original, begin, end), True
    outcome = read_clause(seen.text, place.start, place.end, True)
    if outcome.found is None or outcome.is_several:
        return None, False
    found = outcome.found
    percent = _PERCENT.match(original, found.end)
    return FoundNumber(
        found.start, found.end, found.value + r"\%" * bool(percent)
    ), outcome.is_direct


def _is_formula(text: str) -> bool:
    """Nothing but signs, digits, short names and functions."""
    return _PLAIN.fullmatch(text) is not None and not _WORD.search(_NAMES.sub(" ", text))


def _in_sentence(original: str, seen: View, place: AnswerPlace) -> FoundNumber | None:
    """The formula that a sentence without a cue comes to."""
    inline = _formulas(original, place.start, place.end)
    if inline:
        return _led(original, inline, place.end)
    body = original[place.start : place.end]
    if body.count("=") > 1 and (solutions := _SOLUTIONS.search(body.rstrip(". \n"))):
        return FoundNumber(
            place.start + solutions.start(), place.start + solutions.end(), spelled(solutions[0])
        )
    sides = body.rpartition("=")
    tail = sides[2].strip() if sides[1] else body.strip()
    if len(tail) <= 120 and _VALUE.search(tail) and _is_formula(tail):
        shown = body if body.count("=") == 1 else tail
        if not _WORD.search(_NAMES.sub(" ", shown)):
            return FoundNumber(place.end - len(body.lstrip()), place.end, spelled(shown))
        return FoundNumber(place.end - len(sides[2].lstrip()), place.end, spelled(tail))
    outcome = read_clause(seen.text, place.start, place.end, False)
    return None if outcome.is_several else outcome.found
