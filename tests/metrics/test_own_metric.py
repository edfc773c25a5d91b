"""A user's own metric: one file with one class, in single or batch form, named by the key
metric_files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.workspace import Bench, Evalrun, run_folders, values_of

import evalrun as package
from evalrun.errors import Fault
from evalrun.metrics import METRICS, SCORERS, make_metric, scorer_named
from evalrun.types import Doc, Samples

pytestmark = pytest.mark.usefixtures("registries")

SCORER = '''
from dataclasses import dataclass
from typing import ClassVar
from evalrun.metrics import Scorer
from evalrun.types import Verdict

@dataclass(frozen=True, slots=True)
class Ends(Scorer):
    """1 where the answer ends as the gold does."""
    name: ClassVar[str] = "NAME"
    def judge_text(self, doc, text):
        is_right = text.rstrip(".").endswith(doc.gold_texts[0][-2:])
        return Verdict(float(is_right), extracted=text[-3:])
'''
BATCH = '''
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from evalrun.metrics import Metric, Output
from evalrun.metrics.base import Column

@dataclass(frozen=True, slots=True)
class Length(Metric):
    """Mean number of characters of an answer, over all documents at once. Range [0, inf)."""
    name: ClassVar[str] = "NAME"
    display: ClassVar[str] = "NAME"
    has_scorer: ClassVar[bool] = False
    source: ClassVar[str] = "definition"
    floor: int = 0

    @property
    def columns(self):
        return (Column("length", "int"),)
    def outputs(self):
        mean = lambda matrix: np.asarray(matrix["length"], dtype=float)
        return (Output(self.display, ("length",), mean, unit="count", is_bounded=False),)
    def score(self, doc, answer, verdicts):
        return self.score_batch([doc], [answer], [verdicts])[0]
    def score_batch(self, docs, answers, verdicts):
        lengths = [[len(text or "") for text in answer.texts] for answer in answers]
        return [(max(self.floor, *each),) for each in lengths]
'''

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a user's own metric; NAME in its text becomes its name."""

    def one(name: str, text: str, folder: Path = tmp_path) -> Path:
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}.py"
        path.write_text(text.replace("NAME", name))
        return path

    return one


def test_single_form_is_scored_sampled_and_signed(write: Write) -> None:
    docs = [
        {"golds": ["42"], "preds": ["it is 42.", "it is 41."]},
        {"golds": ["7.5"], "preds": ["7.5", "7.5"]},
    ]
    path = write("ends_single", SCORER)
    scores = package.score(path, docs, n=2)
    assert scores.per_doc == {"ends_single": [0.5, 1.0]}
    assert scores["ends_single"].value == 0.75
    assert "|file:" in scores["ends_single"].signature
    assert package.score("pass@k", docs, k=2, scorer="ends_single")["pass@k"].value == 1.0


def test_batch_form_with_a_parameter(write: Write) -> None:
    path = write("length_batch", BATCH)
    docs = [{"golds": ["x"], "preds": ["abc"]}, {"golds": ["x"], "preds": ["a"]}]
    assert package.score(path, docs)["length_batch"].value == 2.0
    assert package.score("length_batch", docs, floor=3)["length_batch"].value == 3.0
    assert package.score("length_batch:floor=2", docs).per_doc["length_batch"] == [3.0, 2.0]
    with pytest.raises(Fault, match=r"no parameter of metric 'length_batch' 'flor'.*'floor'"):
        package.score("length_batch", docs, flor=3)


def test_a_file_may_use_the_decorators(write: Write) -> None:
    decorated = SCORER.replace("import Scorer", "import Scorer, scorer")
    decorated = decorated.replace("@dataclass(frozen=True, slots=True)", '@scorer("NAME")')
    path = write("ends_decorated", decorated.replace('    name: ClassVar[str] = "NAME"\n', ""))
    scores = package.score(path, [{"golds": ["42"], "preds": ["it is 42."]}])
    assert scores["ends_decorated"].value == 1.0
    assert "|file:" in scores["ends_decorated"].signature
    two = decorated.replace("NAME", "ends_one") + decorated.replace("NAME", "ends_two").replace(
        "class Ends", "class Others"
    )
    with pytest.raises(Fault, match="it holds Ends, Others"):
        package.score(write("ends_two_in_a_file", two), [{"golds": ["1"], "preds": ["1"]}])
    assert "ends_one" not in SCORERS


def test_the_laws_hold_for_both_forms(write: Write) -> None:
    """Batch form = single form; the order of documents does not matter; a corpus twice leaves
    the value.
    """
    for name, text in (("ends_law", SCORER), ("length_law", BATCH)):
        package.score(write(name, text), [{"golds": ["1"], "preds": ["1"]}])
    docs = [Doc(str(i), "t", i, "", (gold,)) for i, gold in enumerate(["12", "3", "455"])]
    texts = ["so 12.", "", "4 55"]
    scorer = scorer_named("ends_law")
    pairs = list(zip(docs, texts, strict=True))
    assert scorer.judge_batch(pairs) == [scorer.judge_text(*pair) for pair in pairs]
    metric = make_metric("length_law")
    answers = [Samples((text,), (False,)) for text in texts]
    rows = metric.score_batch(docs, answers, [()] * 3)
    assert rows == [
        metric.score(doc, answer, ()) for doc, answer in zip(docs, answers, strict=True)
    ]
    given = [{"golds": doc.gold, "preds": [text]} for doc, text in pairs]
    for name in ("ends_law", "length_law"):
        value = package.score(name, given)[name].value
        assert package.score(name, given[::-1])[name].value == pytest.approx(value)
        assert package.score(name, given * 2)[name].value == pytest.approx(value)
    (output,) = metric.outputs()
    assert output.reduce({"length": np.array([row[0] for row in rows])}) == pytest.approx(10 / 3)


def test_run_and_eval_with_the_key(
    evalrun: Evalrun, bench: Callable[..., Bench], write: Write, tmp_path: Path
) -> None:
    given = bench(["1", "0"])
    path = write("ends_run", SCORER)
    ran = evalrun(*given.words("metric=ends_run", f"metric_files=[{path}]"))
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    assert values_of(run) == {"ends_run": 0.5}
    plan = json.loads((run / "configs" / "plan.json").read_text())
    assert plan["metric_files"][0][:2] == ["ends_run", str(path)]
    assert len(plan["metric_files"][0][2]) == 64
    other = write("length_eval", BATCH)
    ran = evalrun(
        "--mode",
        "eval",
        "--reuse",
        "latest",
        f"metric_files={other}",
        "metric=[length_eval,ends_run]",
    )
    assert ran.code == 0, ran.err
    assert set(values_of(run)) == {"ends_run", "length_eval"}


TASK = """# @package tasks.own
defaults: [/task_schema@_here_, _self_]
dataset: {path: DATA, columns: {query: question, gold: answer}}
extract: number
metric_files: [FILE]
metrics: {METRIC: {}}
"""


def own_task(tmp_path: Path, given: Bench, metric: str, file: str) -> list[str]:
    """The words of a run of a task that lies in a folder of the user's and names a file."""
    folder = tmp_path / "mine" / "task"
    folder.mkdir(parents=True, exist_ok=True)
    text = TASK.replace("DATA", str(given.data)).replace("FILE", file).replace("METRIC", metric)
    (folder / "own.yaml").write_text(text)
    return [
        "--config-dir",
        str(tmp_path / "mine"),
        "model=replay",
        f"model.path={given.answers}",
        "task=own",
    ]


def test_yaml_needs_allow_code(
    evalrun: Evalrun, bench: Callable[..., Bench], write: Write, tmp_path: Path
) -> None:
    words = own_task(tmp_path, bench(["1", "0"]), "ends_yaml", "ends_yaml.py")
    write("ends_yaml", SCORER, tmp_path / "mine" / "task")
    ran = evalrun(*words)
    assert ran.code == 2
    assert "tasks.own.metric_files names ends_yaml.py" in ran.err
    assert "allow_code=true" in ran.err
    assert "ends_yaml" not in METRICS
    assert run_folders(tmp_path) == []
    ran = evalrun(*words, "allow_code=true")
    assert ran.code == 0, ran.err
    assert "ends_yaml" in SCORERS


def test_stored_plan_imports_nothing(
    evalrun: Evalrun, bench: Callable[..., Bench], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("ends_stored", SCORER)
    assert evalrun(*bench(["1"]).words("metric=ends_stored", f"metric_files={path}")).code == 0
    for registry in (METRICS, SCORERS):  # as in a new process
        monkeypatch.delitem(registry._things, "ends_stored")
    ran = evalrun("--mode", "eval", "--reuse", "latest")
    assert ran.code == 2
    assert f"Metric ends_stored of the stored run comes from {path}" in ran.err


BROKEN = [
    ("missing", None, "cannot be read"),
    ("raising", "1 / 0", "cannot be imported: ZeroDivisionError"),
    ("syntax", "def", "cannot be imported: SyntaxError"),
    ("empty", "x = 1", "exactly one class derived from Metric or Scorer; it holds none"),
    ("two", SCORER + SCORER.replace("class Ends", "class Starts"), "it holds Ends, Starts"),
    (
        "thawed",
        SCORER.replace("@dataclass(frozen=True, slots=True)", ""),
        "must be a frozen dataclass",
    ),
    ("rouge1", SCORER, "the name 'rouge1' is taken by evalrun itself"),
    ("nameless", SCORER.replace("name: ClassVar[str]", "title: ClassVar[str]"), "lacks name"),
    ("sourceless", BATCH.replace("source:", "origin:"), "lacks source"),
    (
        "open",
        BATCH.replace("floor: int = 0", "floor: int"),
        "parameter floor of Length needs a default",
    ),
]


@pytest.mark.parametrize(("name", "text", "said"), BROKEN, ids=[case[0] for case in BROKEN])
def test_faults_of_a_file(
    name: str, text: str | None, said: str, write: Write, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.py" if text is None else write(name, text)
    with pytest.raises(Fault, match=said) as caught:
        package.score(path, [{"golds": ["1"], "preds": ["1"]}])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
