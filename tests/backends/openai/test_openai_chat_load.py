"""How many requests are in flight: growth, halving, a steady rate, memory."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.chat_servers import SSE_HEAD, ask, http, mock, plan, rows_of, scripted

from evalrun import backends
from evalrun.backends.openai.backend import Generation
from evalrun.backends.openai.http.concurrency import (
    FIRST_LIMIT,
    Endpoint,
    EndpointPool,
    RequestRate,
)
from evalrun.backends.openai.replies.body import StreamReader
from evalrun.errors import Stopped
from evalrun.types import Generate, Reply


def endpoint(most: int = 256, name: str = "http://a/v1") -> Endpoint:
    from yarl import URL

    return Endpoint(URL(name), most)


def answers(server: Endpoint, n: int, wait_s: float = 0.05) -> None:
    """n answers begin while the endpoint is as full as it may be."""
    for _ in range(n):
        server.in_flight = server.limit
        server.began(wait_s)


def test_a_healthy_server_is_opened_in_two_rounds() -> None:
    server = endpoint(most=1000)
    limits = [server.limit]
    for _ in range(3):
        answers(server, server.limit)
        limits.append(server.limit)
    assert limits == [32, 256, 1000, 1000]
    assert endpoint(most=8).limit == 8


@pytest.mark.parametrize("http_status", [429, 503])
def test_a_busy_server_halves_once_for_each_burst(http_status: int) -> None:
    server = endpoint()
    answers(server, 1000)
    for _ in range(50):
        server.failed(http_status, False, sent_at=10.0, now=11.0)
    assert server.limit == 128
    server.failed(http_status, False, sent_at=12.0, now=13.0)
    assert server.limit == 64
    for moment in range(14, 40):
        server.failed(http_status, False, sent_at=float(moment), now=float(moment))
    assert server.limit == 1


def test_after_a_halving_it_grows_by_a_sixteenth_of_the_bound_a_round() -> None:
    server = endpoint(most=160)
    answers(server, 1000)
    server.failed(429, False, 1.0, 1.0)
    assert server.limit == 80
    answers(server, 79)
    assert server.limit == 80
    answers(server, 1)
    assert server.limit == 90
    answers(server, 2000)
    assert server.limit == 160


def test_other_faults_make_the_round_begin_anew() -> None:
    server = endpoint()
    answers(server, 31)
    server.failed(500, False, 1.0, 1.0)
    answers(server, 31)
    assert server.limit == FIRST_LIMIT
    answers(server, 1)
    assert server.limit == 256


def test_growth_waits_while_first_tokens_are_slow() -> None:
    server = endpoint()
    answers(server, 1, 0.1)
    answers(server, 20, 5.0)
    answers(server, 500, 5.0)
    assert server.limit == FIRST_LIMIT
    answers(server, 500, 0.5)
    assert server.limit == 256


def test_a_server_that_is_not_full_does_not_grow() -> None:
    server = endpoint()
    server.in_flight = 5
    for _ in range(100):
        server.began(0.01)
    assert server.limit == FIRST_LIMIT


def test_places_are_handed_on_in_order_and_never_lost() -> None:
    async def main() -> tuple[list[int], int]:
        pool = EndpointPool([endpoint(most=2)])
        order: list[int] = []

        async def work(i: int) -> None:
            taken = await pool.take()
            try:
                order.append(i)
                await asyncio.sleep(0.001)
            finally:
                pool.give_back(taken)

        tasks = [asyncio.create_task(work(i)) for i in range(20)]
        await asyncio.sleep(0)
        tasks[5].cancel()
        tasks[2].cancel()  # one of them may just have been given a place
        await asyncio.gather(*tasks, return_exceptions=True)
        return order, pool.endpoints[0].in_flight

    order, in_flight = asyncio.run(main())
    assert order == [i for i in range(20) if i not in (2, 5)]
    assert in_flight == 0


def test_a_cancelled_waiter_passes_its_place_on() -> None:
    async def main() -> int:
        pool = EndpointPool([endpoint(most=1)])
        first = await pool.take()
        waiters = [asyncio.create_task(pool.take()) for _ in range(2)]
        await asyncio.sleep(0)
        pool.give_back(first)  # the first waiter has the place now, but has not run yet
        waiters[0].cancel()
        taken = await asyncio.wait_for(waiters[1], 5)
        return taken.in_flight

    assert asyncio.run(main()) == 1


RATES = [
    # per second, burst, moments asked at, waits
    (10.0, 1, [0.0, 0.0, 0.0, 1.0], [0.0, 0.1, 0.2, 0.0]),
    (10.0, 3, [0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.1, 0.2]),
    (10.0, 2, [0.0, 0.0, 0.05, 10.0, 10.0, 10.0], [0.0, 0.0, 0.05, 0.0, 0.0, 0.1]),
]


@pytest.mark.parametrize(("per_s", "burst", "moments", "waits"), RATES)
def test_tokens_of_a_rate(
    per_s: float, burst: int, moments: list[float], waits: list[float]
) -> None:
    rate = RequestRate(per_s, burst)
    assert [rate.reserve_s(moment) for moment in moments] == pytest.approx(waits)


def arrivals(n: int, **changes: Any) -> list[float]:
    """When the requests of a run reached the server, in seconds from the first."""
    moments: list[float] = []

    async def handler(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        if method == "POST":
            moments.append(time.monotonic())
            yield (
                SSE_HEAD
                + b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
            )
        else:
            yield http(404 if path != "/v1/models" else 200, b'{"data": [{"id": "m1"}]}')

    with scripted(handler) as url:
        rows_of(plan(url, **changes), ask("1 + 1", indices=tuple(range(n))))
    return [moment - moments[0] for moment in moments]


def test_trap_31_the_rate_is_kept() -> None:
    moments = arrivals(121, request_rate=60.0)
    assert 120 / moments[-1] == pytest.approx(60, rel=0.05)
    second = [sum(start <= m < start + 0.5 for m in moments) for start in (0.0, 0.5, 1.0)]
    assert all(count <= 33 for count in second)  # no half second holds much more than its share


def test_a_burst_goes_first_and_the_rate_follows() -> None:
    moments = arrivals(40, request_rate=20.0, request_burst=20, concurrency=40)
    assert moments[19] < 0.5
    assert 0.9 <= moments[39] <= 1.6


def test_256_are_in_flight_in_a_moment() -> None:
    """Slow enough that client and server, which share this process, can have as many."""
    with mock(ttft=0.4) as server:
        rows = rows_of(plan(server.url, concurrency=256), ask("1 + 1", indices=tuple(range(800))))
        assert server.stats["max_inflight"] == 256
    started = sorted(row.started_s or 0 for row in rows)
    assert sum(moment < started[0] + 4 for moment in started) > 600


def test_a_concurrency_of_1000() -> None:
    with mock(ttft=1.0) as server:
        rows = rows_of(plan(server.url, concurrency=1000), ask("1 + 1", indices=tuple(range(1600))))
        assert server.stats["max_inflight"] > 300
        assert server.stats["connections"] <= 1002
    assert {row.status for row in rows} == {"ok"}
    assert len(rows) == 1600


def test_a_server_with_few_places_gets_few_requests() -> None:
    """It refuses more than eight at once; all are answered all the same, with few refusals."""
    with mock(ttft=0.02, max_inflight=8, retry_after=0.05) as server:
        rows = rows_of(
            plan(server.url, concurrency=64, retries=8), ask("1 + 1", indices=tuple(range(400)))
        )
        n_refused = server.stats["requests"] - server.stats["ok"]
    assert {row.status for row in rows} == {"ok"}
    assert n_refused < 200
    assert max(row.attempts for row in rows) <= 8


def test_nothing_is_held_for_requests_that_wait_or_are_done() -> None:
    """No task, call or answer but those in flight, however many requests there are."""
    held: list[tuple[int, int]] = []
    n_done = 0

    def requests() -> Iterator[Generate]:
        for i in range(1200):
            yield ask(f"{i} + 1", f"d{i}")

    def sink(row: Reply) -> None:
        nonlocal n_done
        n_done += 1
        if n_done % 400 == 0:
            alive = [
                o
                for o in gc.get_objects()
                if isinstance(o, Generation | Generate | Reply | StreamReader)
            ]
            held.append((len(asyncio.all_tasks()), len(alive)))

    with mock() as server:
        backends.create(plan(server.url, concurrency=16)).run(requests(), sink)
    assert n_done == 1200
    assert len(held) == 3
    # those of the HTTP library are among them
    assert all(n_tasks <= 3 * 16 for n_tasks, _ in held), held
    assert all(n_alive <= held[0][1] + 4 * 16 for _, n_alive in held), held


def test_a_hundred_thousand_samples_are_begun_one_by_one() -> None:
    """Ending the run early shows how far ahead it had gone."""
    rows: list[Reply] = []

    def sink(row: Reply) -> None:
        rows.append(row)
        if len(rows) == 50:
            raise Stopped(2)

    with mock() as server:
        begun = time.monotonic()
        with pytest.raises(Stopped):
            backends.create(plan(server.url, concurrency=8)).run(
                [ask("1 + 1", indices=tuple(range(100_000)))], sink
            )
        assert time.monotonic() - begun < 10
        assert server.stats["requests"] <= 50 + 8
