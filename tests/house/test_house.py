"""The house: layers, sizes, words, docstrings, borders.

Each law is held against the tree, and shown to fail.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import likelihood_rows, overlap_rows
from support.house_laws import LAWS, booleans
from support.house_shape import MAX_FILE_LINES, sizes
from support.house_source import Source, sources
from support.workspace import ROOT, Evalrun, results_of, run_folders, write_bench

from evalrun.config import schema
from evalrun.metrics import METRICS, SCORERS, make_metric, scorer_named
from evalrun.types import Doc, Samples, Verdict

EVALRUN = sources(ROOT, "evalrun")
TESTS = sources(ROOT, "tests")
CASES = ROOT / "tests" / "cases" / "metric_versions.jsonl"
GOLDEN = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def config_keys() -> set[str]:
    """Keys that users write, parameters of metrics and scorers among them: they keep their short
    names.
    """
    kinds = [*vars(schema).values(), *map(METRICS.get, METRICS), *map(SCORERS.get, SCORERS)]
    fields = {
        field.name
        for kind in kinds
        if dataclasses.is_dataclass(kind)
        for field in dataclasses.fields(kind)
    }
    return fields | {"truncated"}  # of the public evalrun.read(text, kind, options, truncated)


# ---- the laws hold -------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_package_keeps_the_law(law: str) -> None:
    assert LAWS[law](EVALRUN) == []


def test_booleans_and_durations_are_named_as_such() -> None:
    assert booleans(EVALRUN, config_keys()) == []


@pytest.mark.parametrize("law", ["sizes", "names", "absent", "undone"])
def test_tests_keep_the_law(law: str) -> None:
    assert LAWS[law](TESTS) == []


def test_every_test_file_says_what_it_tests() -> None:
    first = {
        file.path: file.text.lstrip()[:3]
        for file in TESTS
        if Path(file.path).name.startswith("test_")
    }
    assert [path for path, opening in first.items() if opening != '"""'] == []


def test_configuration_and_documents_are_finished() -> None:
    """No mark of unfinished work in what users read."""
    paths = [
        *ROOT.glob("conf/**/*.yaml"),
        *ROOT.glob("tasks_yaml/**/*.yaml"),
        *ROOT.glob("docs/*.md"),
    ]
    paths += [ROOT / "README.md", ROOT / "Makefile"]
    texts = [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in paths
    ]
    assert LAWS["undone"](texts) == []
    assert len(texts) > 10


# ---- each law can fail ---------------------------------------------------------------------------

A, B = "evalrun/text/a.py", "evalrun/text/b.py"
DOC = '"""A module."""\n'
BAD: list[tuple[str, dict[str, str], str]] = [
    ("sizes", {A: "x = 1\n" * (MAX_FILE_LINES + 1)}, "401 lines"),
    ("sizes", {A: "def f():\n" + "    x = 1\n" * 50}, "f has 51 lines"),
    ("complexity", {A: "def f(a):\n" + "    a and a\n" * 15}, "f has complexity 16"),
    ("rooms", {f"evalrun/x/m{i}.py": DOC for i in range(14)}, "14 files, more than 13"),
    (
        "rooms",
        {"evalrun/x/__init__.py": '"""See the files of this folder."""\n'},
        "what the room is",
    ),
    ("one_meaning", {A: DOC, "evalrun/stats/a.py": DOC}, "a stands in"),
    ("one_meaning", {A: "class C: pass\n", B: "class C: pass\n"}, "class C stands in"),
    ("own_names", {A: DOC, B: "from evalrun.text import a as b\n"}, "a is imported as b"),
    ("docstrings", {A: "x = 1\n"}, "no module docstring"),
    ("docstrings", {A: DOC + "def f(): pass\n"}, "f has no docstring"),
    ("docstrings", {A: DOC + "class C: pass\n"}, "C has no docstring"),
    (
        "docstrings",
        {A: DOC + "class C:\n    'c'\n    async def go(self): pass\n"},
        "C.go has no docstring",
    ),
    (
        "docstrings",
        {
            A: DOC
            + (
                "class P:\n    'p'\n    def go(self): pass\nclass C(P):\n    'c'\n    def "
                "go(self): pass\n"
            )
        },
        "C.go has no docstring",
    ),
    ("broad_excepts", {A: "try: pass\nexcept Exception: pass\n"}, "`except Exception`"),
    ("broad_excepts", {A: "try: pass\nexcept: pass\n"}, "broad"),
    (
        "broad_excepts",
        {A: "try: pass\nexcept (OSError, Exception) as e: raise ValueError from e\n"},
        "broad",
    ),
    ("broad_excepts", {A: "with contextlib.suppress(Exception): pass\n"}, "suppress"),
    (
        "broad_excepts",
        {"evalrun/runs/border.py": "def other():\n    try: pass\n    except Exception: pass\n"},
        "broad",
    ),
    ("heavy_imports", {A: "import torch\n"}, "torch is loaded"),
    ("heavy_imports", {A: "from scipy import stats\n"}, "scipy.stats is loaded"),
    (
        "heavy_imports",
        {A: "try:\n    import pandas as pd\nexcept ImportError:\n    pd = None\n"},
        "pandas is loaded",
    ),
    ("heavy_imports", {A: "class C:\n    import rich.console\n"}, "rich.console is loaded"),
    ("heavy_imports", {A: "from evalrun.backends.hf import token_draws\n"}, "token_draws loads"),
    ("heavy_imports", {"evalrun/backends/hf/token_draws.py": "import vllm\n"}, "vllm is loaded"),
    ("places", {A: "def f():\n    import torch\n"}, "torch is known only in evalrun/backends/"),
    (
        "places",
        {"evalrun/plan/a.py": "from omegaconf import OmegaConf\n"},
        "omegaconf is known only",
    ),
    (
        "places",
        {"evalrun/tasks/docs.py": "def f():\n    from datasets import x\n"},
        "datasets is known only",
    ),
    (
        "places",
        {"evalrun/metrics/a.py": "def f():\n    import pyarrow as pa\n"},
        "pyarrow is known only",
    ),
    ("places", {A: "importlib.import_module('evalrun.cli')\n"}, "an import by name"),
    (
        "circles",
        {A: "import evalrun.text.b\n", B: "def f():\n    from evalrun.text import a\n"},
        "evalrun.text.a > evalrun.text.b > evalrun.text.a",
    ),
    ("prints", {A: "print(1)\n"}, "print outside"),
    ("prints", {A: "import sys\nsys.stderr.write('x')\n"}, "print outside"),
    ("names", {"evalrun/text/utils.py": DOC}, "named for what it holds"),
    ("names", {"evalrun/common/__init__.py": DOC}, "named for what it holds"),
    ("names", {A: "class ModelManager: pass\n"}, "ModelManager says nothing"),
    ("names", {A: "def parse_helper(): pass\n"}, "parse_helper says nothing"),
    ("names", {A: "def f(n_trials, target): pass\n"}, "target: say gold"),
    ("absent", {A: "def f(n=-1): pass\n"}, "-1 stands for absent"),
    ("absent", {A: "class C:\n    logprob: float = 999\n"}, "999 stands for absent"),
    (
        "frozen",
        {"evalrun/types/a.py": "@dataclass(frozen=True)\nclass C: pass\n"},
        "is not frozen with slots",
    ),
    ("frozen", {"evalrun/metrics/a.py": "@dataclass\nclass C: pass\n"}, "is not frozen with slots"),
    ("undone", {A: "x = 1  # TO" + "DO later\n"}, f"{A}:1"),
]


@pytest.mark.parametrize(("law", "files", "said"), BAD)
def test_law_finds_the_violation(
    law: str, files: dict[str, str], said: str, tmp_path: Path
) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = LAWS[law](sources(tmp_path, "evalrun"))
    assert [line for line in found if said in line], found


GOOD: list[tuple[str, str]] = [
    ("sizes", "def f():\n" + "    x = 1\n" * 49),
    (
        "docstrings",
        DOC
        + (
            "class P:\n    'p'\n    def go(self): 'Go.'\nclass C(P):\n    'c'\n    def go(self): "
            "pass\n"
        ),
    ),
    ("broad_excepts", "try: pass\nexcept BaseException:\n    undo()\n    raise\n"),
    (
        "heavy_imports",
        "if TYPE_CHECKING:\n    import torch\ndef f():\n    import torch\nfrom scipy.special "
        "import comb\n",
    ),
    ("names", "def f(example, item): pass\n"),
]


@pytest.mark.parametrize(("law", "text"), GOOD)
def test_law_lets_good_code_pass(law: str, text: str) -> None:
    assert LAWS[law]([Source(A, text)]) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(verbose: bool): pass\n", "name it is_verbose"),
        ("class C:\n    needed: bool | None = None\n", "name it is_needed"),
        ("def f(timeout: float): pass\n", "timeout_s"),
        ("class C:\n    retry_delay: int | None = None\n", "retry_delay_s"),
    ],
)
def test_boolean_law_finds_the_violation(text: str, said: str) -> None:
    assert [line for line in booleans([Source(A, text)], ["debug"]) if said in line]
    assert (
        booleans([Source(A, "def f(debug: bool, is_x: bool, timeout_s: float): pass\n")], ["debug"])
        == []
    )


def test_long_mock_server_is_excused_by_name_only() -> None:
    text = "x = 1\n" * 401
    assert sizes([Source("tests/support/mock_server.py", text)]) == []
    assert len(sizes([Source("tests/other_server.py", text + text)])) == 1


# ---- layers --------------------------------------------------------------------------------------


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter on the package in `folder`, by the pyproject.toml there."""
    lint = Path(sys.executable).with_name("lint-imports")
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "250"}
    return subprocess.run(
        [str(lint), "--no-cache"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_contracts_hold() -> None:
    ran = lint_imports(ROOT)
    assert ran.returncode == 0, ran.stdout
    assert "Contracts: 5 kept, 0 broken." in ran.stdout


OFFENCES = {
    "text/numbers.py": (
        "import evalrun.planning",
        "evalrun.text is not allowed to import evalrun.planning",
    ),
    "metrics/text/exact.py": (
        "import evalrun.store",
        "evalrun.metrics is not allowed to import evalrun.store",
    ),
    "stages/score.py": (
        "from evalrun.stages import infer",
        "score is not allowed to import evalrun.stages.infer",
    ),
    "planning/samples.py": (
        "import omegaconf",
        "evalrun.planning is not allowed to import omegaconf",
    ),
    "tasks/rows.py": ("import torch", "evalrun.tasks is not allowed to import torch"),
    "stats/sampling.py": ("import pyarrow", "evalrun.stats is not allowed to import pyarrow"),
}


def test_import_contracts_break_where_they_should(tmp_path: Path) -> None:
    """A copy of the package with one wrong import per contract; also inside functions."""
    shutil.copytree(
        ROOT / "evalrun", tmp_path / "evalrun", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path, (line, _) in OFFENCES.items():
        with (tmp_path / "evalrun" / path).open("a") as file:
            file.write(f"\n\ndef offend() -> None:\n    {line}\n")
    (tmp_path / "evalrun" / "stray.py").write_text(DOC)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ran = lint_imports(tmp_path)
    assert ran.returncode == 1
    assert "0 kept, 5 broken" in ran.stdout
    said = " ".join(ran.stdout.split())
    assert [message for _, message in OFFENCES.values() if message not in said] == []
    assert "evalrun.stray" in said


# ---- what a command loads ------------------------------------------------------------------------

LOADED = """
import sys
from evalrun.cli import main
code = main(sys.argv[1:])
print("LOADED", code, *sorted({"torch", "vllm", "transformers", "datasets", "pandas", "scipy.stats",
      "aiohttp",
      "hydra",
      "omegaconf", "numpy", "pyarrow", "rich", "jinja2"} & sys.modules.keys()))
"""


def loaded(folder: Path, *words: str) -> list[str]:
    """Exit code and heavy packages that a command has loaded at its end, in a process of its
    own.
    """
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()[-1].split()[1:]


def test_help_loads_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path, "--help") == ["0"]


def test_eval_loads_no_engine_no_datasets_no_pandas(tmp_path: Path, evalrun: Evalrun) -> None:
    bench = write_bench(tmp_path, ["11", "10"])
    assert evalrun(*bench.words("num_return_sequences=2")).code == 0
    code, *packages = loaded(tmp_path, "--mode", "eval", "--reuse", "latest")
    assert code == "0"
    assert set(packages) <= {"hydra", "omegaconf", "numpy", "pyarrow", "rich"}


# ---- metrics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", METRICS)
def test_metric_says_where_it_comes_from(key: str) -> None:
    metric = METRICS.get(key)
    assert metric.source.strip()
    assert "Range" in (metric.__doc__ or ""), "the docstring of a metric says its range"
    assert isinstance(metric.version, int)
    assert metric.name == key


@pytest.mark.parametrize("key", SCORERS)
def test_scorer_says_its_range(key: str) -> None:
    assert "Range" in (SCORERS.get(key).__doc__ or "")


def value_of(case: dict[str, Any]) -> dict[str, float]:
    """Output name -> number, for one golden case of a metric: verdicts are `value:extracted`, or
    log-probabilities.
    """
    if "inputs" in case:
        return likelihood_rows.value_of(case)
    if "samples" in case:
        return overlap_rows.numbers(make_metric(case["metric"], case["params"]), case["samples"])
    metric = make_metric(case["metric"], case["params"])
    rows = []
    for i, row in enumerate(case["docs"]):
        parts = [sample.partition(":") for sample in row]
        verdicts = tuple(Verdict(float(value), extracted or None) for value, _, extracted in parts)
        answer = Samples(tuple(extracted or None for *_, extracted in parts), (False,) * len(parts))
        rows.append(metric.score(Doc(str(i), "t", i, "?", ("1",)), answer, verdicts))
    columns = zip(metric.columns, zip(*rows, strict=True), strict=True)
    matrix = {column.name: np.array(values) for column, values in columns}
    return {output.name: output.reduce(matrix) for output in metric.outputs()}


def verdict_of(case: dict[str, Any]) -> list[object]:
    """[value, extracted, state, rule] of one golden case of a scorer."""
    doc = Doc("d", "t", 0, "?", tuple(case["gold"]))
    verdict = scorer_named(case["scorer"]).judge_text(doc, case["text"])
    return [verdict.value, verdict.extracted, verdict.state.value, verdict.rule]


def changed(
    case: dict[str, Any], compute: Callable[[dict[str, Any]], object], version: int
) -> bool:
    """True where a case of this version gives another value than it did.

    Cases of older versions are history.
    """
    if case["version"] != version:
        return False
    got, wanted = compute(case), case["value"]
    return got != (pytest.approx(wanted, rel=1e-12) if isinstance(wanted, dict) else wanted)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.get('metric') or case['scorer']}")
def test_changed_value_needs_a_new_version(case: dict[str, Any]) -> None:
    if "metric" in case:
        is_changed = changed(case, value_of, METRICS.get(case["metric"]).version)
    else:
        is_changed = changed(
            case, verdict_of, SCORERS.get(case["scorer"].partition("(")[0]).version
        )
    assert not is_changed, (
        "what it returns has changed: raise `version`, and add golden cases of the new version"
    )


def test_every_metric_and_scorer_has_golden_cases_of_its_version() -> None:
    have = {
        (case.get("metric") or case["scorer"].partition("(")[0], case["version"]) for case in GOLDEN
    }
    wanted = {(key, METRICS.get(key).version) for key in METRICS} | {
        (key, SCORERS.get(key).version) for key in SCORERS
    }
    assert wanted - have == set()


def test_golden_case_fails_when_a_value_changes_within_a_version() -> None:
    case = next(case for case in GOLDEN if case.get("metric") == "pass_at_k")
    assert not changed(case, value_of, 1)
    assert changed(case, lambda _: {"pass@k": 0.123}, 1)
    assert not changed(case, lambda _: {"pass@k": 0.123}, 2)


def test_version_stands_in_the_signature(
    tmp_path: Path, evalrun: Evalrun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A raised version is another number: eval adds it beside the old one."""
    bench = write_bench(tmp_path, ["1", "0"])
    assert evalrun(*bench.words()).code == 0
    monkeypatch.setattr(METRICS.get("accuracy"), "version", 2)
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0
    estimates = results_of(run_folders(tmp_path)[0])["estimates"]
    assert isinstance(estimates, list)
    assert sorted(e["version"] for e in estimates) == [1, 2]
    assert len({e["signature"] for e in estimates}) == 2
