"""Registration: names and facts once, above the class; what adding a metric touches."""

from __future__ import annotations

import ast
import inspect
import json
import shutil
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from support.workspace import ROOT

from evalrun.errors import Fault
from evalrun.metrics import METRICS, SCORERS, Metric, Scorer, make_metric, metric, scorer
from evalrun.metrics.text.exact import FixedScorer, MeanOfVerdicts
from evalrun.registry import Registry
from evalrun.types import Doc, Verdict

NAMED_ELSEWHERE = {
    "exact_match": {"runs/resume.py"},  # an example in an error
    "rouge": {"text/tokenize.py", "metrics/generation/rouge.py"},  # a tokenizer of that name
    "contains": {"stages/scoring/gold_inside.py"},  # named by a note, where it would fit
    "pass_at_k": {"planning/samples.py"},  # added where several answers are asked for
    "cons_at_k": {"planning/samples.py"},
    "avg_at_n": {"planning/samples.py", "stages/summary/advice.py"},
}


def source_file(cls: type[Metric] | type[Scorer]) -> str:
    """Where a class is defined, below the package."""
    found = inspect.getsourcefile(cls)
    assert found is not None
    return Path(found).relative_to(ROOT / "evalrun").as_posix()


@pytest.mark.usefixtures("registries")
def test_facts_stand_above_the_class() -> None:
    @scorer("loud", aliases=("loudly",), packages=("numpy",))
    class Loud(Scorer):
        """1 where the answer is the gold in capitals."""

        mark: str = ""

        def judge_text(self, doc: Doc, text: str) -> Verdict:
            return Verdict(float(text == doc.gold_texts[0].upper() + self.mark))

    @metric("loud", aliases=("noise",), display="loud@n", source="definition")
    class LoudMean(FixedScorer):
        """Mean of `loud`."""

    @metric("louder")
    class Louder(LoudMean):
        """Mean of `loud`, by another name."""

    assert (Loud.name, Loud.packages, SCORERS.get("loudly")) == ("loud", ("numpy",), Loud)
    assert Loud(mark="!").signature == "loud.v1(mark='!')"
    assert (LoudMean.display, LoudMean.aliases) == ("loud@n", ("loud@n", "noise"))
    assert METRICS.key("loud@n") == METRICS.key("noise") == "loud"
    assert (Louder.display, Louder.aliases, Louder.source) == ("louder", (), "definition")
    made = make_metric("noise", {"n": 2})
    assert made.scorer == "loud"
    assert [f.name for f in fields(made)] == ["n", "scorer"]  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        made.n = 3  # type: ignore[attr-defined]


@pytest.mark.usefixtures("registries")
def test_what_cannot_be_registered() -> None:
    def add(name: str, source: str | None, aliases: tuple[str, ...] = ()) -> None:
        @metric(name, source=source, aliases=aliases)
        class Added(MeanOfVerdicts):
            """Nothing."""

            n: int | None = None
            scorer: str | None = None

    with pytest.raises(ValueError, match="metric added names no source"):
        add("added", None)
    with pytest.raises(ValueError, match="metric 'rouge1' is registered twice"):
        add("rouge1", "definition")
    with pytest.raises(ValueError, match="metric 'em' is registered twice"):
        add("added", "definition", ("em",))
    assert "added" not in METRICS


def test_a_name_that_nobody_offers() -> None:
    registry: Registry[int] = Registry("thing", entry_points="evalrun.no_such_group")
    registry.add("one", 1, ("first",))
    assert registry.offered() == {}
    with pytest.raises(Fault, match=r"There is no thing 'on'.*Did you mean 'one'"):
        registry.get("on")
    registry.remove("one")
    assert "first" not in registry


def test_a_metric_is_named_in_its_own_file_only() -> None:
    """Beside its scorer of the same name, no file of the package knows a metric by its name."""
    literals: dict[str, set[str]] = {}
    for path in (ROOT / "evalrun").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                place = path.relative_to(ROOT / "evalrun").as_posix()
                literals.setdefault(node.value, set()).add(place)
    found = {}
    for key in METRICS:
        own = {source_file(METRICS.get(key))}
        if key in SCORERS:
            own.add(source_file(SCORERS.get(key)))
        if elsewhere := literals[key] - own:
            found[key] = elsewhere
    assert found == NAMED_ELSEWHERE


ECHO = '''"""Scorer and metric `echo`."""

from evalrun.metrics.base import Scorer
from evalrun.metrics.register import metric, scorer
from evalrun.metrics.text.exact import FixedScorer
from evalrun.types import Doc, Verdict


@scorer("echo")
class EchoScorer(Scorer):
    """1 where the answer repeats the gold. Range {0, 1}."""

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        return Verdict(float(text == doc.gold_texts[0] * 2))


@metric("echo", display="echo", aliases=("parrot",), source="definition")
class Echo(FixedScorer):
    """Share of answers that repeat the gold. Range [0, 1]."""
'''
USE = """
import json, evalrun
from evalrun.commands.metric_facts import described
from evalrun.metrics import METRICS, SCORERS
from pathlib import Path
rows = [json.loads(line) for line in Path("GOLDEN").read_text().splitlines()]
have = {(r.get("metric") or r["scorer"].partition("(")[0], r["version"]) for r in rows}
wanted = {(k, r.get(k).version) for r in (METRICS, SCORERS) for k in r}
scores = evalrun.score("parrot", [{"golds": ["a"], "preds": ["aa"]}])
print(json.dumps([scores["echo"].value, sorted(wanted - have), "parrot" in described("echo")]))
"""


def test_a_new_metric_is_one_file(tmp_path: Path) -> None:
    """One file is added to a copy of the package: the metric is found, scored, described; only
    its golden row is missing.
    """
    shutil.copytree(ROOT / "evalrun", tmp_path / "evalrun", ignore=shutil.ignore_patterns("*.pyc"))
    (tmp_path / "evalrun" / "metrics" / "text" / "echo.py").write_text(ECHO)
    golden = ROOT / "tests" / "cases" / "metric_versions.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", USE.replace("GOLDEN", str(golden))],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [1.0, [["echo", 1]], True]
