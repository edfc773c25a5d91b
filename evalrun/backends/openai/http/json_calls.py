"""Questions to a server whose answers are no rows: probes, tokens.

Sent by the client with its limits and retries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evalrun.backends.openai.http.body import JsonReader, Reader
from evalrun.backends.openai.http.client import Client, Times
from evalrun.backends.openai.http.event_loop import work_through
from evalrun.backends.openai.http.server import VERSIONED, ApiKey, Server
from evalrun.types import ModelPlan, Reply

if TYPE_CHECKING:
    import aiohttp


@dataclass(frozen=True, slots=True)
class Question:
    """One body to send; its answer goes to `answers` under its name."""

    name: str
    fields: Mapping[str, Any]
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The body as it is sent."""
        return json.dumps(self.fields).encode()

    def reader(self) -> Reader:
        """A reader of one JSON object."""
        return JsonReader()

    def answers(self, reader: Reader, n_attempts: int, times: Times) -> Iterable[Reply]:
        """No rows; the object is kept."""
        assert isinstance(reader, JsonReader)
        assert reader.found is not None
        self.found[self.name] = reader.found
        return ()

    def bases(self, n_attempts: int) -> Iterable[Reply]:
        """A row that carries the name of the question to where its failure is kept."""
        return (Reply(self.name, "question", 0, attempts=n_attempts),)


class Asker:
    """Asks questions at one route. is_root: the route lies at the server's root and not below
    /v1.
    """

    def __init__(
        self,
        model: ModelPlan,
        server: Server,
        key: ApiKey,
        session: aiohttp.ClientSession,
        route: str,
        is_root: bool = False,
    ) -> None:
        if is_root:
            server = replace(
                server,
                url=VERSIONED.sub("", server.url),
                others=tuple(VERSIONED.sub("", url) for url in server.others),
            )
        self._concurrency = model.concurrency
        self._failures: dict[str, Reply] = {}
        self._client = Client(model, server, key, route, session, self._fail)

    async def ask(
        self, questions: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, dict[str, Any] | Reply]:
        """The answer to every question, or the failure row that says why there is none.

        TaskFailure after 20 equal refusals in a row.
        """
        self._failures.clear()
        found: dict[str, dict[str, Any]] = {}
        calls = [Question(name, fields, found) for name, fields in questions.items()]
        await work_through(calls, self._client.answer, self._concurrency)
        return {name: found[name] if name in found else self._failures[name] for name in questions}

    async def ask_one(self, fields: Mapping[str, Any]) -> dict[str, Any] | Reply:
        """The answer to one question, or its failure row."""
        return (await self.ask({"": fields}))[""]

    def _fail(self, row: Reply) -> None:
        self._failures[row.doc_id] = row
