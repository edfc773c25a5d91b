"""Rate of the chat client against a bare aiohttp loop, on one mock server in another process.

    python tests/bench/bench_openai_chat.py [--requests 5000] [--concurrency 64] [--latency 0.0] [--tokens 0]

Both send the same bodies to the same server; the bare loop reads the bytes and parses nothing. The client parses
every event, builds every row and hands it to a sink. Printed: requests per second of each, and their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from evalrun.backends.openai_chat import OpenaiChatBackend
from evalrun.types import Generate, Message, ModelPlan, Reply, Sampling

SERVER = Path(__file__).parents[1] / "mock_server.py"
SAMPLING = Sampling(max_tokens=2048, temperature=0.0)


def requests(n_requests: int, n: int = 5) -> Iterator[Generate]:
    """n samples of each of n_requests / n arithmetic questions."""
    for i in range(n_requests // n):
        yield Generate(f"d{i}", (Message("user", f"What is {i} + {i % 97}?"),), tuple(range(n)), SAMPLING, i * 100)


async def bare(url: str, n_requests: int, concurrency: int) -> float:
    """Seconds of a bare aiohttp loop: workers that post and read."""
    import aiohttp

    bodies = iter(
        [
            json.dumps(
                {
                    "model": "mock-model",
                    "messages": [{"role": m.role, "content": m.content} for m in request.messages],
                    "stream": True,
                    "stream_options": {"include_usage": True},
                    "temperature": 0.0,
                    "top_p": 1.0,
                    "max_tokens": 2048,
                    "seed": request.seed + index,
                }
            ).encode()
            for request in requests(n_requests)
            for index in request.indices
        ]
    )
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def worker() -> None:
            for body in bodies:
                async with session.post(f"{url}/v1/chat/completions", data=body) as response:
                    assert response.status == 200
                    await response.read()

        begun = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(concurrency)))
        return time.perf_counter() - begun


def ours(url: str, n_requests: int, concurrency: int) -> float:
    """Seconds of the client for the same requests; every answer must be there."""
    model = ModelPlan(name="m", backend="openai_chat", base_url=url, concurrency=concurrency)
    backend = OpenaiChatBackend(model)
    backend.start()
    rows: list[Reply] = []
    begun = time.perf_counter()
    backend.run(requests(n_requests), rows.append)
    seconds = time.perf_counter() - begun
    assert len({row.key for row in rows}) == n_requests
    assert all(row.status == "ok" for row in rows)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before the first chunk of an answer")
    parser.add_argument("--tokens", type=int, default=0, help="at least so many chunks per answer")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    command = [
        sys.executable,
        str(SERVER),
        "--port",
        "0",
        "--ttft",
        str(options.latency),
        "--tokens",
        str(options.tokens),
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = "http://" + server.stdout.readline().split()[-1]
        for _ in range(options.rounds):
            cpu = [time.process_time()]
            plain_s = asyncio.run(bare(url, options.requests, options.concurrency))
            cpu.append(time.process_time())
            ours_s = ours(url, options.requests, options.concurrency)
            cpu.append(time.process_time())
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"bare aiohttp {options.requests / plain_s:.0f}/s, openai_chat {options.requests / ours_s:.0f}/s, "
                f"ratio {plain_s / ours_s:.2f}, peak {peak_mb:.0f} MB; CPU per request "
                f"{(cpu[1] - cpu[0]) / options.requests * 1e6:.0f} and {(cpu[2] - cpu[1]) / options.requests * 1e6:.0f} us"
            )
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
