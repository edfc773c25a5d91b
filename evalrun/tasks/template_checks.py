"""The templates of a task, checked while planning: which names may stand in which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evalrun.errors import Fault, unknown
from evalrun.tasks.templates import names_of
from evalrun.types import PromptPlan

QUESTION_NAMES = ("query", "choices", "letters", "subset", "is_first")
ANSWER_NAMES = (*QUESTION_NAMES, "gold", "golds", "gold_letter")
OWN_NAMES = ("choice", "letter", "index")
CHOICE_NAMES = (*QUESTION_NAMES, *OWN_NAMES)
_GOLD_NAMES = frozenset(ANSWER_NAMES) - frozenset(QUESTION_NAMES)


def _templates(prompt: PromptPlan) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Key, template and our own names of every template that is set."""
    yield "prompt.template", prompt.template, QUESTION_NAMES
    yield "prompt.answer", prompt.answer, ANSWER_NAMES
    for key, source, ours in (
        ("prompt.continuation", prompt.continuation, CHOICE_NAMES),
        ("prompt.context", prompt.context, CHOICE_NAMES),
        ("prompt.unconditioned", prompt.unconditioned, QUESTION_NAMES),
    ):
        if source is not None:
            yield key, source, ours


def template_columns(prompt: PromptPlan) -> tuple[str, ...]:
    """The names in all templates that are not ours: columns of the dataset, sorted.

    Fault: a broken template.
    """
    columns: set[str] = set()
    for key, source, ours in _templates(prompt):
        names = names_of(source, key)
        if key != "prompt.answer":
            for name in sorted(names & _GOLD_NAMES):
                raise Fault(
                    f"{key} names {name!r}: the question must not hold its answer. prompt.answer "
                    "may."
                )
        columns |= names - set(ours)
    return tuple(sorted(columns))


def check_template(prompt: PromptPlan, known_columns: Iterable[str]) -> None:
    """Fault where a template is not valid Jinja2, names a filter or a name that does not exist, or
    its own gold.

    Args:
        known_columns: the columns of the dataset and the further fields of dataset.columns.
    """
    template_columns(prompt)
    known = set(known_columns)
    for key, source, ours in _templates(prompt):
        for name in sorted(names_of(source, key) - set(ours) - known):
            raise unknown("name", name, [*ours, *known], key)
