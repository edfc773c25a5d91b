"""Words and punctuation of English text, as nltk 3.9.1 cuts them (word_tokenize with
preserve_line=True).

Our own, because nltk's rules change under one name: 3.10 splits dashes and apostrophes in another
way, and a number must not hang on which version is installed. The rules are those of the Penn
Treebank (Robert MacIntyre's sed script of 1995) with nltk's additions up to 3.9.1. Each step puts
blanks around what becomes a token of its own; at the end the text is split at white space.
"""

from __future__ import annotations

import re

_OPENING = re.compile("``|[`«“‘„]")
# A quote after a blank or an opening bracket opens; any other one closes.
_OPENING_PAIR = re.compile(r"(?<=[ (\[{<])(?:\"|'')")
# 'a' but neither 's nor 't: an apostrophe before a single letter that is no clitic.
_BEFORE_ONE_LETTER = re.compile(r"(?i)'(?=\w\b)(?![dmnst])")
_CLOSERS = ")]}>\"'»”’ "
# The second of two commas stays with what follows: the first one took it as its right side.
_MARK = re.compile(r"([:,])(\D|\Z)")
_ALONE = re.compile(r"\.{2,}|[;@#$%&?!]")
# Between the two groups of marks: an apostrophe at a bracket is no end of a word, at a comma it is.
_APOSTROPHE_AT_END = re.compile(r"(?<=[^'])'(?= )")
_BRACKETS = re.compile(r"--|[*()<>{}\[\]]")
_CLOSING = re.compile("''|[\"»”’]")
_SHORT_CLITIC = re.compile(r"(?<=[^' ])('[sSmMdD]|')(?= )")
_LONG_CLITIC = re.compile(r"(?<=[^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?= )")
_TWO_WORDS = re.compile(
    r"(?i)\b(?:(can)(not)|(d)('ye)|(gim)(me)|(gon)(na)|(got)(ta)|(lem)(me)|(more)('n)"
    r"|(wan)(na)(?=\s))\b"
)
_IT = re.compile(r"(?i)(?<= )('t)(is|was)\b")


def treebank_words(text: str) -> list[str]:
    """The tokens of a text that is taken as one sentence; only a full stop at its end is cut off.

    Double quotes become `` and ''. Linear in the length of the text.
    """
    text = _OPENING.sub(_padded, f"``{text[1:]}" if text.startswith('"') else text)
    text = _OPENING_PAIR.sub(" `` ", text)
    text = _BEFORE_ONE_LETTER.sub("' ", text)
    text = _MARK.sub(r" \1 \2", _with_last_stop_apart(text))
    text = _APOSTROPHE_AT_END.sub(" ' ", _ALONE.sub(_padded, text))
    text = f" {_BRACKETS.sub(_padded, text)} "
    text = " ".join(_CLOSING.sub(_closed, text).split())
    text = _LONG_CLITIC.sub(r" \1", _SHORT_CLITIC.sub(r" \1", f" {text} "))
    text = _TWO_WORDS.sub(lambda match: f" {' '.join(filter(None, match.groups()))} ", text)
    return _IT.sub(r"\1 \2 ", text).split()


def _padded(match: re.Match[str]) -> str:
    return f" {match[0]} "


def _closed(match: re.Match[str]) -> str:
    return " '' " if match[0] == '"' else f" {match[0]} "


def _with_last_stop_apart(text: str) -> str:
    """A full stop that only closing marks follow is a token; a second stop before it keeps it."""
    body = text.rstrip().rstrip(_CLOSERS)
    if len(body) < 2 or body[-1] != "." or body[-2] == ".":
        return text
    return f"{body[:-1]} . {text[len(body) :]} "
