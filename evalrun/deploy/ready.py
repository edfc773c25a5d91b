"""When the server under test is ready, what it calls its model, and whether its chat route streams."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evalrun import backends
from evalrun.deploy.supervised import Supervised
from evalrun.errors import EvalrunError, TaskFailure, visible
from evalrun.types import Generate, Message, ModelPlan, Reply, Sampling

HOST = "127.0.0.1"
POLL_S = 0.25
NOTE_S = 15.0
GET_LIMIT_S = 10.0
PROBE_TOKENS = 8
MOST_ERRORS = 5  # of the server (500, 502, a cut stream) in a row before the probe gives up
WAITING = (408, 409, 425, 429, 503)
LONGEST_ANSWER_BYTES = 4_000_000
ROUTE = "/v1/chat/completions"

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a GET brought: an HTTP status with a body, or the reason why there is none."""

    status: int | None
    body: bytes = b""
    problem: str = ""

    @property
    def text(self) -> str:
        """In a few words."""
        return self.problem if self.status is None else f"HTTP {self.status}"


def get(port: int, path: str) -> Answer:
    """GET from this machine, past any proxy."""
    connection = http.client.HTTPConnection(HOST, port, timeout=GET_LIMIT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Answer(response.status, response.read(LONGEST_ANSWER_BYTES))
    except (OSError, http.client.HTTPException) as fault:
        return Answer(None, problem=str(fault) or type(fault).__name__)
    finally:
        connection.close()


class Readiness:
    """Waits for one server. Ends at once with its last lines when it has ended, and at the time limit."""

    def __init__(self, server: Supervised, port: int, limit_s: float, note: Note) -> None:
        self.server = server
        self.port = port
        self.limit_s = limit_s
        self.note = note
        self._start = time.monotonic()
        self._noted = self._start

    def wait(self) -> None:
        """Until /health or /v1/models answers 200, or both say that there is no such route. TaskFailure otherwise."""
        while True:
            answers = {path: get(self.port, path) for path in ("/health", "/v1/models")}
            statuses = {answer.status for answer in answers.values()}
            if 200 in statuses or statuses <= {404, 405}:
                return
            self.pause("; ".join(f"{path}: {answer.text}" for path, answer in answers.items()))

    def name(self, wanted: str | None, weights: str) -> str:
        """The model's name: what was asked for; else the only one that the server lists; else the weights' path.

        TaskFailure where the server lists others only.
        """
        while True:
            listing = get(self.port, "/v1/models")
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
        asked = f"model.path={visible(wanted)}" if wanted else f"the path of the weights ({visible(weights)})"
        raise TaskFailure(
            f"The server lists {', '.join(visible(name) for name in served[:20])} in /v1/models, and {asked} is not among "
            "them. Start it with one name only, or say which one to ask: model.path=NAME."
        )

    def probe(self, model: ModelPlan) -> None:
        """One streamed chat request through the client itself. TaskFailure: no such route, refused, not streamed."""
        n_errors = 0
        while True:
            row = self._ask(model)
            if isinstance(row, str):  # the client did not come as far as the request
                said, is_waiting = row, True
            elif not row.is_failure:
                return
            else:
                said = (
                    f"{ROUTE}: " + (f"HTTP {row.http_status}: " if row.http_status else "") + str(row.error_message)
                )
                is_waiting = row.http_status in WAITING or row.http_status is None
                if row.error_type == "no_stream":
                    raise self._unfit(f"The server answers {ROUTE}, but does not stream: {row.error_message}")
                if row.http_status == 404:
                    raise self._unfit(f"The server has no {ROUTE} for this model (HTTP 404: {row.error_message})")
                if not is_waiting and row.http_status is not None and 400 <= row.http_status < 500:
                    raise self._unfit(f"The server refuses a plain streaming request: {said}")
            n_errors = 0 if is_waiting else n_errors + 1
            if n_errors >= MOST_ERRORS:
                raise self._unfit(f"The server failed {n_errors} plain streaming requests in a row: {said}")
            self.pause(said)

    def _ask(self, model: ModelPlan) -> Reply | str:
        rows: list[Reply] = []
        request = Generate("probe", (Message("user", "Say yes."),), (0,), Sampling(PROBE_TOKENS, 0.0), 0)
        backend = backends.create(replace(model, retries=0))
        try:
            backend.start()
            backend.run([request], rows.append)
        except EvalrunError as fault:
            return str(fault)
        finally:
            backend.close()
        return rows[0] if rows else "no answer came"

    def _unfit(self, text: str) -> TaskFailure:
        return TaskFailure(
            f"{visible(text)}. The test needs a server that streams {ROUTE}; nothing was scored. The server's last lines "
            f"({self.server.log}):\n{self.server.tail()}"
        )

    def pause(self, waits_for: str) -> None:
        """A moment's wait. TaskFailure where the server has ended, or the limit is passed."""
        if self.server.ended.wait(POLL_S):
            raise self.server.failure()
        elapsed = time.monotonic() - self._start
        if elapsed > self.limit_s:
            raise TaskFailure(
                f"The server was not ready after deploy.ready_timeout_s={self.limit_s:g} s ({visible(waits_for)}). Its "
                f"last lines ({self.server.log}):\n{self.server.tail()}"
            )
        if time.monotonic() - self._noted >= NOTE_S:
            self._noted = time.monotonic()
            last = self.server.tail().splitlines()[-1]
            self.note(f"waiting for the server, {elapsed:.0f} s ({visible(waits_for)[:200]}): {last}")


def _ids(answer: Answer) -> list[str]:
    """The names in a /v1/models answer; empty where it is none."""
    try:
        listing: Any = json.loads(answer.body)
    except ValueError:
        return []
    entries = listing.get("data") if isinstance(listing, dict) else None
    ids = [entry.get("id") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return list(dict.fromkeys(name for name in ids if isinstance(name, str)))
