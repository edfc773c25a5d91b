"""One call for every kind of answer: `read(text, "number")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from evalrun.errors import Fault, unknown, visible
from evalrun.reading.base import Reading
from evalrun.reading.boxed import read_boxed
from evalrun.reading.code import read_code
from evalrun.reading.formulas.expressions import read_expression
from evalrun.reading.letters import read_letter
from evalrun.reading.marked import read_json, read_regex, read_tag, read_whole
from evalrun.reading.numbers.number_reader import read_number

AnswerKind: TypeAlias = str | Mapping[str, Any]
KINDS = ("letter", "number", "expression", "math", "boxed", "code", "none")
_PLAIN: dict[str, Callable[..., Reading]] = {
    "number": read_number,
    "expression": read_expression,
    "math": read_expression,
    "boxed": read_boxed,
    "code": read_code,
    "none": read_whole,
}
_KEYS = {"json": {"json"}, "tag": {"tag"}, "regex": {"regex", "group", "which"}}
_FORMS = "{json: FIELD}, {tag: NAME}, {regex: PATTERN, group: 1, which: last}"


def read(
    text: str,
    kind: AnswerKind,
    options: Sequence[str] | int | None = None,
    truncated: bool | None = None,
) -> Reading:
    """The answer that `text` states: value (None where it states none), place, rule, reason,
    runner-up.

    text: the answer of a model.
    kind: letter, number, expression (or math), boxed, code, none (the whole text); or a mapping
    {json: FIELD},
        {tag: NAME}, {regex: PATTERN, group: 1, which: first|last}.
    options: only for letter: the texts of the options, or how many there are; None: 26.
    truncated: whether the text was cut off at the length limit; None: judged from the text.

    Raises Fault for an unknown kind, with the nearest name; TimeoutError where a regular expression
    takes too long.
    """
    if isinstance(kind, Mapping):
        return _read_at(text, kind, truncated)
    if kind == "letter":
        return read_letter(text, options, truncated=truncated)
    if kind not in _PLAIN:
        raise unknown("kind of answer", str(kind), KINDS, f"read (mappings are {_FORMS})")
    return _PLAIN[kind](text, truncated=truncated)


def _read_at(text: str, kind: Mapping[str, Any], truncated: bool | None) -> Reading:
    forms = [form for form in _KEYS if form in kind]
    if len(forms) != 1:
        if not forms and kind:
            raise unknown("form of extract", str(next(iter(kind))), _KEYS)
        raise Fault(
            f"A mapping names one of json, tag, regex, got {visible(repr(dict(kind)))}. Allowed:"
            f" {_FORMS}."
        )
    form = forms[0]
    for key in kind:
        if key not in _KEYS[form]:
            raise unknown("key", str(key), _KEYS[form], f"the form {form!r}")
    name = kind[form]
    if not isinstance(name, str) or not name:
        raise Fault(f"{form}: a text is needed, got {visible(repr(name))}.")
    if form == "json":
        return read_json(text, name, truncated=truncated)
    if form == "tag":
        return read_tag(text, name, truncated=truncated)
    return read_regex(
        text, name, kind.get("group", 1), kind.get("which", "last"), truncated=truncated
    )
