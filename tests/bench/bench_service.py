"""The service test end to end: `evalrun --mode all` against a bare aiohttp loop, on one mock
server, in one run.

    python tests/bench/bench_service.py [--only NAME,...] [--rounds 1] [--aisbench VENV]

Each side is a process of its own that asks the same questions. A rate is the number of requests
over the time from the first to the last of them at the server, so start-up, scoring and tables are
in the wall time alone. evalrun keeps every answer on the disk and scores it; the bare loop reads
bytes and forgets them. Printed: rates, their ratio to the bare loop's, wall time, CPU time (it
depends less on what else the machine does), peak memory (of the largest process, and of all
together, shared pages counted for each), and how many requests were in flight. Further sides are
added to `sides()`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "support" / "mock_server.py"


@dataclass(frozen=True)
class Scenario:
    """What is asked of which server. ttft_s: wait before the first chunk. n_chunks: at least so
    many an answer.
    """

    name: str
    n_docs: int = 1000
    n: int = 5
    concurrency: int = 64
    ttft_s: float = 0.0
    n_chunks: int = 0

    @property
    def n_requests(self) -> int:
        """Documents times samples."""
        return self.n_docs * self.n


SCENARIOS = (
    Scenario("zero latency"),
    Scenario("50 ms", n_docs=600, ttft_s=0.05),
    Scenario("200 chunks", n_docs=200, n_chunks=200),
    Scenario("256 at 50 ms", concurrency=256, ttft_s=0.05),
    Scenario("concurrency 1000", concurrency=1000, ttft_s=0.2),
)


@dataclass(frozen=True)
class Measured:
    """One side of one scenario. span_s: first to last request at the server; most: in flight at
    once.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float  # of its largest process
    tree_mb: float  # of all its processes together
    span_s: float
    n_requests: int
    most: int

    @property
    def rate(self) -> float:
        """Requests per second while sending."""
        return self.n_requests / self.span_s


Side: TypeAlias = Callable[[Scenario, str, Path], list[str]]
"""(scenario, server, a folder with questions.jsonl) -> the command that asks everything and
ends.
"""


def bare(scenario: Scenario, url: str, folder: Path) -> list[str]:
    """This file again, as the bare loop."""
    return [
        sys.executable,
        __file__,
        "--bare",
        url,
        str(folder / "questions.jsonl"),
        str(scenario.n),
        str(scenario.concurrency),
    ]


def evalrun(scenario: Scenario, url: str, folder: Path) -> list[str]:
    """The whole command: ask, store, score, summarize."""
    return [
        sys.executable,
        "-m",
        "evalrun",
        "--mode",
        "all",
        "model=vllm_server",
        f"model.base_url={url}",
        "task=gsm8k",
        f"dataset.path={folder / 'questions.jsonl'}",
        f"num_return_sequences={scenario.n}",
        f"model.concurrency={scenario.concurrency}",
    ]


def sides(aisbench_venv: str | None) -> dict[str, Side]:
    """Who is measured, the bare loop first."""
    found: dict[str, Side] = {"bare aiohttp": bare, "evalrun": evalrun}
    if aisbench_venv is not None:
        from aisbench_side import command_of  # beside this file

        found["aisbench"] = command_of(aisbench_venv)
    return found


async def bare_loop(url: str, questions: Path, n: int, concurrency: int) -> None:
    """Workers that post and read."""
    import aiohttp

    def bodies() -> Iterator[bytes]:
        for line in questions.open():
            text = json.loads(line)["question"]
            for seed in range(n):
                body = {
                    "model": "mock-model",
                    "messages": [{"role": "user", "content": text}],
                    "stream": True,
                    "stream_options": {"include_usage": True},
                    "temperature": 0.7,
                    "top_p": 1.0,
                    "max_tokens": 2048,
                    "seed": seed,
                }
                yield json.dumps(body).encode()

    left = bodies()
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), headers=headers
    ) as session:

        async def worker() -> None:
            for body in left:
                async with session.post(f"{url}/v1/chat/completions", data=body) as response:
                    assert response.status == 200
                    await response.read()

        await asyncio.gather(*(worker() for _ in range(concurrency)))


def asked(url: str, path: str, is_post: bool = False) -> dict[str, Any]:
    """A control request to the mock server."""
    request = urllib.request.Request(url + path, data=b"{}" if is_post else None)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.loads(response.read())  # type: ignore[no-any-return]


@contextmanager
def serving(scenario: Scenario) -> Iterator[str]:
    """The mock server of a scenario, in a process of its own."""
    command = [
        sys.executable,
        str(SERVER),
        "--port",
        "0",
        "--ttft",
        str(scenario.ttft_s),
        "--tokens",
        str(scenario.n_chunks),
        "--max-seconds",
        "900",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield "http://" + server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


class TreePeak:
    """Watches the resident memory of a process and all its descendants, in a thread, five times
    a second.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak_kb = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end_mb(self) -> float:
        """The largest sum that was seen, in MB; pages that processes share count for each of
        them.
        """
        self._is_over.set()
        self._thread.join()
        return self._peak_kb / 1024

    def _watch(self) -> None:
        while not self._is_over.wait(0.2):
            self._peak_kb = max(
                self._peak_kb, sum(self._resident_kb(pid) for pid in self._tree(self._pid))
            )

    def _tree(self, pid: int) -> Iterator[int]:
        yield pid
        try:
            tasks = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
        except OSError:  # it has ended meanwhile
            return
        for child in " ".join(tasks).split():
            yield from self._tree(int(child))

    @staticmethod
    def _resident_kb(pid: int) -> int:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def measure(side: Side, scenario: Scenario, url: str, folder: Path) -> Measured:
    """Run one side. It must end well and have been answered as often as was planned."""
    asked(url, "/reset", is_post=True)
    log = folder / "log.txt"
    begun = time.perf_counter()
    with log.open("wb") as file:
        child = subprocess.Popen(
            side(scenario, url, folder), cwd=folder, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        peak = TreePeak(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    stats = asked(url, "/stats")
    if child.returncode or stats["ok"] < scenario.n_requests:
        raise SystemExit(f"exit code {child.returncode}, {stats}: {log.read_text()[-3000:]}")
    span_s = stats["last"] - stats["first"]
    cpu_s, peak_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    tree_mb = max(peak_mb, peak.end_mb())
    return Measured(wall_s, cpu_s, peak_mb, tree_mb, span_s, stats["ok"], stats["max_inflight"])


def all_sides(scenario: Scenario, parties: dict[str, Side]) -> None:
    """Measure every side of a scenario and print a line for each."""
    with tempfile.TemporaryDirectory() as made, serving(scenario) as url:
        folder = Path(made)
        with (folder / "questions.jsonl").open("w") as file:
            for i in range(scenario.n_docs):
                row = {"question": f"What is {i} + {i % 97}?", "answer": f"#### {i + i % 97}"}
                file.write(json.dumps(row) + "\n")
        base = None
        for name, side in parties.items():
            got = measure(side, scenario, url, folder)
            base = base or got.rate
            print(
                f"{scenario.name:>16}  {name:<12} {got.rate:7.0f} requests/s  "
                f"{got.rate / base:5.2f} of bare  span {got.span_s:6.2f} s  wall {got.wall_s:6.2f} "
                f"s  CPU {got.cpu_s:5.2f} s  {got.peak_mb:4.0f} MB, all processes "
                f"{got.tree_mb:4.0f} MB  {got.most} in flight",
                flush=True,
            )


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--bare"]:
        url, questions, n, concurrency = sys.argv[2:]
        asyncio.run(bare_loop(url, Path(questions), int(n), int(concurrency)))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", help=f"scenarios, by comma: {', '.join(s.name for s in SCENARIOS)}"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--aisbench", metavar="VENV", help="a virtual environment with ais-bench-benchmark"
    )
    options = parser.parse_args()
    chosen = [s for s in SCENARIOS if options.only is None or s.name in options.only.split(",")]
    for _ in range(options.rounds):
        for scenario in chosen:
            all_sides(scenario, sides(options.aisbench))


if __name__ == "__main__":
    main()
