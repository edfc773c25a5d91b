"""However evalrun ends, killed with SIGKILL too, the server under test and all that it started
end; resume goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import deploying
from support.deploying import MOCK, Deployment
from support.running import launch, rows_of, wait_for
from support.workspace import Evalrun

from evalrun.deploy import supervised
from evalrun.deploy.supervised import Supervised
from evalrun.errors import TaskFailure


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """A slow server whose script leaves a daemon in a session of its own besides."""
    made = deploying.make(tmp_path, n_questions=100)
    made.write(
        f"setsid nohup sh -c 'sleep 300; echo {made.weights}' > /dev/null 2>&1 &\n{MOCK} --ttft 0.2"
    )
    return made


def is_asking(deployment: Deployment) -> bool:
    """Whether rows of the run lie on the disk."""
    return any(
        p.stat().st_size > 3000
        for p in deployment.folder.glob("outputs/*/predictions/deploy/gsm8k.*.arrows")
    )


def started(deployment: Deployment, *more: str) -> subprocess.Popen[str]:
    """evalrun in a process of its own, with rows on the disk and its server up."""
    process = launch(deployment.words("model.concurrency=8", *more), deployment.folder)
    wait_for(lambda: is_asking(deployment) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    assert len(deploying.mentioning(str(deployment.weights))) >= 3
    return process


def is_gone(deployment: Deployment) -> bool:
    return not list(deploying.left_over(deployment))


def test_kill_9_leaves_no_server(evalrun: Evalrun, deployment: Deployment) -> None:
    process = started(deployment)
    state = deployment.state()
    assert (state["phase"], state["pid"]) == ("testing", process.pid)
    for key in ("supervisor", "server"):
        assert os.path.exists(f"/proc/{state[f'{key}_pid']}")
        assert str(state[f"{key}_start"]).isdigit()
    process.kill()
    process.communicate()
    # waits for the supervisor
    resumed = evalrun("--resume", *deployment.words("model.concurrency=64"))
    assert resumed.code == 0, resumed.err
    assert is_gone(deployment)
    assert len(rows_of(deployment.run_folder(), "deploy")) == 200
    assert deployment.state()["phase"] == "finished"


def test_kill_9_while_the_server_ignores_term(deployment: Deployment) -> None:
    deployment.write(f"trap '' TERM HUP INT\n{MOCK} --ttft 0.2\nwhile true; do sleep 1; done")
    process = launch(
        deployment.words("model.concurrency=8", "deploy.stop_timeout_s=0.5"), deployment.folder
    )
    wait_for(lambda: is_asking(deployment))
    process.kill()
    process.communicate()
    wait_for(lambda: is_gone(deployment), 20)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_ends_the_server(deployment: Deployment, number: signal.Signals, code: int) -> None:
    process = started(deployment)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert is_gone(deployment)
    assert (deployment.state()["phase"], deployment.state()["supervisor_pid"]) == (
        "terminated",
        None,
    )
    assert not out
    assert not (deployment.run_folder() / "summary").exists()
    assert 0 < len(rows_of(deployment.run_folder(), "deploy")) < 200


def test_a_stop_while_it_starts(deployment: Deployment) -> None:
    deployment.write("echo loading; sleep 300")
    process = launch(deployment.words(), deployment.folder)
    wait_for(
        lambda: any(
            "loading" in p.read_text() for p in deployment.folder.glob("outputs/*/logs/deploy.out")
        )
    )
    assert deployment.state()["phase"] == "starting"
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert is_gone(deployment)
    assert deployment.state()["phase"] == "terminated"


def test_evalrun_stop(evalrun: Evalrun, deployment: Deployment) -> None:
    process = started(deployment)
    ran = evalrun("stop", "latest")
    assert ran.code == 0, ran.err
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert is_gone(deployment)


def test_the_supervisor_is_killed(deployment: Deployment) -> None:
    """Its end is the server's: nothing runs on unwatched, and the run ends with the reason."""
    process = started(deployment)
    os.kill(int(str(deployment.state()["supervisor_pid"])), signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "supervisor was killed" in out
    wait_for(lambda: is_gone(deployment), 10)  # the daemon too


def test_both_are_killed(evalrun: Evalrun, deployment: Deployment) -> None:
    """Nobody is left to end the server: a resume says which command does, and that ends all of
    it.
    """
    process = started(deployment)
    state = deployment.state()
    process.kill()
    os.kill(int(str(state["supervisor_pid"])), signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not os.path.exists(f"/proc/{state['supervisor_pid']}"))
    resumed = evalrun("--resume", *deployment.words())
    assert resumed.code == 2
    assert (
        f"`evalrun stop {deployment.run_folder().relative_to(deployment.folder)}` ends it"
        in resumed.err
    )
    stopped = evalrun("stop", "latest")
    assert stopped.code == 0, stopped.err
    assert "The server that it had left was ended" in stopped.out
    assert is_gone(deployment)


# ---- the supervisor by itself --------------------------------------------------------------------


def command(folder: Path, script: str, stop_timeout_s: float = 1.0) -> Supervised:
    env = {"PATH": os.environ["PATH"]}
    return Supervised("it", ["sh", "-c", script], env, folder, folder / "out", stop_timeout_s)


ENDS = [
    ("exit 7", 7, "ended with exit code 7"),
    ("kill -15 $$", -15, "was ended by signal SIGTERM"),
    ("sleep 0.3 & exit 0", 0, "no process of it is left"),
    ("sleep 300 & exit 2", 2, "ended with exit code 2"),
]


@pytest.mark.parametrize(("script", "code", "how"), ENDS)
def test_how_a_command_ends(tmp_path: Path, script: str, code: int, how: str) -> None:
    it = command(tmp_path, script)
    assert it.ended.wait(20)
    assert (it.code, it.stop()) == (code, [])
    assert how in it.how
    assert supervised.ended_text(code) == it.how
    assert deploying.mentioning(str(tmp_path)) == []


def test_the_last_lines_hold_no_credentials(tmp_path: Path) -> None:
    it = command(
        tmp_path, "echo 'index https://me:sesame@host/simple, git+ssh://sesame@host:22/x'; exit 1"
    )
    assert it.ended.wait(20)
    it.stop()
    assert it.tail() == "index https://***@host/simple, git+ssh://***@host:22/x"


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    it = Supervised("it", ["/no/such/shell"], {}, tmp_path, tmp_path / "out", 1.0)
    assert it.ended.wait(20)
    assert "/no/such/shell" in it.tail()
    with pytest.raises(TaskFailure, match="exit code 127"):
        supervised.run_to_end(it, 1.0, "a limit")


def test_all_generations_are_ended(tmp_path: Path) -> None:
    """Daemons of daemons, in sessions of their own, deaf to TERM."""
    deaf = f"trap '' TERM; while true; do sleep 0.1; : {tmp_path}; done"
    it = command(
        tmp_path,
        f'(setsid sh -c "{deaf}" &) ; setsid sh -c "{deaf}" & sleep 300',
        stop_timeout_s=0.3,
    )
    wait_for(lambda: len(deploying.mentioning(": " + str(tmp_path))) >= 2)
    assert it.stop() == []
    assert deploying.mentioning(": " + str(tmp_path)) == []


def test_another_process_of_the_same_pid_is_left_alone(tmp_path: Path) -> None:
    from evalrun.deploy import supervisor

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        row = supervisor.process_row(child.pid)
        assert row is not None
        supervisor.signal_exactly(child.pid, str(int(row[2]) - 1), signal.SIGKILL)
        time.sleep(0.2)
        assert child.poll() is None
        supervisor.signal_exactly(child.pid, row[2], signal.SIGKILL)
        assert child.wait(10) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_last_lines_are_of_this_start_and_harmless(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("of yesterday\n")
    it = command(
        tmp_path, r"for i in $(seq 40); do echo line $i; done; printf '\033[2Jred\n'; exit 1"
    )
    assert it.ended.wait(20)
    lines = it.tail().splitlines()
    assert len(lines) == supervised.LAST_LINES
    assert lines[-2:] == ["line 40", r"\x1b[2Jred"]
    assert "of yesterday" not in it.tail()
    it.stop()
    silent = command(tmp_path, "exit 1")
    assert silent.ended.wait(20)
    assert silent.tail() == "(it wrote nothing)"
    silent.stop()


def test_state_is_json_at_any_time(deployment: Deployment) -> None:
    """Whoever reads while phases change sees a whole state, and the phases in their order."""
    process = launch(deployment.words("--limit", "2", "model.concurrency=8"), deployment.folder)
    seen: list[str] = []
    while process.poll() is None:
        for path in deployment.folder.glob("outputs/*/state.json"):
            phase = json.loads(path.read_text())["phase"]
            if not seen or seen[-1] != phase:
                seen.append(phase)
    process.communicate()
    order = ["waiting", "starting", "testing", "finished"]
    assert [phase for phase in order if phase in seen] == seen
    assert {"starting", "testing"} <= set(seen)
