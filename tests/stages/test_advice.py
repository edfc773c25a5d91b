"""Below the table: shares of documents and the advice on pass@n, avg@n, cons@n, by golden files
and by the thresholds.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from support.records import estimate
from support.workspace import ROOT, Bench, Evalrun, run_folders

from evalrun.stages.summarize import SummarySettings, csv_text, md_text, print_table, tidy, txt_text
from evalrun.stages.summary.advice import STATES, USES, level, sections
from evalrun.stats.consistency import contradictions
from evalrun.types import Consistency, Record

GOLDEN = ROOT / "tests" / "cases" / "summary"
DEFAULTS = SummarySettings()


def counted(
    n: int, always: int, mostly: int, unstable: int, never: int, right: int, **more: Any
) -> Record:
    """A record of these counts with its three numbers."""
    signature = (
        "metric:consistency|version:1|params:threshold=1.0|scorer:number.v1|n:5|agg:counts|err:none"
        "|evalrun:0"
    )
    found = Consistency(n, always, mostly, unstable, never, right, signature)
    values = {
        f"pass@{n}": found.pass_at_n,
        f"cons@{n}": found.cons_at_n,
        f"avg@{n}": found.avg_at_n,
    }
    shared = {"stderr": None, "ci_low": None, "ci_high": None, "n": n, "n_docs": found.n_scored}
    estimates = tuple(
        estimate(name, x, **shared, n_scored=found.n_scored) for name, x in values.items()
    )
    base = Record(
        "m", "t", "abcdef", "gen", "complete", None, None, found.n_scored, n, estimates=estimates
    )
    return dataclasses.replace(base, **{"consistency": (found,), **more})


def steady() -> list[Record]:
    """Two tasks and models; one is incomplete, one was asked once."""
    return [
        counted(5, 0, 4, 5, 1, 25, task="gsm8k"),
        counted(5, 9, 1, 0, 0, 49, task="gsm8k", model="big|model"),
        counted(5, 0, 0, 2, 8, 3, task="aime"),
        counted(
            5,
            5,
            0,
            0,
            5,
            25,
            task="aime",
            model="big|model",
            state="incomplete",
            reason="1 of 50 failed",
        ),
        dataclasses.replace(counted(1, 1, 0, 0, 0, 1, task="demo"), consistency=()),
    ]


def cells(
    section: int, records: list[Record], settings: SummarySettings = DEFAULTS
) -> list[tuple[str, ...]]:
    return list(sections(records, settings)[section].table.rows)


@pytest.mark.parametrize(
    ("ending", "make"), [("csv", csv_text), ("md", md_text), ("txt", txt_text)]
)
def test_golden_files(ending: str, make: Any) -> None:
    assert make(steady()).encode() == (GOLDEN / f"steady.{ending}").read_bytes()


def test_shares_and_advice_stand_last_and_in_this_order() -> None:
    for make in (md_text, txt_text):
        text = make(steady())
        places = [text.index(part) for part in ("dataset", "How steadily", "Reading (advice")]
        assert places == sorted(places)
        assert text.count("advice") == 1
        without = make(steady(), SummarySettings(reading=False))
        assert text.startswith(without[:-1])
        assert ("How steadily" in without, "advice" in without) == (True, False)


def test_one_sample_has_neither() -> None:
    assert sections(steady()[-1:], DEFAULTS) == []
    assert "How steadily" not in txt_text(steady()[-1:])


@pytest.mark.parametrize("is_percent", [True, False])
def test_shares(is_percent: bool) -> None:
    rows = cells(0, steady(), SummarySettings(percent=is_percent))
    wanted = ("0.00", "40.00", "50.00", "10.00") if is_percent else ("0.00", "0.40", "0.50", "0.10")
    assert rows[0] == ("gsm8k", "m", "5", *wanted)
    assert rows[3][-1] == ("50.00*" if is_percent else "0.50*")  # incomplete
    (note,) = [
        n
        for n in sections(steady(), SummarySettings(percent=is_percent))[0].table.notes
        if "pass@n" in n
    ]
    assert ("100 - never" if is_percent else "1 - never") in note


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any))
def test_law_shares_add_up_to_one(counts: list[int]) -> None:
    always, mostly, unstable, never = counts
    (row,) = cells(
        0,
        [counted(3, always, mostly, unstable, never, 0)],
        SummarySettings(percent=False, digits=15),
    )
    assert sum(map(float, row[-4:])) == pytest.approx(1.0, abs=1e-12)
    assert [float(cell) * sum(counts) for cell in row[-4:]] == pytest.approx(counts, abs=1e-9)


def test_the_csv_holds_estimates_only() -> None:
    assert {row["metric"] for row in tidy(steady())} == {
        f"{m}@{n}" for m in ("pass", "cons", "avg") for n in (1, 5)
    }


def test_failed_tasks_have_no_shares() -> None:
    failed = counted(5, 1, 1, 1, 1, 8, state="failed", reason="numbers contradict each other")
    assert sections([failed], DEFAULTS) == []
    assert [(row["metric"], row["value"]) for row in tidy([failed])] == [
        (f"{m}@5", None) for m in ("pass", "cons", "avg")
    ]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (1.0, "high"),
        (0.8, "medium"),
        (0.80001, "high"),
        (0.5, "medium"),
        (0.49999, "low"),
        (0, "low"),
    ],
)
def test_levels(value: float, word: str) -> None:
    assert level(value) == word


ADVICE: list[tuple[tuple[int, int, int, int, int], str, str]] = [
    # always, mostly, unstable, never, right ones of n = 5; state; uses
    ((0, 4, 5, 1, 26), "unsteady", "-"),
    ((0, 6, 0, 4, 26), "even", "-"),
    ((0, 0, 2, 8, 3), "failing", "-"),
    ((10, 0, 0, 0, 50), "-", "reliability, tolerance, general use"),
    ((8, 1, 0, 1, 44), "-", "tolerance, general use"),  # pass@n is 90 and not above it
    ((85, 0, 10, 5, 445), "-", "reliability, tolerance, general use"),
    ((7, 0, 2, 1, 39), "-", "tolerance, general use"),  # cons@n is 70
    ((7, 0, 1, 2, 37), "even", "-"),  # pass@n is 80 and not above it
    ((0, 8, 2, 0, 36), "-", "tolerance"),
    ((4, 0, 0, 6, 20), "failing", "-"),
]


@pytest.mark.parametrize(("counts", "state", "uses"), ADVICE)
def test_the_row_of_the_matrix_and_the_uses(
    counts: tuple[int, int, int, int, int], state: str, uses: str
) -> None:
    (row,) = cells(1, [counted(5, *counts)])
    assert row[-2:] == (state, uses)


def test_numbers_of_the_advice_are_those_of_the_counts() -> None:
    (row, *_) = cells(1, steady())
    assert row[:6] == ("gsm8k", "m", "5", "90.00 high", "50.00 medium", "40.00 low")
    assert row[6:] == ("unsteady", "-")


def test_incomplete_tasks_are_not_read_and_named() -> None:
    section = sections(steady(), DEFAULTS)[1]
    assert [row[:2] for row in section.table.rows] == [
        ("gsm8k", "m"),
        ("gsm8k", "big|model"),
        ("aime", "m"),
    ]
    assert section.table.notes[-1] == "aime, big|model is incomplete and is not read."
    assert len(sections(steady()[3:4], DEFAULTS)) == 1


def test_every_state_uses_and_misreading_is_explained() -> None:
    text = txt_text(steady())
    for word, _ in STATES.values():
        assert f"State {word} (" in text
    for use in USES:
        assert f"Fits {use.name} (" in text
    assert text.count("Often misread: ") == 3
    for name in ("pass@1 alone", "cons@n left out", "avg@n alone"):
        assert name in text


def test_a_state_of_low_pass_and_high_cons_does_not_exist() -> None:
    """It is no advice: such numbers contradict each other, and the task fails."""
    assert ("low", "low", "high") not in STATES
    possible = {
        tuple(map(level, numbers))
        for numbers in itertools.product(
            [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 1.0], repeat=3
        )
        if not contradictions(5, numbers[0], numbers[2], numbers[1])
    }
    assert set(STATES) <= possible
    assert ("low", "low", "high") not in possible


def test_two_counts_of_one_task_are_told_apart() -> None:
    one = counted(5, 1, 1, 1, 1, 9)
    other = dataclasses.replace(
        one.consistency[0], signature=one.consistency[0].signature.replace("number", "exact")
    )
    record = dataclasses.replace(one, consistency=(*one.consistency, other))
    assert [row[2:4] for row in cells(0, [record])] == [
        ("abcdef", "number.v1 threshold=1.0"),
        ("abcdef", "exact.v1 threshold=1.0"),
    ]


def test_a_screen_shows_shares_and_no_advice() -> None:
    for is_terminal in (True, False):
        out = io.StringIO()
        print_table(
            steady(), Console(file=out, width=120, force_terminal=is_terminal, color_system=None)
        )
        assert "How steadily" in out.getvalue()
        assert "advice" not in out.getvalue()


def test_a_run_and_its_switch(
    evalrun: Evalrun, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    made = bench(["111", "110", "001", "000"])
    assert evalrun(*made.words("num_return_sequences=3")).code == 0
    (run,) = run_folders(tmp_path)
    texts = {path.suffix: path.read_text() for path in run.glob("summary/*")}
    assert all("Reading (advice" in texts[ending] for ending in (".md", ".txt"))
    assert "25.00   25.00     25.00  25.00" in texts[".txt"]
    assert "| 25.00 | 25.00 | 25.00 | 25.00 |" in texts[".md"]
    assert evalrun("--mode", "viz", "--reuse", "latest", "summary.reading=false").code == 0
    newest = max(run.glob("summary/*.txt"), key=lambda p: p.stat().st_mtime_ns).read_text()
    assert ("How steadily" in newest, "Reading" in newest) == (True, False)
    bad = evalrun("--mode", "viz", "--reuse", "latest", "summary.reading=often")
    assert bad.code == 2
    plan = json.loads((run / "configs" / "plan.json").read_text())
    assert ["reading", True] in plan["summary"]
