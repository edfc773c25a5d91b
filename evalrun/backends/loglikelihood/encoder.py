"""Log-likelihood requests made ready for any engine: texts -> spans of tokens.

Everything that is not an engine's business is decided here: BOS, the border of context and
continuation, windows, limits.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any, assert_never

from evalrun.backends.base import failed
from evalrun.backends.local.prompts import PromptRenderer, renderer_for
from evalrun.backends.loglikelihood.spans import ScoredRequest, Span, shared_length, windows
from evalrun.types import Loglikelihood, ModelPlan, Reply, Rolling, Status


@dataclass(frozen=True, slots=True)
class Item:
    """One request made ready: its row before anything came, and its spans (a long text has
    several).
    """

    row: Reply
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ContextTokens:
    """What a continuation stands after.

    Attributes:
        text: without the blanks.
        ids: its tokens, BOS among them.
        blanks: those that ended it; they are scored with the continuation.
    """

    text: str
    blanks: str
    ids: tuple[int, ...]


class Refused(Exception):
    """A request that cannot be asked; becomes a failure row."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class Encoder:
    """Turns requests into items with one tokenizer.

    The chat template is applied to a context only where model.chat says `template`; else a context
    is its messages' text, joined by blank lines.

    Args:
        model: the plan (chat, token_boundary).
        tokenizer: of transformers, or with its methods.
        most_tokens: the longest span that the engine takes; None: any.
    """

    def __init__(self, model: ModelPlan, tokenizer: Any, most_tokens: int | None) -> None:
        self._renderer = context_renderer(model, tokenizer)
        self._tokenizer = tokenizer
        self._is_joint = model.token_boundary == "joint"
        self._most = most_tokens
        self._last: tuple[Any, ContextTokens] | None = None  # the context of the choice before

    def ready(self, request: ScoredRequest) -> Item | Reply:
        """The request made ready, or its failure row."""
        import jinja2

        ((doc_id, kind, index, turn),) = request.keys()
        row = Reply(doc_id, kind, index, turn)
        try:
            match request:
                case Loglikelihood():
                    return self._choice(row, request)
                case Rolling():
                    return self._text(row, request)
                case _:
                    assert_never(request)
        except Refused as refusal:
            return _refusal(row, refusal.error_type, str(refusal))
        except jinja2.TemplateError as error:
            return _refusal(
                row, "template_error", f"the chat template refused the messages: {error}"
            )
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            return _refusal(row, type(error).__name__, f"the text could not be tokenized: {error}")

    def _choice(self, row: Reply, request: Loglikelihood) -> Item:
        if not request.continuation:
            raise Refused(
                "empty_continuation",
                f"choice {request.index} has an empty continuation: nothing to score",
            )
        context = self._context(request)
        continuation = context.blanks + request.continuation
        if not context.ids:
            head = self._start()
            ids, start, is_spanning = (*head, *self._bare(continuation, head)), len(head), False
        else:
            ids, start, is_spanning = self._joined(context.text, context.ids, continuation)
        if start == len(ids):
            raise Refused(
                "empty_continuation",
                f"choice {request.index} ({continuation!r}) adds no token to the context",
            )
        if request.is_single_token and len(ids) - start != 1:
            said = f"choice {request.index} ({continuation!r}) must be one token after its context"
            raise Refused(
                "not_one_token", f"{said}; it is {len(ids) - start}: ids {list(ids[start:])}"
            )
        span, n_cut = self._fitted(ids, start, request.index)
        notes: dict[str, Any] = {"spanning": True} if is_spanning else {}
        notes |= {"cut_tokens": n_cut} if n_cut else {}
        return Item(
            replace(
                row,
                n_tokens=span.n_scored,
                prompt_tokens=span.start,
                extra=json.dumps(notes) if notes else None,
            ),
            (span,),
        )

    def _context(self, request: Loglikelihood) -> ContextTokens:
        """The context of a request. The choices of a document share it, so the last one is kept."""
        if not request.messages:
            return ContextTokens("", "", ())
        if self._last is None or self._last[0] != request.messages:
            whole = self._renderer.text(request.messages)
            text = whole.rstrip() if self._renderer.mode == "raw" else whole
            self._last = (
                request.messages,
                ContextTokens(text, whole[len(text) :], self._encoded(text) if text else ()),
            )
        return self._last[1]

    def _joined(
        self, text: str, context: tuple[int, ...], continuation: str
    ) -> tuple[tuple[int, ...], int, bool]:
        """(tokens, where the scored ones begin, whether a token spans the border)."""
        whole = self._encoded(text + continuation)
        shared = shared_length(context, whole)
        is_spanning = shared < len(context)
        if self._is_joint:
            if shared == 0:
                whole, shared = (*self._start(), *whole), 1
            return whole, shared, is_spanning
        # A BOS that the continuation spells is no second start of the text: it is scored, as in the
        # joined text.
        alone = tuple(self._tokenizer.encode(continuation, add_special_tokens=False))
        return (*context, *alone), len(context), is_spanning

    def _text(self, row: Reply, request: Rolling) -> Item:
        if not request.text:
            raise Refused("empty_text", "the text has no tokens: nothing to score")
        head = self._start()
        tokens = self._bare(request.text, head)
        if not tokens:
            raise Refused("empty_text", "the text has no tokens: nothing to score")
        try:
            spans = windows(head, tokens, self._most)
        except ValueError as error:
            raise Refused("context_too_short", str(error)) from error
        return Item(replace(row, n_tokens=len(tokens), prompt_tokens=0), spans)

    def _fitted(self, ids: tuple[int, ...], start: int, index: int) -> tuple[Span, int]:
        """The span within the engine's limit, cut from the left behind BOS, and how many tokens
        were cut.
        """
        n_cut = 0 if self._most is None else max(0, len(ids) - self._most)
        if n_cut == 0:
            return Span(ids, start), 0
        bos = self._tokenizer.bos_token_id
        head = shared_length(ids, tuple(self._renderer.prefix_ids) or (bos,))
        if start - n_cut < max(head, 1):
            raise Refused(
                "continuation_too_long",
                f"choice {index} has {len(ids) - start} tokens, more than the model takes "
                f"({self._most} with its context)",
            )
        return Span((*ids[:head], *ids[head + n_cut :]), start - n_cut), n_cut

    def _encoded(self, text: str) -> tuple[int, ...]:
        """Tokens with what the tokenizer puts before every text, exactly once."""
        return self._renderer.encode(text)[1]

    def _bare(self, text: str, head: tuple[int, ...]) -> tuple[int, ...]:
        """Tokens to put behind `head`; where the text brings it itself, it is not there twice."""
        ids = tuple(self._tokenizer.encode(text, add_special_tokens=False))
        return ids[len(head) :] if ids[: len(head)] == head else ids

    def _start(self) -> tuple[int, ...]:
        """What the first token of a text is conditioned on: the tokenizer's own prefix, else
        BOS, else EOS.
        """
        if self._renderer.prefix_ids:
            return tuple(self._renderer.prefix_ids)
        for token in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return (int(token),)
        raise Refused(
            "no_start_token",
            "the tokenizer has neither BOS nor EOS, so a first token cannot be scored",
        )


def context_renderer(model: ModelPlan, tokenizer: Any) -> PromptRenderer:
    """How contexts are rendered: the chat template where model.chat=template, else raw text."""
    return renderer_for(
        model if model.chat == "template" else replace(model, chat="raw"), tokenizer
    )


def shown(renderer: PromptRenderer, request: ScoredRequest) -> str:
    """The text that a request is about, as the model gets it: the whole text, or the context
    (without its choice).
    """
    if isinstance(request, Rolling):
        return request.text
    text = renderer.text(request.messages) if request.messages else ""
    return renderer.encode(text)[0] if text else ""


def _refusal(row: Reply, error_type: str, message: str) -> Reply:
    now = time.time()
    return failed(replace(row, started_s=now, ended_s=now), Status.ERROR, error_type, message)
