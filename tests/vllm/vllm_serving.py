"""Starts a real vLLM server for tests and benches, and leaves no process of it behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 900.0
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "HF_HUB_OFFLINE": "1",
}
# float32: the numbers are held against transformers. A seeded request that is prefilled in chunks
# kills the CPU engine
# of vLLM 0.32: no chunks.
OPTIONS = (
    "--dtype float32 --max-model-len 2048 --no-enable-chunked-prefill --max-num-batched-tokens 2048"
)
# Compiling takes longer than all tests together.
OPTIONS += " --block-size 32 --enforce-eager --enable-tokenizer-info-endpoint"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_until_healthy(url: str, child: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for /health; fail with the end of the log when the server ends or takes too long."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and child.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(1)
    raise RuntimeError(
        "the server did not start (exit code "
        f"{child.poll()}):\n{log.read_text(errors='replace')[-4000:]}"
    )


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """End the whole process group: politely, then for good."""
    for number, grace_s in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        until = time.monotonic() + grace_s
        while time.monotonic() < until:
            child.poll()
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.2)
    child.wait(timeout=15)


@contextmanager
def vllm_server(model: Path | str, log: Path) -> Iterator[str]:
    """A vLLM server of the interpreter that runs the tests; gives its URL, and leaves no process
    behind.
    """
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), *OPTIONS.split()]
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT},
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, child, log)
        yield url
    finally:
        kill_group(child)
