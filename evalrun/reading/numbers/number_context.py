"""What stands around a number of a sentence, and what that says about it.

Patterns that end at a number are matched against the text before it read backwards: one try in
place of one at every character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from evalrun.reading.numbers.number_values import FoundNumber
from evalrun.reading.stems import Stems

_WINDOW = 44
"""Characters before a number that are looked at."""


def _backwards(words: Iterable[str]) -> str:
    """An alternation of words, spelled from their last letter; longer words first."""
    return "|".join(re.escape(word[::-1]) for word in sorted(words, key=len, reverse=True))


def _listed(words: str) -> list[str]:
    return [word.replace("_", " ") for word in words.split()]


_NAMES = _listed(
    "step steps question questions q problem part case example examples exercise equation"
    " equations eq figure fig table section chapter page option choice method line scenario"
    " statement phase round class grade type stage version room base mod highway route flight bus"
    " player group team triangle log year years day days week weeks month months"
)
_MONTHS = _listed("jan feb mar apr may jun june jul july aug sep sept oct nov dec")
_NAME = re.compile(
    rf"[ .#(]{{1,2}}(?:{_backwards(_NAMES)})\b|\s?[第步题]"
    rf"|(?: ,?(?:ts|dn|dr|ht)?\d{{1,2}})? \.?[a-z]{{0,6}}(?:{_backwards(_MONTHS)})\b"
)
_VERBS = _listed(
    "is are was were be been has have had cost costs need needs needed make makes made get gets"
    " got spend spends spent earn earns earned pay pays paid total totals totaled equal equals"
    " remain remains leave leaves left take takes took weigh weighs require requires save saves"
    " saved give gives owe owes total_of profit_of amount_to amounts_to total_to totals_to"
    " add_up_to adds_up_to come_to comes_to left_with end_up_with ends_up_with receive receives"
    " received buy buys bought sell sells sold use uses used eat eats ate become becomes contain"
    " contains produce produces would will can could should must does did"
)
_FILLERS = _listed(
    "now about only approximately exactly still at_least at_most a an the total around roughly"
    " just of be been have to nearly almost always then also up pay need get make take cost spend"
    " earn save buy sell use worth"
)
_POINT = re.compile(
    r"[\\$-]{0,2}(?:\{(?:dexob|txet|fbhtam)?)?[\\$€£¥(*_ \[]{0,5}"
    rf"(?:[ ]{{1,2}}(?:{_backwards(_FILLERS)})){{0,3}}[ ]{{0,2}}"
    rf"(?:(?:{_backwards(_VERBS)})\b|了?[是为有得共剩要需卖花]|于等|为?约|[:：→])"
)
_PREPOSITIONS = _listed(
    "in after for over per every each from at by with on than during within out_of of_the of_these"
    " of_those before until among between into to the_first the_last the_next the_other"
    " the_remaining through across under below above past plus minus times divided_by out both all"
    " of_his of_her of_its of_their of_my of_our"
)
_PREPOSITIONS += [
    f"{noun} {joint}"
    for noun in ("sum", "product", "difference", "average", "mean", "ratio")
    for joint in ("of", "between")
]
_DETERMINERS = _listed(
    "the a an all his her their its another about only these those just additional other more next"
    " first last is are price cost rate total"
)
_PREPOSITION = re.compile(
    rf"[\\$€£(*]{{0,3}}(?:[ ]{{1,2}}(?:{_backwards(_DETERMINERS)})){{0,2}}"
    rf"[ ]{{1,2}}(?:{_backwards(_PREPOSITIONS)})\b"
    r"|[^\d，。]{0,3}每|[在第过从]|以除|以乘|上加|去减"
)
_SUBORDINATE = re.compile(
    r"\b(?:by the time|when|while|because|since|if|whether|where|after|before|until|unless|given"
    r"|which|who|that|whose|as|"
    r"compared|instead of|rather than|including|assuming|using|out of|not)\b"
    r"|之后|以后|[如若]果|当|比",
)
_YEAR = re.compile(r"(?:1[89]|20)\d\d$")
_IN = re.compile(r"\bin $")
_RESTATED = re.compile(
    r",\s(?:or|i\.e\.|that is|which is)[ ,]{1,2}(?:about |approximately )?[$€£]?$", re.IGNORECASE
)
_AFTERWARDS = re.compile(
    r"[^,.;\d]{0,40}\b(?:left|remaining|in total|altogether|in all|total|overall|combined|more)\b",
    re.IGNORECASE,
)
_MODIFIER = re.compile(
    r"[-‑](?:[A-Za-z]{2,}|by-)|(?:st|nd|rd|th)\b| times (?:as|more|the|that|what|greater|larger"
    r"|bigger)\b",
    re.IGNORECASE,
)
_CONFIDENCE = re.compile(
    r"[ ]?\\?%[ ]{0,2}(?:confiden|sure|certain|probab)|[ ]?\\?%[ ]?的?(?:把握|确定|置信)",
    re.IGNORECASE,
)
_SURE = re.compile(
    r"(?:confiden\w{1,6}|certainty|probability of being right|置信度|把握)[^\d\n]{0,16}$",
    re.IGNORECASE,
)
_SURENESS = Stems(
    "confiden", "sure", "certain", "probab", other=("把握", "确定", "置信"),
)  # fmt: skip
_OPERATOR = re.compile(
    r"[ ]?[)\]}]?[ ]?(?:[+×÷^](?=[ ]?[\w$(\\{])|\\times|\\div|\\cdot|(?:\*\*?"
    r"|[-/xX])(?=[ ]?[$€£(]?\d))|\((?=-?\d)"
)
_OPERATOR_HEADS = frozenset(" )]}+×÷^\\*-/xX(")
_BEFORE = re.compile(
    r"(?:[\d)}%\]][ ]?(?:[+×÷/xX-]|\*\*?)|\b[a-z][ ]?[+×÷]|\\times|\\div|\\cdot)[ ]?[$€£(\\]{0,2}$"
)
_BEFORE_ENDS = frozenset("+×÷/xX-*svt$€£(\\")
_UNKNOWN = re.compile(r"(?:\\?[a-wyz](?![\w'])|[xyn](?![\w']))(?:[ ]?[-+*/^=)]|$)")
_WORD = re.compile(r"(?<!\\)\b[^\W\d_]{2,}")


def has_confidence(text: str, start: int, end: int) -> bool:
    """Whether a number of text[start:end] may say how sure the answer is: 95% confident."""
    return _SURENESS.may_match(text[max(0, start - 40) : end + 20].lower())


def is_confidence(text: str, found: FoundNumber) -> bool:
    """True for a number that says how sure the answer is."""
    if _CONFIDENCE.match(text, found.end):
        return True
    return _SURE.search(text, max(0, found.start - 40), found.start) is not None


def is_point(text: str, start: int, found: FoundNumber) -> bool:
    """Whether the verb before a number makes it the point: has 12, a total of 12."""
    before = text[max(start, found.start - _WINDOW) : found.start]
    return _POINT.match(before.lower()[::-1]) is not None


def score(text: str, start: int, found: FoundNumber) -> int:
    """What speaks for a number of a sentence, and against it."""
    before = text[max(start, found.start - _WINDOW) : found.start].lower()
    back = before[::-1]
    after = text[found.end : found.end + 60]
    points = 0
    if _NAME.match(back) or (
        _YEAR.fullmatch(text, found.start, found.end) and _IN.search(before[-4:])
    ):
        points -= 4
    if _MODIFIER.match(after) or found.is_ordinal:
        points -= 3
    if _POINT.match(back):
        points += 2
    elif _PREPOSITION.match(back):
        points -= 2
    if "," in before and _RESTATED.search(before):
        points += 3
    if _AFTERWARDS.match(after):
        points += 1
    if _SUBORDINATE.search(before):
        points -= 2
    return points


def is_operand(text: str, found: FoundNumber, end: int) -> bool:
    """True for the parts of an unfinished calculation: 5 * 3, 4x."""
    place = found.end
    head = text[place : place + 1]
    if _may_be_operator(text, place) and _OPERATOR.match(text, place, min(end, place + 16)):
        return True
    if _may_follow_operator(text, found.start) and _BEFORE.search(
        text, max(0, found.start - 12), found.start
    ):
        return True
    is_name = "a" <= head <= "z" or head == "\\"
    return is_name and _UNKNOWN.match(text, place, end) is not None


def _may_be_operator(text: str, place: int) -> bool:
    """The characters at `place`, behind a number, may be a sign of arithmetic."""
    head = text[place : place + 1]
    if head == " ":
        head = text[place + 1 : place + 2]
    return head in _OPERATOR_HEADS


def _may_follow_operator(text: str, start: int) -> bool:
    """The characters before a number may be a sign of arithmetic."""
    last = text[start - 1 : start]
    if last == " ":
        last = text[start - 2 : start - 1]
    if last not in _BEFORE_ENDS:
        return False
    return last not in "svt" or "\\" in text[max(0, start - 12) : start]  # \times, \div, \cdot


def words_between(text: str, start: int, end: int) -> int:
    """Words of two letters and more in text[start:end]; boxed and text are commands."""
    if end - start < 2:
        return 0
    gap = text[start : min(end, start + 400)]
    return len(_WORD.findall(gap.replace("boxed", "").replace("text", "")))
