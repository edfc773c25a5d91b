"""Shares of documents by how steadily they are answered: their laws, their file, and numbers
that contradict each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workspace import Bench, Evalrun, results_of, run_folders, values_of

from evalrun.errors import Fault
from evalrun.stats import sampling
from evalrun.stats.consistency import contradictions, kinds
from evalrun.store.cell.results import read_record
from evalrun.store.layout import Run
from evalrun.types import Consistency

Make = Callable[..., Bench]
COUNTS = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=1, max_size=40))
)


def stored(run: Path) -> list[dict[str, Any]]:
    """The consistency entries of the only results JSON."""
    found: Any = results_of(run)["consistency"]
    return list(found)


def shares(entry: dict[str, Any]) -> tuple[int, ...]:
    return tuple(entry[name] for name in ("always", "mostly", "unstable", "never"))


# ---- laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "c", "expected"),
    [
        (3, [2, 2, 1, 0], (0, 2, 1, 1)),
        (5, [5, 4, 3, 2, 1, 0], (1, 2, 2, 1)),
        (4, [4, 3, 2, 1, 0], (1, 1, 2, 1)),  # exactly half is unstable
        (2, [2, 1, 0], (1, 0, 1, 1)),
        (1, [1, 0, 0], (1, 0, 0, 2)),
        (1_000_000, [1_000_000, 500_001, 500_000, 0], (1, 1, 1, 1)),
    ],
)
def test_kinds_of_documents(n: int, c: list[int], expected: tuple[int, ...]) -> None:
    assert kinds(n, c) == expected
    assert kinds([n] * len(c), c) == expected


@given(COUNTS)
def test_shares_add_up_and_the_three_metrics_follow(drawn: tuple[int, list[int]]) -> None:
    n, c = drawn
    always, mostly, unstable, never = kinds(n, c)
    assert always + mostly + unstable + never == len(c)
    found = Consistency(n, always, mostly, unstable, never, sum(c), "s")
    assert found.n_scored == len(c)
    assert found.pass_at_n == pytest.approx(float(np.mean(sampling.pass_at_k(n, c, n))), abs=1e-12)
    assert found.cons_at_n == pytest.approx(float(np.mean(sampling.cons_at_k(n, c, n))), abs=1e-12)
    assert found.avg_at_n == pytest.approx(float(np.mean(sampling.avg_at_n(n, c))), abs=1e-12)
    least = always + mostly * (n // 2 + 1) / n + unstable / n
    most = always + mostly * (n - 1) / n + unstable * (n // 2) / n
    assert least - 1e-9 <= len(c) * found.avg_at_n <= most + 1e-9


@given(COUNTS, st.data())
def test_sound_counts_never_contradict_each_other(
    drawn: tuple[int, list[int]], data: st.DataObject
) -> None:
    n, c = drawn
    k = data.draw(st.integers(1, n))
    passed, agreed = (
        float(np.mean(law(n, c, k))) for law in (sampling.pass_at_k, sampling.cons_at_k)
    )
    assert contradictions(k, passed, agreed, float(np.mean(sampling.avg_at_n(n, c)))) == []


def test_large_counts_that_touch_the_third_law_pass() -> None:
    """c = (n+1)/2 everywhere is as near to it as numbers come."""
    for n in (3, 101, 9_999):
        c = [(n + 1) // 2] * 1000
        assert contradictions(n, 1.0, 1.0, float(np.mean(sampling.avg_at_n(n, c)))) == []


@pytest.mark.parametrize(
    ("k", "passed", "agreed", "average", "says"),
    [
        (
            5,
            0.3,
            0.9,
            0.4,
            [
                "cons@5 = 0.9 is above pass@5",
                "avg@n = 0.4 is above pass@5",
                "cons@5 = 0.9 is above 10/6",
            ],
        ),
        (5, 0.5, 0.4, 0.6, ["avg@n = 0.6 is above pass@5 = 0.5"]),
        (5, 0.9, 0.8, 0.4, ["cons@5 = 0.8 is above 10/6 of avg@n = 0.4"]),  # cons@n = 2 avg@n
        (5, None, 0.8, 0.4, ["cons@5 = 0.8"]),
        (5, 0.3, 0.4, None, ["cons@5 = 0.4 is above pass@5"]),
        (
            99_999,
            1e-3,
            2e-3 - 1e-15,
            1e-3,
            ["cons@99999 = 0.002 is above pass", "is above 199998/100000"],
        ),
        (5, 0.0, 0.0, 0.0, []),
        (5, 1.0, 1.0, 1.0, []),
        (1, 0.25, 0.25, 0.25, []),
        (5, None, None, None, []),
    ],
)
def test_numbers_that_cannot_be(
    k: int, passed: float | None, agreed: float | None, average: float | None, says: list[str]
) -> None:
    found = contradictions(k, passed, agreed, average)
    assert len(found) == len(says)
    assert all(part in text for part, text in zip(says, found, strict=True))


# ---- runs ----------------------------------------------------------------------------------------


def test_a_run_counts_its_documents(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    ran = evalrun(*bench(["111", "110", "101", "001", "000"]).words("num_return_sequences=3"))
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    (entry,) = stored(run)
    assert (entry["n"], shares(entry), entry["n_right"]) == (3, (1, 2, 1, 1), 8)
    assert entry["signature"].startswith(
        "metric:consistency|version:1|params:threshold=1.0|scorer:number.v1|n:3|"
    )
    record = read_record(Run(run).cell("replay", "gsm8k"))
    assert record is not None
    (found,) = record.consistency
    values = values_of(run)
    assert (found.pass_at_n, found.cons_at_n, found.avg_at_n) == (
        pytest.approx(values["pass@3"]),
        pytest.approx(values["cons@3"]),
        pytest.approx(values["avg@3"]),
    )


def test_one_sample_is_not_counted(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    assert evalrun(*bench(["1", "0"]).words()).code == 0
    assert stored(run_folders(tmp_path)[0]) == []


def test_other_scorers_and_fewer_samples_are_counted_apart(
    evalrun: Evalrun, bench: Make, tmp_path: Path
) -> None:
    assert evalrun(*bench(["1100", "1111"]).words("num_return_sequences=4")).code == 0
    (run,) = run_folders(tmp_path)
    metric = "metric=[pass@k:k=1&n=2,avg@n:n=2&scorer=exact_match,cons@k:k=2&n=3]"
    assert evalrun("--mode", "eval", "--reuse", "latest", metric).code == 0
    found = {
        (e["n"], e["signature"].split("scorer:")[1].split("|")[0]): shares(e) for e in stored(run)
    }
    assert found == {
        (4, "number.v1"): (1, 0, 1, 0),  # of the first scoring: nothing is removed
        (2, "number.v1"): (2, 0, 0, 0),
        (2, "exact_match.v2(extract=number)"): (2, 0, 0, 0),
        (3, "number.v1"): (1, 1, 0, 0),
    }
    assert evalrun("--mode", "eval", "--reuse", "latest", metric).code == 0
    assert len(stored(run)) == 4


def test_a_prefix_is_counted_apart(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    assert evalrun(*bench(["11", "00"]).words("num_return_sequences=2")).code == 0
    assert evalrun("--mode", "eval", "--reuse", "latest", "--limit", "1").code == 0
    assert [shares(entry) for entry in stored(run_folders(tmp_path)[0])] == [
        (1, 0, 0, 1),
        (1, 0, 0, 0),
    ]


@pytest.mark.parametrize(
    ("law", "wrong", "says"),
    [
        ("cons_at_k", 1.0, "cons@3 = 1 is above pass@3 = 0.75"),
        ("pass_at_k", 0.0, "avg@n = 0.416667 is above pass@3 = 0"),
        ("avg_at_n", 0.1, "cons@3 = 0.5 is above 6/4 of avg@n = 0.1"),
        ("pass_at_k", 0.9, "pass@3 = 0.9, but the counts of right samples give 0.75"),
    ],
)
def test_numbers_that_contradict_each_other_fail_the_task(
    evalrun: Evalrun,
    bench: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    law: str,
    wrong: float,
    says: str,
) -> None:
    monkeypatch.setattr(sampling, law, lambda n, *more: np.full(np.shape(n), wrong))
    ran = evalrun(*bench(["110", "101", "001", "000"]).words("num_return_sequences=3"))
    assert ran.code == 3
    assert "failed [1]" in ran.out
    assert says in ran.out
    assert "a fault of evalrun" in ran.out
    (run,) = run_folders(tmp_path)
    header: Any = results_of(run)["header"]
    assert (header["state"], says in header["reason"]) == ("failed", True)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0


# ---- the file ------------------------------------------------------------------------------------


def results_path(folder: Path) -> Path:
    (run,) = run_folders(folder)
    return Run(run).cell("replay", "gsm8k").results_file


def test_files_of_before_still_read(evalrun: Evalrun, bench: Make, tmp_path: Path) -> None:
    evalrun(*bench(["11", "00"]).words("num_return_sequences=2"))
    path = results_path(tmp_path)
    content = json.loads(path.read_text())
    del content["consistency"]
    path.write_text(json.dumps(content))
    ran = evalrun("--mode", "viz", "--reuse", "latest")
    assert (ran.code, "pass@2" in ran.out) == (0, True)
    assert evalrun("--mode", "eval", "--reuse", "latest").code == 0
    assert len(json.loads(path.read_text())["consistency"]) == 1


@pytest.mark.parametrize(
    "change", [{"n": 0}, {"always": "1"}, {"never": -1}, {"always": 0, "never": 0}]
)
def test_a_file_that_is_not_sound(
    evalrun: Evalrun, bench: Make, tmp_path: Path, change: dict[str, Any]
) -> None:
    evalrun(*bench(["11", "00"]).words("num_return_sequences=2"))
    path = results_path(tmp_path)
    content = json.loads(path.read_text())
    content["consistency"][0].update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(Fault, match="cannot be read"):
        read_record(Run(run_folders(tmp_path)[0]).cell("replay", "gsm8k"))


def test_added_metrics_take_documents_with_several_golds(evalrun: Evalrun, tmp_path: Path) -> None:
    """The service's trio judges by the task's scorer, which knows several golds; pass@k asked by
    name refuses them.
    """
    (tmp_path / "q.jsonl").write_text(
        json.dumps({"question": "2+2?", "answer": ["4", "four"]}) + "\n"
    )
    texts = ["four", "5", "4"]
    rows = [{"query": "2+2?", "index": i, "text": text} for i, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [
        "model=replay",
        "model.path=a.jsonl",
        "task=gsm8k",
        "dataset.path=q.jsonl",
        "tasks.gsm8k.extract=null",
    ]
    ran = evalrun(*words, "num_return_sequences=3")
    assert ran.code == 0, ran.err
    values = values_of(run_folders(tmp_path)[0])
    assert (values["pass@3"], values["cons@3"], values["avg@3"]) == (1.0, 1.0, pytest.approx(2 / 3))
    refused = evalrun(*words, "metric=pass@k:k=1&n=3")
    assert refused.code == 2
    assert "several" in refused.err or "gold" in refused.err
