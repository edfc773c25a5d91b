"""The server under test from deploy.sh to the report: started, waited for, probed, asked, ended;
and what fails.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from support import deploying
from support.deploying import MOCK, TINY, Deployment
from support.running import counts_of, header_of, rows_of
from support.workspace import Evalrun, run_folders, values_of


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deploying.make(tmp_path)


def test_from_start_to_report(
    evalrun: Evalrun, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five samples by default, the weights' path as the model's name, what the server sees, and
    nothing left of it.
    """
    monkeypatch.setenv("HF_TOKEN", "hidden-1")
    monkeypatch.setenv("VLLM_API_KEY", "hidden-2")
    monkeypatch.setenv("vllm_secret", "hidden-3")
    monkeypatch.setenv("VLLM_SEEN", "1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "nowhere")
    monkeypatch.setenv("EDITOR", "vi")
    deployment.write(f"pwd; env > {deployment.folder}/env.txt; {MOCK}")
    ran = evalrun(*deployment.words("deploy.env.MINE=a b,c", samples=None))
    assert ran.code == 0, ran.err
    run = deployment.run_folder()
    assert values_of(run) == {"accuracy": 0.6, "pass@5": 1.0, "cons@5": 1.0, "avg@5": 0.6}
    plan = json.loads((run / "configs" / "plan.json").read_text())
    assert plan["num_return_sequences"] == 5
    assert "default" in dict(plan["cells"][0]["origins"])["n"]
    env = dict(
        line.split("=", 1) for line in (deployment.folder / "env.txt").read_text().splitlines()
    )
    assert env.pop("MODEL_PATH") == str(deployment.weights)
    assert Path(env.pop("HOME")).is_relative_to(run)
    assert (env.pop("MINE"), env.pop("PORT"), env.pop("VLLM_SEEN")) == (
        "a b,c",
        str(deployment.port),
        "1",
    )
    assert (env.pop("https_proxy"), env.pop("NO_PROXY")) == ("http://127.0.0.1:9", "nowhere")
    shell = {"PWD", "SHLVL", "_", "OLDPWD"}
    prefixes = ("ASCEND_", "NPU_", "HCCL_", "CUDA_", "NVIDIA_", "VLLM_", "OMP_")
    known = {"PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR", *shell}
    assert [
        name
        for name in env
        if name not in known and not name.startswith(prefixes) and "proxy" not in name
    ] == []
    assert "hidden" not in "".join(env.values())
    assert deployment.log().splitlines()[0] == str(deployment.repo)
    assert "mock server" in deployment.log()
    assert deployment.state()["phase"] == "finished"
    assert deployment.state()["supervisor_pid"] is None
    assert list(deploying.left_over(deployment)) == []
    assert {r.http_status for r in rows_of(run, "deploy")} == {200}


def test_what_is_complete_starts_no_server(evalrun: Evalrun, deployment: Deployment) -> None:
    assert evalrun("--mode", "infer", *deployment.words()).code == 0
    run = deployment.run_folder()
    n_bytes = len(deployment.log())
    (deployment.repo / "deploy.sh").rename(deployment.repo / "kept.sh")
    scored = evalrun("--mode", "eval", *deployment.words())  # no server, no deploy.sh
    assert scored.code == 0, scored.err
    (deployment.repo / "kept.sh").rename(deployment.repo / "deploy.sh")
    resumed = evalrun("--resume", *deployment.words())
    assert resumed.code == 0, resumed.err
    assert len(deployment.log()) == n_bytes
    assert run_folders(deployment.folder) == [run]


def test_another_place_is_the_same_run(evalrun: Evalrun, deployment: Deployment) -> None:
    """The folders may lie elsewhere when a run is resumed; other weights of the same name do not
    mix with it.
    """
    assert evalrun("--limit", "2", *deployment.words()).code == 0
    elsewhere = deployment.folder / "elsewhere"
    elsewhere.mkdir()
    deployment.repo.rename(elsewhere / "repo")
    deployment.weights.rename(elsewhere / "weights")
    moved = [f"model.repo={elsewhere}/repo", f"model.weights={elsewhere}/weights"]
    resumed = evalrun("--resume", "limit=null", *deployment.words(*moved))
    assert resumed.code == 0, resumed.err
    assert len(rows_of(deployment.run_folder(), "deploy")) == 8
    (elsewhere / "weights" / "model.safetensors").write_bytes(b"w" * 1001)
    other = evalrun("--resume", *deployment.words(*moved, samples=4))
    assert other.code == 2
    assert "weights: stored" in other.err


def test_dry_run_shows_the_steps(evalrun: Evalrun, deployment: Deployment) -> None:
    (deployment.repo / "requirements.txt").write_text("x\n")
    ran = evalrun("--dry-run", *deployment.words(samples=None))
    assert ran.code == 0, ran.err
    for said in (
        "deploy.sh",
        "requirements.txt",
        str(deployment.weights),
        str(deployment.port),
        "n            5",
    ):
        assert said in ran.out
    assert "default where the run starts the server" in ran.out
    assert run_folders(deployment.folder) == []


STARTS = [
    ("a daemon, and exit 0", f"nohup setsid {MOCK} > /dev/null 2>&1 &\nexit 0"),
    ("a child in the background", f"{MOCK} &\nwait"),
    ("503 while loading", f"{MOCK} --ready-after 1.5"),
    ("503 at /health only", f"{TINY} health-late"),
    ("503 at the chat route only", f"{TINY} chat-loading"),
    ("neither /health nor /v1/models", f"{TINY} no-routes"),
]


@pytest.mark.parametrize("script", [s for _, s in STARTS], ids=[name for name, _ in STARTS])
def test_ways_to_start(evalrun: Evalrun, deployment: Deployment, script: str) -> None:
    deployment.write(script)
    ran = evalrun(*deployment.words("--limit", "1", samples=1))
    assert ran.code == 0, ran.err
    assert list(deploying.left_over(deployment)) == []


def test_windows_line_ends(evalrun: Evalrun, deployment: Deployment) -> None:
    """Said, and run as if they were not there; $0 is still the script, and the folder its own."""
    deployment.write(
        f'echo "zero=$0 in $(cd "$(dirname "$0")" && pwd)"\nif true; then\n  {MOCK}\nfi', "\r\n"
    )
    ran = evalrun(*deployment.words("--limit", "1", samples=1))
    assert ran.code == 0, ran.err
    assert "CR LF" in ran.err
    assert f"zero={deployment.repo}/deploy.sh in {deployment.repo}" in deployment.log()


NAMES = [("names=other", "other"), ("names=x,{weights}", "{weights}"), ("plain", "{weights}")]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_the_name_of_the_model(
    evalrun: Evalrun, deployment: Deployment, kind: str, name: str
) -> None:
    kind, name = (text.format(weights=deployment.weights) for text in (kind, name))
    deployment.write(f"{TINY} {kind}")
    ran = evalrun(*deployment.words("--limit", "1", samples=1))
    assert ran.code == 0, ran.err
    assert f"asked for {name}" in deployment.log()


FAILURES = [
    (
        "early exit",
        "echo 'no such option: --fast' >&2\nexit 3",
        "ended with exit code 3",
        "no such option: --fast",
    ),
    ("killed", "echo loading\nkill -9 $$", "was ended by signal SIGKILL", "loading"),
    (
        "exit 0 and nothing left",
        "echo 'all done'\nsleep 0.2",
        "no process of it is left",
        "all done",
    ),
    ("no chat route", f"{TINY} no-chat", "/v1/chat/completions", "no such route"),
    ("no streaming", f"{TINY} no-stream", "does not stream", "/v1/chat/completions"),
    (
        "refused",
        f"{TINY} refusing",
        "refuses a plain streaming request",
        "max_tokens is unheard of",
    ),
    ("other names", f"{TINY} names=a,b", "lists a, b", "model.path=NAME"),
]


@pytest.mark.parametrize(
    ("script", "said", "line"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES]
)
def test_a_server_that_fails(
    evalrun: Evalrun, deployment: Deployment, script: str, said: str, line: str
) -> None:
    """At once, not at the time limit: no score, exit code 3, the reason with the last lines in
    report and state.
    """
    deployment.write(script)
    start = time.monotonic()
    ran = evalrun(*deployment.words())
    assert time.monotonic() - start < 25
    assert ran.code == 3, ran.err
    run = deployment.run_folder()
    header = header_of(run, "deploy")
    assert header["state"] != "complete"
    for text in (header["reason"], str(deployment.state()["reason"]), ran.out):
        assert said in text
        assert line in text
    assert deployment.state()["phase"] == "failed"
    assert json.loads((run / "results" / "deploy" / "gsm8k.json").read_text())["estimates"] == []
    assert list(deploying.left_over(deployment)) == []


def test_never_ready(evalrun: Evalrun, deployment: Deployment) -> None:
    deployment.write("trap '' TERM\necho still loading\nwhile true; do sleep 0.1; done")
    ran = evalrun(*deployment.words("deploy.ready_timeout_s=1", "deploy.stop_timeout_s=0.5"))
    assert ran.code == 3, ran.err
    assert "deploy.ready_timeout_s=1 s" in ran.out
    assert "still loading" in ran.out
    assert list(deploying.left_over(deployment)) == []


def test_all_tasks_of_a_failed_server_fail(evalrun: Evalrun, deployment: Deployment) -> None:
    """The server is started once, not once per task."""
    deployment.write("echo once\nexit 1")
    data = deployment.folder / "data.jsonl"
    words = [w for w in deployment.words() if not w.startswith(("task=", "dataset."))]
    ran = evalrun(*words, "task=[gsm8k,demo_math]", f"tasks.gsm8k.dataset.path={data}")
    assert ran.code == 3, ran.err
    assert deployment.log().count("once") == 1
    for task in ("gsm8k", "demo_math"):
        assert (
            "ended with exit code 1" in header_of(deployment.run_folder(), "deploy", task)["reason"]
        )


def test_the_server_dies_in_the_middle(evalrun: Evalrun, deployment: Deployment) -> None:
    """Rows so far are kept, the rest counted as unsent, exit 3 with the cause at once; --resume
    completes it.
    """
    rows = [{"question": f"{q} + 5 [[pattern=10]]", "answer": f"#### {q + 5}"} for q in range(200)]
    (deployment.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    deployment.write(f"{deploying.DIES_ONCE}\nexec {MOCK} --ttft 0.2")
    ran = evalrun(*deployment.words("model.concurrency=8", "model.retries=10"))
    assert ran.code == 3, ran.err
    run = deployment.run_folder()
    n_kept = len(rows_of(run, "deploy"))
    assert 0 < n_kept < 400
    assert counts_of(run, "deploy") == {"n_unsent": 400 - n_kept}
    for text in (header_of(run, "deploy")["reason"], ran.out):
        assert "was ended by signal SIGKILL" in text
        assert "out of memory" in text
    assert list(deploying.left_over(deployment)) == []
    resumed = evalrun("--resume", *deployment.words("model.concurrency=64"))
    assert resumed.code == 0, resumed.err
    assert len(rows_of(run, "deploy")) == 400
    assert values_of(run)["pass@2"] == 1.0
    assert deployment.state()["phase"] == "finished"
    assert run_folders(deployment.folder) == [run]


def test_a_port_that_is_taken(evalrun: Evalrun, deployment: Deployment) -> None:
    import socket

    with socket.create_server(("0.0.0.0", deployment.port)):
        ran = evalrun(*deployment.words())
    assert ran.code == 2
    assert f"Port {deployment.port} is taken by pid {os.getpid()}" in ran.err
    assert run_folders(deployment.folder) == []
