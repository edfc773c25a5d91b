"""What the backends of a server share: start, facts, the body's fields, requests into calls,
calls into rows.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol, assert_never

from evalrun.backends.base import Sink, answered
from evalrun.backends.cancelling import Cancellation
from evalrun.backends.limits import check_limits
from evalrun.backends.local import loading
from evalrun.backends.openai.http.client import send_all
from evalrun.backends.openai.http.connection import Connection
from evalrun.backends.openai.http.discovery import find_servers
from evalrun.backends.openai.http.event_loop import run_loop
from evalrun.backends.openai.http.sending import SendAgain, Times
from evalrun.backends.openai.http.server import ApiKey, Server, api_roots
from evalrun.backends.openai.replies.body import Reader, StreamReader
from evalrun.backends.openai.replies.stream import AnswerStream, Choice
from evalrun.backends.reasoning import TAGS, Tag, tags_of
from evalrun.errors import Fault, unknown, visible
from evalrun.types import Generate, Kind, Loglikelihood, Message, ModelPlan, Reply, Request, Rolling

OUR_KEYS = (
    "model",
    "messages",
    "prompt",
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

MOST_TOKENS = 2**40


@dataclass(frozen=True, slots=True)
class Generation:
    """A call for the samples `indices` of a document, which follow each other.

    Attributes:
        head: the body up to n and seed.
        stream: how the answer is read.
        tags: of thoughts.
        late_head: the head without stop strings that are blank; None: it has none of them.
    """

    request: Generate
    indices: range
    head: str
    stream: type[AnswerStream]
    tags: tuple[Tag, ...] = TAGS
    late_head: str | None = None

    @property
    def body(self) -> bytes:
        """The body as it is sent.

        The seed is that of the first sample; its server's children count up from it.
        """
        n = len(self.indices)
        many = f', "n": {n}' if n > 1 else ""
        return f'{self.head}{many}, "seed": {self.request.seed + self.indices[0]}}}'.encode()

    def reader(self) -> Reader:
        """A reader of a stream with that many choices."""
        return StreamReader(self.stream(), len(self.indices))

    def answers(self, reader: Reader, n_attempts: int, times: Times) -> Iterator[Reply]:
        """One row per sample.

        SendAgain where a blank stop string (such as "\\n\\n") ended an answer before it began: it
        is then sent without them, and they are looked for behind the leading blank lines.

        A server counts the tokens of all choices together; with several, the count of each is
        unknown.
        """
        assert isinstance(reader, StreamReader)
        stream, ended_s, n = reader.stream, time.time(), len(self.indices)
        n_prompt, n_completion = (
            _count(stream.usage.get(f"{part}_tokens")) for part in ("prompt", "completion")
        )
        if self.late_head is not None and any(map(_never_began, stream.choices.values())):
            raise SendAgain(replace(self, head=self.late_head, late_head=None))
        for place, index in enumerate(self.indices):
            choice = stream.choices[place]
            base = Reply(
                self.request.doc_id,
                Kind.GENERATE.value,
                index,
                self.request.turn,
                attempts=n_attempts,
                seed=self.request.seed + index,
                prompt_tokens=n_prompt,
                completion_tokens=n_completion if n == 1 else None,
                http_status=200,
                started_s=times.started_s,
                first_token_s=times.first_s,
                ended_s=ended_s,
                extra=None
                if n == 1
                else json.dumps({"n": n, "completion_tokens_of_all": n_completion}),
            )
            yield answered(
                base,
                choice.text,
                stop=self.request.sampling.stop,
                reasoning=choice.reasoning,
                finish_reason=choice.finish_reason,
                tags=self.tags,
            )

    def bases(self, n_attempts: int) -> Iterator[Reply]:
        """The rows without an answer."""
        for index in self.indices:
            yield Reply(
                self.request.doc_id,
                Kind.GENERATE.value,
                index,
                self.request.turn,
                attempts=n_attempts,
                seed=self.request.seed + index,
            )


class LikelihoodScorer(Protocol):
    """Asks one server for log-probabilities."""

    def check(self, is_single_token: bool) -> object:
        """Fault where the server does not give them.

        Args:
            is_single_token: only choices of one token are asked.
        """

    def score(self, requests: Iterable[Loglikelihood | Rolling], sink: Sink) -> None:
        """Every key of every request reaches the sink.

        TaskFailure after 20 equal refusals in a row.
        """


class ServiceBackend(ABC):
    """A backend behind an OpenAI-like API.

    Attributes:
        name: of the backend.
        route: where it asks.
        stream: how answers are read.
        scorer: makes what asks for log-likelihoods, of (connection, extra fields of the body).
        chat_modes: what model.chat may be.
        chat_reason: why model.chat may be nothing else.

    Nothing is sent before start(); each run has its own loop and session.
    """

    name: ClassVar[str]
    route: ClassVar[str]
    stream: ClassVar[type[AnswerStream]]
    scorer: ClassVar[Callable[..., LikelihoodScorer]]
    chat_modes: ClassVar[tuple[str, ...]]
    chat_reason: ClassVar[str]

    def __init__(self, model: ModelPlan) -> None:
        self.model = model
        self._tags = tags_of(model.reasoning_tags)
        self._cancellation = Cancellation()
        self._connection: Connection | None = None
        self._scorer: LikelihoodScorer | None = None
        api_roots(model.base_url)
        for place, url in enumerate(model.replicas):
            api_roots(url, f"model.replicas[{place}]")
        self._check_plan()

    @abstractmethod
    def prompt_fields(self, messages: tuple[Message, ...]) -> dict[str, Any]:
        """The fields of the body that hold the prompt."""

    @abstractmethod
    def prompt_text(self, messages: tuple[Message, ...]) -> str:
        """The prompt as text."""

    def start(self) -> None:
        """Find the server and the model's name.

        Fault where it is not there, refuses us, or serves several.
        """
        self._started()

    def facts(self) -> dict[str, str]:
        """The server's version, and as revision the model's name there: all that is known of it.

        Never its address.
        """
        server = self._started().server
        facts = {"engine": self.name, "revision": server.model, "is_deterministic": "no"}
        if server.version is not None:
            facts["engine_version"] = server.version
        return facts

    def render(self, request: Request) -> str:
        """The prompt, or the context of a log-likelihood, or the whole text that is scored."""
        match request:
            case Generate() | Loglikelihood():
                return self.prompt_text(request.messages)
            case Rolling():
                return request.text
            case _:
                assert_never(request)

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """Ask for every key of `requests`.

        TaskFailure after 20 equal refusals in a row; the rest stays missing.

        Texts are asked for first, log-likelihoods after them.
        """
        connection = self._started()
        scored: list[Loglikelihood | Rolling] = []
        calls = self._calls(connection.server, requests, scored)
        with self._cancellation.run():
            connection.run(send_all(connection, self.route, calls, sink))
            if scored:
                self._scoring().score(scored, sink)

    def cancel(self) -> None:
        """Cancel the requests in flight."""
        self._cancellation.request()

    def close(self) -> None:  # noqa: B027
        """Nothing is held between runs."""

    def check_scores(self, is_single_token: bool = False) -> None:
        """Fault where the server does not give the log-probabilities that the run reads."""
        self._scoring().check(is_single_token)

    def _scoring(self) -> LikelihoodScorer:
        """Made once: what the server can do is found out once."""
        if self._scorer is None:
            self._scorer = type(self).scorer(self._started(), loading.plain(self.model.extra_body))
        return self._scorer

    def _started(self) -> Connection:
        if self._connection is None:
            key = ApiKey(self.model.api_key_env, f"model {self.model.name!r}")
            server = run_loop(find_servers(self.model, key, self.route), self._cancellation)
            self._connection = Connection(self.model, server, key, self._cancellation)
        return self._connection

    def _calls(
        self, server: Server, requests: Iterable[Request], scored: list[Loglikelihood | Rolling]
    ) -> Iterator[Generation]:
        """The calls for texts, each made when it is asked for; the other requests go to
        `scored`.
        """
        for request in requests:
            if not isinstance(request, Generate):
                scored.append(request)
                continue
            body = self.body_of(server.model, request)
            head, late_head = json.dumps(body)[:-1], _without_blank_stops(body)
            for indices in _runs(request.indices, self.model.n_per_request == "all"):
                yield Generation(request, indices, head, self.stream, self._tags, late_head)

    def body_of(self, name: str, request: Generate) -> dict[str, Any]:
        """The body without n and seed: only what the API knows, plus model.extra_body."""
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": name,
            **self.prompt_fields(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        # else a stop string inside the thought would cut it
        if sampling.stop and self.model.reasoning is False:
            body["stop"] = list(sampling.stop)
        for key in ("top_k", "min_p", "repetition_penalty"):
            value = getattr(sampling, key)
            if value is not None:
                body[key] = value
        body.update(loading.plain(self.model.extra_body))
        return body

    def _check_plan(self) -> None:
        """Fault where the plan asks for what a server cannot do."""
        model = self.model
        where = f"model {visible(model.name)!r}"
        if model.chat not in self.chat_modes:
            raise Fault(
                f"model.chat={model.chat} cannot be had from the backend {self.name} ({where}): "
                f"{self.chat_reason}. Allowed here: {', '.join(self.chat_modes)}."
            )
        for key, _ in model.engine:
            raise unknown(
                "setting",
                f"model.engine.{key}",
                (),
                f"{where}: a server's engine is set where it is started",
            )
        for key, _ in model.extra_body:
            if key in OUR_KEYS:
                raise Fault(
                    f"model.extra_body.{key} of {where} would overwrite a field that the plan "
                    "decides. Set it where it belongs (sampling, model.path); model.extra_body "
                    f"may hold anything but {', '.join(OUR_KEYS)}."
                )
        check_limits(model)


def _without_blank_stops(body: dict[str, Any]) -> str | None:
    """The head of a body without its blank stop strings; None where it has none."""
    stops = body.get("stop") or []
    kept = [stop for stop in stops if stop.strip()]
    if len(kept) == len(stops):
        return None
    rest = {key: value for key, value in body.items() if key != "stop"}
    return json.dumps({**rest, "stop": kept} if kept else rest)[:-1]


def _never_began(choice: Choice) -> bool:
    """Whether an answer was stopped before anything but blanks had come."""
    return choice.finish_reason == "stop" and not (choice.text or "").strip()


def _runs(indices: tuple[int, ...], is_joint: bool) -> Iterator[range]:
    """The samples by call: one each, or runs that follow each other, since the server's seeds
    count up by one.
    """
    if not is_joint:
        yield from (range(index, index + 1) for index in indices)
        return
    ordered = sorted(indices)
    borders = [0, *(i for i, (a, b) in enumerate(pairwise(ordered), 1) if b != a + 1), len(ordered)]
    for start, end in pairwise(borders):
        yield range(ordered[start], ordered[end - 1] + 1)


def _count(value: Any) -> int | None:
    """A number of tokens; None for what can be none, so that nonsense in `usage` costs no
    answer.
    """
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_TOKENS
    return value if is_count else None
