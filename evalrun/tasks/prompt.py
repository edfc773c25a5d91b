"""Templates -> messages -> requests.

A prompt is one user message: the examples (template + answer each), then the question (template), joined by the
separator; before it the system message, if there is one. Templates are Jinja2, sandboxed, without autoescape;
an unknown name is a Fault.

Names in a template: query, choices, letters (A, B, ... one per option), subset, is_first (True in the first block
of the prompt: for an instruction that stands once), and any column of the dataset.
In `prompt.answer` also: gold (text of the first right answer), golds (all of them), gold_letter (its letter).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from evalrun.errors import Fault, unknown, visible
from evalrun.tasks.docs import letters_of
from evalrun.types import Cell, Doc, Generate, Key, Kind, Message, PromptPlan

if TYPE_CHECKING:
    from jinja2 import Environment, Template

QUESTION_NAMES = ("query", "choices", "letters", "subset", "is_first")
ANSWER_NAMES = (*QUESTION_NAMES, "gold", "golds", "gold_letter")
_GLOBALS = ("range", "dict", "namespace", "cycler", "joiner")


def template_columns(prompt: PromptPlan) -> tuple[str, ...]:
    """The names in both templates that are not ours: columns of the dataset, sorted. Fault: a broken template."""
    question, answer = _names(prompt.template, "prompt.template"), _names(prompt.answer, "prompt.answer")
    for name in sorted(question & {"gold", "golds", "gold_letter"}):
        raise Fault(f"prompt.template names {name!r}: the question must not hold its answer. prompt.answer may.")
    return tuple(sorted((question - set(QUESTION_NAMES)) | (answer - set(ANSWER_NAMES))))


def check_template(prompt: PromptPlan, known_columns: Iterable[str]) -> None:
    """Fault where a template is not valid Jinja2, names a filter or a name that does not exist, or its own gold.

    known_columns: the columns of the dataset and the further fields of dataset.columns.
    """
    known = set(known_columns)
    for name in template_columns(prompt):
        if name not in known:
            is_question = name in _names(prompt.template, "prompt.template")
            where, ours = ("prompt.template", QUESTION_NAMES) if is_question else ("prompt.answer", ANSWER_NAMES)
            raise unknown("name", name, [*ours, *known], where)


def render(prompt: PromptPlan, doc: Doc, examples: Sequence[Doc], system: str | None) -> tuple[Message, ...]:
    """The messages of one document. system: the model's own; it wins over the document's and the prompt's.

    An empty system text means: no system message. Fault: a template that fails on this document, or gives nothing.
    """
    blocks: list[str] = []
    for example in examples:
        names = _values(example) | {"is_first": not blocks}
        answer_names = names | _answer_values(example)
        blocks.append(
            _filled(prompt.template, names, example, "prompt.template")
            + _filled(prompt.answer, answer_names, example, "prompt.answer")
        )
    question = _filled(prompt.template, _values(doc) | {"is_first": not blocks}, doc, "prompt.template")
    if not question.strip():
        raise Fault(f"prompt.template gives an empty prompt for document {doc.id} of {doc.task}.")
    user = Message("user", prompt.separator.join([*blocks, question]))
    head = next((text for text in (system, doc.system, prompt.system) if text is not None), "")
    return (Message("system", head), user) if head else (user,)


def requests(
    docs: Sequence[Doc],
    prompts: Mapping[str, tuple[Message, ...]],
    cell: Cell,
    missing_keys: Iterable[Key],
    seed_of: Callable[[str], int],
) -> Iterator[Generate]:
    """One request per document that lacks samples, in the order of `docs`, with the missing indices in order.

    prompts: document id -> messages. seed_of: document id -> base seed; sample i is drawn with it + i.
    ValueError: a missing key that belongs to no document or is no generation.
    """
    missing: dict[str, set[int]] = {}
    for doc_id, kind, index, turn in missing_keys:
        if kind != Kind.GENERATE.value or turn != 0:
            raise ValueError(f"{(doc_id, kind, index, turn)} is not the key of a generation")
        missing.setdefault(doc_id, set()).add(index)
    strangers = missing.keys() - {doc.id for doc in docs}
    if strangers:
        raise ValueError(f"missing keys of unknown documents: {sorted(strangers)[:5]}")
    return (
        Generate(doc.id, prompts[doc.id], tuple(sorted(missing[doc.id])), cell.sampling, seed_of(doc.id))
        for doc in docs
        if doc.id in missing
    )


# ---- templates ------------------------------------------------------------------------------------------------


def _values(doc: Doc) -> dict[str, Any]:
    """What a question's template sees. Our own names win over columns that are called alike."""
    return dict(doc.extra) | {
        "query": doc.query,
        "choices": doc.choices,
        "letters": letters_of(len(doc.choices)),
        "subset": doc.subset,
    }


def _answer_values(doc: Doc) -> dict[str, Any]:
    first = doc.gold[0] if doc.gold else None
    values: dict[str, Any] = {"gold": doc.gold_texts[0] if doc.gold else None, "golds": doc.gold_texts}
    return values | ({"gold_letter": letters_of(len(doc.choices))[first]} if isinstance(first, int) else {})


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    environment.globals = {name: environment.globals[name] for name in _GLOBALS}
    del environment.filters["random"]  # a prompt is the same in every run
    return environment


@lru_cache(maxsize=64)
def _compiled(source: str, where: str) -> Template:
    """The template, with every filter and test looked up (Jinja2 itself leaves those inside an `if` for later)."""
    from jinja2 import TemplateSyntaxError, meta, nodes

    environment = _environment()
    try:
        tree = environment.parse(source)
        for node in tree.find_all((nodes.Filter, nodes.Test)):
            kind, known = (
                ("filter", environment.filters) if isinstance(node, nodes.Filter) else ("test", environment.tests)
            )
            if node.name not in known:
                raise unknown(kind, node.name, known, f"{where}, line {node.lineno}")
        if any(True for _ in meta.find_referenced_templates(tree)):
            raise Fault(f"{where} includes, imports or extends another template. A prompt is one template.")
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        message = visible((error.message or "syntax error").rstrip("."))
        raise Fault(f"{where}, line {error.lineno}: {message}. Allowed: a Jinja2 template.") from error


@lru_cache(maxsize=64)
def _names(source: str, where: str) -> frozenset[str]:
    """The names that a template reads from outside."""
    from jinja2 import meta

    _compiled(source, where)
    return frozenset(meta.find_undeclared_variables(_environment().parse(source)))


def _filled(source: str, values: Mapping[str, Any], doc: Doc, where: str) -> str:
    from jinja2 import TemplateError, UndefinedError

    template = _compiled(source, where)
    try:
        return template.render(values)
    except UndefinedError as error:
        named = re.match(r"'(.*)' is undefined", str(error))
        if named:
            raise unknown("name", named[1], values, f"{where} (document {doc.id})") from error
        raise Fault(f"{where} fails on document {doc.id} of {doc.task}: {visible(str(error))}.") from error
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        kind = type(error).__name__
        raise Fault(f"{where} fails on document {doc.id} of {doc.task}: {kind}: {visible(str(error))}.") from error
