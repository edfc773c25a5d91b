"""From messages to the tokens a local engine gets: the chat template exactly once, exactly one
BOS.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evalrun.backends.base import failed
from evalrun.backends.local import loading
from evalrun.backends.reasoning import TAGS, Tag, opens_thought, tags_of
from evalrun.errors import Fault, unknown
from evalrun.types import Generate, Message, ModelPlan, Reply, Status

MODES = ("auto", "template", "raw")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt.

    Attributes:
        is_open: the template ended with an opening tag, so the answer begins inside a thought.
    """

    text: str
    token_ids: tuple[int, ...]
    is_open: bool = False


class PromptRenderer:
    """Renders messages with one tokenizer; made by `renderer_for`.

    Args:
        tokenizer: of transformers.
        mode: template or raw.
        tags: of thoughts; a template that ends with an opening one leaves the thought open.
    """

    def __init__(self, tokenizer: Any, mode: str, tags: tuple[Tag, ...] = TAGS) -> None:
        self.tokenizer = tokenizer
        self.tags = tags
        self.mode = mode
        self.prefix_ids, self._prefix = _own_prefix(tokenizer)

    def prompt(self, messages: tuple[Message, ...]) -> Prompt:
        """The prompt as text and tokens.

        The tokens that the tokenizer puts before every text (BOS) are put before this one unless
        the text brings them. May raise jinja2.TemplateError (a template that refuses a role),
        ValueError, TypeError.
        """
        text, ids = self.encode(self.text(messages))
        return Prompt(text, ids, self.mode == "template" and opens_thought(text, self.tags))

    def encode(self, text: str) -> tuple[str, tuple[int, ...]]:
        """(text, tokens) with the tokenizer's own prefix (BOS) exactly once."""
        ids = list(self.tokenizer.encode(text, add_special_tokens=False))
        if self.prefix_ids and ids[: len(self.prefix_ids)] != self.prefix_ids:
            text, ids = self._prefix + text, self.prefix_ids + ids
        return text, tuple(ids)

    def text(self, messages: tuple[Message, ...]) -> str:
        """The messages as one text: by the chat template, or joined by blank lines."""
        if self.mode == "raw":
            return "\n\n".join(message.content for message in messages)
        turns = [{"role": message.role, "content": message.content} for message in messages]
        return str(
            self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        )

    def template_digest(self) -> str:
        """Digest of the chat template in use; "none" where prompts are raw text."""
        if self.mode == "raw":
            return "none"
        template = self.tokenizer.chat_template
        return loading.text_digest(
            template if isinstance(template, str) else json.dumps(template, sort_keys=True)
        )


def renderer_for(model: ModelPlan, tokenizer: Any) -> PromptRenderer:
    """The renderer of `model.chat`: auto (the template if the tokenizer has one, else raw),
    template, raw.
    """
    if model.chat not in MODES:
        raise unknown("chat mode", model.chat, MODES, "model.chat")
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if model.chat == "template" and not has_template:
        raise Fault(
            f"model.chat=template, but the tokenizer of model {model.name} "
            f"({model.tokenizer or model.path}) has no chat template. Use model.chat=raw (or "
            "auto), or name another tokenizer in model.tokenizer."
        )
    mode = "template" if has_template and model.chat != "raw" else "raw"
    return PromptRenderer(tokenizer, mode, tags_of(model.reasoning_tags))


def _own_prefix(tokenizer: Any) -> tuple[list[int], str]:
    """The tokens (and their text) that the tokenizer puts before every text: [BOS], [] or more."""
    bare = list(tokenizer.encode("a", add_special_tokens=False))
    full = list(tokenizer.encode("a", add_special_tokens=True))
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            ids = full[:start]
            return ids, "".join(tokenizer.convert_ids_to_tokens(ids))
    return [], ""


@dataclass(frozen=True, slots=True)
class Job:
    """One request made ready: its prompt, and a base row per sample."""

    request: Generate
    prompt: Prompt
    rows: tuple[Reply, ...]

    @property
    def n_tokens(self) -> int:
        """Length of the prompt in tokens."""
        return len(self.prompt.token_ids)


def base_rows(request: Generate) -> tuple[Reply, ...]:
    """The rows of a request before anything came: key and seed."""
    keys = request.keys()
    return tuple(
        Reply(doc_id, kind, index, turn, seed=request.seed + index)
        for doc_id, kind, index, turn in keys
    )


def ready(
    renderer: PromptRenderer, request: Generate, limit: int | None, now: Callable[[], float]
) -> Job | tuple[Reply, ...]:
    """The request made ready, or its failure rows: the template refused it, or it does not fit
    the context.
    """
    import jinja2

    rows = base_rows(request)
    try:
        prompt = renderer.prompt(request.messages)
    except jinja2.TemplateError as error:
        return _all_failed(
            rows, "template_error", f"the chat template refused the messages: {error}", now()
        )
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        return _all_failed(
            rows, type(error).__name__, f"the prompt could not be tokenized: {error}", now()
        )
    n_tokens, more = len(prompt.token_ids), request.sampling.max_tokens
    rows = tuple(replace(row, prompt_tokens=n_tokens) for row in rows)
    if n_tokens == 0:
        return _all_failed(rows, "prompt_empty", "the prompt has no tokens", now())
    if limit is not None and n_tokens + more > limit:
        message = (
            f"the prompt has {n_tokens} tokens and max_tokens asks for {more} more, but the model "
            f"takes {limit} in all. Lower sampling.max_tokens or the number of few-shot examples, "
            "or raise model.max_model_len."
        )
        return _all_failed(rows, "prompt_too_long", message, now())
    return Job(request, prompt, rows)


def _all_failed(
    rows: tuple[Reply, ...], error_type: str, message: str, now_s: float
) -> tuple[Reply, ...]:
    return tuple(
        failed(replace(row, started_s=now_s, ended_s=now_s), Status.ERROR, error_type, message)
        for row in rows
    )
