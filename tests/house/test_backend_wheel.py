"""A backend in a package of somebody else: its wheel is built, installed, and used end to end."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.workspace import ROOT, Bench, Ran, run_folders, values_of, write_bench

from evalrun.runs import find

BACKEND = '''"""A backend that counts: the answer to question q is q + 10."""

import os
import re
import time

from evalrun.backends import Sink, backend
from evalrun.backends.base import answered
from evalrun.types import Generate, Kind, Reply

if "COUNTING_IMPORTED" in os.environ:
    open(os.environ["COUNTING_IMPORTED"], "a").close()


@backend("counting", kinds=[Kind.GENERATE], needs={"path": "ANYTHING"})
class CountingBackend:
    """Needs no weights."""

    def __init__(self, model):
        self.model = model

    def start(self):
        pass

    def facts(self):
        return {"engine": "counting", "is_deterministic": "yes"}

    def render(self, request):
        return request.messages[-1].content

    def run(self, requests, sink):
        for request in requests:
            number = int(re.search(r"question (\\\\d+) of", self.render(request))[1])
            for doc_id, kind, index, turn in list(request.keys()):
                row = Reply(doc_id, kind, index, turn, ended_s=time.time())
                sink(answered(row, f"The answer is {number + 10}.", finish_reason="stop"))

    def cancel(self):
        pass

    def close(self):
        pass
'''.replace("\\\\d", "\\d")

PROJECT = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "evalrun-counting"
version = "1"
[project.entry-points."evalrun.backends"]
counting = "evalrun_counting:CountingBackend"
broken = "evalrun_counting.missing:Nothing"
unnamed = "evalrun_counting:CountingBackend"
hf = "evalrun_counting:CountingBackend"
""",
    "evalrun_counting/__init__.py": BACKEND,
}


@dataclass(frozen=True)
class Site:
    """An interpreter that sees this one's packages, the checkout, and the wheel."""

    python: Path
    mark: Path

    def run(self, folder: Path, *words: str) -> Ran:
        """The command line in `folder`; `mark` exists where the wheel's code was imported."""
        self.mark.unlink(missing_ok=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "EVALRUN"))}
        path = os.pathsep.join([str(ROOT), *(p for p in sys.path if p.endswith("site-packages"))])
        more = {"PYTHONPATH": path, "COUNTING_IMPORTED": str(self.mark), "HF_HUB_OFFLINE": "1"}
        ran = subprocess.run(
            [str(self.python), "-m", "evalrun", *words],
            cwd=folder,
            env={**kept, **more, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    @property
    def was_imported(self) -> bool:
        """Whether the last command imported the wheel's code."""
        return self.mark.exists()


def checked(*words: str) -> None:
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{' '.join(words)}\n{ran.stdout}\n{ran.stderr}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The wheel of PROJECT, built by hatchling and installed by pip into a venv."""
    folder = tmp_path_factory.mktemp("counting")
    for name, text in PROJECT.items():
        (folder / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "project" / name).write_text(text)
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder))
    checked(sys.executable, *build, str(folder / "project"))
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    checked(str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel))
    return Site(python, folder / "imported")


@pytest.fixture
def answered_run(site: Site, tmp_path: Path) -> tuple[Bench, Path]:
    """A run whose model is the wheel's backend."""
    made = write_bench(tmp_path, ["1"] * 3)
    words = ("task=gsm8k", f"dataset.path={made.data}")
    ran = site.run(tmp_path, "model=replay", "model.backend=counting", "model.path=x", *words)
    assert ran.code == 0, ran.err
    return made, run_folders(tmp_path)[-1]


def test_installed_backend_answers_a_run(site: Site, answered_run: tuple[Bench, Path]) -> None:
    _, run = answered_run
    assert site.was_imported
    assert values_of(run)["accuracy"] == 1.0
    assert find.load(run).plan.model.backend == "counting"


def test_configuration_file_of_the_user_may_name_it(site: Site, tmp_path: Path) -> None:
    made = write_bench(tmp_path, ["1"] * 3)
    (tmp_path / "own" / "model").mkdir(parents=True)
    (tmp_path / "own" / "model" / "mine.yaml").write_text(
        "name: mine\nbackend: counting\npath: x\n"
    )
    words = ("model=mine", "--config-dir", "own", "task=gsm8k", f"dataset.path={made.data}")
    ran = site.run(tmp_path, *words)
    assert ran.code == 0, ran.err
    assert site.was_imported


@pytest.mark.parametrize(
    "words",
    [["--help"], ["list", "models"], ["--dry-run", "model=smollm2", "task=demo_math"],
     ["--dry-run", "model=smollm2", "model.backend=hf", "task=demo_math"]],
)  # fmt: skip
def test_nothing_is_imported_unless_it_is_named(
    site: Site, tmp_path: Path, words: list[str]
) -> None:
    assert site.run(tmp_path, *words).code == 0
    assert not site.was_imported


def test_stored_plan_alone_imports_nothing(
    site: Site, tmp_path: Path, answered_run: tuple[Bench, Path]
) -> None:
    scored = site.run(tmp_path, "--mode", "eval", "--reuse", "latest")
    assert scored.code == 0, scored.err
    assert not site.was_imported
    for words in (["--reuse", "latest"], ["--reuse", "latest", "--limit", "2"]):
        asked = site.run(tmp_path, *words)
        assert asked.code == 2
        assert "Say model.backend=counting" in asked.err
        assert not site.was_imported
    named = site.run(tmp_path, "--reuse", "latest", "model.backend=counting")
    assert named.code == 0, named.err
    assert site.was_imported


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("countin", "There is no backend 'countin' in model.backend. Did you mean 'counting'?"),
        ("broken", "backend broken of the installed package evalrun-counting "
                   "(evalrun_counting.missing:Nothing) cannot be imported"),
        ("unnamed", "registers no such backend: @backend('unnamed', ...) must decorate"),
    ],
)  # fmt: skip
def test_faults_of_installed_backends_are_named(
    site: Site, tmp_path: Path, name: str, says: str
) -> None:
    made = write_bench(tmp_path, ["1"])
    words = ("model=replay", f"model.backend={name}", "model.path=x", "task=gsm8k")
    ran = site.run(tmp_path, *words, f"dataset.path={made.data}")
    assert ran.code == 2
    assert says in ran.err
    assert "Traceback" not in ran.err
    assert run_folders(tmp_path) == []
