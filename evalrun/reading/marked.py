"""Answers at a place that the task names: a field of a JSON object, a tag, a regular expression,
the whole text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import regex  # type: ignore[import-untyped]

from evalrun.errors import Fault, unknown, visible
from evalrun.reading.base import Candidate, Reading, Reason
from evalrun.reading.numbers.number_view import after_thought

MAX_OBJECTS = 32
"""JSON objects that are tried, from the end of the text."""
REGEX_SECONDS = 0.5
"""Time that a regular expression of a task may take on one text."""
WHICH = ("first", "last")
_JSON_TOKEN = re.compile(r"\"(?:[^\"\\\n]|\\.)*+\"|[{}]")
_LATEX = re.compile(
    r"(?<!\\)\\(?=[^\"\\/bfnrtu]|[fb][a-z]|t(?:ext|imes|heta|frac|an\b|au\b|riangle|o\b)|r(?:ight"
    r"|ho\b)|n(?:eq?\b|abla|u\b)"
    r"|u(?![0-9a-fA-F]{4}))"
)
"""A single backslash that means LaTeX: \\frac in JSON would be a form feed and "rac"."""
_LOOSE = (
    r"[\"'“]{}[\"'”]\s{{0,4}}[:：]\s{{0,4}}(?:\"(?P<quoted>(?:[^\"\\\n]|\\.){{0,2000}}+)\""
    r"|'(?P<single>[^'\n]{{0,2000}}+)'|(?P<bare>[^\s,\"'{{}}\[\]]{{1,200}}+)(?=\s*[,}}\n]|\s*$))"
)


def read_json(text: str, field: str, *, truncated: bool | None = None) -> Reading:
    """The value of `field` in the last JSON object of `text` that has it, at any depth.

    field: the key; numbers keep their spelling, true and false are words, lists and objects are
    JSON text.
    truncated: whether the text was cut off; it decides between the reasons none and cut.

    Rules: json (a whole object), json_text (no whole object, but "field": value can be read, as in
    an object with a
    comma too much or with single backslashes). null and an empty text state no answer. Linear time.
    """
    start, is_open = after_thought(text)
    found = [] if is_open else [*_objects(text, start, field)]
    if not found and not is_open:
        loose = list(re.compile(_LOOSE.format(re.escape(field))).finditer(text, start))
        found = [
            _loose(match)
            for match in reversed(loose)
            if not (truncated and match.end() == len(text))
        ]
    return _last(found if found and found[0].value else [], bool(truncated) or is_open)


def read_tag(text: str, name: str, *, truncated: bool | None = None) -> Reading:
    """What stands between the last <name> and </name>, without white space at its ends; case does
    not matter.

    name: the tag's name without brackets; attributes are allowed.
    truncated: whether the text was cut off: a tag that is not closed then states nothing (reason
    cut).

    Rules: tag; open_tag (the text ends before </name>, which a stop sequence may have taken away).
    Linear time.
    """
    if not re.fullmatch(r"[\w:.|-]{1,80}", name):
        raise Fault(
            f"A tag's name is letters, digits and - _ : . "
            f"|, got {visible(repr(name))}. Example: answer."
        )
    start, is_open = after_thought(text)
    if is_open:
        return Reading(None, reason=Reason.CUT)
    tags = re.compile(
        rf"<(?P<shut>/?)\s{{0,4}}{re.escape(name)}(?:\s[^<>]{{0,200}})?>", re.IGNORECASE
    )
    opened: int | None = None
    found: list[Candidate] = []
    for tag in tags.finditer(text, start):
        if not tag["shut"]:
            opened = tag.end()
        elif opened is not None:
            found.append(_stripped(text, opened, tag.start(), "tag"))
            opened = None
    if opened is not None and not truncated:
        found.append(_stripped(text, opened, len(text), "open_tag"))
    return _last([each for each in reversed(found) if each.value], bool(truncated))


def read_regex(
    text: str,
    pattern: str,
    group: int | str = 1,
    which: str = "last",
    *,
    truncated: bool | None = None,
    timeout_s: float = REGEX_SECONDS,
) -> Reading:
    """What a group of a regular expression matches in `text`, without white space at its ends.

    pattern: in the syntax of the package `regex`, which reads that of `re`.
    group: number or name of the group; 0 is the whole match. A pattern without groups means 0.
    which: the first or the last match whose group is not empty.
    truncated: whether the text was cut off; it decides between the reasons none and cut.
    timeout_s: seconds that the search may take; TimeoutError beyond.

    Rule: regex. Raises Fault for a pattern that is none, a group that it lacks, another word for
    which.
    """
    if which not in WHICH:
        raise unknown("choice", which, WHICH, "which")
    compiled = _compiled(pattern)
    chosen = 0 if group == 1 and not compiled.groups else group
    if chosen not in compiled.groupindex and not (
        isinstance(chosen, int) and 0 <= chosen <= compiled.groups
    ):
        raise Fault(
            f"The regular expression {visible(repr(pattern))} has no group {chosen!r}. It has"
            f" {compiled.groups} and the "
            f"names {', '.join(compiled.groupindex) or 'none'}."
        )
    try:
        spans = [match.span(chosen) for match in compiled.finditer(text, timeout=timeout_s)]
    except TimeoutError:
        raise TimeoutError(
            f"The regular expression {visible(repr(pattern))} took more than {timeout_s:g} s on a"
            f" text of {len(text)} "
            "characters. Nested repetitions such as (a+)+ are the usual cause."
        ) from None
    found = [_stripped(text, left, right, "regex") for left, right in spans if left >= 0]
    filled = [each for each in found if each.value]
    return _last(filled if which == "first" else filled[::-1], bool(truncated))


def read_whole(text: str, *, truncated: bool | None = None) -> Reading:
    """The whole text without white space at its ends; an empty one states nothing. Rule: whole."""
    whole = _stripped(text, 0, len(text), "whole")
    return _last([whole] if whole.value else [], bool(truncated))


def _last(found: list[Candidate], is_cut: bool) -> Reading:
    """The reading of the first candidate; the next one with another value is the runner-up."""
    if not found:
        return Reading(None, reason=Reason.CUT if is_cut else Reason.NONE)
    best = found[0]
    other = next((each for each in found[1:] if each.value != best.value), None)
    return Reading(best.value, (best.start, best.end), best.rule, runner_up=other)


def _stripped(text: str, start: int, end: int, rule: str) -> Candidate:
    body = text[start:end]
    left = start + len(body) - len(body.lstrip())
    return Candidate(body.strip(), left, left + len(body.strip()), rule)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    try:
        return regex.compile(pattern, regex.VERSION0)
    except regex.error as error:
        raise Fault(f"{visible(repr(pattern))} is no regular expression: {error}.") from None


def _objects(text: str, start: int, field: str) -> Iterator[Candidate]:
    """From the end: the field in each whole JSON object that holds it."""
    key = json.dumps(field, ensure_ascii=False)
    spans = [(left, right) for left, right in _balanced(text, start) if key in text[left:right]]
    for left, right in spans[: -MAX_OBJECTS - 1 : -1]:
        try:
            value = json.loads(
                _LATEX.sub(r"\\\\", text[left:right]), parse_float=str, parse_int=str
            )
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and field in value:
            got = value[field]
            if isinstance(got, list | dict):  # with its numbers as numbers
                got = json.loads(_LATEX.sub(r"\\\\", text[left:right]))[field]
            yield _placed(text, left, right, key, _shown(got))


def _balanced(text: str, start: int) -> list[tuple[int, int]]:
    """Objects without an object around them that holds nothing else: every balanced {...}, by its
    end."""
    opened: list[int] = []
    spans: list[tuple[int, int]] = []
    for token in _JSON_TOKEN.finditer(text, start):
        if token[0] == "{":
            opened.append(token.start())
        elif token[0] == "}" and opened:
            spans.append((opened.pop(), token.end()))
    return spans


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value, ensure_ascii=False)


def _placed(text: str, left: int, right: int, key: str, shown: str) -> Candidate:
    """The candidate with the characters of its value; the place of the key where the value has
    escapes."""
    at = [match.end() for match in re.finditer(re.escape(key) + r"\s*:\s*\"?", text[left:right])]
    for place in at:
        if text.startswith(shown, left + place):
            return Candidate(shown, left + place, left + place + len(shown), "json")
    begin = left + (at[0] if at else 0)
    return Candidate(shown, begin, right, "json")


def _loose(match: re.Match[str]) -> Candidate:
    name = next(name for name in ("quoted", "single", "bare") if match[name] is not None)
    if match["bare"] in ("null", "None"):
        return Candidate("", match.start(), match.end(), "json_text")
    return _stripped(match.string, *match.span(name), "json_text")
