"""The wheel, in a venv of its own that has only the core packages, from a folder that is no
checkout.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from support.workspace import ROOT, Bench, Ran, run_folders, write_bench

# What scoring and replaying need; datasets, torch, transformers, vllm and aiohttp are left out.
CORE = ("hydra-core", "omegaconf", "numpy", "scipy", "pyarrow", "rich", "jinja2", "pandas")


@dataclass(frozen=True)
class Installed:
    """A venv with the wheel in it."""

    python: Path

    def run(self, folder: Path, *words: str) -> Ran:
        """The venv's `evalrun` in `folder`, offline."""
        return command([str(self.python.with_name("evalrun")), *words], folder)

    def pip(self, *words: str) -> None:
        """pip of the venv, without network."""
        checked(
            [str(self.python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", *words],
            self.python.parent,
        )


def command(words: list[str], folder: Path) -> Ran:
    """One command in a clean environment, offline."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTHON", "EVALRUN", "VIRTUAL_ENV"))
    }
    environment = {**kept, "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    ran = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def checked(words: list[str], folder: Path) -> str:
    """The output of a command that must succeed."""
    ran = command(words, folder)
    assert ran.code == 0, f"{' '.join(words)}\n{ran.out}\n{ran.err}"
    return ran.out


def with_requirements(names: tuple[str, ...]) -> set[str]:
    """The installed distributions behind these names and all that they require."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name not in found:
            found.add(name)
            needed = [Requirement(text) for text in metadata.requires(name) or []]
            todo += [r.name for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def link_packages(site: Path) -> None:
    """Link the core packages of this interpreter into another's site-packages: same versions, no
    network.
    """
    for name in with_requirements(CORE):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            source = Path(str(distribution.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built out of that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    checked(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        folder,
    )
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A venv with the core packages and the wheel."""
    venv = tmp_path_factory.mktemp("venv") / "clean"
    checked([sys.executable, "-m", "venv", str(venv)], venv.parent)
    result = Installed(venv / "bin" / "python")
    site = checked(
        [str(result.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        venv.parent,
    )
    link_packages(Path(site.strip()))
    (wheel,) = built.glob("*.whl")
    result.pip(str(wheel))
    return result


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Four questions with two saved answers each."""
    return write_bench(tmp_path_factory.mktemp("bench"), ["11", "10", "01", "00"])


def stored(folder: Path) -> dict[str, Any]:
    """Relative path -> content of every results JSON of the only run below folder/outputs, stage
    times left out.
    """
    (path,) = run_folders(folder)
    files = [
        each for each in path.glob("results/*/*.json") if not each.name.endswith(".times.json")
    ]
    return {str(each.relative_to(path)): json.loads(each.read_text()) for each in files}


def test_wheel_holds_the_configuration_and_the_data(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for group in ("conf", "tasks_yaml"):
        ours = {
            f"evalrun/{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / group).rglob("*.yaml")
        }
        assert len(ours) > 2
        assert ours - names == set()
    assert "evalrun/tasks/data/demo_math.jsonl" in names
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "evalrun").rglob("*.py")}
    assert modules - names == set()
    assert [n for n in names if not n.startswith(("evalrun/", "evalrun-"))] == []
    assert [n for n in names if "__pycache__" in n or n.startswith("evalrun/tests")] == []


def test_sdist_holds_all_that_a_build_and_the_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "conf/config.yaml",
        "tasks_yaml/task/gsm8k.yaml",
        "evalrun/cli/__init__.py",
        "tests/conftest.py",
        "README.md",
    }
    assert wanted - names == set()
    assert [name for name in names if name.startswith((".venv", "outputs", ".git/"))] == []


def test_installed_package_is_not_the_checkout(installed: Installed, tmp_path: Path) -> None:
    code = (
        "import evalrun, importlib.util as u\nprint(evalrun.__file__)\nprint([n for n in "
        "('datasets', 'torch', 'transformers', 'vllm', 'aiohttp') if u.find_spec(n)])"
    )
    where, engines = checked([str(installed.python), "-c", code], tmp_path).splitlines()
    assert str(installed.python.parent.parent) in where
    assert engines == "[]"


def test_help_and_lists(installed: Installed, tmp_path: Path) -> None:
    assert "evalrun model=smollm2 task=demo_math" in installed.run(tmp_path, "--help").out
    assert installed.run(tmp_path, "--version").out.startswith("evalrun ")
    listed = installed.run(tmp_path, "list", "tasks")
    assert listed.code == 0
    assert {"demo_math", "gsm8k"} <= {line.split()[0] for line in listed.out.splitlines()}
    assert list(tmp_path.iterdir()) == []


def test_dry_run_sends_and_writes_nothing(
    installed: Installed, tmp_path: Path, bench: Bench
) -> None:
    ran = installed.run(tmp_path, "--dry-run", *bench.words("num_return_sequences=2"))
    assert ran.code == 0, ran.err
    assert "requests: 8 answers in all" in ran.out
    assert "question 0 of bench?" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_run_and_eval_give_what_the_checkout_gives(
    installed: Installed, tmp_path: Path, bench: Bench
) -> None:
    here, there = tmp_path / "wheel", tmp_path / "checkout"
    here.mkdir()
    there.mkdir()
    words = bench.words("num_return_sequences=2")
    ran = installed.run(here, *words)
    assert ran.code == 0, ran.err
    assert "pass@2" in ran.out
    made = stored(here)
    checkout = command([sys.executable, "-m", "evalrun", *words], there)
    assert checkout.code == 0, checkout.err
    assert made == stored(there)
    values = {e["display"]: e["value"] for e in made["results/replay/gsm8k.json"]["estimates"]}
    assert values == {"accuracy": 0.5, "pass@2": 0.75, "cons@2": 0.25, "avg@2": 0.5}
    again = installed.run(here, "--mode", "eval", "--reuse", "latest")
    assert again.code == 0, again.err
    assert stored(here) == made
    assert len(run_folders(here)) == 1


def test_demo_data_comes_with_the_package(
    installed: Installed, tmp_path: Path, bench: Bench
) -> None:
    ran = installed.run(
        tmp_path, "--dry-run", "model=replay", f"model.path={bench.answers}", "task=demo_math"
    )
    assert ran.code == 0, ran.err
    assert "requests: 40 answers in all" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model=hf", "model.path=some/model", "task=demo_math"], "pip install 'evalrun[hf]'"),
        (["model=smollm2", "task=demo_math"], "pip install 'evalrun[hf]'"),
        (["model=qwen", "task=demo_math"], "pip install 'evalrun[vllm]'"),
        (["model=vllm_server", "task=demo_math"], "pip install aiohttp"),
        (["model=replay", "model.path=ANSWERS", "task=gsm8k"], "pip install datasets"),
    ],
)
def test_missing_package_is_named_with_its_remedy(
    installed: Installed, tmp_path: Path, bench: Bench, words: list[str], said: str
) -> None:
    ran = installed.run(tmp_path, *[word.replace("ANSWERS", str(bench.answers)) for word in words])
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert list(tmp_path.iterdir()) == []


ADD_ON = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "evalrun-mytasks"
version = "1"
[project.entry-points."evalrun.conf"]
mytasks = "evalrun_mytasks"
""",
    "evalrun_mytasks/__init__.py": "",
    "evalrun_mytasks/task/capitals.yaml": """# @package tasks.capitals
defaults: [/task_schema@_here_, _self_]
description: capitals of the world
dataset: {path: PLACE, columns: {query: country, gold: capital}}
prompt: {template: 'The capital of {{ query }} is'}
metrics: {accuracy: {}}
""",
    "capitals.jsonl": (
        '{"country": "France", "capital": "Paris"}\n{"country": "Peru", "capital": "Lima"}\n'
    ),
    "answers.jsonl": '{"query": "France", "text": "Paris"}\n{"query": "Peru", "text": "Cusco"}\n',
}


def test_add_on_package_adds_a_task(installed: Installed, tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name, text in ADD_ON.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text.replace("PLACE", str(project / "capitals.jsonl")))
    words = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(project),
    ]
    checked(words, tmp_path)
    installed.pip(*map(str, tmp_path.glob("*.whl")))
    try:
        listed = installed.run(elsewhere, "list", "tasks")
        assert [
            line
            for line in listed.out.splitlines()
            if line.split() == ["capitals", "capitals", "of", "the", "world"]
        ]
        ran = installed.run(
            elsewhere, "model=replay", f"model.path={project / 'answers.jsonl'}", "task=capitals"
        )
        assert ran.code == 0, ran.err
        (results,) = stored(elsewhere).values()
        assert [e["value"] for e in results["estimates"]] == [0.5]
    finally:
        checked(
            [str(installed.python), "-m", "pip", "uninstall", "-q", "-y", "evalrun-mytasks"],
            tmp_path,
        )
    assert "capitals" not in installed.run(elsewhere, "list", "tasks").out


METRIC_PROJECT = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "evalrun-shout"
version = "1.2"
[project.entry-points."evalrun.metrics"]
shout = "evalrun_shout:Shout"
loudness = "evalrun_shout"
broken = "evalrun_shout.broken"
""",
    "evalrun_shout/__init__.py": """
import sys
from evalrun.metrics import Scorer, metric, scorer
from evalrun.metrics.text.exact import MeanOfVerdicts
from evalrun.types import Verdict

print("shout is imported", file=sys.stderr)


@scorer("shout")
class Shout(Scorer):
    '''1 where the answer is the gold in capitals. Range {0, 1}.'''

    mark: str = ""

    def judge_text(self, doc, text):
        return Verdict(float(text == doc.gold_texts[0].upper() + self.mark))


@metric("loudness", display="loud@n", source="definition")
class Loudness(MeanOfVerdicts):
    '''Mean of `shout`. Range [0, 1].'''

    n: int | None = None
    scorer: str | None = "shout"
""",
    "evalrun_shout/broken.py": "import nothing_of_this_name\n",
}
SHOUTED = '{"query": "q1", "text": "PARIS"}\n{"query": "q2", "text": "Lima"}\n'
ASKED = '{"question": "q1", "answer": "Paris"}\n{"question": "q2", "answer": "Lima"}\n'
SHOUT_TASK = """# @package tasks.loud
defaults: [/task_schema@_here_, _self_]
dataset: {path: PLACE, columns: {query: question, gold: answer}}
metrics: {accuracy: {scorer: "shout(mark='')"}}
"""


@pytest.fixture
def shouting(installed: Installed, tmp_path: Path) -> Iterator[Path]:
    """A folder with questions and answers, while a package that brings metrics is installed."""
    project = tmp_path / "project"
    for name, text in METRIC_PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    checked([*build, str(tmp_path), str(project)], tmp_path)
    installed.pip(*map(str, tmp_path.glob("evalrun_shout*.whl")))
    folder = tmp_path / "work"
    (folder / "own" / "task").mkdir(parents=True)
    (folder / "asked.jsonl").write_text(ASKED)
    (folder / "answers.jsonl").write_text(SHOUTED)
    (folder / "own" / "task" / "loud.yaml").write_text(
        SHOUT_TASK.replace("PLACE", str(folder / "asked.jsonl"))
    )
    yield folder
    checked(
        [str(installed.python), "-m", "pip", "uninstall", "-q", "-y", "evalrun-shout"], tmp_path
    )


def test_installed_package_adds_metrics(installed: Installed, shouting: Path) -> None:
    """Named, it is imported, scored and signed; listed or named by a stored plan, it is not."""
    listed = installed.run(shouting, "list", "metrics")
    assert "of the installed package evalrun-shout-1.2" in listed.out
    assert "shout is imported" not in listed.err
    assert (
        "1 where the answer is the gold" in installed.run(shouting, "list", "metrics", "shout").out
    )

    own = ["--config-dir", "own", "model=replay", "model.path=answers.jsonl", "task=loud"]
    ran = installed.run(shouting, *own, "metric=[shout,loudness]")
    assert ran.code == 0, ran.err
    (results,) = stored(shouting).values()
    assert {e["display"]: e["value"] for e in results["estimates"]} == {"shout": 0.5, "loud@n": 0.5}
    assert all("|file:evalrun-shout-1.2" in e["signature"] for e in results["estimates"])

    again = installed.run(shouting, "--mode", "eval", "--reuse", "latest")
    assert again.code == 2
    assert "belongs to the installed package evalrun-shout-1.2" in again.err
    assert "shout is imported" not in again.err
    again = installed.run(shouting, "--mode", "eval", "--reuse", "latest", "metric=shout:n=1")
    assert again.code == 0, again.err


def test_installed_scorer_of_a_task_file_and_of_a_file(
    installed: Installed, shouting: Path
) -> None:
    own = ["--config-dir", "own", "model=replay", "model.path=answers.jsonl", "task=loud"]
    ran = installed.run(shouting, *own)
    assert ran.code == 0, ran.err
    (results,) = stored(shouting).values()
    assert [e["value"] for e in results["estimates"]] == [0.5]
    (shouting / "scored.jsonl").write_text('{"golds": ["a"], "preds": ["A!"]}\n')
    for metric in ("shout:n=1", "accuracy:scorer=shout"):
        assert installed.run(shouting, "score", metric, "scored.jsonl").code == 0
    loud = installed.run(
        shouting, "score", "accuracy:scorer='shout(mark=\"!\")'", "scored.jsonl", "--json"
    )
    assert json.loads(loud.out)["estimates"][0]["value"] == 1.0


def test_broken_package_is_named(installed: Installed, shouting: Path) -> None:
    ran = installed.run(shouting, "score", "broken", "asked.jsonl")
    assert ran.code == 2
    assert "metric broken of the installed package evalrun-shout-1.2" in ran.err
    assert "No module named 'nothing_of_this_name'" in ran.err
    ran = installed.run(shouting, "score", "shouts", "asked.jsonl")
    assert "Did you mean 'shout'?" in ran.err
