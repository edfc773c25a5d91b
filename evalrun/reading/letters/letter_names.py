"""How a text names an option: (B), **B**, "B", B., option B, \\text{B}, Ｂ."""

from __future__ import annotations

import re
from typing import NamedTuple

from evalrun.reading.cues import LATIN, SCRIPTED, any_of

_OPEN = r"[\s*_`\"'“”‘’«»「『【《(\[{$<>~|:：,，]|\\[(\[]|\\[a-z]{2,12}\{|\\[,;! ]"
_FILL = re.compile(
    rf"(?:</?(?:b|i|u|em|strong|code|span)>|{_OPEN}|(?:{any_of('option', LATIN)})(?![a-z0-9]"
    rf"|-[a-z])"
    rf"|(?:{any_of('option', SCRIPTED)})){{0,28}}+"
)
"""What may stand between a cue and its letter: marks, and words that say nothing."""
_CLOSE = re.compile(r"(?:[)\]}*_`\"'”’»」』】》$>]|\\[)\]])*+")
_WRAPS = frozenset("([{*\"'“‘`「『【《$<_«")
_NAMED = re.compile(
    r"(?:option|choice|letter|answer|选项|選項|选择|選擇|选|選|选択肢|答案|вариант|opción|opção"
    r"|opzione|الخيار|विकल्प|보기)"
    r"[\s*_\"'`:]{0,3}$"
)
_JOINED = re.compile(r"[A-Za-z0-9_À-ɏͰ-ϿЀ-ӿ₀-₉⁰-⁹²³¹°%]")
_MARKS = (". ", ": ", ") ")
_UNDERSCORE_ENDS = re.compile(r"[^A-Za-z0-9{\\]|$")
_WORD_GOES_ON = re.compile(r"['’][A-Za-z]|-[A-Za-z]|\.[a-z]|\.[A-Z]\.|\.\d|&[A-Za-z]")
_FORMULA = re.compile(
    r"\s{0,2}(?:[=+^×÷>≤≥∈⊂⊃∪∩≈∝·•→⇒∧∨¬≡∼~]|[*/−-]\s{0,2}[A-Za-z]\b|[*/−-]\d|<(?!/)|\\(?![)\]n])"
    r"|_\{?\w)"
    r"|[(\[{](?!/)\S|[ \t]\d"
)
_CONNECTORS = (
    r"because|since|as|and|or|is|was|with|which|for|given|due|but|not|in|by|from|if|so|while"
    r"|where|when"
    r"|that|based|according|rather|instead|here|are|has|would|i|therefore|on|among|at|the|correct"
    r"|right"
    r"|und|weil|da|et|car|parce|y|porque|e|perché|и|так|to|after"
)
_ARTICLE_TAIL = re.compile(rf"[ \t]+(?!(?:{_CONNECTORS})\b)[a-z]{{2}}")
_SPECIES = re.compile(
    r"\.\s(?:coli|elegans|melanogaster|cerevisiae|aureus|pylori|difficile|botulinum|tetani"
    r"|albicans|falciparum"
    r"|sapiens|erectus|pneumoniae|typhi|cholerae|subtilis|musculus|perfringens|influenzae)\b"
)
_MANY = re.compile(r"[A-J]{2,8}(?![A-Za-z0-9_])")
_JOIN = re.compile(
    r"(?:\s{0,3}(?:[,;/&|+、，；]|和|或者|或|与|及|以及|および|と)\s{0,3}(?:(?:and|or|&|和"
    r"|或)\s{1,3})?"
    r"|\s{1,3}(?:and/or|and|or|und|oder|et|ou|y|o|e|или|и|و)\s{1,3})"
    r"(?:(?:also|then|either|possibly|maybe)\s{1,2})?(?:the\s{1,2})?(?:options?|choices?|answers?"
    r"|letter)?\s{0,2}"
    r"(?P<open>(?:[*_(\[`\"'“{$]|\\[a-z]{2,10}\{){0,5})(?P<letter>[A-Za-z])"
)
_CLAUSE = re.compile(
    r"[)\]*_]{0,4}(?:项|选项)?(?:是|也)?(?:不|错|錯|并|正确|对|符合|有)|"
    r"[)\]*_`\"'”.:}$]{0,4}[ \t]+(?:is|are|was|were|does|do|has|have|would|could|can|cannot"
    r"|states?|says?|describes?"
    r"|refers?|represents?|involves?|means?|isn't|doesn't|also|both|correctly|incorrectly)\b"
)
_FAR = re.compile(
    r"[^.\n;!?。]{1,90}?[\s,](?:and|or|&|和|以及|或)\s{1,2}(?:options?\s|choice\s)?(?=[(*])"
)
_OWN_TEXT = re.compile(
    r"\b(?:both|neither|either|all|none|because|since|as|while|which|whereas|but|not|than|from|if"
    r"|so)\b"
)
_IF_OR = re.compile(r"\)? if [^.\n]{1,120}? or (?:option )?\((?=[A-Z]\) if )")
_OPEN_LIST = re.compile(r"\s{0,3}(?:,\s{0,2})?(?:and|or|,)\s{0,2}[(\[*]{0,3}\s{0,3}$")
_SECOND_PART = re.compile(r"[^\n]{0,200}?[,;\n]\s{0,3}(?:and )?\(b\)")
_NEXT_LINE = re.compile(r"[^\n]{0,160}\n[ \t*(]{0,6}(?=[A-Z][.):])")


class Name(NamedTuple):
    """One option as a text names it.

    letter: the capital.
    at: its character in the text.
    end: behind the marks that close it.
    form: wrapped (brackets, stars, quotes), named ("option B"), marked ("B." or "B)"), bare.
    """

    letter: str
    at: int
    end: int
    form: str


def skip_fill(low: str, at: int) -> int:
    """Where the name of an option may begin behind a cue."""
    match = _FILL.match(low, at)
    return match.end() if match else at


def name_at(text: str, low: str, at: int, since: int) -> Name | None:
    """The option named at character `at`; None where the letter belongs to a word or a formula.

    since: where the marks and filling words before it begin.
    """
    char = text[at : at + 1]
    if not _stands_alone(text, at, char):
        return None
    before = text[at - 1] if at > since else ""
    closed = _CLOSE.match(text, at + 1)
    end = closed.end() if closed else at + 1
    form = _form(text, low, at, since, before)
    if char.islower() and not _may_be_small(text, at, form, before):
        return None
    if _is_something_else(text, at, end, form, before):
        return None
    is_mark_behind = end == at + 1 and before != "(" and text[end : end + 2] in _MARKS
    return Name(char.upper(), at, at + 2 if form == "marked" or is_mark_behind else end, form)


def _stands_alone(text: str, at: int, char: str) -> bool:
    """A Latin letter that no word, name or index goes on from."""
    if not (char.isascii() and char.isalpha()) or _WORD_GOES_ON.match(text, at + 1):
        return False
    follows = text[at + 1 : at + 2]
    is_closed = follows == "_" and _UNDERSCORE_ENDS.match(text, at + 2) is not None
    return is_closed or _JOINED.match(follows) is None


def _is_something_else(text: str, at: int, end: int, form: str, before: str) -> bool:
    """A variable of a formula, an article, a species."""
    if form == "bare" and (_FORMULA.match(text, end) or _is_article(text, at, end)):
        return True
    is_open = form == "wrapped" and before in "$(" and end == at + 1
    if is_open and not _may_stay_open(text, end, before):
        return True
    return _SPECIES.match(text, at + 1) is not None


def _form(text: str, low: str, at: int, since: int, before: str) -> str:
    if before and before in _WRAPS:
        return "wrapped"
    if _NAMED.search(low, max(since, at - 14), at):
        return "named"
    if text[at + 1 : at + 2] in tuple(").:]、．") and (
        not text[at + 2 : at + 3].strip() or not text[at + 2].isascii() or text[at + 2] in "*_)"
    ):
        return "marked"
    return "bare"


def _may_be_small(text: str, at: int, form: str, before: str) -> bool:
    """Small letters count in brackets, behind "option", before a bracket, at the end of a line."""
    if form == "named" or before in tuple("([{*\"'“$`"):
        return True
    rest = text[at + 1 : at + 3]
    return rest[:1] in (")", "") or rest[:1] == "\n" or rest in (".", ".\n")


def _may_stay_open(text: str, end: int, before: str) -> bool:
    """`(B` at the end of a cut text, `(B: text)`, `(B, C)`; no `$C = 4$`, no `(A is true)`."""
    rest = text[end : end + 3]
    if before == "$":
        return not rest.strip() or rest[0] in ",."
    return not rest.strip() or rest[0] in ".,:;/&|" or rest[:3] in (" an", " or", " - ", " & ")


def _is_article(text: str, at: int, end: int) -> bool:
    """The A of `A wheel turns`, the I of `I think`: a word in small letters goes on from it."""
    return text[at] in "AI" and end == at + 1 and _ARTICLE_TAIL.match(text, end) is not None


def goes_on(text: str, name: Name) -> bool:
    """A verb follows: (B) is too small."""
    return _CLAUSE.match(text, name.end) is not None


def letters_run(text: str, at: int) -> list[Name]:
    """`ABD`: the letters of an answer with several options, in alphabetical order; else nothing."""
    match = _MANY.match(text, at)
    if match is None or any(a >= b for a, b in zip(match[0], match[0][1:], strict=False)):
        return []
    return [Name(char, at + i, match.end(), "bare") for i, char in enumerate(match[0])]


def with_list(text: str, low: str, first: Name) -> list[Name]:
    """The option and those joined to it: (A), (B) and (C); A/B; **A. text** and **C. text**."""
    if text[first.at] == "a" and (part := _SECOND_PART.match(text, first.end)):
        return [first, Name("B", part.end() - 2, part.end(), "wrapped")]
    names = [first]
    while (more := _joined(text, low, names[-1])) is not None and len(names) < 30:
        names.append(more)
    if _OPEN_LIST.match(text, names[-1].end):
        return [*names, Name("", names[-1].at, names[-1].end, "missing")]
    if len(names) == 1 and (match := _IF_OR.match(text, first.end)):
        other = name_at(text, low, match.end(), match.end() - 1)
        names += [other] if other else []
    if len(names) == 1 and first.form in ("wrapped", "marked"):
        names += _far(text, low, first)
    return names


def _joined(text: str, low: str, last: Name) -> Name | None:
    match = _JOIN.match(text, last.end) or _JOIN.match(text, last.at + 1)
    if match is None:
        return None
    at = match.start("letter")
    name = name_at(text, low, at, match.start("open"))
    if name is None or goes_on(text, name):
        return None
    if name.form == "bare" and text[at].islower():
        return None
    return name


def _far(text: str, low: str, first: Name) -> list[Name]:
    """Another option behind the text of the first: **A. one** and **C. two**."""
    match = _FAR.match(text, first.end)
    if match and not _OWN_TEXT.search(low, match.start(), match.end()):
        opened = skip_fill(low, match.end())
        other = name_at(text, low, opened, match.end())
        is_part = low[: match.end()].rstrip().endswith("part")
        if other and other.form == "wrapped" and not is_part and not _CLAUSE.match(text, other.end):
            return [other] if other.letter != first.letter else []
    if first.form == "marked" and (match := _NEXT_LINE.match(text, first.end)):
        other = name_at(text, low, match.end(), match.end())
        if other and other.letter > first.letter:
            return [other]
    return []
