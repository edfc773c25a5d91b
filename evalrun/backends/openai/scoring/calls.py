"""Calls whose answers are log-probabilities of given tokens, and the rows that they fill."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from evalrun.backends.base import Sink
from evalrun.backends.loglikelihood.encoder import Item
from evalrun.backends.loglikelihood.pending_rows import PendingRows
from evalrun.backends.loglikelihood.spans import Score, ScoredRequest, Span
from evalrun.backends.openai.http.client import Client
from evalrun.backends.openai.http.event_loop import work_through
from evalrun.backends.openai.http.sending import ServerCall, Times
from evalrun.backends.openai.replies.body import JsonReader, Reader
from evalrun.backends.openai.scoring import responses
from evalrun.backends.openai.scoring.token_tree import (
    Node,
    Prefix,
    contexts_of,
    is_cheaper,
    nodes_of,
)
from evalrun.types import Reply

MOST_TOKEN_IDS = 100  # of one request; vLLM takes 128
LEAST_BLOCK = 256
Found: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """How a server gives log-probabilities of a prompt.

    Attributes:
        kind: prompt_logprobs (vLLM), echo (echo and logprobs of a prompt of token ids) or text (the
            same of a text).
        n_generated: how many tokens must be generated with it.
        has_token_ids: whether it takes logprob_token_ids.
        block_size: tokens of a block of its prefix cache; None where it has none, or does not say.
    """

    kind: str
    n_generated: int
    has_token_ids: bool = False
    block_size: int | None = None

    def fields(self, prompt: Any) -> dict[str, Any]:
        """The fields of the body."""
        asked: dict[str, Any] = {"prompt": prompt, "max_tokens": self.n_generated, "temperature": 0}
        return asked | (
            {"prompt_logprobs": 1}
            if self.kind == "prompt_logprobs"
            else {"echo": True, "logprobs": 1}
        )

    def read(self, found: Found, span: Span) -> Score:
        """The score of a span of token ids. AttemptFailed where the answer does not hold it."""
        if self.kind == "prompt_logprobs":
            return responses.from_prompt_logprobs(found, span)
        return responses.from_echo(found, span, self.n_generated)


def token_fields(ids: Iterable[int]) -> dict[str, Any]:
    """Fields of a completion that ask for the log-probabilities of `ids` as the next token (vLLM).

    The token drawn at temperature 0 is the likeliest only where no penalty of the server's defaults
    changes it.
    """
    ids = list(ids)
    return {
        "max_tokens": 1,
        "temperature": 0,
        "repetition_penalty": 1.0,
        "logprobs": len(ids),
        "logprob_token_ids": ids,
        "return_tokens_as_token_ids": True,
    }


class BlockRows:
    """The rows of one block: they are handed out when the last of their spans is scored."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._done: list[Reply] = []
        self._pending = PendingRows(items, self._done.append)
        self._failed: set[Span] = set()

    @property
    def spans(self) -> tuple[Span, ...]:
        """The distinct spans still to be scored."""
        return self._pending.spans

    def put(self, scores: Mapping[Span, Score], n_attempts: int, times: Times) -> list[Reply]:
        """The rows that these scores complete."""
        for span, score in scores.items():
            self._pending.put(span, score)
        columns = {
            "attempts": n_attempts,
            "http_status": 200,
            "started_s": times.started_s,
            "ended_s": time.time(),
        }
        return [replace(row, **columns) for row in self._taken()]  # type: ignore[arg-type]

    def fail(self, spans: Iterable[Span], n_attempts: int) -> list[Reply]:
        """The rows that fail with these spans; why, the caller fills in."""
        for span in dict.fromkeys(spans):
            if span in self._failed:  # the calls of several of its tokens may fail
                continue
            self._failed.add(span)
            self._pending.fail(span, "unknown", "")
        return [replace(row, attempts=n_attempts) for row in self._taken()]

    def is_waiting(self, spans: Iterable[Span]) -> bool:
        """Whether any of the spans can still be scored."""
        return any(span not in self._failed for span in spans)

    def _taken(self) -> list[Reply]:
        taken = list(self._done)
        self._done.clear()
        return taken


@dataclass(frozen=True, slots=True)
class SpanCall:
    """One body whose answer scores `spans`."""

    fields: Mapping[str, Any]
    rows: BlockRows
    spans: tuple[Span, ...]
    read: Callable[[Found], Mapping[Span, Score]]

    @property
    def body(self) -> bytes:
        """The body as it is sent."""
        return json.dumps(self.fields).encode()

    def reader(self) -> Reader:
        """A reader of one JSON object."""
        return JsonReader()

    def answers(self, reader: Reader, n_attempts: int, times: Times) -> list[Reply]:
        """The rows that are whole now.

        AttemptFailed where the answer does not hold what it was asked for.
        """
        assert isinstance(reader, JsonReader)
        found = reader.found or {}
        rows = self.rows.put(self.read(found), n_attempts, times)
        # where the server makes the prompt, only it can count
        counted = responses.prompt_count(found)
        return [
            replace(row, prompt_tokens=counted) if row.prompt_tokens is None else row
            for row in rows
        ]

    def bases(self, n_attempts: int) -> list[Reply]:
        """The rows that fail with this call."""
        return self.rows.fail(self.spans, n_attempts)


def span_calls(base: Mapping[str, Any], way: Way, items: Iterable[Item]) -> Iterator[ServerCall]:
    """The calls that score a block.

    Args:
        base: fields of every body.

    Where the server takes logprob_token_ids, single tokens that may follow the same context are
    read by one call; where it keeps prefixes too, longer continuations go token by token if that
    computes less.
    """
    rows = BlockRows(items)
    for spans in contexts_of(rows.spans):
        longest = 1 if way.has_token_ids else 0  # most tokens of a span that goes in steps
        if way.has_token_ids and way.block_size is not None and is_cheaper(spans, way.block_size):
            longest = max(span.n_scored for span in spans)
        for prefix, node in nodes_of([span for span in spans if span.n_scored <= longest]).items():
            yield from _node_calls(base, rows, prefix, node)
        for span in spans:
            if span.n_scored > longest:
                yield SpanCall(
                    {**base, **way.fields(list(span.ids))}, rows, (span,), partial(_one, way, span)
                )


def _node_calls(
    base: Mapping[str, Any], rows: BlockRows, prefix: Prefix, node: Node
) -> Iterator[ServerCall]:
    tokens = list(node)
    for begin in range(0, len(tokens), MOST_TOKEN_IDS):
        some = {token: node[token] for token in tokens[begin : begin + MOST_TOKEN_IDS]}
        fields = {**base, "prompt": list(prefix), **token_fields(some)}
        spans = tuple(part.span for parts in some.values() for part in parts)
        yield SpanCall(fields, rows, spans, partial(_node, len(prefix), some))


def _one(way: Way, span: Span, found: Found) -> dict[Span, Score]:
    return {span: way.read(found, span)}


def _node(n_sent: int, node: Node, found: Found) -> dict[Span, Score]:
    """The scores of the spans whose last part this is. AttemptFailed before any part is added."""
    n_prompt = responses.prompt_count(found)
    if n_prompt is not None and n_prompt != n_sent:
        raise responses.bad(f"it counts {n_prompt} prompt tokens where {n_sent} were sent")
    scores = responses.from_token_ids(found, list(node))
    done: dict[Span, Score] = {}
    for token, parts in node.items():
        for part in parts:
            if (whole := part.add(scores[token].logprob, scores[token].is_greedy)) is not None:
                done[part.span] = whole
    return done


class OnceSink:
    """The sink, which is not called again once it has raised."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._is_over = False

    def __call__(self, row: Reply) -> None:
        """Hand a row on."""
        if self._is_over:
            return
        try:
            self._sink(row)
        except BaseException:
            self._is_over = True
            raise


async def send_block(client: Client, calls: Iterable[ServerCall | Reply]) -> None:
    """Send the calls of a block; requests that could not be asked are rows already."""

    async def work(job: ServerCall | Reply) -> None:
        if isinstance(job, Reply):
            client.sink(job)
        elif not isinstance(job, SpanCall) or job.rows.is_waiting(job.spans):
            await client.answer(job)

    await work_through(calls, work, client.model.concurrency)


def blocks_of(requests: Iterable[ScoredRequest], concurrency: int) -> Iterator[list[ScoredRequest]]:
    """Requests in blocks, so that memory does not grow with their number; those of a document
    stay together.
    """
    most = max(LEAST_BLOCK, 8 * concurrency)
    block: list[ScoredRequest] = []
    for request in requests:
        if len(block) >= most and request.doc_id != block[-1].doc_id:
            yield block
            block = []
        block.append(request)
    if block:
        yield block
