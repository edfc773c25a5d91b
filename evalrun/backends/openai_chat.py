"""A chat server behind /v1/chat/completions, streamed: many requests at once, one body per sample."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalrun.backends.base import Sink, answered, failed
from evalrun.backends.deltas import ChatStream
from evalrun.backends.limits import Pulse, Watch
from evalrun.backends.retry import AttemptFailed, Refusals, is_worth_repeating, retry_after_s, wait_s
from evalrun.backends.schedule import run_loop, work_through
from evalrun.backends.server import (
    LONGEST_ERROR_BYTES,
    ApiKey,
    Probe,
    Server,
    api_roots,
    body_text,
    new_session,
    problem_text,
    read_up_to,
)
from evalrun.backends.sse import EventParser
from evalrun.errors import Fault, TaskFailure, unknown, visible
from evalrun.types import Kind, ModelPlan, Reply, Request, Status

if TYPE_CHECKING:
    import aiohttp

DRAIN_S = 1.0
OUR_KEYS = (
    "model",
    "messages",
    "stream",
    "stream_options",
    "n",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "max_tokens",
    "top_k",
    "min_p",
    "repetition_penalty",
)


@dataclass(frozen=True, slots=True)
class Job:
    """One sample to ask for: its request, its index, and the body up to the seed (shared by the request's jobs)."""

    request: Request
    index: int
    head: str

    @property
    def seed(self) -> int:
        """Base seed of the document + index."""
        return self.request.seed + self.index

    @property
    def body(self) -> bytes:
        """The body as it is sent."""
        return f'{self.head}, "seed": {self.seed}}}'.encode()

    def row(self, n_attempts: int, **columns: Any) -> Reply:
        """The row of this sample with the columns that are known."""
        request = self.request
        return Reply(
            request.doc_id,
            Kind.GENERATE.value,
            self.index,
            request.turn,
            attempts=n_attempts,
            seed=self.seed,
            **columns,
        )


class OpenaiChatBackend:
    """The backend `openai_chat`. Nothing is sent before start(); each run has its own loop and session."""

    def __init__(self, model: ModelPlan) -> None:
        self.model = model
        self._server: Server | None = None
        self._key: ApiKey | None = None
        api_roots(model.base_url)
        _check_plan(model)

    def start(self) -> None:
        """Find the server and the model's name. Fault where it is not there, refuses us, or serves several."""
        self._started()

    def facts(self) -> dict[str, str]:
        """The server's version, and as revision the model's name there: all that it tells. Never its address."""
        server, _ = self._started()
        facts = {"engine": "openai_chat", "revision": server.model, "is_deterministic": "no"}
        if server.version is not None:
            facts["engine_version"] = server.version
        return facts

    def render(self, request: Request) -> str:
        """The messages as JSON; the server applies its own template to them."""
        return json.dumps(_messages(request), ensure_ascii=False)

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """Ask for every key of `requests`. TaskFailure after 20 equal refusals in a row; the rest stays missing."""
        server, key = self._started()
        run_loop(self._run(server, key, requests, sink))

    def close(self) -> None:
        """Nothing is held between runs."""

    def _started(self) -> tuple[Server, ApiKey]:
        if self._server is None or self._key is None:
            key = ApiKey(self.model.api_key_env, f"model {self.model.name!r}")
            self._server = run_loop(Probe(self.model, key).find())
            self._key = key
        return self._server, self._key

    async def _run(self, server: Server, key: ApiKey, requests: Iterable[Request], sink: Sink) -> None:
        async with new_session(key, self.model.connect_timeout_s) as session:
            client = Client(self.model, server, key, session, sink)
            await work_through(client.jobs(requests), client.answer, self.model.concurrency)


class Client:
    """One run against one server."""

    def __init__(
        self, model: ModelPlan, server: Server, key: ApiKey, session: aiohttp.ClientSession, sink: Sink
    ) -> None:
        from yarl import URL

        self.model = model
        self.server = server
        self.key = key
        self.session = session
        self.sink = sink
        self.url = URL(server.chat_url)
        self.pulse = Pulse()
        self.refusals = Refusals()
        self.is_over = False

    def jobs(self, requests: Iterable[Request]) -> Iterator[Job]:
        """One job per index of every request, made when it is asked for."""
        for request in requests:
            head = json.dumps(body_of(self.model, self.server.model, request))[:-1]
            for index in request.indices:
                yield Job(request, index, head)

    async def answer(self, job: Job) -> None:
        """Ask for one sample until it is there or failed for good, and hand its row to the sink."""
        total_at = asyncio.get_running_loop().time() + self.model.total_timeout_s
        body = job.body
        for n_attempts in range(1, self.model.retries + 2):
            started_s = time.time()
            try:
                row = await self._attempt(job, body, n_attempts, total_at)
                fault = None
                break
            except AttemptFailed as failure:
                fault = failure
            wait = wait_s(n_attempts, fault.retry_after_s)
            is_late = asyncio.get_running_loop().time() + wait >= total_at
            if fault.is_final or is_late or n_attempts > self.model.retries:
                row = self._failure(job, fault, n_attempts, started_s, wait if is_late else None)
                break
            await asyncio.sleep(wait)
        self._deliver(row)
        if self.refusals.note(fault) and fault is not None:
            raise self._given_up(fault)

    def _deliver(self, row: Reply) -> None:
        """Hand a row to the sink; once it has raised it is not called again."""
        if self.is_over:
            return
        try:
            self.sink(row)
        except BaseException:
            self.is_over = True
            raise

    async def _attempt(self, job: Job, body: bytes, n_attempts: int, total_at: float) -> Reply:
        """Send the body once. AttemptFailed where no whole answer comes."""
        import aiohttp

        stream = ChatStream()
        watch = Watch(self.model, self.pulse, total_at)
        times = [time.time(), None]
        is_open = False
        try:
            async with watch, self.session.post(self.url, data=body, allow_redirects=False) as response:
                watch.heard()
                if response.status != 200:
                    raise await _refused(response)
                is_open = True
                await self._read(response, stream, watch, times)
        except AttemptFailed as fault:
            if is_open and fault.http_status is None:
                fault.http_status = 200
            raise
        except TimeoutError as fault:  # a connect timeout of aiohttp is one too
            if not stream.is_complete():
                raise self._timed_out(watch, is_open) from fault
        except (aiohttp.ClientError, OSError) as fault:
            if not stream.is_complete():
                raise _disconnected(fault, is_open, isinstance(fault, aiohttp.ClientConnectorError)) from fault
        return self._row(job, stream, n_attempts, times)

    async def _read(
        self, response: aiohttp.ClientResponse, stream: ChatStream, watch: Watch, times: list[float | None]
    ) -> None:
        parser = EventParser()
        content = response.content
        first = b""
        async for chunk in content.iter_any():
            watch.heard()
            if len(first) < 300 and not stream.n_events:
                first += chunk[:300]
            stream.take_all(parser.feed(chunk))
            if stream.has_token and times[1] is None:
                times[1] = time.time()
                watch.has_token = True
            if stream.is_done:
                break
        if not stream.n_events:
            kind = response.headers.get("Content-Type", "none")
            shown = body_text(first) or "an empty body"
            raise AttemptFailed(
                "no_stream", f"HTTP 200 without one event (content type {kind}): {shown}", http_status=200
            )
        stream.require_complete()
        if not content.at_eof():  # the end of the body lets the connection be used again
            try:
                async with asyncio.timeout(DRAIN_S):
                    while not content.at_eof():
                        await content.readany()
            except TimeoutError:
                pass

    def _row(self, job: Job, stream: ChatStream, n_attempts: int, times: list[float | None]) -> Reply:
        choice = stream.require_complete()
        base = job.row(
            n_attempts,
            prompt_tokens=_count(stream.usage.get("prompt_tokens")),
            completion_tokens=_count(stream.usage.get("completion_tokens")),
            http_status=200,
            started_s=times[0],
            first_token_s=times[1],
            ended_s=time.time(),
        )
        return answered(
            base,
            choice.text,
            stop=job.request.sampling.stop,
            reasoning=choice.reasoning,
            finish_reason=choice.finish_reason,
        )

    def _failure(
        self, job: Job, fault: AttemptFailed, n_attempts: int, started_s: float, wait: float | None
    ) -> Reply:
        message = fault.message
        if wait is not None and not fault.is_final and n_attempts <= self.model.retries:
            message += (
                f" (not tried again: a wait of {wait:.0f} s would pass "
                f"model.total_timeout_s={self.model.total_timeout_s:g})"
            )
        base = job.row(n_attempts, http_status=fault.http_status, started_s=started_s, ended_s=time.time())
        return failed(base, fault.status, fault.error_type, self.key.hidden(message))

    def _timed_out(self, watch: Watch, is_open: bool) -> AttemptFailed:
        name = watch.expired or "connect_timeout"
        limit = getattr(self.model, f"{name}_s")
        says = {
            "connect_timeout": "no connection",
            "first_token_timeout": "no text",
            "idle_timeout": "silence of the server",
            "total_timeout": "not finished",
        }[name]
        return AttemptFailed(
            name,
            f"{says} after model.{name}_s={limit:g} s",
            status=Status.TIMEOUT,
            http_status=200 if is_open else None,
            is_final=name == "total_timeout",
            is_refusal=name == "connect_timeout",
        )

    def _given_up(self, fault: AttemptFailed) -> TaskFailure:
        status = "" if fault.http_status is None else f" (HTTP {fault.http_status})"
        message = self.key.hidden(visible(fault.message))
        text = f"{self.refusals.count} requests in a row failed in the same way{status}: {message}"
        if fault.http_status == 404 and self.server.served:
            text += f" The server lists: {', '.join(visible(name) for name in self.server.served[:20])}."
        return TaskFailure(f"{text} The remaining requests were not sent; --resume asks for them.")


def body_of(model: ModelPlan, name: str, request: Request) -> dict[str, Any]:
    """The request body without its seed: only what the API knows, plus model.extra_body."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": name,
        "messages": _messages(request),
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    if sampling.stop and model.reasoning is False:  # else a stop string inside the thought would cut it
        body["stop"] = list(sampling.stop)
    for key in ("top_k", "min_p", "repetition_penalty"):
        value = getattr(sampling, key)
        if value is not None:
            body[key] = value
    body.update((key, _plain(value)) for key, value in model.extra_body)
    return body


def _messages(request: Request) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in request.messages]


def _plain(value: Any) -> Any:
    """A value of the plan as JSON has it: tuples of (text, value) pairs are mappings, other tuples lists."""
    if not isinstance(value, tuple):
        return value
    if value and all(isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], str) for v in value):
        return {k: _plain(v) for k, v in value}
    return [_plain(v) for v in value]


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


async def _refused(response: aiohttp.ClientResponse) -> AttemptFailed:
    """An answer other than 200, with the server's message."""
    status = response.status
    message = body_text(await read_up_to(response, LONGEST_ERROR_BYTES)) or response.reason or ""
    if 300 <= status < 400:
        message = f"redirected to {response.headers.get('Location')}: set model.base_url to where the API is"
    is_final = not is_worth_repeating(status)
    wait = retry_after_s(response.headers.get("Retry-After"), time.time())
    return AttemptFailed(
        "http", message, http_status=status, is_final=is_final, is_refusal=is_final, retry_after_s=wait
    )


def _disconnected(fault: BaseException, is_open: bool, is_unreachable: bool) -> AttemptFailed:
    """A connection fault: before the headers a lost request, after them a cut stream."""
    if is_open:
        return AttemptFailed(
            "incomplete", f"the stream was cut: {problem_text(fault)}", status=Status.INCOMPLETE, http_status=200
        )
    kind = "unreachable" if is_unreachable else "connection"
    return AttemptFailed(kind, f"{problem_text(fault)}", is_refusal=is_unreachable)


def _check_plan(model: ModelPlan) -> None:
    """Fault where the plan asks for what this backend cannot do."""
    where = f"model {visible(model.name)!r}"
    if model.chat == "raw":
        raise Fault(
            f"model.chat=raw cannot be had from the backend openai_chat ({where}): the server applies its own chat "
            "template to messages. Allowed here: auto, template."
        )
    for key, _ in model.engine:
        raise unknown("setting", f"model.engine.{key}", (), f"{where}: a server's engine is set where it is started")
    for key, _ in model.extra_body:
        if key in OUR_KEYS:
            raise Fault(
                f"model.extra_body.{key} of {where} would overwrite a field that the plan decides. Set it where it "
                f"belongs (sampling, model.path); model.extra_body may hold anything but {', '.join(OUR_KEYS)}."
            )
    if model.concurrency < 1 or model.retries < 0:
        raise Fault(
            f"{where}: model.concurrency={model.concurrency} must be at least 1 and model.retries={model.retries} "
            "at least 0."
        )
    for key in ("connect_timeout_s", "first_token_timeout_s", "idle_timeout_s", "total_timeout_s"):
        if not 0 < getattr(model, key) < float("inf"):
            raise Fault(f"{where}: model.{key}={getattr(model, key)} must be a positive number of seconds.")
