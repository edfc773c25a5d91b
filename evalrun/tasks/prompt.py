"""Templates -> what is sent for a document.

A prompt is one user message: the examples (template + answer each), then the question (template),
joined by the separator; before it the system message, if there is one. Templates are Jinja2,
sandboxed, without autoescape; an unknown name is a Fault.

Names in a template: query, choices, letters (A, B, ... one per option), subset, is_first (True in
the first block of the prompt: for an instruction that stands once), and any column of the dataset.
In `prompt.answer` also: gold (text of the first right answer), golds (all of them), gold_letter
(its letter). In `prompt.continuation` and `prompt.context` also: choice, its letter, its index from
0.

A log-likelihood has the same prompt for a context. Where prompt.context is set, it stands in place
of the template: for the question with each choice in turn, for an example with its first right
choice, continuation behind it. White space that ends a context is scored with the continuation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from evalrun.errors import Fault
from evalrun.tasks.gold import letters_of
from evalrun.tasks.template_checks import OWN_NAMES
from evalrun.tasks.templates import filled, names_of
from evalrun.types import (
    Cell,
    Doc,
    Kind,
    Message,
    PromptPlan,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is sent for one document, each part as far as the cell's request kinds need it.

    Attributes:
        messages: of generations.
        contexts, continuations: one each per choice, as they are scored.
        unconditioned: the context of PMI, empty where it is none.
        text: what a rolling request scores, whole.
    """

    messages: tuple[Message, ...] = ()
    contexts: tuple[tuple[Message, ...], ...] = ()
    continuations: tuple[str, ...] = ()
    unconditioned: tuple[Message, ...] = ()
    text: str | None = None


def asked(cell: Cell, doc: Doc, examples: Sequence[Doc], system: str | None) -> Asked:
    """Everything that the cell's request kinds need of one document, rendered once.

    Fault: a template that fails on this document or gives nothing where there must be a text.
    """
    prompt, kinds = cell.prompt, set(cell.kinds)
    is_choice = not kinds.isdisjoint((Kind.LOGLIKELIHOOD, Kind.UNCONDITIONED))
    made = Asked(
        messages=render(prompt, doc, examples, system) if Kind.GENERATE in kinds else (),
        contexts=render_contexts(prompt, doc, examples, system) if is_choice else (),
        continuations=_continuations(prompt, doc, bool(examples)) if is_choice else (),
        unconditioned=_unconditioned(prompt, doc) if Kind.UNCONDITIONED in kinds else (),
        text=rolling_text(prompt, doc) if Kind.ROLLING in kinds else None,
    )
    if is_choice:
        _refuse_equal_choices(prompt, doc)
    return made


def render(
    prompt: PromptPlan, doc: Doc, examples: Sequence[Doc], system: str | None
) -> tuple[Message, ...]:
    """The messages of one document.

    Args:
        system: the model's own; it wins over the document's and the prompt's.

    An empty system text means: no system message. Fault: a template that fails on this document, or
    gives nothing.
    """
    blocks = _blocks(prompt, examples)
    question = _question(prompt, doc, not blocks)
    if not question.strip():
        raise Fault(f"prompt.template gives an empty prompt for document {doc.id} of {doc.task}.")
    return _messages(prompt.separator.join([*blocks, question]), prompt, doc, system)


def render_contexts(
    prompt: PromptPlan, doc: Doc, examples: Sequence[Doc], system: str | None
) -> tuple[tuple[Message, ...], ...]:
    """The messages that each choice continues, without the white space at their end.

    Equal ones are one object.

    A context may be empty: no message at all. Fault: a template that fails on this document.
    """
    options = options_of(doc)
    blocks = _blocks(prompt, examples, is_context=True)
    made: dict[str, tuple[Message, ...]] = {}
    contexts = []
    for question in _questions(prompt, doc, len(options), not blocks):
        if question not in made:
            text = prompt.separator.join([*blocks, question])
            made[question] = _messages(
                text.removesuffix(_space(prompt, question, bool(blocks))), prompt, doc, system
            )
        contexts.append(made[question])
    return tuple(contexts)


def as_scored(prompt: PromptPlan, doc: Doc) -> Doc:
    """The document as a metric of log-likelihoods sees it: choices are the continuations as sent,
    golds are indices.

    Without choices, the golds themselves are the choices, and all of them right. Fault: an empty
    continuation, or a template that fails.
    """
    gold = doc.gold if doc.choices else tuple(range(len(doc.gold)))
    return replace(doc, choices=_continuations(prompt, doc, bool(doc.fewshot)), gold=gold)


def rolling_text(prompt: PromptPlan, doc: Doc) -> str:
    """The text that a rolling request scores: the rendered template, no examples and no system.

    Fault: it is empty.
    """
    text = _question(prompt, doc, True)
    if not text:
        raise Fault(f"prompt.template gives an empty text for document {doc.id} of {doc.task}.")
    return text


def move_space(context: str, continuation: str) -> tuple[str, str]:
    """Context and continuation with the white space that ends the context moved over; joined they
    are unchanged.

    Tokenizers put a space at the head of a word, so that "Answer: " + "4" has other tokens than
    "Answer:" + " 4".
    """
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation


def _space(prompt: PromptPlan, question: str, has_examples: bool) -> str:
    """The white space that ends a context, looked for in its question and, where that is blank,
    in the separator.
    """
    is_open = has_examples and not question.strip()
    return move_space(prompt.separator + question if is_open else question, "")[1]


def _messages(text: str, prompt: PromptPlan, doc: Doc, system: str | None) -> tuple[Message, ...]:
    head = next((each for each in (system, doc.system, prompt.system) if each is not None), "")
    parts = (Message("system", head), Message("user", text))
    return tuple(part for part in parts if part.content)


def _unconditioned(prompt: PromptPlan, doc: Doc) -> tuple[Message, ...]:
    key = "prompt.unconditioned"
    text = _filled(prompt.unconditioned or "", _values(doc) | {"is_first": True}, doc, key)
    if move_space(text, "")[1]:
        raise Fault(
            f"{key} gives {text!r} for document {doc.id} of {doc.task}, which ends in "
            "white space. That belongs to "
            'the continuation, which is the same with and without the context: write "Answer:", '
            'not "Answer: ".'
        )
    return (Message("user", text),) if text else ()


class _Same:
    """An example as a key of a cache: equal to itself alone, since what a document holds may
    have no hash.
    """

    __slots__ = ("doc",)

    def __init__(self, doc: Doc) -> None:
        self.doc = doc

    def __hash__(self) -> int:
        return id(self.doc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.doc is other.doc


def _blocks(prompt: PromptPlan, examples: Sequence[Doc], is_context: bool = False) -> list[str]:
    """Examples with their answers.

    Args:
        is_context: as contexts have them; where they differ by choice, the right one.
    """
    show = _right_block if is_context and prompt.context is not None else _block
    return [show(prompt, _Same(example), i == 0) for i, example in enumerate(examples)]


@lru_cache(maxsize=512)
def _block(prompt: PromptPlan, example: _Same, is_first: bool) -> str:
    doc = example.doc
    values = _values(doc) | {"is_first": is_first} | _answer_values(doc)
    return _question(prompt, doc, is_first) + _filled(prompt.answer, values, doc, "prompt.answer")


@lru_cache(maxsize=512)
def _right_block(prompt: PromptPlan, example: _Same, is_first: bool) -> str:
    doc = example.doc
    if not doc.gold:
        raise Fault(
            f"Document {doc.id} of {doc.task} has no gold, so it cannot stand as an example."
        )
    place = doc.gold[0] if isinstance(doc.gold[0], int) else 0
    context = _choice_filled(prompt.context or "", doc, place, is_first, "prompt.context")
    return context + _continuation(prompt, doc, place)


def _questions(prompt: PromptPlan, doc: Doc, n_choices: int, is_first: bool) -> list[str]:
    """The question as each choice has it."""
    if prompt.context is None:
        return [_question(prompt, doc, is_first)] * n_choices
    return [
        _choice_filled(prompt.context, doc, i, is_first, "prompt.context") for i in range(n_choices)
    ]


def _refuse_equal_choices(prompt: PromptPlan, doc: Doc) -> None:
    """Fault where all choices of a document ask the same: neither their continuation nor their
    context names them.
    """
    if prompt.continuation is None or len(options_of(doc)) < 2:
        return
    names = names_of(prompt.continuation, "prompt.continuation") | names_of(
        prompt.context or "", "prompt.context"
    )
    if names.isdisjoint(OWN_NAMES):
        raise Fault(
            f"prompt.continuation is the same for all {len(options_of(doc))} choices of document "
            f"{doc.id} of {doc.task}, and so is their context: all are equally likely. Name one of "
            f"{', '.join(OWN_NAMES)} in prompt.continuation, or in prompt.context where the "
            "continuation is the same for all."
        )


def _question(prompt: PromptPlan, doc: Doc, is_first: bool) -> str:
    return _filled(prompt.template, _values(doc) | {"is_first": is_first}, doc, "prompt.template")


def _continuations(prompt: PromptPlan, doc: Doc, has_examples: bool) -> tuple[str, ...]:
    """What is scored of each choice: its continuation behind the white space that ends its
    context.
    """
    questions = _questions(prompt, doc, len(options_of(doc)), not has_examples)
    return tuple(
        _space(prompt, question, has_examples) + _continuation(prompt, doc, i)
        for i, question in enumerate(questions)
    )


def options_of(doc: Doc) -> tuple[str, ...]:
    """What is scored of a document: its choices, or its right answers where it has none."""
    options = doc.choices or doc.gold_texts
    if not options:
        raise Fault(
            f"Document {doc.id} of {doc.task} has neither choices nor a gold, so there is nothing "
            "to score. Set dataset.columns.choices or dataset.columns.gold."
        )
    return options


def _continuation(prompt: PromptPlan, doc: Doc, index: int) -> str:
    choice = options_of(doc)[index]
    if prompt.continuation is None:
        return f" {choice}"
    text = _choice_filled(prompt.continuation, doc, index, False, "prompt.continuation")
    if not text:
        raise Fault(
            f"prompt.continuation gives an empty text for choice {index + 1} ({choice[:60]!r}) of "
            f"document {doc.id} of {doc.task}. What is scored has at least one character."
        )
    return text


def _choice_filled(source: str, doc: Doc, index: int, is_first: bool, where: str) -> str:
    options = options_of(doc)
    choice = {"choice": options[index], "letter": letters_of(len(options))[index], "index": index}
    return _filled(source, _values(doc) | {"is_first": is_first} | choice, doc, where)


def _values(doc: Doc) -> dict[str, Any]:
    """What a question's template sees. Our own names win over columns that are called alike."""
    return dict(doc.extra) | {
        "query": doc.query,
        "choices": doc.choices,
        "letters": letters_of(len(doc.choices)),
        "subset": doc.subset,
    }


def _answer_values(doc: Doc) -> dict[str, Any]:
    if not doc.gold:  # a template that names the gold is then told so
        return {}
    first = doc.gold[0]
    values: dict[str, Any] = {"gold": doc.gold_texts[0], "golds": doc.gold_texts}
    return values | (
        {"gold_letter": letters_of(len(doc.choices))[first]} if isinstance(first, int) else {}
    )


def _filled(source: str, values: Mapping[str, Any], doc: Doc, where: str) -> str:
    return filled(source, values, where, f"document {doc.id} of {doc.task}")
