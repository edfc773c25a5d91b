"""A task whose metric gives no verdict per sample: its own number, averaged over all samples,
and a note that says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.workspace import Evalrun, results_of, run_folders, values_of

import evalrun as package
from evalrun.metrics import METRICS, make_metric
from evalrun.metrics.repeated import over_samples, reads_one
from evalrun.types import Doc, Samples

GOLD = ["the cat sat on the mat", "a dog barked at the moon all night"]
TEXTS = [
    ["the cat sat on the mat", "a cat sat on mat", "no cat here at all"],
    ["a dog barked at the moon", "dogs bark", "a dog barked at the moon all night"],
]
NAMES = [name for name in METRICS if reads_one(METRICS.get(name))]


def run_words(folder: Path, *more: str) -> list[str]:
    """A command over the two questions, three saved answers each."""
    data, answers = folder / "d.jsonl", folder / "a.jsonl"
    data.write_text(
        "".join(
            json.dumps({"question": f"q{i}", "answer": gold}) + "\n" for i, gold in enumerate(GOLD)
        )
    )
    rows = [
        {"query": f"q{i}", "index": j, "text": t}
        for i, texts in enumerate(TEXTS)
        for j, t in enumerate(texts)
    ]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "mine" / "task").mkdir(parents=True, exist_ok=True)
    metrics = json.dumps({name: {} for name in more[0].split(",")})
    (folder / "mine" / "task" / "t.yaml").write_text(
        f"# @package tasks.t\ndefaults: [/task_schema@_here_, _self_]\ndataset: {{path: '{data}', "
        f"columns: {{query: question, gold: answer}}}}\nmetrics: {metrics}\n"
    )
    return [
        "model=replay",
        f"model.path={answers}",
        "task=t",
        "--config-dir",
        str(folder / "mine"),
        *more[1:],
    ]


def alone(metric: str, i: int) -> float:
    """The number of sample i of every document by itself."""
    docs = [{"preds": [texts[i]], "golds": [gold]} for texts, gold in zip(TEXTS, GOLD, strict=True)]
    (found,) = package.score(metric, docs).values()
    assert found.value is not None
    return found.value


@pytest.mark.parametrize(
    "metric", ["bleu", "chrf", "ter", "f1_score_macro", "rouge1", "f1_score", "bleu_4"]
)
@pytest.mark.parametrize("how", ["num_return_sequences=3", "task=t@n=3"])
def test_the_number_is_the_mean_over_all_samples(
    evalrun: Evalrun, tmp_path: Path, metric: str, how: str
) -> None:
    words = run_words(tmp_path, metric)
    words = [how if word == "task=t" and how.startswith("task") else word for word in words]
    ran = evalrun(*words, *([] if how.startswith("task") else [how]))
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    each = [alone(metric, i) for i in range(3)]
    (value,) = values_of(run).values()
    assert value == pytest.approx(np.mean(each), abs=1e-12)
    assert value != pytest.approx(each[-1], abs=1e-6)  # never the last one
    assert f"No pass@k, cons@k, avg@n: {metric} does not say right or wrong" in ran.out.replace(
        "no pass", "No pass"
    )
    (estimate,) = results_of(run)["estimates"]  # type: ignore[misc]
    assert (estimate["n"], "|n:3|" in estimate["signature"]) == (3, True)
    assert estimate["ci_low"] is not None
    assert results_of(run)["consistency"] == []
    (text,) = [p.read_text() for p in run.glob("summary/*.txt")]
    assert "always" not in text
    assert "Reading" not in text


def test_a_task_with_both_shows_both(evalrun: Evalrun, tmp_path: Path) -> None:
    ran = evalrun(*run_words(tmp_path, "quasi_exact_match,bleu", "num_return_sequences=3"))
    assert ran.code == 0, ran.err
    values = values_of(run_folders(tmp_path)[0])
    assert list(values) == ["quasi_exact_match", "bleu", "pass@3", "cons@3", "avg@3"]
    assert values["avg@3"] == values["quasi_exact_match"] == 0.5  # judged alike
    assert values["bleu"] == pytest.approx(np.mean([alone("bleu", i) for i in range(3)]))
    assert "o pass@k" not in ran.out
    fewer = evalrun("--mode", "eval", "--reuse", "latest", "num_return_sequences=2", "first_n=true")
    assert fewer.code == 0, fewer.err
    values = values_of(run_folders(tmp_path)[0])
    assert (values["pass@2"], values["avg@2"]) == (0.5, 0.5)
    assert values["bleu"] == pytest.approx(np.mean([alone("bleu", i) for i in range(2)]))


@pytest.mark.parametrize("name", NAMES)
def test_law_equal_samples_give_the_number_of_one(name: str) -> None:
    metric = make_metric(name)
    many = over_samples(metric, 3)
    docs = [
        Doc(f"d{i}", "t", i, gold, (gold,), extra=(("specific", gold),))
        for i, gold in enumerate(GOLD)
    ]
    one = [Samples((texts[0],), (False,)) for texts in TEXTS]
    three = [Samples((texts[0],) * 3, (False,) * 3) for texts in TEXTS]
    rows, more = metric.score_batch(docs, one, [(), ()]), many.score_batch(docs, three, [(), ()])
    assert (
        more
        == [row * 3 for row in rows]
        == [many.score(d, a, ()) for d, a in zip(docs, three, strict=True)]
    )
    assert [c.name for c in many.columns] == [
        f"{c.name}.{i}" for i in range(3) for c in metric.columns
    ]
    for output, averaged in zip(metric.outputs(), many.outputs(), strict=True):
        small, large = (matrix(metric, rows), matrix(many, more))
        assert averaged.reduce(large) == pytest.approx(output.reduce(small), abs=1e-12)
        assert averaged.name == output.name


def matrix(metric: Any, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    from evalrun.stages.scoring.estimates import matrix_of

    return matrix_of(metric, rows)


def test_what_needs_no_change_is_left_alone() -> None:
    for metric in (
        make_metric("accuracy", {"n": 3}),
        make_metric("maj_at_5"),
        make_metric("loglikelihood_acc"),
    ):
        assert over_samples(metric, 3) is metric
    bleu = make_metric("bleu")
    assert over_samples(bleu, 1) is bleu
    doc = Doc("d", "t", 0, "q", ("a",))
    with pytest.raises(ValueError, match="no answer 2"):
        over_samples(bleu, 3).score(doc, Samples(("a", "b"), (False, False)), ())


def test_the_rerun_error_of_a_mean_over_samples() -> None:
    """s^2 / n of the samples of a document, as for avg@n."""
    metric = over_samples(make_metric("extractiveness"), 3)
    docs = [
        Doc(f"d{i}", "t", i, gold, (gold,), extra=(("specific", gold),))
        for i, gold in enumerate(GOLD)
    ]
    samples = [Samples(tuple(texts), (False,) * 3) for texts in TEXTS]
    large = matrix(metric, metric.score_batch(docs, samples, [(), ()]))
    for output in metric.outputs():
        assert output.per_doc is not None
        assert output.rerun is not None
        each = np.array([large[f"{output.columns[0].removesuffix('.0')}.{i}"] for i in range(3)])
        assert output.per_doc(large) == pytest.approx(each.mean(axis=0))
        assert output.rerun(large) == pytest.approx(each.var(axis=0, ddof=1) / 3)
