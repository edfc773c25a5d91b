"""One-token choices by /v1/chat/completions, where the server takes logprob_token_ids (vLLM).

The context is what the server's chat template makes of the messages, up to where the answer begins.
A choice is the one token that it is there: the continuation as it stands (" A") if every choice of
the document is one token so, else without its leading blanks ("A"); the rows of the second kind say
so in `extra`. A choice that is one token in neither way fails with its ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from evalrun.backends.base import Sink, failed
from evalrun.backends.local import loading
from evalrun.backends.local.prompts import PromptRenderer
from evalrun.backends.loglikelihood.encoder import Item
from evalrun.backends.loglikelihood.spans import Score, ScoredRequest, Span
from evalrun.backends.openai.http.client import Client
from evalrun.backends.openai.http.connection import Connection
from evalrun.backends.openai.http.json_calls import JsonClient
from evalrun.backends.openai.http.retry import AttemptFailed
from evalrun.backends.openai.http.sending import ServerCall
from evalrun.backends.openai.scoring import responses
from evalrun.backends.openai.scoring.calls import (
    MOST_TOKEN_IDS,
    BlockRows,
    Found,
    OnceSink,
    SpanCall,
    blocks_of,
    send_block,
)
from evalrun.errors import Fault, visible
from evalrun.types import Loglikelihood, Message, Reply, Rolling, Status

PROBE = (Message("user", "Which letter comes first?"),)
WAY_OUT = (
    "Ask it by the backend openai_completions, or run a variant of the task that asks for texts"
)


class ChatScorer:
    """Scores one-token choices at one server. extra: fields that the user adds to every body."""

    def __init__(self, connection: Connection, extra: Mapping[str, Any]) -> None:
        self._connection = connection
        self._model = connection.model
        self._server = connection.server
        self._key = connection.key
        self._base = {**extra, "model": connection.server.model}
        self._is_checked = False
        self._own: PromptRenderer | None = None
        self._tails: dict[str, tuple[int, ...]] = {}

    def check(self, is_single_token: bool = True) -> None:
        """Fault where not every choice is meant to be one token, or the server does not score
        named tokens.
        """
        if not is_single_token:
            raise self._none(
                "it scores single tokens at most, and a metric of this run reads longer texts"
            )
        if not self._is_checked:
            self._connection.run(self._probe())
            self._is_checked = True

    def score(self, requests: Iterable[ScoredRequest], sink: Sink) -> None:
        """Every key of every request reaches the sink.

        TaskFailure after 20 equal refusals in a row.
        """
        self.check()
        self._connection.run(self._score(requests, OnceSink(sink)))

    async def _score(self, requests: Iterable[ScoredRequest], sink: Sink) -> None:
        async with self._connection.session() as session:
            client = Client(self._connection, "chat/completions", session, sink)
            json_client = JsonClient(self._connection, session, "tokenize", is_root=True)
            for block in blocks_of(requests, self._model.concurrency):
                continuations = dict.fromkeys(
                    r.continuation for r in block if isinstance(r, Loglikelihood)
                )
                for text in continuations:
                    await self._learn(json_client, text)
                    await self._learn(json_client, text.lstrip())
                await send_block(client, self._calls(block))

    async def _probe(self) -> None:
        async with self._connection.session() as session:
            tokens = JsonClient(self._connection, session, "tokenize", is_root=True)
            chat = JsonClient(self._connection, session, "chat/completions")
            ids: list[int] = []
            for text in ("A", "B"):
                await self._learn(tokens, text)
                ids += self._tails[text][:1]
            if len(ids) < 2:
                raise self._none("it tells no token ids (no /tokenize). Set model.tokenizer")
            found = await chat.ask_one({**self._fields(PROBE), **_token_fields(ids)})
            try:
                if isinstance(found, Reply):
                    raise responses.bad(
                        f"logprob_token_ids are refused: {(found.error_message or '')[:300]}"
                    )
                responses.from_chat_token_ids(found, ids)
            except AttemptFailed as fault:
                raise self._none(self._key.hidden(visible(fault.message))) from fault

    def _none(self, reason: str) -> Fault:
        return Fault(
            f"The server of model {visible(self._model.name)!r} (backend openai_chat) cannot "
            f"answer the log-likelihoods that the metrics of this run read: {reason}. {WAY_OUT}."
        )

    def _fields(self, messages: Iterable[Message]) -> dict[str, Any]:
        return {
            **self._base,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
        }

    # ---- tokens after the template's end ---------------------------------------------------------

    async def _learn(self, json_client: JsonClient, text: str) -> None:
        """The tokens that `text` is where the answer begins: () for no text, or where the server
        does not tell.

        The template ends alike for all messages, so one conversation shows it: the tokens with the
        answer begun, less those without. Where a template changes what came before, the text's own
        tokens.
        """
        if text in self._tails:
            return
        if not text:
            self._tails[text] = ()
        elif self._model.tokenizer:
            self._tails[text] = self._local_tail(self._model.tokenizer, text)
        else:
            self._tails[text] = await self._served_tail(json_client, text)

    def _local_tail(self, path: str, text: str) -> tuple[int, ...]:
        if self._own is None:
            self._own = PromptRenderer(loading.load_tokenizer(self._model, path), "template")
            if not self._own.tokenizer.chat_template:
                raise self._none(
                    f"the tokenizer {path} has no chat template, so the tokens after it are not "
                    "known"
                )
        before = self._own.text(PROBE)
        return _tail(self._own.encode(before)[1], self._own.encode(before + text)[1]) or ()

    async def _served_tail(self, json_client: JsonClient, text: str) -> tuple[int, ...]:
        base = {"model": self._server.model}
        if "chat_template_kwargs" in self._base:
            base["chat_template_kwargs"] = self._base["chat_template_kwargs"]
        messages = [{"role": m.role, "content": m.content} for m in PROBE]
        begun = {
            "messages": [*messages, {"role": "assistant", "content": text}],
            "add_generation_prompt": False,
            "continue_final_message": True,
        }
        found = await json_client.ask(
            {
                "before": {**base, "messages": messages, "add_generation_prompt": True},
                "begun": {**base, **begun},
                "alone": {**base, "prompt": text, "add_special_tokens": False},
            }
        )
        before, with_text, alone = (_ids(found[name]) for name in ("before", "begun", "alone"))
        tail = None if before is None or with_text is None else _tail(before, with_text)
        return tail or alone or ()

    # ---- requests into calls ---------------------------------------------------------------------

    def _calls(self, block: list[ScoredRequest]) -> Iterator[ServerCall | Reply]:
        for _, group in groupby(block, key=lambda r: (r.doc_id, getattr(r, "messages", None))):
            choices: list[Loglikelihood] = []
            for request in group:
                if (row := _refusal(request)) is not None:
                    yield row
                elif isinstance(request, Loglikelihood):
                    choices.append(request)
            yield from self._document(choices)

    def _document(self, choices: list[Loglikelihood]) -> Iterator[ServerCall | Reply]:
        """The choices after one context by one request; equal ones are asked once."""
        is_whole = all(len(self._tails[choice.continuation]) == 1 for choice in choices)
        items: list[Item] = []
        for choice in choices:
            ids = self._tails[choice.continuation if is_whole else choice.continuation.lstrip()]
            is_stripped = not is_whole and choice.continuation != choice.continuation.lstrip()
            row = _row(choice)
            if len(ids) != 1:
                whole = list(self._tails[choice.continuation])
                said = (
                    f"choice {choice.index} ({choice.continuation!r}) must be one token where the "
                    "answer begins"
                )
                yield failed(
                    row, Status.ERROR, "not_one_token", f"{said}; its ids are {whole or list(ids)}"
                )
                continue
            notes = json.dumps({"leading_blanks_dropped": True}) if is_stripped else None
            # the context is not known as tokens: 0
            items.append(Item(_with(row, notes), (Span((0, ids[0]), 1),)))
        rows = BlockRows(items)
        spans = rows.spans
        for begin in range(0, len(spans), MOST_TOKEN_IDS):
            some = spans[begin : begin + MOST_TOKEN_IDS]
            fields = {
                **self._fields(choices[0].messages),
                **_token_fields([span.ids[1] for span in some]),
            }
            yield SpanCall(fields, rows, some, partial(_read, some))


def _read(spans: tuple[Span, ...], found: Found) -> dict[Span, Score]:
    scores = responses.from_chat_token_ids(found, [span.ids[1] for span in spans])
    return {span: scores[span.ids[1]] for span in spans}


def _token_fields(ids: list[int]) -> dict[str, Any]:
    """Fields of a chat body that ask for the log-probabilities of `ids` as the answer's first
    token.
    """
    return {
        "max_tokens": 1,
        "temperature": 0,
        "repetition_penalty": 1.0,
        "logprobs": True,
        "logprob_token_ids": ids,
        "return_tokens_as_token_ids": True,
    }


def _refusal(request: ScoredRequest) -> Reply | None:
    """The failure row of a request that a chat server cannot answer."""
    row = _row(request)
    if isinstance(request, Rolling):
        return failed(row, Status.ERROR, "no_logprobs", "a chat server does not score a whole text")
    if not request.continuation:
        message = f"choice {request.index} has an empty continuation: nothing to score"
        return failed(row, Status.ERROR, "empty_continuation", message)
    if not request.messages:
        message = (
            "a chat server needs a message as context. Set prompt.unconditioned to a text, such as "
            "Answer:"
        )
        return failed(row, Status.ERROR, "empty_context", message)
    return None


def _row(request: ScoredRequest) -> Reply:
    ((doc_id, kind, index, turn),) = request.keys()
    return Reply(doc_id, kind, index, turn)


def _with(row: Reply, notes: str | None) -> Reply:
    return Reply(row.doc_id, row.kind, row.index, row.turn, n_tokens=1, extra=notes)


def _tail(before: tuple[int, ...], whole: tuple[int, ...]) -> tuple[int, ...] | None:
    """What `whole` has after `before`; None where it does not begin with it."""
    return whole[len(before) :] if whole[: len(before)] == before else None


def _ids(found: Mapping[str, Any] | Reply) -> tuple[int, ...] | None:
    """The ids of an answer of /tokenize; None where there are none."""
    tokens = None if isinstance(found, Reply) else found.get("tokens")
    is_list = isinstance(tokens, list) and all(isinstance(token, int) for token in tokens)
    return tuple(tokens) if is_list and tokens is not None else None
