"""Log-likelihoods and whole texts by /v1/completions: prompts of token ids, or texts where
tokens are not known.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evalrun.backends.base import Sink
from evalrun.backends.local import loading
from evalrun.backends.loglikelihood.encoder import Encoder, Item, Refused
from evalrun.backends.loglikelihood.spans import ScoredRequest, Span
from evalrun.backends.openai.http.client import Client
from evalrun.backends.openai.http.connection import Connection
from evalrun.backends.openai.http.json_calls import JsonClient
from evalrun.backends.openai.http.retry import AttemptFailed
from evalrun.backends.openai.http.sending import ServerCall
from evalrun.backends.openai.http.server import above_version, at, proxy_of
from evalrun.backends.openai.scoring import responses
from evalrun.backends.openai.scoring.calls import (
    OnceSink,
    Way,
    blocks_of,
    send_block,
    span_calls,
    token_fields,
)
from evalrun.backends.openai.scoring.server_tokenizer import ServerTokenizer
from evalrun.backends.openai.scoring.text_scorer import text_calls
from evalrun.errors import Fault, visible
from evalrun.types import Reply

if TYPE_CHECKING:
    import aiohttp

PROBE_TEXT = "The sky is blue today."
GET_TIMEOUT_S = 30.0
CACHE_CONFIG = re.compile(r"^vllm:cache_config_info\{.*\}", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
WAY_OUT = (
    "vLLM's /v1/completions tells them, and so do the backends hf and vllm; with this server, run "
    "a variant of the task that asks for texts"
)


class PromptScorer:
    """Scores prompts at one server; what the server can do is found out once.

    Tokens come from model.tokenizer, else from the server's /tokenize; without either, texts are
    sent. extra: fields that the user adds to every body.
    """

    def __init__(self, connection: Connection, extra: Mapping[str, Any]) -> None:
        self._connection = connection
        self._model = connection.model
        self._server = connection.server
        self._key = connection.key
        self._base = {**extra, "model": connection.server.model}
        self._way: Way | None = None
        self._own: Any = None

    def check(self, is_single_token: bool = False) -> Way:
        """How this server is asked.

        Fault where it gives no log-probabilities of a prompt, or not as the plan wants.

        is_single_token changes nothing: whoever scores prompts scores single tokens too.
        """
        if self._way is None:
            self._way = self._connection.run(self._find_way())
        return self._way

    def score(self, requests: Iterable[ScoredRequest], sink: Sink) -> None:
        """Every key of every request reaches the sink.

        TaskFailure after 20 equal refusals in a row.
        """
        self._connection.run(self._score(self.check(), requests, OnceSink(sink)))

    def _session(self) -> aiohttp.ClientSession:
        return self._connection.session()

    async def _score(self, way: Way, requests: Iterable[ScoredRequest], sink: Sink) -> None:
        async with self._session() as session:
            client = Client(self._connection, "completions", session, sink)
            encoder: Encoder | None = None
            tokenizer = None if way.kind == "text" else await self._tokenizer(session)
            if tokenizer is not None:
                encoder = await self._encoder(session, tokenizer, way)
            for block in blocks_of(requests, self._model.concurrency):
                if encoder is None:
                    await send_block(client, text_calls(self._base, way, block))
                    continue
                if isinstance(tokenizer, ServerTokenizer):
                    made = await tokenizer.all_settled(encoder.ready, block)
                else:
                    made = [encoder.ready(request) for request in block]
                calls: list[ServerCall | Reply] = [row for row in made if isinstance(row, Reply)]
                calls += span_calls(
                    self._base, way, [item for item in made if isinstance(item, Item)]
                )
                await send_block(client, calls)

    async def _encoder(self, session: aiohttp.ClientSession, tokenizer: Any, way: Way) -> Encoder:
        """With the server's limit: a prompt, and the token that is generated after it, must fit."""
        most = self._model.max_model_len
        if most is None and isinstance(tokenizer, ServerTokenizer):
            most = tokenizer.max_model_len
        elif most is None:
            most = await self._listed_limit(session)
        limit = None if most is None else most - way.n_generated

        def make() -> Encoder:
            return Encoder(self._model, tokenizer, limit)

        return await tokenizer.settled(make) if isinstance(tokenizer, ServerTokenizer) else make()

    async def _tokenizer(self, session: aiohttp.ClientSession) -> Any:
        """model.tokenizer, else the server's own; None where neither is there."""
        if self._model.tokenizer:
            if self._own is None:
                self._own = loading.load_tokenizer(self._model, self._model.tokenizer)
            return self._own
        info = await self._get(session, at(above_version(self._server.url), "tokenizer_info"))
        names = (
            _token_text(info.get(name)) if isinstance(info, dict) else None
            for name in ("bos_token", "eos_token")
        )
        json_client = JsonClient(self._connection, session, "tokenize", is_root=True)
        tokenizer = ServerTokenizer(json_client, self._server.model, *names)
        try:
            ids = await tokenizer.settled(lambda: tokenizer.encode(PROBE_TEXT))
        except Refused:
            return None
        return tokenizer if len(ids) > 1 else None

    async def _listed_limit(self, session: aiohttp.ClientSession) -> int | None:
        """max_model_len of /models, where the server (vLLM, SGLang) lists it."""
        listing = await self._get(session, at(self._server.url, "models"))
        entries = listing.get("data") if isinstance(listing, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("id") == self._server.model:
                limit = entry.get("max_model_len")
                return limit if isinstance(limit, int) else None
        return None

    async def _block_size(self, session: aiohttp.ClientSession) -> int | None:
        """Tokens in a block of the prefix cache, as vLLM's /metrics says; None where it has
        none, or does not say.
        """
        metrics = await self._get(
            session, at(above_version(self._server.url), "metrics"), is_json=False
        )
        config = CACHE_CONFIG.search(metrics) if isinstance(metrics, str) else None
        labels = dict(LABEL.findall(config[0])) if config is not None else {}
        size = labels.get("block_size", "")
        return (
            int(size)
            if labels.get("enable_prefix_caching") == "True" and size.isdecimal()
            else None
        )

    async def _get(self, session: aiohttp.ClientSession, url: str, is_json: bool = True) -> Any:
        """The JSON at a URL, or its text; None where there is none."""
        import aiohttp

        proxy = proxy_of(url, self._model.use_proxy)
        try:
            async with (
                asyncio.timeout(GET_TIMEOUT_S),
                session.get(url, allow_redirects=False, proxy=proxy) as response,
            ):
                if response.status != 200:
                    return None
                return await response.json(content_type=None) if is_json else await response.text()
        except (aiohttp.ClientError, OSError, ValueError):  # a timeout is an OSError
            return None

    # ---- what the server can do ------------------------------------------------------------------

    async def _find_way(self) -> Way:
        said: list[str] = []
        async with self._session() as session:
            json_client = JsonClient(self._connection, session, "completions")
            tokenizer = await self._tokenizer(session)
            way = None
            if tokenizer is not None:
                ids = tuple(tokenizer.encode(PROBE_TEXT))
                way = await self._way_of_ids(json_client, session, Span(ids, 1), said)
                if way is None and self._model.tokenizer:
                    raise self._none(said, " of a prompt of token ids")
            if way is None:
                way = await self._way_of_text(json_client, said)
        if way is None:
            raise self._none(said, "")
        if way.kind == "text" and self._model.token_boundary == "separate":
            raise Fault(
                "model.token_boundary=separate needs the tokens of model "
                f"{visible(self._model.name)!r}, and its server tells none (no /tokenize, or no "
                "prompts of token ids). Set model.tokenizer to a folder or hub name, or "
                "model.token_boundary=joint."
            )
        return way

    async def _way_of_ids(
        self, json_client: JsonClient, session: aiohttp.ClientSession, span: Span, said: list[str]
    ) -> Way | None:
        for way in (Way("prompt_logprobs", 1), Way("echo", 0), Way("echo", 1)):
            found = await json_client.ask_one({**self._base, **way.fields(list(span.ids))})
            try:
                way.read(_answer(found), span)
            except AttemptFailed as fault:
                said.append(f"{_name(way)}: {fault.message}")
                continue
            has_token_ids = await self._has_token_ids(json_client, span)
            block_size = await self._block_size(session) if has_token_ids else None
            return Way(way.kind, way.n_generated, has_token_ids, block_size)
        return None

    async def _way_of_text(self, json_client: JsonClient, said: list[str]) -> Way | None:
        for way in (Way("text", 0), Way("text", 1)):
            found = await json_client.ask_one({**self._base, **way.fields(PROBE_TEXT)})
            try:
                echo = responses.Echo.of(_answer(found), way.n_generated)
                border = echo.border(PROBE_TEXT, PROBE_TEXT.removeprefix("The"))
                if border is None:
                    raise responses.bad("the echoed tokens do not spell the text")
                echo.scored(border[0])
            except AttemptFailed as fault:
                said.append(f"{_name(way)}: {fault.message}")
                continue
            return way
        return None

    async def _has_token_ids(self, json_client: JsonClient, span: Span) -> bool:
        """Whether logprob_token_ids are obeyed: the last token of the probe, and one that does
        not follow.
        """
        ids = list(dict.fromkeys((span.ids[-1], span.ids[0])))
        found = await json_client.ask_one(
            {**self._base, "prompt": list(span.ids[:-1]), **token_fields(ids)}
        )
        try:
            responses.from_token_ids(_answer(found), ids)
        except AttemptFailed:
            return False
        return True

    def _none(self, said: list[str], what: str) -> Fault:
        tried = self._key.hidden(visible("; ".join(said)))
        own = " Leave model.tokenizer out to send texts." if self._model.tokenizer else ""
        return Fault(
            f"The server of model {visible(self._model.name)!r} (backend openai_completions) tells "
            f"no log-probabilities{what or ' of a prompt'}, which the metrics of this run read. "
            f"Tried {tried}. {WAY_OUT}.{own}"
        )


def _name(way: Way) -> str:
    if way.kind == "prompt_logprobs":
        return "prompt_logprobs=1"
    of = "a text" if way.kind == "text" else "token ids"
    return f"echo with logprobs=1 and max_tokens={way.n_generated} of {of}"


def _answer(found: dict[str, Any] | Reply) -> dict[str, Any]:
    """The answer; AttemptFailed with the server's words where there is none."""
    if isinstance(found, Reply):
        status = "" if found.http_status is None else f"HTTP {found.http_status} "
        raise AttemptFailed("probe", f"{status}{(found.error_message or '')[:300]}")
    return found


def _token_text(value: Any) -> str | None:
    """A special token of a tokenizer's configuration: a text, or an object with its content."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) and value else None
