"""Calls whose answers are JSON objects and not rows: probes, tokens.

Sent by the client with its limits and retries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evalrun.backends.openai.http.client import Client
from evalrun.backends.openai.http.connection import Connection
from evalrun.backends.openai.http.event_loop import work_through
from evalrun.backends.openai.http.sending import Times
from evalrun.backends.openai.http.server import above_version
from evalrun.backends.openai.replies.body import JsonReader, Reader
from evalrun.types import Reply

if TYPE_CHECKING:
    import aiohttp


@dataclass(frozen=True, slots=True)
class JsonCall:
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
        """A row that carries the name of the call to where its failure is kept."""
        return (Reply(self.name, "question", 0, attempts=n_attempts),)


class JsonClient:
    """Sends JSON objects to one route and brings the answers.

    Args:
        connection: to the server.
        session: of the event loop at work.
        route: where they are sent.
        is_root: the route lies at the server's root and not below /v1.
    """

    def __init__(
        self,
        connection: Connection,
        session: aiohttp.ClientSession,
        route: str,
        is_root: bool = False,
    ) -> None:
        if is_root:
            server = connection.server
            root = replace(
                server,
                url=above_version(server.url),
                others=tuple(above_version(url) for url in server.others),
            )
            connection = replace(connection, server=root)
        self._concurrency = connection.model.concurrency
        self._failures: dict[str, Reply] = {}
        self._client = Client(connection, route, session, self._fail)

    async def ask(
        self, bodies: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, dict[str, Any] | Reply]:
        """The answer to every body, by name, or the failure row that says why there is none.

        TaskFailure after 20 equal refusals in a row.
        """
        self._failures.clear()
        found: dict[str, dict[str, Any]] = {}
        calls = [JsonCall(name, fields, found) for name, fields in bodies.items()]
        await work_through(calls, self._client.answer, self._concurrency)
        return {name: found[name] if name in found else self._failures[name] for name in bodies}

    async def ask_one(self, fields: Mapping[str, Any]) -> dict[str, Any] | Reply:
        """The answer to one body, or its failure row."""
        return (await self.ask({"": fields}))[""]

    def _fail(self, row: Reply) -> None:
        self._failures[row.doc_id] = row
