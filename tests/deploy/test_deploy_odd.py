"""What stands in the way of the server under test: hanging answers, a port that changes hands,
settings that change.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import deploying
from support.deploying import MOCK, TINY, TINY_SERVER, Deployment
from support.running import rows_of
from support.workspace import Evalrun

from evalrun.deploy import ready

serving_module = sys.modules["evalrun.deploy.lifecycle"]


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deploying.make(tmp_path, n_questions=1)


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_an_answer_that_never_ends_is_cut(head: bytes) -> None:
    """Byte after byte, in the headers or in the body, each within the limit of a socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(head)
                try:
                    while True:
                        connection.sendall(b"x")
                        time.sleep(0.02)
                except OSError:
                    pass

        threading.Thread(target=drip, daemon=True).start()
        start = time.monotonic()
        answer = ready.exchange(listener.getsockname()[1], "/health", limit_s=0.3)
        assert time.monotonic() - start < 5
        assert len(answer.body) < 1000
        assert answer.status == 200


def test_a_hanging_probe_keeps_to_the_limit(evalrun: Evalrun, deployment: Deployment) -> None:
    deployment.write(f"exec {TINY} hanging")
    start = time.monotonic()
    ran = evalrun(*deployment.words("deploy.ready_timeout_s=2"))
    assert time.monotonic() - start < 30
    assert ran.code == 3, ran.err
    assert "deploy.ready_timeout_s=2 s (/v1/chat/completions: no answer within" in ran.out
    assert list(deploying.left_over(deployment)) == []


def test_a_port_that_is_taken_after_the_check(
    evalrun: Evalrun, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While requirements.txt is installed, say. What answers there is not asked."""
    with socket.socket() as sock:

        def take(*_: object) -> None:
            sock.bind(("127.0.0.1", deployment.port))
            sock.listen()

        monkeypatch.setattr(sys.modules["evalrun.deploy.checks"], "_require_port", take)
        ran = evalrun(*deployment.words())
    assert ran.code == 3
    assert f"Port {deployment.port} is taken by pid" in ran.out
    assert "deploy.sh was not started" in ran.out
    assert not (deployment.run_folder() / "logs" / "deploy.out").exists()


def test_a_foreign_server_is_not_tested(
    evalrun: Evalrun, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the port while deploy.sh still loads its weights, and answers all that a server
    must.
    """
    monkeypatch.setattr(serving_module, "PORT_WAIT_S", 0.1)
    go = deployment.folder / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    serves = f"os.execv(sys.executable, [sys.executable, {TINY_SERVER!r}, '{deployment.port}'])"
    foreign = subprocess.Popen([sys.executable, "-c", f"import sys\n{waits}{serves}"])
    try:
        deployment.write(f"touch {go}\nsleep 60")
        ran = evalrun(*deployment.words())
    finally:
        foreign.kill()
        foreign.wait()
    assert ran.code == 3
    assert f"is answered by pid {foreign.pid}, which was there before deploy.sh began" in ran.out
    assert rows_of(deployment.run_folder(), "deploy") == []


def test_a_run_whose_server_did_not_start_goes_on_by_its_name(
    evalrun: Evalrun, deployment: Deployment
) -> None:
    """Everything is as it was typed; what was wrong is typed anew."""
    deployment.write(f"sleep 1\nexec {MOCK}")
    assert evalrun(*deployment.words("deploy.ready_timeout_s=0.2")).code == 3
    run = deployment.run_folder()
    assert rows_of(run, "deploy") == []
    ran = evalrun("--reuse", "latest", "deploy.ready_timeout_s=20")
    assert ran.code == 0, ran.err
    assert deployment.run_folder() == run
    assert len(rows_of(run, "deploy")) == 2


def test_a_resume_has_the_settings_of_its_own_command(
    evalrun: Evalrun, deployment: Deployment
) -> None:
    """A limit that was too short, or a port, is corrected by the command that goes on."""
    deployment.write(f"sleep 1\nexec {MOCK}")
    assert evalrun(*deployment.words("deploy.ready_timeout_s=0.2")).code == 3
    moved = Deployment(deployment.folder, deploying.free_port())
    ran = evalrun("--resume", *moved.words())
    assert ran.code == 0, ran.err
    assert len(rows_of(deployment.run_folder(), "deploy")) == 2
