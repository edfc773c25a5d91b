"""Jinja2 in a sandbox: checked while planning, filled for one document or row at a time, nothing
escaped.

Besides Jinja2's own filters (all but `random`) there is one of ours: regex_replace(pattern,
replacement).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from evalrun.errors import Fault, unknown, visible

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_GLOBALS = ("range", "dict", "namespace", "cycler", "joiner")


def is_template(text: str) -> bool:
    """Whether a text of dataset.columns is a template, and not the name of a column."""
    return "{{" in text


def regex_replace(text: object, pattern: str, replacement: str) -> str:
    r"""Every match of a Python regular expression replaced; \1 stands for the first group.

    The filter of templates.

    ValueError: the pattern or the replacement is not valid.
    """
    try:
        return re.sub(pattern, replacement, str(text))
    except (re.error, IndexError) as error:
        raise ValueError(f"regex_replace({pattern!r}, {replacement!r}): {error}") from error


def names_of(source: str, where: str) -> frozenset[str]:
    """The names that a template reads from outside.

    Fault: it is broken, or names a filter that does not exist.
    """
    _compiled(source, where)
    return _names(source)


def filled(source: str, values: Mapping[str, Any], where: str, what: str) -> str:
    """The text that a template gives for these values.

    Args:
        where: the key that holds it.
        what: the document or row, for messages.

    Fault: it fails, or reads an unknown name.
    """
    from jinja2 import TemplateError, UndefinedError

    template = _compiled(source, where)
    try:
        return template.render(values)
    except UndefinedError as error:
        named = re.match(r"'(.*)' is undefined", str(error))
        if named:
            raise unknown("name", named[1], values, f"{where} ({what})") from error
        raise Fault(f"{where} fails on {what}: {visible(str(error))}.") from error
    except (
        TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
    ) as error:
        raise Fault(
            f"{where} fails on {what}: {type(error).__name__}: {visible(str(error))}."
        ) from error


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    environment.globals = {name: environment.globals[name] for name in _GLOBALS}
    del environment.filters["random"]  # a prompt is the same in every run
    environment.filters["regex_replace"] = regex_replace
    return environment


@lru_cache(maxsize=64)
def _compiled(source: str, where: str) -> Template:
    """The template, with every filter and test looked up (Jinja2 itself leaves those inside an
    `if` for later).
    """
    from jinja2 import TemplateSyntaxError, meta, nodes

    environment = _environment()
    try:
        tree = environment.parse(source)
        for node in tree.find_all((nodes.Filter, nodes.Test)):
            kind, known = (
                ("filter", environment.filters)
                if isinstance(node, nodes.Filter)
                else ("test", environment.tests)
            )
            if node.name not in known:
                raise unknown(kind, node.name, known, f"{where}, line {node.lineno}")
        if any(True for _ in meta.find_referenced_templates(tree)):
            raise Fault(
                f"{where} includes, imports or extends another template. A prompt is one template."
            )
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        message = visible((error.message or "syntax error").rstrip("."))
        raise Fault(
            f"{where}, line {error.lineno}: {message}. Allowed: a Jinja2 template."
        ) from error


@lru_cache(maxsize=64)
def _names(source: str) -> frozenset[str]:
    from jinja2 import meta

    return frozenset(meta.find_undeclared_variables(_environment().parse(source)))
