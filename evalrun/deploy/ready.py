"""When the server under test is ready, what it calls its model, and whether its chat route
streams.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from evalrun import backends
from evalrun.deploy.supervised import Supervised
from evalrun.errors import Fault, TaskFailure, visible
from evalrun.types import Generate, Message, ModelPlan, Reply, Sampling, Status

HOST = "127.0.0.1"
POLL_S = 0.25
NOTE_S = 15.0
ANSWER_LIMIT_S = 10.0
PROBE_TOKENS = 8
QUESTION = "Say yes."
MOST_ERRORS = 5  # of the server (500, 502, a cut stream) in a row before the probe gives up
WAITING = (408, 409, 425, 429, 503)
NO_ROUTE = {401, 403, 404, 405}  # the server is up; the probe tells the rest
LONGEST_ANSWER_BYTES = 4_000_000
ROUTE = "/v1/chat/completions"

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a request brought: an HTTP status with a body, or the reason why there is none."""

    status: int | None
    body: bytes = b""
    problem: str = ""

    @property
    def text(self) -> str:
        """In a few words."""
        return self.problem if self.status is None else f"HTTP {self.status}"

    @property
    def described(self) -> str:
        """With the beginning of the body."""
        return (
            f"{self.text}: {self.body[:500].decode('utf-8', 'replace')}" if self.body else self.text
        )


def exchange(
    port: int, path: str, body: Mapping[str, Any] | None = None, limit_s: float = ANSWER_LIMIT_S
) -> HttpResponse:
    """GET, or POST of a JSON body, from this machine, past any proxy.

    Args:
        limit_s: of the whole exchange.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=limit_s)
    is_late = threading.Event()
    try:
        connection.connect()
        # Not the socket's own limit, which begins anew with each byte. The response takes the
        # socket over.
        timer = threading.Timer(limit_s, _cut, (connection.sock, is_late))
        timer.daemon = True
        timer.start()
        try:
            content = None if body is None else json.dumps(body)
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request("GET" if body is None else "POST", path, content, headers)
            response = connection.getresponse()
            return HttpResponse(response.status, response.read(LONGEST_ANSWER_BYTES))
        finally:
            timer.cancel()
    except (OSError, http.client.HTTPException) as fault:
        is_timeout = is_late.is_set() or isinstance(fault, TimeoutError)
        return HttpResponse(
            None,
            problem=f"no answer within {limit_s:g} s"
            if is_timeout
            else str(fault) or type(fault).__name__,
        )
    finally:
        connection.close()


def _cut(sock: socket.socket, is_late: threading.Event) -> None:
    is_late.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class Readiness:
    """Waits for one server.

    Ends at once with its last lines when it has ended, and at the time limit.
    """

    def __init__(self, server: Supervised, port: int, limit_s: float, note: Note) -> None:
        self.server = server
        self.port = port
        self.limit_s = limit_s
        self.note = note
        self._start = time.monotonic()
        self._noted = self._start
        self._problem = ""

    def wait(self) -> None:
        """Until /health or /v1/models answers 200, or both are refused. TaskFailure otherwise."""
        while True:
            answers = {path: self._get(path) for path in ("/health", "/v1/models")}
            statuses = {answer.status for answer in answers.values()}
            if 200 in statuses or statuses <= NO_ROUTE:
                return
            self.pause("; ".join(f"{path}: {answer.text}" for path, answer in answers.items()))

    def name(self, wanted: str | None, weights: str) -> str:
        """The model's name: what was asked for; else the only one that the server lists; else the
        weights' path.

        TaskFailure where the server lists others only.
        """
        while True:
            listing = self._get("/v1/models")
            if listing.status not in (None, *WAITING):
                break
            self.pause(f"/v1/models: {listing.text}")
        served = _ids(listing) if listing.status == 200 else []
        if not served:
            return wanted or weights
        if wanted is not None and wanted in served:
            return wanted
        if wanted is None and len(served) == 1:
            return served[0]
        if wanted is None and weights in served:
            return weights
        asked = (
            f"model.path={visible(wanted)}"
            if wanted
            else f"the path of the weights ({visible(weights)})"
        )
        raise TaskFailure(
            f"The server lists {', '.join(visible(name) for name in served[:20])} in /v1/models, "
            f"and {asked} is not among them. Start it with one name only, or say which one to ask: "
            "model.path=NAME."
        )

    def _left_s(self) -> float:
        """Seconds that waiting may still take, at least one."""
        return max(1.0, round(self.limit_s - (time.monotonic() - self._start), 1))

    def _get(self, path: str) -> HttpResponse:
        return exchange(self.port, path, limit_s=min(ANSWER_LIMIT_S, self._left_s()))

    def probe(self, model: ModelPlan) -> None:
        """One streamed chat request through the client itself.

        TaskFailure: no such route, refused, not streamed.
        """
        n_errors = 0
        while (row := self._ask(model)) is None or row.is_failure:
            said, is_waiting = self._judged(row, model)
            n_errors = 0 if is_waiting else n_errors + 1
            if n_errors >= MOST_ERRORS:
                raise self._unfit(
                    f"The server failed {n_errors} plain streaming requests in a row: {said}"
                )
            self.pause(said)

    def _judged(self, row: Reply | None, model: ModelPlan) -> tuple[str, bool]:
        """(what a failed probe says, whether the server may only be not ready yet).

        TaskFailure: it will never do.
        """
        if row is None:  # the client did not come as far as the request
            body = {
                "model": model.path,
                "messages": [{"role": "user", "content": QUESTION}],
                "max_tokens": 1,
            }
            answer = exchange(self.port, ROUTE, body, min(ANSWER_LIMIT_S, self._left_s()))
            if answer.status in (404, 405):
                raise self._unfit(f"The server has no {ROUTE} ({answer.described})")
            said = self._problem if answer.status == 200 else f"{ROUTE}: {answer.described}"
            return said, answer.status in (None, *WAITING)
        if row.status == Status.TIMEOUT:  # the client's limits were cut to what is left of the wait
            return f"{ROUTE}: no whole answer to one short request", True
        said = (
            f"{ROUTE}: "
            + (f"HTTP {row.http_status}: " if row.http_status else "")
            + str(row.error_message)
        )
        if row.error_type == "no_stream":
            raise self._unfit(
                f"The server answers {ROUTE}, but does not stream: {row.error_message}"
            )
        if row.http_status == 404:
            raise self._unfit(
                f"The server has no {ROUTE} for the model {model.path} (HTTP 404: "
                f"{row.error_message})"
            )
        is_waiting = row.http_status is None or row.http_status in WAITING
        if not is_waiting and 400 <= (row.http_status or 0) < 500:
            raise self._unfit(f"The server refuses a plain streaming request: {said}")
        return said, is_waiting

    def _ask(self, model: ModelPlan) -> Reply | None:
        """The row of one request; None where the client finds no server to send it to."""
        rows: list[Reply] = []
        request = Generate(
            "probe", (Message("user", QUESTION),), (0,), Sampling(PROBE_TOKENS, 0.0), 0
        )
        left_s = self._left_s()
        limits = ("connect_timeout_s", "first_token_timeout_s", "idle_timeout_s", "total_timeout_s")
        backend = backends.create(
            replace(model, retries=0, **{key: min(getattr(model, key), left_s) for key in limits})
        )
        try:
            backend.start()
            backend.run([request], rows.append)
        except (Fault, TaskFailure) as fault:
            self._problem = str(fault)
            return None
        finally:
            backend.close()
        return rows[0] if rows else None

    def _unfit(self, text: str) -> TaskFailure:
        return TaskFailure(
            f"{visible(text)}. The test needs a server that streams {ROUTE}; nothing was scored. "
            f"The server's last lines ({self.server.log}):\n{self.server.tail()}"
        )

    def pause(self, waits_for: str) -> None:
        """A moment's wait. TaskFailure where the server has ended, or the limit is passed."""
        if self.server.ended.wait(POLL_S):
            raise self.server.failure()
        elapsed = time.monotonic() - self._start
        if elapsed > self.limit_s:
            raise TaskFailure(
                f"The server was not ready after deploy.ready_timeout_s={self.limit_s:g} s "
                f"({visible(waits_for)}). Its last lines ({self.server.log}):\n{self.server.tail()}"
            )
        if time.monotonic() - self._noted >= NOTE_S:
            self._noted = time.monotonic()
            last = self.server.tail().splitlines()[-1]
            self.note(
                f"waiting for the server, {elapsed:.0f} s ({visible(waits_for)[:200]}): {last}"
            )


def _ids(answer: HttpResponse) -> list[str]:
    """The names in a /v1/models answer; empty where it is none."""
    try:
        listing: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        return []
    entries = listing.get("data") if isinstance(listing, dict) else None
    ids = (
        [entry.get("id") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )
    return list(dict.fromkeys(name for name in ids if isinstance(name, str)))
