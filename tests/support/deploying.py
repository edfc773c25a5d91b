"""Shared by the tests of the server under test: a repository with a deploy.sh, weights,
questions, a free port.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.workspace import ROOT

SUPPORT = ROOT / "tests" / "support"
TINY_SERVER = str(SUPPORT / "tiny_server.py")
MOCK = (
    f"{sys.executable} {SUPPORT / 'mock_server.py'} --max-seconds 120 --port $PORT --model "
    "$MODEL_PATH"
)
TINY = f"{sys.executable} {TINY_SERVER} $PORT"

# At its first start, the script (and what it becomes by exec) is killed when rows lie on the disk.
DIES_ONCE = """
if [ ! -e ../died ]; then
  touch ../died
  (
    while [ -z "$(find ../outputs -name 'gsm8k.*.arrows' -size +3k)" ]; do sleep 0.1; done
    echo out of memory
    kill -9 $$
  ) &
fi
"""


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether nothing listens there."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


def mentioning(text: str) -> list[int]:
    """The processes, this one left out, whose command line holds `text`."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in words:
                found.append(int(name))
    return found


@dataclass(frozen=True)
class Deployment:
    """A folder with repo/, weights/ and data.jsonl, and the port of its server."""

    folder: Path
    port: int

    @property
    def repo(self) -> Path:
        """Where deploy.sh lies."""
        return self.folder / "repo"

    @property
    def weights(self) -> Path:
        """What MODEL_PATH names."""
        return self.folder / "weights"

    def words(self, *more: str, samples: int | None = 2) -> list[str]:
        """The words of a command that tests this server. samples=None: as many as the default
        says.
        """
        return [
            "model=deploy",
            f"model.repo={self.repo}",
            f"model.weights={self.weights}",
            f"deploy.port={self.port}",
            "deploy.stop_timeout_s=5",
            "deploy.ready_timeout_s=60",
            f"deploy.env.PORT={self.port}",
            "task=gsm8k",
            f"dataset.path={self.folder / 'data.jsonl'}",
            *([f"num_return_sequences={samples}"] if samples else []),
            *more,
        ]

    def write(self, script: str, ends: str = "\n", first: str = "#!/bin/sh") -> None:
        """deploy.sh, without the x bit."""
        text = "\n".join([first, "set -e", script, ""]) if first else script + "\n"
        (self.repo / "deploy.sh").write_bytes(text.replace("\n", ends).encode())

    def run_folder(self) -> Path:
        """The newest run."""
        return sorted(p for p in (self.folder / "outputs").iterdir() if p.is_dir())[-1]

    def state(self) -> dict[str, object]:
        """state.json of the newest run."""
        loaded: dict[str, object] = json.loads((self.run_folder() / "state.json").read_text())
        return loaded

    def log(self, name: str = "deploy") -> str:
        """logs/NAME.out of the newest run."""
        return (self.run_folder() / "logs" / f"{name}.out").read_text()


def make(folder: Path, n_questions: int = 4, marks: str = "[[pattern=10]]") -> Deployment:
    """A deployment whose deploy.sh starts the mock server.

    Every first answer is right, every second one wrong.
    """
    (folder / "repo").mkdir()
    (folder / "weights").mkdir()
    (folder / "weights" / "model.safetensors").write_bytes(b"w" * 1000)
    with (folder / "data.jsonl").open("w") as file:
        for q in range(n_questions):
            row = {"question": f"{q} + 5 {marks}", "answer": f"#### {q + 5}"}
            file.write(json.dumps(row) + "\n")
    deployment = Deployment(folder, free_port())
    deployment.write(f"exec {MOCK}")
    return deployment


def left_over(deployment: Deployment) -> Iterator[str]:
    """What of the server is still there: its port, its processes."""
    if not is_free(deployment.port):
        yield f"port {deployment.port}"
    yield from (f"pid {pid}" for pid in mentioning(str(deployment.weights)))
