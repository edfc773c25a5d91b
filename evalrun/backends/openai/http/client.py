"""The HTTP client of the servers' APIs: sends calls, tries again, keeps within limits, hands
rows to the sink.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from evalrun.backends.base import Sink, failed
from evalrun.backends.openai.http.concurrency import Endpoint, EndpointPool, RequestRate
from evalrun.backends.openai.http.connection import Connection
from evalrun.backends.openai.http.event_loop import work_through
from evalrun.backends.openai.http.retry import (
    AttemptFailed,
    Refusals,
    is_worth_repeating,
    retry_after_s,
    wait_s,
)
from evalrun.backends.openai.http.sending import SendAgain, Sending, ServerCall, Times
from evalrun.backends.openai.http.server import (
    LONGEST_ERROR_BYTES,
    at,
    body_text,
    problem_text,
    proxy_of,
    read_up_to,
)
from evalrun.backends.openai.http.timeouts import AttemptTimer, TimeoutWatcher
from evalrun.backends.openai.replies.body import Reader
from evalrun.backends.openai.replies.error_objects import filtered, is_filter_body
from evalrun.errors import TaskFailure, visible
from evalrun.types import Reply, Status

if TYPE_CHECKING:
    import aiohttp

DRAIN_S = 1.0
FILTER_STATUSES = (400, 403, 422, 451)
ERROR_BODY_S = 5.0
# a line that never ends would fill the memory long before a time limit
LONGEST_BODY_BYTES = 256_000_000


async def send_all(
    connection: Connection, route: str, calls: Iterable[ServerCall], sink: Sink
) -> None:
    """Send every call, at most model.concurrency at once.

    Args:
        connection: to the server.
        route: below its root, such as "chat/completions".
        calls: each is taken when a place is free for it.
        sink: gets the rows.

    TaskFailure after 20 equal refusals in a row: what was not sent stays missing.
    """
    async with connection.session() as session:
        client = Client(connection, route, session, sink)
        await work_through(calls, client.answer, connection.model.concurrency)


class Client:
    """One run against one server, or against several of the same model."""

    def __init__(
        self,
        connection: Connection,
        route: str,
        session: aiohttp.ClientSession,
        sink: Sink,
    ) -> None:
        from yarl import URL

        self.connection = connection
        self.model = model = connection.model
        urls = [at(url, route) for url in connection.server.urls]
        self.session = session
        self.sink = sink
        self.pool = EndpointPool(
            [Endpoint(URL(url), model.concurrency, proxy_of(url, model.use_proxy)) for url in urls]
        )
        self.rate = (
            None
            if model.request_rate is None
            else RequestRate(model.request_rate, model.request_burst)
        )
        self.refusals = Refusals()
        self.loop = asyncio.get_running_loop()
        self.timeouts = TimeoutWatcher(model)
        self.is_over = False

    async def answer(self, call: ServerCall) -> None:
        """Send a call until its answer is there or it failed for good, and hand its rows to the
        sink.

        Waiting for a free place or for the rate is not part of the request's time limit. An
        endpoint that takes no connection costs no attempt while there is another.
        """
        if self.is_over:  # the run ends: nothing more is sent while it does
            return
        sending = Sending(call, call.body, self.loop.time() + self.model.total_timeout_s)
        fault: AttemptFailed | None = None
        while not isinstance(outcome := await self._send(sending), list):
            if outcome is None:
                continue
            fault = outcome
            if self._may_go_elsewhere(fault, sending):
                sending.n_attempts -= 1
                continue
            wait = wait_s(sending.n_attempts, fault.retry_after_s)
            is_late = self.loop.time() + wait >= sending.total_at
            if fault.is_final or is_late or sending.n_attempts > self.model.retries:
                rows = self._failures(sending, fault, wait if is_late else None)
                break
            await asyncio.sleep(wait)
        else:
            rows, fault = outcome, None
        self._deliver(rows)
        # its rows had failed with another call: one cause is counted once
        if fault is not None and not rows:
            return
        if self.refusals.note(fault) and fault is not None:
            raise self._given_up(fault)

    async def _send(self, sending: Sending) -> list[Reply] | AttemptFailed | None:
        """One attempt, at an endpoint that has room for it: the rows, or why there are none.

        None: it did not count, and the call now has another form.
        """
        asked_at = self.loop.time()
        sending.endpoint = endpoint = await self.pool.take(sending.endpoint)
        try:
            if self.rate is not None:
                await self.rate.take()
            sent_at = self.loop.time()
            sending.total_at += sent_at - asked_at
            sending.n_attempts += 1
            sending.times = Times()
            sending.body = self.connection.refused.adapted(sending.body)
            return await self._attempt(sending, endpoint)
        except SendAgain as again:
            sending.call, sending.body = again.call, again.call.body
            sending.n_attempts -= 1
            return None
        except AttemptFailed as fault:
            status = fault.http_status or 0
            body = self.connection.refused.learned(status, fault.message, sending.body)
            if body is not None:
                sending.body = body
                sending.n_attempts -= 1
                return None
            endpoint.failed(fault.http_status, fault.is_unreachable, sent_at, self.loop.time())
            return fault
        finally:
            self.pool.give_back(endpoint)

    def _may_go_elsewhere(self, fault: AttemptFailed, sending: Sending) -> bool:
        """Whether the endpoint took no connection and another may."""
        return (
            fault.is_unreachable
            and sending.endpoint is not None
            and self.pool.has_another(sending.endpoint)
            and self.loop.time() < sending.total_at
        )

    def _deliver(self, rows: Iterable[Reply]) -> None:
        """Hand rows to the sink; once it has raised it is not called again."""
        if self.is_over:
            return
        try:
            for row in rows:
                self.sink(row)
        except BaseException:
            self.is_over = True
            raise

    async def _attempt(self, sending: Sending, endpoint: Endpoint) -> list[Reply]:
        """Send the body once. AttemptFailed where no whole answer comes."""
        import aiohttp

        reader, times = sending.call.reader(), sending.times
        timer = AttemptTimer(self.timeouts, endpoint.activity, sending.total_at)
        try:
            with timer:
                async with self.session.post(
                    endpoint.url, data=sending.body, allow_redirects=False, proxy=endpoint.proxy
                ) as response:
                    timer.heard()
                    if response.status != 200:
                        raise await _refused(response)
                    times.is_open = True
                    await self._read(response, reader, timer, times, endpoint)
        except AttemptFailed as fault:
            if times.is_open and fault.http_status is None:
                fault.http_status = 200
            raise
        except TimeoutError as fault:  # a connect timeout of aiohttp is one too
            if not reader.is_complete():
                raise self._timed_out(timer, times.is_open) from fault
        except (aiohttp.ClientError, OSError) as fault:
            if not reader.is_complete():
                is_unreachable = isinstance(fault, aiohttp.ClientConnectorError)
                raise _disconnected(fault, times.is_open, is_unreachable) from fault
        rows = list(sending.call.answers(reader, sending.n_attempts, times))
        broken = next((row for row in rows if row.status == Status.INCOMPLETE), None)
        if broken is not None:  # the server itself says so: another attempt may bring the whole
            message = broken.error_message or ""
            raise AttemptFailed(
                "finish_reason", message, status=Status.INCOMPLETE, http_status=200, rows=rows
            )
        return rows

    async def _read(
        self,
        response: aiohttp.ClientResponse,
        reader: Reader,
        timer: AttemptTimer,
        times: Times,
        endpoint: Endpoint,
    ) -> None:
        content = response.content
        n_bytes = 0
        while chunk := await content.readany():
            timer.heard()
            n_bytes += len(chunk)
            if n_bytes > LONGEST_BODY_BYTES:
                raise AttemptFailed(
                    "too_long",
                    f"the answer is longer than {LONGEST_BODY_BYTES:,} bytes",
                    is_final=True,
                )
            reader.feed(chunk)
            if not timer.has_token and reader.has_token:
                timer.has_token = True
                times.first_s = time.time()
                self._began(endpoint, times)
            if reader.is_done:
                break
        reader.finish(response.headers.get("Content-Type", "none"))
        if times.first_s is None:
            self._began(endpoint, times)
        if not content.at_eof():  # the end of the body lets the connection be used again
            try:
                async with asyncio.timeout(DRAIN_S):
                    while not content.at_eof():
                        await content.readany()
            except TimeoutError:
                pass

    def _began(self, endpoint: Endpoint, times: Times) -> None:
        endpoint.began(max(0.0, (times.first_s or time.time()) - times.started_s))
        self.pool.wake()

    def _failures(self, sending: Sending, fault: AttemptFailed, wait: float | None) -> list[Reply]:
        """The rows of a call that failed for good.

        Args:
            sending: the call.
            fault: of its last attempt.
            wait: seconds that would have passed its time limit; None: it did not fail by that.
        """
        if fault.rows is not None:
            return fault.rows
        message, n_attempts, times = fault.message, sending.n_attempts, sending.times
        if wait is not None and not fault.is_final and n_attempts <= self.model.retries:
            message += (
                f" (not tried again: a wait of {wait:.0f} s would pass "
                f"model.total_timeout_s={self.model.total_timeout_s:g})"
            )
        message, ended_s = self.connection.key.hidden(message), time.time()
        rows = []
        for base in sending.call.bases(n_attempts):
            base = replace(
                base, http_status=fault.http_status, started_s=times.started_s, ended_s=ended_s
            )
            row = failed(base, fault.status, fault.error_type, message)
            rows.append(replace(row, raw_text=fault.raw_text))
        return rows

    def _timed_out(self, timer: AttemptTimer, is_open: bool) -> AttemptFailed:
        name = timer.expired or "connect_timeout"
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
        message = self.connection.key.hidden(visible(fault.message))
        text = f"{self.refusals.count} requests in a row failed in the same way{status}: {message}"
        if fault.http_status == 404 and self.connection.server.served:
            text += (
                " The server lists: "
                f"{', '.join(visible(name) for name in self.connection.server.served[:20])}."
            )
        return TaskFailure(f"{text} The remaining requests were not sent; --resume asks for them.")


async def _refused(response: aiohttp.ClientResponse) -> AttemptFailed:
    """An answer other than 200, with the server's message."""
    status = response.status
    body = b""
    with suppress(TimeoutError):  # the status says what happened, also where its message never ends
        async with asyncio.timeout(ERROR_BODY_S):
            body = await read_up_to(response, LONGEST_ERROR_BYTES)
    message = body_text(body) or response.reason or ""
    if 300 <= status < 400:
        place = response.headers.get("Location", "a place that it does not name")
        message = f"redirected to {place}: set model.base_url to where the API is"
    if status in FILTER_STATUSES and is_filter_body(body):
        return filtered(message, status)
    is_final = not is_worth_repeating(status)
    wait = retry_after_s(response.headers.get("Retry-After"), time.time())
    return AttemptFailed(
        "http",
        message,
        http_status=status,
        is_final=is_final,
        is_refusal=is_final,
        retry_after_s=wait,
    )


def _disconnected(fault: BaseException, is_open: bool, is_unreachable: bool) -> AttemptFailed:
    """A connection fault: before the headers a lost request, after them a cut stream."""
    if is_open:
        return AttemptFailed(
            "incomplete",
            f"the stream was cut: {problem_text(fault)}",
            status=Status.INCOMPLETE,
            http_status=200,
        )
    kind = "unreachable" if is_unreachable else "connection"
    return AttemptFailed(kind, f"{problem_text(fault)}", is_refusal=is_unreachable)
