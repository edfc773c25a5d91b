"""Results: strict JSON, merging by signature, statistics per document, times."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalrun.errors import Fault
from evalrun.store.cell.results import (
    merge,
    read_record,
    read_results,
    read_times,
    write_record,
    write_results,
    write_times,
)
from evalrun.store.cell.statistics import read_statistics, write_statistics
from evalrun.store.layout import Run
from evalrun.strict_json import from_json, plain, to_json
from evalrun.types import Counts, Estimate, Record, State


def estimate(signature: str, value: float | None = 0.5, display: str = "accuracy") -> Estimate:
    return Estimate(
        metric="accuracy",
        display=display,
        version=1,
        value=value,
        unit="fraction",
        is_higher_better=True,
        stderr=0.1,
        rerun_stderr=None,
        ci_low=0.3,
        ci_high=0.7,
        method="mean",
        n_docs=10,
        n=1,
        n_scored=10,
        n_error=0,
        n_truncated=0,
        n_unparsed=0,
        bounds=(0.5, 0.5),
        signature=signature,
    )


def test_estimates_are_added_and_replaced_by_signature(tmp_path: Path) -> None:
    run = Run(tmp_path)
    write_results(
        run.cell("m", "t"), {"ask_id": "a"}, [estimate("s1"), estimate("s2")], Counts(n_error=1)
    )
    write_results(
        run.cell("m", "t"), {"ask_id": "b"}, [estimate("s3"), estimate("s1", 0.9)], {"n_error": 0}
    )
    got = read_results(run.cell("m", "t"))
    assert got is not None
    assert got.estimates == (estimate("s1", 0.9), estimate("s2"), estimate("s3"))
    assert (got.header, got.counts) == ({"ask_id": "b"}, {"n_error": 0})
    before = run.cell("m", "t").results_file.read_bytes()
    write_results(run.cell("m", "t"), {"ask_id": "b"}, [estimate("s3")], {"n_error": 0})
    assert run.cell("m", "t").results_file.read_bytes() == before
    assert read_results(run.cell("m", "other")) is None


def test_two_estimates_of_one_signature_are_refused() -> None:
    with pytest.raises(Fault, match="'a' and 'b', have one signature 's'"):
        merge([], [estimate("s", display="a"), estimate("s", display="b")])


def test_json_is_strict(tmp_path: Path) -> None:
    run = Run(tmp_path)
    odd = replace(
        estimate("s", math.nan, "né\ud800"),
        ci_low=-math.inf,
        stderr=np.float64("inf"),
        n=int(np.int64(2)),
        bounds=(0.0, math.inf),
    )
    header = {
        "x": [np.float32(0.5), np.int64(3), np.array([1, 2])],
        "state": State.SCORED,
        "n": math.nan,
    }
    write_results(run.cell("m", "t"), header, [odd], {})
    text = run.cell("m", "t").results_file.read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=lambda literal: pytest.fail(literal))
    assert content["header"] == {"x": [0.5, 3, [1, 2]], "state": "scored", "n": "NaN"}
    assert (content["estimates"][0]["value"], content["estimates"][0]["ci_low"]) == (
        "NaN",
        "-Infinity",
    )
    got = read_results(run.cell("m", "t"))
    assert got is not None
    assert math.isnan(got.estimates[0].value or 0.0)
    assert replace(got.estimates[0], value=None) == replace(odd, value=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format_version": 2}', "format_version 2; evalrun .* up to format_version 1"),
        ("{}", "format_version is None"),
        ("[]", "no JSON object"),
        ('{"format_version": 1', "cannot be read"),
        ('{"format_version": 1, "header": {}, "counts": {}, "estimates": [NaN]}', "NaN is no JSON"),
        (
            '{"format_version": 1, "header": {}, "counts": {}, "estimates": [{}]}',
            r"estimates\[0\]\.metric is missing",
        ),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_files_that_are_not_ours_are_refused(tmp_path: Path, text: str, message: str) -> None:
    run = Run(tmp_path)
    path = run.cell("m", "t").results_file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(Fault, match=message):
        write_results(run.cell("m", "t"), {}, [estimate("s")], {})
    assert path.read_text() == text


def test_records_round_trip(tmp_path: Path) -> None:
    run = Run(tmp_path)
    record = Record(
        "m",
        "t:x",
        "0a1b2c",
        "gen",
        "complete",
        None,
        None,
        10,
        2,
        Counts(1, 2),
        ("a note",),
        (estimate("s"),),
    )
    write_record(run.cell("m", "t:x"), record)
    assert read_record(run.cell("m", "t:x")) == record
    write_record(run.cell("m", "t:x"), replace(record, state="failed", estimates=()))
    assert read_record(run.cell("m", "t:x")) == replace(record, state="failed")
    assert read_record(run.cell("m", "none")) is None


def test_writers_of_results_wait_for_each_other(tmp_path: Path) -> None:
    run = Run(tmp_path)
    work = [
        threading.Thread(
            target=write_results, args=(run.cell("m", "t"), {}, [estimate(f"s{i}")], {})
        )
        for i in range(12)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    got = read_results(run.cell("m", "t"))
    assert got is not None
    assert sorted(entry.signature for entry in got.estimates) == sorted(f"s{i}" for i in range(12))


def test_statistics_merge_by_column_and_document(tmp_path: Path) -> None:
    run = Run(tmp_path)
    write_statistics(
        run.cell("m", "t"), {"doc_id": ["a", "b"], "acc/c": [1, 0], "f1/label": ["x", None]}
    )
    assert read_statistics(run.cell("m", "t")) == {
        "doc_id": ["a", "b"],
        "acc/c": [1, 0],
        "f1/label": ["x", None],
    }
    write_statistics(
        run.cell("m", "t"),
        {"doc_id": ["c", "b"], "acc/c": np.array([0.5, 1.0]), "none": [None, None]},
    )
    assert read_statistics(run.cell("m", "t")) == {
        "doc_id": ["c", "b", "a"],
        "acc/c": [0.5, 1.0, None],
        "f1/label": [None, None, "x"],
        "none": [None, None, None],
    }
    for bad in ({"x": [1]}, {"doc_id": ["a", "a"]}, {"doc_id": ["a"], "x": []}):
        with pytest.raises(ValueError, match="statistics"):
            write_statistics(run.cell("m", "t"), bad)
    run.cell("m", "t").statistics_file.write_bytes(b"x" * 100)
    with pytest.raises(Fault, match="is not a sound statistics file"):
        read_statistics(run.cell("m", "t"))


def test_times_merge(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert read_times(run.cell("m", "t")) == {}
    write_times(run.cell("m", "t"), {"infer_s": 1.5})
    write_times(run.cell("m", "t"), {"score_s": 0.25})
    assert read_times(run.cell("m", "t")) == {"infer_s": 1.5, "score_s": 0.25}


def test_plain_values() -> None:
    assert plain({1: (True, None, {"a": b"x"})}) == {"1": [True, None, {"a": "b'x'"}]}
    assert to_json([1.0, "é"]) == '[1.0,"é"]'
    with pytest.raises(ValueError, match="Infinity is no JSON"):
        from_json("Infinity")
