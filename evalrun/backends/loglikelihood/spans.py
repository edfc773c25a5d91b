"""Log-likelihood requests made ready for any engine: texts -> spans of tokens -> rows.

A span is a row of tokens of which the last ones are scored, each given all tokens before it. An
engine scores spans; everything else (BOS, the border of context and continuation, windows, limits,
identical requests) is decided here.
"""

from __future__ import annotations

import hashlib
import json
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

from evalrun.backends.base import Sink, failed
from evalrun.backends.local.prompts import Chat, chat_for
from evalrun.types import Generate, Loglikelihood, ModelPlan, Reply, Rolling, Status

Scored: TypeAlias = Loglikelihood | Rolling
"""The requests that ask for log-probabilities."""

MOST_KNOWN = 100_000  # scores of a run that are kept: some 15 MB


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of which those from `start` on are scored. 1 <= start < len(ids)."""

    ids: tuple[int, ...]
    start: int

    @property
    def n_scored(self) -> int:
        """How many tokens are scored."""
        return len(self.ids) - self.start

    @property
    def digest(self) -> bytes:
        """16 bytes that tell spans apart."""
        return hashlib.blake2b(
            array("q", (self.start, *self.ids)).tobytes(), digest_size=16
        ).digest()


@dataclass(frozen=True, slots=True)
class Score:
    """What an engine says of a span.

    Attributes:
        logprob: sum over its scored tokens, in nats.
        is_greedy: each is the most likely.
    """

    logprob: float
    is_greedy: bool


@dataclass(frozen=True, slots=True)
class Item:
    """One request made ready: its row before anything came, and its spans (a long text has
    several).
    """

    row: Reply
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What a continuation stands after.

    Attributes:
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

    most_tokens: the longest span that the engine takes; None: any. model.chat: the chat template is
    applied to a context only where it says `template`; else a context is its messages' text, joined
    by blank lines.
    """

    def __init__(self, model: ModelPlan, tokenizer: Any, most_tokens: int | None) -> None:
        self._chat = context_chat(model, tokenizer)
        self._tokenizer = tokenizer
        self._is_joint = model.token_boundary == "joint"
        self._most = most_tokens
        self._last: tuple[Any, Context] | None = None  # the context of the choice before

    def ready(self, request: Scored) -> Item | Reply:
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

    def _context(self, request: Loglikelihood) -> Context:
        """The context of a request. The choices of a document share it, so the last one is kept."""
        if not request.messages:
            return Context("", "", ())
        if self._last is None or self._last[0] != request.messages:
            whole = self._chat.text(request.messages)
            text = whole.rstrip() if self._chat.mode == "raw" else whole
            self._last = (
                request.messages,
                Context(text, whole[len(text) :], self._encoded(text) if text else ()),
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
        head = shared_length(ids, tuple(self._chat.prefix_ids) or (bos,))
        if start - n_cut < max(head, 1):
            raise Refused(
                "continuation_too_long",
                f"choice {index} has {len(ids) - start} tokens, more than the model takes "
                f"({self._most} with its context)",
            )
        return Span((*ids[:head], *ids[head + n_cut :]), start - n_cut), n_cut

    def _encoded(self, text: str) -> tuple[int, ...]:
        """Tokens with what the tokenizer puts before every text, exactly once."""
        return self._chat.encode(text)[1]

    def _bare(self, text: str, head: tuple[int, ...]) -> tuple[int, ...]:
        """Tokens to put behind `head`; where the text brings it itself, it is not there twice."""
        ids = tuple(self._tokenizer.encode(text, add_special_tokens=False))
        return ids[len(head) :] if ids[: len(head)] == head else ids

    def _start(self) -> tuple[int, ...]:
        """What the first token of a text is conditioned on: the tokenizer's own prefix, else
        BOS, else EOS.
        """
        if self._chat.prefix_ids:
            return tuple(self._chat.prefix_ids)
        for token in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return (int(token),)
        raise Refused(
            "no_start_token",
            "the tokenizer has neither BOS nor EOS, so a first token cannot be scored",
        )


class Board:
    """The items of one block: which rows wait for which spans. Equal spans are scored once.

    Rows reach the sink the moment their last span is there. `spans` are the distinct ones, in order
    of coming. known: scores of earlier boards by digest, used and added to.
    """

    def __init__(
        self, items: Iterable[Item], sink: Sink, known: dict[bytes, Score] | None = None
    ) -> None:
        self._sink = sink
        self._known = known
        self._waiting: dict[Span, list[list[Any]]] = {}
        self._started_s = time.time()
        for item in items:
            entry = [item.row, len(item.spans), 0.0, True]  # row, spans to come, sum, is_greedy
            for span in item.spans:
                self._waiting.setdefault(span, []).append(entry)
        for span in self.spans:
            if known and (score := known.get(span.digest)) is not None:
                self.put(span, score)

    @property
    def spans(self) -> tuple[Span, ...]:
        """What is still to be scored."""
        return tuple(self._waiting)

    def put(self, span: Span, score: Score) -> None:
        """The score of a span: rows that have all theirs go to the sink."""
        if self._known is not None and len(self._known) < MOST_KNOWN:
            self._known[span.digest] = score
        for entry in self._waiting.pop(span):
            entry[1] -= 1
            entry[2] += score.logprob
            entry[3] = entry[3] and score.is_greedy
            if entry[1] == 0:
                self._sink(
                    replace(
                        entry[0],
                        logprob=entry[2],
                        is_greedy=entry[3],
                        started_s=self._started_s,
                        ended_s=time.time(),
                    )
                )

    def fail(
        self, span: Span, error_type: str, message: str, status: Status = Status.ERROR
    ) -> None:
        """A span that could not be scored: its rows fail, and wait for none of their other
        spans.
        """
        for entry in self._waiting.pop(span):
            if entry[1] > 0:
                entry[1] = -len(entry)  # never reaches 0 again
                row = replace(entry[0], started_s=self._started_s, ended_s=time.time())
                self._sink(failed(row, status, error_type, message))


def context_chat(model: ModelPlan, tokenizer: Any) -> Chat:
    """How contexts are rendered: the chat template where model.chat=template, else raw text."""
    return chat_for(model if model.chat == "template" else replace(model, chat="raw"), tokenizer)


def shown(chat: Chat, request: Scored) -> str:
    """The text that a request is about, as the model gets it: the whole text, or the context
    (without its choice).
    """
    if isinstance(request, Rolling):
        return request.text
    text = chat.text(request.messages) if request.messages else ""
    return chat.encode(text)[0] if text else ""


def split(requests: Iterable[Generate | Scored]) -> tuple[list[Generate], list[Scored]]:
    """The requests for texts, and those for log-probabilities; each in order."""
    texts: list[Generate] = []
    scored: list[Scored] = []
    for request in requests:
        if isinstance(request, Generate):
            texts.append(request)
        else:
            scored.append(request)
    return texts, scored


def blocks(
    encoder: Encoder, requests: Iterable[Scored], sink: Sink, n_tokens: int
) -> Iterator[Board]:
    """Boards of about `n_tokens` tokens each, so that memory does not grow with the number of
    requests.

    The choices of a document stay together. Requests that cannot be asked go to the sink at once.
    What a block scored is known to those after it, so that no span is scored twice.
    """
    items: list[Item] = []
    size = 0
    known: dict[bytes, Score] = {}
    for request in requests:
        item = encoder.ready(request)
        if isinstance(item, Reply):
            sink(item)
            continue
        if items and size >= n_tokens and item.row.doc_id != items[-1].row.doc_id:
            yield Board(items, sink, known)
            items, size = [], 0
        items.append(item)
        size += sum(len(span.ids) for span in item.spans)
    if items:
        yield Board(items, sink, known)


def windows(head: tuple[int, ...], tokens: tuple[int, ...], most: int | None) -> tuple[Span, ...]:
    """Spans in which every token of a text is scored exactly once, the first after `head` (BOS).

    Each window but the first keeps one token of context; the last one is filled with earlier
    tokens.

    Args:
        most: length of the longest span.

    ValueError where it leaves no room. lm-evaluation-harness, get_rolling_token_windows.
    """
    if most is None or len(head) + len(tokens) <= most:
        return (Span((*head, *tokens), len(head)),)
    if most <= max(len(head), 1):
        raise ValueError(f"a window of {most} tokens has no room for one that is scored")
    done = most - len(head)
    spans = [Span((*head, *tokens[:done]), len(head))]
    while done < len(tokens):
        end = min(done + most - 1, len(tokens))
        begin = max(end - most, 0)
        spans.append(Span(tokens[begin:end], done - begin))
        done = end
    return tuple(spans)


def shared_length(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """How many tokens both begin with. Halves the range that is unsure: slices compare fast."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _refusal(row: Reply, error_type: str, message: str) -> Reply:
    now = time.time()
    return failed(replace(row, started_s=now, ended_s=now), Status.ERROR, error_type, message)
