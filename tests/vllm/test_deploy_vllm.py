"""A real vLLM server that deploy.sh starts: whole, with evalrun killed in the middle, with the
server killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import deploying
from support.deploying import Deployment
from support.running import counts_of, launch, results_text, rows_of, wait_for

from evalrun.backends.local import embedded

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

# A seeded request that is prefilled in chunks kills the CPU engine of vLLM 0.32: no chunks.
OPTIONS = (
    "--dtype float32 --max-model-len 1024 --no-enable-chunked-prefill --max-num-batched-tokens "
    "1024 --enforce-eager"
)
SCRIPT = f"""#!/bin/sh
set -e
echo "=== MODEL_PATH set to: $MODEL_PATH ==="
export HF_HUB_OFFLINE=1
exec python -m vllm.entrypoints.openai.api_server --model "$MODEL_PATH" --host 127.0.0.1 \\
    --port $PORT {OPTIONS}
"""
N_ROWS = 80
Evalrun = Callable[..., Any]  # tests/conftest.py: this folder has a conftest of its own


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    pytest.importorskip("vllm")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
    model = embedded.resolve(embedded.PATH)
    made = deploying.make(tmp_path)
    (made.weights / "model.safetensors").unlink()
    made.weights.rmdir()
    made.weights.symlink_to(model)
    (made.repo / "deploy.sh").write_bytes(SCRIPT.encode())
    questions = [
        f"Ann has {q} apples and buys {q + 2} more. How many apples has she?" for q in range(16)
    ]
    rows = [{"question": text, "answer": f"#### {2 * q + 2}"} for q, text in enumerate(questions)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def words(deployment: Deployment, *more: str) -> list[str]:
    """16 questions, five short answers each."""
    changed = [
        "deploy.ready_timeout_s=600",
        "deploy.stop_timeout_s=20",
        f"deploy.venv={sys.prefix}",
    ]
    changed += ["model.max_tokens=6", "model.concurrency=8"]
    return deployment.words(*changed, *more, samples=None)


def shown(run: Path) -> set[str]:
    """The numbers of the report by their shown names."""
    return {
        estimate["display"] for estimate in json.loads(results_text(run, "deploy"))["estimates"]
    }


def n_done(deployment: Deployment) -> int:
    """Rows on the way, as the state says; 0 before there is one."""
    states = list(deployment.folder.glob("outputs/*/state.json"))
    return int(json.loads(states[0].read_text())["done"] or 0) if states else 0


def interrupted(deployment: Deployment, *more: str) -> subprocess.Popen[str]:
    """A run of its own process, some rows further than what there was."""
    before = n_done(deployment)
    process = launch(words(deployment, *more), deployment.folder)
    wait_for(lambda: n_done(deployment) >= before + 8 or process.poll() is not None, 300)
    assert process.poll() is None, process.communicate()
    return process


def test_whole(evalrun: Evalrun, deployment: Deployment) -> None:
    ran = evalrun(*words(deployment))
    assert ran.code == 0, ran.err
    run = deployment.run_folder()
    rows = rows_of(run, "deploy")
    assert len(rows) == N_ROWS
    assert {row.http_status for row in rows} == {200}
    assert {"accuracy", "pass@5", "cons@5", "avg@5"} <= shown(run)
    assert list(deploying.left_over(deployment)) == []
    assert "=== MODEL_PATH set to:" in deployment.log()
    packed = evalrun("pack", "latest")
    assert packed.code == 0, packed.err
    report, logs = packed.out.split()[-2:]
    names = {
        name.split("/", 2)[1] for name in zipfile.ZipFile(deployment.folder / report).namelist()
    }
    assert {"configs", "logs", "predictions", "results", "summary"} <= names
    assert any(
        name.endswith("logs/deploy.out")
        for name in zipfile.ZipFile(deployment.folder / logs).namelist()
    )


def test_evalrun_killed_then_the_server_killed(evalrun: Evalrun, deployment: Deployment) -> None:
    process = interrupted(deployment)
    process.kill()
    process.communicate()
    wait_for(lambda: not list(deploying.left_over(deployment)), 40)  # no orphan server
    run = deployment.run_folder()
    n_first = len(rows_of(run, "deploy"))
    assert 0 < n_first < N_ROWS

    process = interrupted(deployment, "--resume")
    os.kill(int(str(deployment.state()["server_pid"])), signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert "was ended by signal SIGKILL" in out
    n_second = len(rows_of(run, "deploy"))
    assert n_first < n_second < N_ROWS
    assert counts_of(run, "deploy")["n_unsent"] == N_ROWS - n_second
    assert list(deploying.left_over(deployment)) == []

    ran = evalrun("--resume", *words(deployment))
    assert ran.code == 0, ran.err
    rows = rows_of(run, "deploy")
    assert len({row.key for row in rows}) == len(rows) == N_ROWS
    assert {"pass@5", "cons@5", "avg@5"} <= shown(run)
    assert list(deploying.left_over(deployment)) == []
