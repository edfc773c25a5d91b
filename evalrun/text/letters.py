"""The option letter that a text gives as its answer: A, B, C, ... of a multiple-choice question.

Only what the text states counts. A letter that merely stands nearest to the end is never taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from evalrun.text.extract import Extraction, last_box

MAX_LETTERS = 26

# Full-width letters and brackets keep their place in the text.
_ASCII = {0xFF21 + i: chr(65 + i) for i in range(26)} | {0xFF41 + i: chr(97 + i) for i in range(26)}
_ASCII |= dict(zip(map(ord, "（）：．［］＊"), "():.[]*", strict=True))

# what may stand between a cue and its letter
_SOFT = r"[\s*_`\"'“”‘’(\[{$<:~]|\\\(|\\\[|\\[a-z]{2,10}\{"
_BEFORE = rf"(?:{_SOFT}|(?i:the|option|choice|letter|number)\b|选项|选|是){{0,24}}"
_AFTER = r"(?![A-Za-z0-9_]|['’][A-Za-z]|\.[A-Za-z]|-[A-Za-z])"
_LETTER = re.compile(rf"{_BEFORE}(?P<letter>[A-Z])(?:_+(?![A-Za-z0-9]))?{_AFTER}")
_AMONG = re.compile(
    r"[*_)\]`\"'.]{0,4}(?:[ \t]*[/&][ \t]*|[ \t]+(?:or|and)[ \t]+(?:option[ \t]+)?"
    r"|[ \t]*(?:或者|或|和|与|、)[ \t]*)"
    r"[*_(\[`\"']{0,4}(?P<other>[A-Z])(?![A-Za-z0-9_]|[*_)\].]{0,4}[ \t]+(?:is|are|was|were)\b)"
)
_CONNECTORS = (
    r"because|since|as|and|or|is|was|with|which|for|given|due|but|not|in|by|from|if|so|while|where|when|that|based"
    r"|according|rather|instead|here|are|has|would"
)
_ARTICLE_TAIL = re.compile(rf"[ \t]+(?!(?:{_CONNECTORS})\b)[a-z]{{2}}")

_CUE = re.compile(
    r"\b(?=[AaRrOoCcPpGgSsFfIiОо])(?:"  # one cheap look at a word before its forms
    r"(?i:(?:answers?|antwort|r[eé]ponse|respuesta|resposta|risposta|ответ|choice|option|pick|guess|selection|solution)\b)"
    r"(?:[ \t]+(?i:to[ \t]+(?:the|this)[ \t]+question|here|letter)\b)?"
    r"[\s*_]{0,6}(?::|=|(?i:\b(?:is|are|was|est|ist|es|è"
    r"|should[ \t]+be|would[ \t]+be|will[ \t]+be|must[ \t]+be)\b))"
    r"|(?i:final[ \t]+answer\b)[\s*_:]{0,6}"
    r"|(?i:I[ \t]+(?:would[ \t]+|will[ \t]+)?(?:choose|pick|select|go[ \t]+with)\b)"
    r"|(?i:I'(?:ll|d)[ \t]+(?:choose|pick|select|go[ \t]+with)\b))"
    r"|(?=[答正对故应因所综本此最我只可选])(?:"
    r"答案(?:应该|应当|应|就|即|选|选择)?[\s*_]{0,6}(?:是|为|為|选|:|=)?"
    r"|(?:正确|对)(?:的)?(?:选项|选择)[\s*_]{0,4}(?:是|为|:)?"
    r"|(?:故|应该|应当|应|因此|所以|综上|本题|此题|最终|我|只能|可)[，,]?(?:应|该|应该)?选(?:择|项)?[\s*_]{0,4}(?:是|为|:)?"
    r"|(?:(?m:^)|(?<=[，。,；;、\s]))选(?:择)?[\s*_]{0,4}:?(?=[\s*_(]{0,6}[A-Z][)*_\s]{0,6}(?:[。.，,！!]|$)))"
)
_STATED = re.compile(
    r"(?<![A-Za-z0-9_])(?P<letter>[A-Z])[)\]*_`]{0,4}"
    r"(?:[ \t]+(?i:is|would[ \t]+be|must[ \t]+be)[ \t]+(?i:the[ \t]+)?(?:only[ \t]+)?"
    r"(?i:(?:correct|right|best)\b(?:[ \t]+(?:answer|option|choice))?|answer\b)"
    r"|[\s*_]{0,4}(?:项|选项)?[\s*_]{0,4}(?:是|为)?(?:正确|对)(?:的)?(?:答案|选项)?(?![错误]))"
)
_NEGATED = re.compile(r"[\s*_]{0,6}(?i:not\b|never\b|neither\b|不|非)")
_SUPPOSED = re.compile(
    r"(?i:\b(?:if|whether|suppose|assume|assuming|unless|why|could|might)\b[^.\n!?;:]{0,40}$)|(?:如果|假如|若|不|非)$"
)
_RULED_OUT = re.compile(
    r"(?:不选|不是|不能选|排除|除了|(?i:\b(?:not|except|excluding|exclude|rule[ds]?[ \t]+out)\b))"
    r"[\s*_(（]{0,4}(?:选项|(?i:option))?[\s(]{0,4}[A-Z]"
)
_WHOLE = re.compile(
    r"[\s*_`\"'(\[{$]{0,12}(?:\\[a-z]{2,10}\{)?(?P<letter>[A-Za-z])[\s*_`\"')\]}$.:。]{0,12}"
)
_HEAD = re.compile(
    r"[\s*_`\"'(\[{]{0,8}(?P<letter>[A-Za-z])[*_]{0,3}(?:[.)\]:、]|：)(?=[\s*_]|[^\x00-\x7f])"
)
_REFUTED = re.compile(
    r"[)\]*_`\s]{0,4}(?:(?:项|选项)?(?:是)?(?:不|错|并不|并非)"
    r"|(?i:(?:is|are|was|were)[ \t]+(?:not|wrong|incorrect|false)\b))"
)
_LONE = re.compile(
    r"(?<![A-Za-z]\.)(?<![A-Za-z0-9_'’\\-])(?P<letter>[A-Z])(?![A-Za-z0-9_'’]|\.[A-Za-z]|-[A-Za-z])"
)


class _Stated(NamedTuple):
    at: int  # where the statement begins
    letter: str  # "" where it names several letters
    span: tuple[int, int]
    rule: str


def extract_letter(text: str, n_letters: int = MAX_LETTERS) -> Extraction | None:
    r"""The option that `text` names among the first `n_letters` letters, as a capital; None where
    it names none.

    Rules, the first that finds one:

    1. whole: the text is nothing but one letter, in either case, with brackets, stars or a full
       stop around it;
    2. boxed, cue, stated: of all statements, namely a \boxed{} or \fbox{} that holds one letter, a
       cue with a letter behind it (answer is, answer:, Antwort:, I choose, 答案是, 故选, ...) and a
       letter that is called correct, the last one. It names none where it names two (A or B) or one
       that is no option;
    3. head: the text begins with a letter and `.` or `)`, and no other line does;
    4. last_line: the last line is nothing but one letter;
    5. only: exactly one letter stands alone anywhere in the text.

    Small letters count in rules 1 and 3 only; "A" before a word is the article. Linear time.
    """
    if not 1 <= n_letters <= MAX_LETTERS:
        raise ValueError(f"n_letters must lie in 1..{MAX_LETTERS}, got {n_letters}")
    plain = text if text.isascii() else text.translate(_ASCII)
    allowed = {chr(65 + i) for i in range(n_letters)}
    if match := _WHOLE.fullmatch(plain):
        return _found(match, "whole", allowed)
    last = max(_statements(plain), key=lambda each: each.at, default=None)
    if last is not None:
        return Extraction(last.letter, last.span, last.rule) if last.letter in allowed else None
    return _at_head(plain, allowed) or _on_last_line(plain, allowed) or _only(plain, allowed)


def _found(match: re.Match[str], rule: str, allowed: set[str]) -> Extraction | None:
    letter = match["letter"].upper()
    return Extraction(letter, match.span("letter"), rule) if letter in allowed else None


def _statements(text: str) -> Iterator[_Stated]:
    box = last_box(text)
    if (
        box is not None
        and (match := _WHOLE.fullmatch(text[box[0] : box[1]]))
        and match["letter"].isupper()
    ):
        start = box[0] + match.start("letter")
        yield _Stated(box[0], match["letter"], (start, start + 1), "boxed")
    for cue in _CUE.finditer(text):
        match = _LETTER.match(text, cue.end())
        if match is None or _NEGATED.match(text, cue.end()) or _is_supposed(text, cue.start()):
            continue
        if _is_article(text, match) or _REFUTED.match(text, match.end()):
            continue
        other = _AMONG.match(text, match.end())
        several = other is not None and other["other"] != match["letter"]
        yield _Stated(cue.start(), "" if several else match["letter"], match.span("letter"), "cue")
    for match in _STATED.finditer(text):
        if not _is_supposed(text, match.start()):
            yield _Stated(match.start(), match["letter"], match.span("letter"), "stated")


def _is_supposed(text: str, at: int) -> bool:
    return _SUPPOSED.search(text[max(0, at - 48) : at]) is not None


def _is_article(text: str, match: re.Match[str]) -> bool:
    """True for the A of `A wheel turns` and the I of `I think`: a word in small letters goes on
    from it.
    """
    if match["letter"] not in "AI":
        return False
    return _ARTICLE_TAIL.match(text, match.end("letter")) is not None


def _at_head(text: str, allowed: set[str]) -> Extraction | None:
    heads = [m for line in _lines(text) if (m := _HEAD.match(text, *line))]
    first = _HEAD.match(text)
    if first is None or len({m["letter"].upper() for m in heads}) > 1:
        return None
    return _found(first, "head", allowed)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line)
        start += len(line)


def _on_last_line(text: str, allowed: set[str]) -> Extraction | None:
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    match = _WHOLE.fullmatch(text, start, end)
    return _found(match, "last_line", allowed) if match and match["letter"].isupper() else None


def _only(text: str, allowed: set[str]) -> Extraction | None:
    found: dict[str, re.Match[str]] = {}
    for match in _LONE.finditer(text):
        letter = match["letter"]
        if letter in found or letter not in allowed or _is_article(text, match):
            continue
        is_out = _RULED_OUT.search(text, max(0, match.start() - 16), match.end())
        if not is_out and not _is_supposed(text, match.start()):
            found[letter] = match
    return _found(next(iter(found.values())), "only", allowed) if len(found) == 1 else None
