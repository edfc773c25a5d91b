"""Mathematical equality: cases from public reports, hostile input, the way through the score
stage.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.workspace import ROOT, Bench, Evalrun, results_of, run_folders, values_of

import evalrun as package
from evalrun import workers
from evalrun.errors import Fault
from evalrun.metrics import make_metric, scorer_named
from evalrun.metrics.math import guard, symbolic
from evalrun.metrics.math.equality import MathScorer
from evalrun.stages.scoring.sample_verdicts import judge
from evalrun.text import formulas
from evalrun.types import Doc, Samples, State, Verdict

CASES = [
    json.loads(line) for line in (ROOT / "tests" / "cases" / "math.jsonl").read_text().splitlines()
]
AIME = Path(os.environ.get("EVALRUN_SHARED", ROOT.parent / "shared")) / "data" / "aime24_test.jsonl"


def verdicts(pairs: list[tuple[tuple[str, ...], str]], scorer: str = "math") -> list[Verdict]:
    """Judged in workers, as the score stage does."""
    docs = [Doc(str(i), "t", i, "?", golds) for i, (golds, _) in enumerate(pairs)]
    samples = [Samples((text,), (False,)) for _, text in pairs]
    return [row[0] for row in judge(scorer_named(scorer), docs, samples).rows]


@pytest.fixture(scope="module")
def judged() -> list[Verdict]:
    return verdicts([(tuple(case["gold"]), case["text"]) for case in CASES])


@pytest.mark.parametrize("name", sorted({case["id"].partition(":")[0] for case in CASES}))
def test_cases_hold(judged: list[Verdict], name: str) -> None:
    wrong = [
        (case, found)
        for case, found in zip(CASES, judged, strict=True)
        if case["id"].partition(":")[0] == name and found.value != case["value"]
    ]
    assert wrong == []


def test_every_case_of_the_reports_is_there() -> None:
    ids = [case["id"].partition(":")[0] for case in CASES]
    counted = {
        name: ids.count(name)
        for name in ("AE-024", "AE-026", "AE-027", "AE-028", "AE-030", "AE-032", "oracle")
    }
    assert counted == {
        "AE-024": 3,
        "AE-026": 2,
        "AE-027": 12,
        "AE-028": 4,
        "AE-030": 1,
        "AE-032": 4,
        "oracle": 17,
    }


def test_answer_is_saved_with_its_place(judged: list[Verdict]) -> None:
    """The span shows the characters that were read; the rule says why these."""
    for case, found in zip(CASES, judged, strict=True):
        if found.extracted is None:
            assert (found.state, found.span, found.rule) == (State.UNPARSED, None, None)
            continue
        assert found.span is not None
        assert case["text"][slice(*found.span)].strip()
        assert found.rule in {"boxed", "whole", "final_answer", "answer", "last"}


PLACES = [
    ("First $\\boxed{3}$, no wait, $\\boxed{5}$", "5", "5", "boxed"),
    ("Thus \\fbox{ \\dfrac{9}{7} }", "9/7", "\\dfrac{9}{7}", "boxed"),
    ("$\\boxed{2}$ and $\\boxed{3}$", "2,3", "2}$ and $\\boxed{3", "boxed"),
    ("It is \\boxed{\\textbf{(055) }}.", "55", "(055)", "boxed"),
    (" 18.90 ", "18.9", "18.90", "whole"),
    ("The final answer is $x^2$. I hope", "x^2", "x^2", "final_answer"),
    ("The answer is 1,000 apples.", "1000", "1,000", "answer"),
    ("3 * 3 = 9", "9", "9", "last"),
    ("$1$, then \\[ y + 1 \\] at last", "y+1", " y + 1 ", "last"),
    ("35 percent", "35", "35 percent", "whole"),
]


def test_rules_and_places() -> None:
    for (text, extracted, part, rule), found in zip(
        PLACES, verdicts([(("77",), text) for text, *_ in PLACES]), strict=True
    ):
        assert (found.value, found.extracted, found.rule) == (0.0, extracted, rule), text
        assert found.span is not None
        assert text[slice(*found.span)] == part


def test_direct_judgement_is_the_one_of_the_workers(judged: list[Verdict]) -> None:
    scorer = MathScorer()
    for case, found in list(zip(CASES, judged, strict=True))[:60]:
        assert scorer.judge_text(Doc("d", "t", 0, "?", tuple(case["gold"])), case["text"]) == found


def test_cheap_comparisons_start_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_call: object, items: list[object], *_: object) -> list[workers.Outcome]:
        assert items == []
        return []

    monkeypatch.setattr(workers, "run", refuse)
    cheap = [
        (("18",), "\\boxed{18.0}"),
        (("\\frac{1}{2}",), "0.5"),
        (("x + 1",), "$x+1$"),
        (("7",), ""),
        (("Friday",), "\\boxed{3}"),
    ]
    assert [v.value for v in verdicts(cheap)] == [1.0, 1.0, 1.0, 0.0, 0.0]


# ---- hostile input -------------------------------------------------------------------------------

TIMEOUTS = [
    "$9^{9^{9^{9}}}$",
    "The answer is 9^9^9^9",
    "$((10!)!)!$",
    "$" + "(" * 3000 + "1" + ")" * 3000 + "$",
]
HARMLESS = [
    "\\boxed{" * 3000 + "5",
    "{" * 20_000,
    "9" * 100_000,
    " " * 50_000 + "x" + " " * 50_000 + "x",
    "answer: " * 3000,
    "\\boxed{1}, " * 300,
    "$" * 3000,
]


def test_hostile_formula_is_ended_in_time_and_the_others_are_judged() -> None:
    fine = ["The answer is 5", "$\\sqrt{25}$"]
    texts = [text for hostile in TIMEOUTS for text in (hostile, *fine)]
    started = time.monotonic()
    found = verdicts([(("5",), text) for text in texts], "math(deadline_s=1.5)")
    assert time.monotonic() - started < 45
    assert [(v.value, v.state) for v in found[::3]] == [(None, State.TIMEOUT)] * len(TIMEOUTS)
    assert [v.value for place, v in enumerate(found) if place % 3] == [1.0] * 2 * len(TIMEOUTS)
    assert found[0].note == "math: not finished within 1.5 s"


def test_long_and_broken_texts_are_wrong_and_no_more() -> None:
    found = verdicts([(("77",), text) for text in HARMLESS])
    assert [(v.value, v.note) for v in found] == [(0.0, None)] * len(HARMLESS)


def test_timeouts_are_counted_and_never_wrong() -> None:
    docs = [
        {"golds": ["5"], "preds": ["The answer is 5"]},
        {"golds": ["5"], "preds": [TIMEOUTS[0]]},
    ]
    found = package.score("accuracy", docs, scorer="math(deadline_s=1)")
    estimate = found["accuracy"]
    assert (estimate.value, estimate.n_scored, estimate.n_error, estimate.bounds) == (
        1.0,
        1,
        1,
        (0.5, 1.0),
    )
    assert found.per_doc["accuracy"] == [1.0, None]


# ---- names and parameters ------------------------------------------------------------------------


def test_names_and_signatures() -> None:
    assert scorer_named("expr_gold") == MathScorer()
    assert scorer_named("math").signature == "math.v2"
    assert scorer_named("math(precision=6)") == MathScorer(precision=6)
    assert (
        scorer_named("math.v2(precision=6,deadline_s=2.0)").signature
        == "math.v2(precision=6,deadline_s=2.0)"
    )
    assert make_metric("expr_gold").scorer == "math"
    assert make_metric("expr_gold_metric", {"precision": 6}).scorer == "math.v2(precision=6)"


@pytest.mark.parametrize(
    "spec",
    ["math(precision=0)", "math(precision=2.5)", "math(deadline_s=0)", "math(deadline_s=soon)"],
)
def test_bad_parameters_are_refused(spec: str) -> None:
    with pytest.raises(Fault, match="must lie in"):
        scorer_named(spec)


def test_precision_is_the_number_of_decimals() -> None:
    pair = (("\\frac{1}{3}",), "The answer is 0.33333.")
    assert [verdicts([pair], spec)[0].value for spec in ("math", "math(precision=6)")] == [1.0, 0.0]


def test_samples_of_math() -> None:
    doc = {
        "golds": ["\\frac{1}{2}"],
        "preds": ["$\\boxed{0.5}$", "\\boxed{1/2}", "It is 3.", "It is $\\frac{2}{4}$"],
    }
    assert package.score("pass@k:k=2&scorer=math", [doc])["pass@k"].value == pytest.approx(1.0)
    assert package.score("avg@n:n=4&scorer=math", [doc])["avg@n"].value == 0.75
    assert package.score("maj@n:n=4&scorer=math", [doc])["maj@n"].value == 1.0
    assert package.score("expr_gold_metric", [doc])["expr_gold_metric"].value == 0.75


def test_task_that_extracts_by_math(
    evalrun: Evalrun, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    words = bench(["110", "000"]).words(
        "tasks.gsm8k.extract=math", "metric=[accuracy,expr_gold_metric,pass@k:k=2&n=3]"
    )
    ran = evalrun(*words)
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    assert values_of(run) == {"accuracy": 0.5, "expr_gold_metric": 0.5, "pass@k:k=2&n=3": 0.5}
    assert {e["signature"].count("math.v2") for e in results_of(run)["estimates"]} == {1}  # type: ignore[attr-defined]


# ---- the parts -----------------------------------------------------------------------------------


def test_values_that_the_library_takes_for_equal_are_told_apart() -> None:
    from math_verify import verify

    pairs = [
        ("\\frac{1}{3^{80}}", "\\frac{1}{3^{79}}"),
        ("\\frac{1}{1200!}", "\\frac{1}{1201!}"),
        ("0.0000003", "0.0000004"),
    ]
    for one, other in pairs:
        gold, answer = symbolic.expressions(one), symbolic.expressions(other)
        assert verify([gold[0]], [answer[0]], timeout_seconds=None), one
        assert guard.differs(gold[0], answer[0]), one
        assert not guard.differs(gold[0], gold[0]), one
        assert not symbolic.is_equal(gold, answer, 5)


def test_plain_quantities() -> None:
    assert formulas.quantity("\\$18.90") == formulas.quantity("18.90")
    assert [
        formulas.quantity(text) for text in ("", "x", "2x", "1, 2", "5!", "\\sqrt{2}", "3%%")
    ] == [None] * 7
    half, percent = formulas.quantity("1/2"), formulas.quantity("50\\%")
    assert half is not None
    assert percent is not None
    assert (percent.value, percent.is_percent, percent.is_decimal) == (50, True, False)
    assert formulas.is_equal_quantity(half, percent, 5)


@pytest.mark.skipif(not AIME.exists(), reason="no AIME 2024 file")
def test_published_solutions_of_aime_are_right() -> None:
    rows = [json.loads(line) for line in AIME.read_text(encoding="utf-8").splitlines()]
    right = verdicts([((row["answer"],), row["solution"]) for row in rows])
    wrong = verdicts([((str(int(row["answer"]) + 1),), row["solution"]) for row in rows])
    assert [v.value for v in right] == [1.0] * 30
    assert [v.value for v in wrong] == [0.0] * 30
