"""The public API of the package: listed, light to import, never hidden by a module of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.workspace import ROOT, write_bench

import evalrun

CALLS = """
import importlib, json, pkgutil, sys
import evalrun

for module in pkgutil.walk_packages(evalrun.__path__, "evalrun."):
    if not module.name.endswith(("__main__", ".token_draws")):  # a program; it needs torch
        importlib.import_module(module.name)
answers, data = sys.argv[1:]
given = {"model": "replay", "task": "gsm8k", "model.path": answers, "dataset.path": data}
plan = evalrun.plan(**given)
result = evalrun.run(**given)
numbers = evalrun.score("exact_match", [{"golds": ["a"], "preds": ["a"]}])
found = {
    "plan": plan.cells[0].task,
    "run": [type(result) is evalrun.RunResult, result.state],
    "score": [e.value for e in numbers.values()],
    "results": evalrun.results("latest")["value"].tolist(),
    "samples": evalrun.samples("latest")["value"].tolist(),
    "read": evalrun.read("The answer is B.", "letter", 4).value,
    "Fault": issubclass(evalrun.Fault, Exception),
    "__version__": evalrun.__version__ == evalrun.version.__version__,
    "RunResult": callable(evalrun.RunResult),
}
print(json.dumps(found))
"""


def python(code: str, *words: str, cwd: Path) -> str:
    """What the code prints last, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=cwd, capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()[-1]


def test_every_public_name_works_when_every_module_is_loaded(tmp_path: Path) -> None:
    """Importing evalrun.x.y binds evalrun.x; a public function of that name would be gone."""
    bench = write_bench(tmp_path, ["1", "0"])
    found = json.loads(python(CALLS, str(bench.answers), str(bench.data), cwd=tmp_path))
    assert sorted(found) == sorted(evalrun.__all__)
    assert found == {
        "plan": "gsm8k",
        "run": [True, "complete"],
        "score": [1.0],
        "results": [0.5],
        "samples": [1.0, 0.0],
        "read": "B",
        **dict.fromkeys(("Fault", "__version__", "RunResult"), True),
    }


def test_no_public_name_is_that_of_a_module() -> None:
    folder = ROOT / "evalrun"
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert modules & {*evalrun.__all__} == set()


def test_import_is_light() -> None:
    code = "import sys, evalrun; print(sorted(m for m in sys.modules if m[:7] == 'evalrun'))"
    assert python(code, cwd=ROOT) == "['evalrun', 'evalrun.version']"


def test_public_names_are_shown_and_others_are_not_there() -> None:
    assert {*evalrun.__all__} <= {*dir(evalrun)}
    assert not hasattr(evalrun, "nonsense")
    assert all(f"    {name}" in (evalrun.__doc__ or "") for name in ("run", "plan", "score"))
