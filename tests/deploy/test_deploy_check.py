"""Before a server is started: what is refused, how large the weights are, which shell runs, what
is installed.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support import deploying
from support.deploying import MOCK, Deployment
from support.running import header_of
from support.workspace import Evalrun, run_folders

from evalrun.deploy import environment, ports, script, weights
from evalrun.deploy.install import Installation
from evalrun.errors import Fault
from evalrun.types import DeployPlan


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deploying.make(tmp_path, n_questions=1)


REFUSED = [
    (["model.repo=nowhere"], "is not a folder"),
    (["model.repo=weights"], "no readable deploy.sh at its root"),
    (["model.repo=null"], "name both folders"),
    (["model.weights=null"], "name both folders"),
    (["model.weights=nowhere"], "does not exist"),
    (["model.weights=data.jsonl"], "is a file, not a folder"),
    (["deploy.max_weights_gb=0.000000999"], "more than deploy.max_weights_gb=9.99e-07 allows"),
    (["deploy.max_weights_gb=-1"], "deploy.max_weights_gb must be above 0"),
    (["deploy.port=70000"], "1 to 65535"),
    (["model.base_url=http://127.0.0.1:1/v1"], "names a server that is up"),
    (["model.replicas=[http://127.0.0.1:1/v1]"], "names a server that is up"),
    (["model.api_key_env=HOME"], "hand your key to the server"),
    (["model.backend=hf", "model.path=x"], "by openai_chat only"),
    (["deploy.venv=weights"], "no bin/python"),
    (["deploy.env.MY_KEY=1"], "never given to the server"),
    (["deploy.env.HF_TOKEN=1"], "HF_TOKEN=***"),
    (["deploy.env.MODEL_PATH=/x"], "model.weights sets it"),
    (["deploy.env={A-B: 1}"], "no name of a variable"),
    (["model.extra_body={stream: false}"], "model.extra_body.stream"),
]


@pytest.mark.parametrize(("more", "said"), REFUSED)
def test_refused_before_anything_is_made(
    evalrun: Evalrun, deployment: Deployment, more: list[str], said: str
) -> None:
    ran = evalrun(*deployment.words(*more))
    assert ran.code == 2, ran.err
    assert said in ran.err
    assert run_folders(deployment.folder) == []


def test_a_python_that_is_not_there(evalrun: Evalrun, deployment: Deployment) -> None:
    (deployment.repo / "requirements.txt").write_text("")
    ran = evalrun(*deployment.words("deploy.python=python-of-nobody"))
    assert ran.code == 2
    assert "deploy.python='python-of-nobody' is no program" in ran.err


def test_weights_count_once(tmp_path: Path) -> None:
    """Hard and symbolic links to one file, folders that link in a circle, a link to nothing."""
    outside, folder = tmp_path / "blobs", tmp_path / "snapshot"
    outside.mkdir()
    (folder / "deep").mkdir(parents=True)
    (outside / "blob").write_bytes(b"x" * 1000)
    (folder / "config.json").write_bytes(b"{}")
    (folder / "a.safetensors").symlink_to(outside / "blob")
    (folder / "deep" / "b.safetensors").symlink_to("../a.safetensors")
    os.link(outside / "blob", folder / "deep" / "c.safetensors")
    (folder / "deep" / "up").symlink_to(folder)
    (folder / "again").symlink_to(folder / "deep")
    (folder / "gone").symlink_to("nothing")
    found = weights.read(folder)
    assert found.n_bytes == 1002
    weights.check_size(found, 1002e-9)
    with pytest.raises(Fault, match="1,002 bytes"):
        weights.check_size(found, 1001e-9)
    before = found.digest
    (folder / "cache.json").write_text("made by a server")
    assert weights.read(folder).digest == before
    (outside / "blob").write_bytes(b"x" * 1001)
    assert weights.read(folder).digest != before


def test_weights_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(Fault, match="holds no file"):
        weights.read(tmp_path)


SHELLS = [
    ("#!/bin/sh\n", ("/bin/sh",)),
    ("#!/bin/sh -e\n", ("/bin/sh", "-e")),
    ("#! /usr/bin/env bash\r\n", ("/usr/bin/env", "bash")),
    ("#!/usr/bin/env -S bash -e\n", ("/usr/bin/env", "bash", "-e")),
    ("\ufeff#!/bin/sh\r\n", ("/bin/sh",)),
    ("#!/nowhere/bin/sh\n", ("sh",)),
    ("echo no first line\n", ("bash",)),
    ("", ("bash",)),
]


@pytest.mark.parametrize(("first", "interpreter"), SHELLS)
def test_any_shell(tmp_path: Path, first: str, interpreter: tuple[str, ...]) -> None:
    (tmp_path / "deploy.sh").write_bytes((first + "true").encode())
    found = script.read(tmp_path)
    names = (
        interpreter
        if "/" in interpreter[0]
        else tuple(os.path.basename(w) for w in found.interpreter)
    )
    assert (found.interpreter if "/" in interpreter[0] else names) == interpreter
    is_odd = "\r" in first or "\ufeff" in first
    assert (found.note is not None) is is_odd
    command = found.command(tmp_path / "copies")
    assert command[-1] == str(tmp_path / "deploy.sh")
    assert ("-c" in command) is is_odd
    assert "\r" not in "".join(command)


def test_a_copy_where_no_shell_takes_the_text(tmp_path: Path) -> None:
    """A script of Python, and one that is longer than an argument may be."""
    for text in (f"#!{sys.executable}\r\nprint(1)\r\n", "#!/bin/sh\r\n" + "# long\r\n" * 20_000):
        (tmp_path / "deploy.sh").write_bytes(text.encode())
        *_, copy = script.read(tmp_path).command(tmp_path / "copies")
        assert Path(copy) == tmp_path / "copies" / "deploy.sh"
        assert Path(copy).read_text() == text.replace("\r", "")


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "deploy.sh").write_text("#!/opt/nushell --x\n")
    with pytest.raises(Fault, match="/opt/nushell"):
        script.read(tmp_path)


NO_SCRIPTS = [
    (lambda p: os.mkfifo(p), "no regular file"),
    (lambda p: p.mkdir(), "directory|regular file"),
    (lambda p: p.symlink_to("/dev/zero"), "no regular file"),
    (lambda p: p.symlink_to(p), "symbolic links"),
    (lambda p: p.write_bytes(b"#!/bin/\0sh\n"), "zero byte"),
    (lambda p: p.write_bytes(b"\x7fELF\2\0\0"), "zero byte"),
    (lambda p: p.write_text("#!/bin\n"), "wants the interpreter '#!/bin'"),
]


@pytest.mark.parametrize(("make", "said"), NO_SCRIPTS)
def test_what_is_no_script_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    """A pipe would be waited for without end, a device read without end; a program is no script."""
    make(tmp_path / "deploy.sh")
    with pytest.raises(Fault, match=f"(?i){said}"):
        script.read(tmp_path)


def test_a_port_that_another_run_keeps(evalrun: Evalrun, deployment: Deployment) -> None:
    """Two runs that start at one moment would both find it free, and one would be asked for
    both.
    """
    claim = ports.claim(deployment.port)
    assert claim is not None
    assert ports.claim(deployment.port) is None
    with claim:
        ran = evalrun(*deployment.words())
        assert ran.code == 2
        assert f"Port {deployment.port} is kept by another run (pid {os.getpid()})" in ran.err
    again = ports.claim(deployment.port)
    assert again is not None
    again.close()


SERVER_SECRETS = [
    ["deploy.env.GH_TOKEN=sesame"],
    ["deploy.env={A: 1, my_key : sesame}"],
    ["deploy.env.PIP_INDEX_URL=https://me:sesame@host/simple"],
    ["+deploy.env.DB_PASSWORD=sesame"],
]


@pytest.mark.parametrize("words", SERVER_SECRETS)
@pytest.mark.parametrize(
    "mode", [["--mode", "eval"], ["--mode", "eval", "--reuse", "latest"], ["-m", "seed=1,2"]]
)
def test_a_secret_for_the_server_reaches_no_file(
    evalrun: Evalrun, deployment: Deployment, mode: list[str], words: list[str]
) -> None:
    """Scoring starts no server and checks none, but it writes its configuration, too."""
    ran = evalrun(*mode, *deployment.words(*words))
    assert ran.code == 2
    assert "Let deploy.sh read it from a file of its own" in ran.err
    assert "sesame" not in ran.err
    assert run_folders(deployment.folder) == []


ALLOWED = [
    "PATH",
    "LANG",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "TMPDIR",
    "http_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "ASCEND_HOME",
    "NPU_X",
    "HCCL_X",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_X",
    "VLLM_X",
    "OMP_NUM_THREADS",
]
HELD = [
    "USER",
    "VIRTUAL_ENV",
    "LC_ALL",
    "HF_HOME",
    "AWS_SECRET",
    "VLLM_API_KEY",
    "CUDA_TOKEN",
    "NVIDIA_secret",
    "XCUDA_",
]


def test_the_environment_is_a_list_of_what_is_allowed(tmp_path: Path) -> None:
    own = str(Path(sys.prefix) / "bin")
    outside = dict.fromkeys([*ALLOWED, *HELD], "x") | {
        "PATH": f"{own}:/usr/bin:/bin",
        "HOME": "/root",
    }
    deploy = DeployPlan(env=(("LANG", "C"), ("EXTRA", "1")))
    env = environment.server_environment(
        deploy, outside, tmp_path / "home", tmp_path / "w", tmp_path / "venv"
    )
    assert sorted(env) == sorted([*ALLOWED, "HOME", "MODEL_PATH", "EXTRA"])
    assert (env["LANG"], env["HOME"], env["MODEL_PATH"]) == (
        "C",
        str(tmp_path / "home"),
        str(tmp_path / "w"),
    )
    last = [own] if sys.prefix != sys.base_prefix else []
    folders = env["PATH"].split(":")
    assert folders[0] == str(tmp_path / "venv" / "bin")
    assert folders[len(folders) - len(last) :] == last  # evalrun's own python comes last


# ---- installation --------------------------------------------------------------------------------

WHEEL = {
    "tiny_dep.py": "version = '1.2'\n",
    "tiny_dep-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-dep\nVersion: 1.2\n",
    "tiny_dep-1.2.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "tiny_dep-1.2.dist-info/RECORD": "".join(
        f"tiny_dep{name},,\n" for name in (".py", "-1.2.dist-info/RECORD")
    ),
}


def test_requirements_are_installed(evalrun: Evalrun, deployment: Deployment) -> None:
    """Into an environment of the run, which sees the packages of the python that made it; then
    into a named one.
    """
    with zipfile.ZipFile(deployment.repo / "tiny_dep-1.2-py3-none-any.whl", "w") as wheel:
        for name, text in WHEEL.items():
            wheel.writestr(name, text)
    (deployment.repo / "requirements.txt").write_text("./tiny_dep-1.2-py3-none-any.whl\n")
    check = (
        "python3 -c 'import sys, tiny_dep, numpy; print(\"found\", tiny_dep.version, sys.prefix)'"
    )
    deployment.write(f"{check}\n{MOCK}")
    words = deployment.words(f"deploy.python={sys.executable}", "deploy.env.PIP_NO_INDEX=1")
    ran = evalrun("--mode", "infer", *words)
    assert ran.code == 0, ran.err + deployment.log("install")
    venv = deployment.run_folder().resolve() / "deploy" / "venv"
    assert f"found 1.2 {venv}" in deployment.log()
    assert "Successfully installed tiny-dep-1.2" in deployment.log("install")
    assert (venv / "made.txt").is_file()
    assert "include-system-site-packages = true" in (venv / "pyvenv.cfg").read_text()
    # Named for another run, which asks for nothing to be installed.
    (deployment.repo / "requirements.txt").unlink()
    again = evalrun("--mode", "infer", *deployment.words(f"deploy.venv={venv}"))
    assert again.code == 0, again.err
    assert f"found 1.2 {venv}" in deployment.log()
    assert not (deployment.run_folder() / "logs" / "install.out").exists()


def test_an_environment_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    """Killed while it was made: its python is there, its pip is not."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    installation = Installation(
        DeployPlan(), sys.executable, venv, tmp_path, tmp_path / "install.out"
    )
    assert next(name for name, _ in installation.steps()) == "the virtual environment"
    installation._mark.touch()
    assert [name for name, _ in installation.steps()] == ["pip install -r requirements.txt"]


def test_an_installation_that_fails(evalrun: Evalrun, deployment: Deployment) -> None:
    (deployment.repo / "requirements.txt").write_text("./not-there\n")
    ran = evalrun(*deployment.words(f"deploy.venv={sys.prefix}"))
    assert ran.code == 3, ran.err
    for text in (ran.out, header_of(deployment.run_folder(), "deploy")["reason"]):
        assert "The installation (pip install -r requirements.txt) ended with exit code 1" in text
        assert "not-there" in text
    assert deployment.state()["phase"] == "failed"
    assert not (deployment.run_folder() / "logs" / "deploy.out").exists()
