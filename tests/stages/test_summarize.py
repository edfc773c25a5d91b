"""Summaries: golden files, the tidy rows, names that try to break a table, files that must not
be overwritten.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from support.records import estimate, record
from support.workspace import ROOT

from evalrun.errors import EvalrunError, Fault
from evalrun.stages.summarize import (
    COLUMNS,
    SummarySettings,
    csv_text,
    md_text,
    print_table,
    results_frame,
    tidy,
    txt_text,
    write_summary,
)
from evalrun.stages.summary.render import fold
from evalrun.types import Counts, Estimate, Record

CASES = ROOT / "tests" / "cases" / "summary"
DEFAULTS = SummarySettings()


def load(name: str) -> list[Record]:
    return [
        record_of(data) for data in json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    ]


def record_of(data: dict[str, Any]) -> Record:
    """The Record of a JSON object made by `dataclasses.asdict`."""
    given = [
        {**e, "bounds": None if e["bounds"] is None else tuple(e["bounds"])}
        for e in data["estimates"]
    ]
    more = {"counts": Counts(**data["counts"]), "notes": tuple(data["notes"])}
    return Record(**{**data, **more, "estimates": tuple(Estimate(**e) for e in given)})


def read_record(data: dict[str, Any]) -> Record:
    estimates = tuple(
        Estimate(**{**e, "bounds": None if e["bounds"] is None else tuple(e["bounds"])})
        for e in data["estimates"]
    )
    parts = {
        "counts": Counts(**data["counts"]),
        "notes": tuple(data["notes"]),
        "estimates": estimates,
    }
    return Record(**{**data, **parts})


def on_terminal(records: list[Record], width: int) -> str:
    out = io.StringIO()
    print_table(records, Console(file=out, width=width, force_terminal=True, color_system=None))
    return out.getvalue()


def md_cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


@pytest.mark.parametrize("name", ["one", "trio", "mixed"])
@pytest.mark.parametrize(
    ("ending", "make"), [("csv", csv_text), ("md", md_text), ("txt", txt_text)]
)
def test_golden_files(name: str, ending: str, make: Any) -> None:
    assert make(load(name)).encode() == (CASES / f"{name}.{ending}").read_bytes()


def test_tidy_rows_of_the_service_trio() -> None:
    rows = tidy(load("trio"))
    assert all(tuple(row) == COLUMNS for row in rows)
    assert [(r["metric"], r["value"], r["n"]) for r in rows] == [
        ("accuracy", 0.45, 5),
        ("pass@5", 0.75, 5),
        ("cons@5", 0.5, 5),
        ("avg@5", 0.45, 5),
    ]
    assert {r["n_truncated"] for r in rows} == {2}


def test_tidy_order_is_dataset_then_metric_then_model() -> None:
    two = (estimate("b"), estimate("a"))
    records = [
        record("m2", "t2", estimates=two),
        record("m2", "t1", estimates=two),
        record("m1", "t2", estimates=two),
    ]
    got = [(r["dataset"], r["metric"], r["model"]) for r in tidy(records)]
    assert got == [
        *(("t2", "b", "m2"), ("t2", "b", "m1"), ("t2", "a", "m2"), ("t2", "a", "m1")),
        *(("t1", "b", "m2"), ("t1", "a", "m2")),
    ]


@pytest.mark.parametrize(
    ("state", "counts", "word"),
    [
        ("failed", Counts(n_error=6), "failed 6/10 [1]"),
        ("failed", Counts(), "failed [1]"),
        ("missing", Counts(), "missing [1]"),
        ("incomplete", Counts(n_unsent=7, n_error=1), "incomplete 2/10 [1]"),
        ("complete", Counts(), "unscored [1]"),
    ],
)
def test_a_cell_without_a_number_is_a_word_with_reason_and_log(
    state: str, counts: Counts, word: str
) -> None:
    # a stale number of a failed task is not shown
    value = None if state in ("complete", "incomplete") else 0.99
    ghost = record(
        state=state,
        reason="why it is",
        log="logs/x.out",
        counts=counts,
        estimates=(estimate(value=value),),
    )
    for text in (md_text([ghost]), txt_text([ghost]), on_terminal([ghost], 120)):
        assert word in text
        assert "99.00" not in text
        assert re.search(r"\[1\] t, m: \w+.*why it is\. Log: logs/x\.out", text)
    (row,) = tidy([ghost])
    assert (row["metric"], row["value"], row["stderr"]) == ("accuracy", None, None)
    assert (
        csv_text([ghost])
        .split("\r\n")[1]
        .startswith("t,abcdef,accuracy,gen,m,,fraction,,,,10,1,10,")
    )


def test_a_failed_task_that_no_model_scored_keeps_a_row() -> None:
    gone = record(state="missing", estimates=())
    (row,) = tidy([gone])
    assert (row["metric"], row["value"], row["n_docs"], row["n_scored"], row["signature"]) == (
        "-",
        None,
        10,
        0,
        None,
    )
    assert "missing [1]" in txt_text([gone])
    assert "no reason was recorded" in txt_text([gone])


def test_models_with_different_metrics_leave_blank_cells() -> None:
    records = [record("m1", estimates=(estimate("a"),)), record("m2", estimates=(estimate("b"),))]
    lines = md_text(records).splitlines()[2:4]
    assert [md_cells(line)[2:] for line in lines] == [
        ["a", "gen", "10", "1", "50.00 ± 10.00", ""],
        ["b", "gen", "10", "1", "", "50.00 ± 10.00"],
    ]
    assert [(r["metric"], r["model"]) for r in tidy(records)] == [("a", "m1"), ("b", "m2")]


def test_rows_join_over_models_though_signatures_hold_the_model_address() -> None:
    records = [
        record("m1", estimates=(estimate(signature="a|ask:111"),)),
        record("m2", estimates=(estimate(signature="a|ask:222"),)),
    ]
    assert len(md_text(records).splitlines()[2:]) == 3  # one row, a blank line, the legend


def test_equal_names_with_other_signatures_stay_apart_and_are_explained() -> None:
    letter, number = (
        estimate(value=v, signature=f"accuracy|s:{s}|ask:9f")
        for v, s in ((0.1, "letter"), (0.2, "number"))
    )
    records = [
        record("m1", estimates=(letter, number)),
        record("m2", estimates=(dataclasses.replace(number, value=0.3),)),
    ]
    lines = md_text(records).splitlines()
    assert [md_cells(line)[2::4] for line in lines[2:4]] == [
        ["accuracy #1", "10.00 ± 10.00"],
        ["accuracy #2", "20.00 ± 10.00"],
    ]
    assert md_cells(lines[3])[-1] == "30.00 ± 10.00"
    assert "t: accuracy #2 is accuracy|s:number|" in txt_text(records)
    assert [r["metric"] for r in tidy(records)] == ["accuracy"] * 3


def test_two_runs_of_one_model_get_two_columns() -> None:
    records = [record(), record(estimates=(estimate(value=0.25),))]
    lines = md_text(records).splitlines()
    assert md_cells(lines[0])[-2:] == ["m", "m #2"]
    assert md_cells(lines[2])[-2:] == ["50.00 ± 10.00", "25.00 ± 10.00"]
    assert [r["model"] for r in tidy(records)] == ["m", "m"]


@pytest.mark.parametrize(
    ("settings", "unit", "value", "shown"),
    [
        ({}, "fraction", 0.6912, "69.12 ± 10.00"),
        ({"percent": False, "digits": 4}, "fraction", 0.6912, "0.6912 ± 0.1000"),
        ({}, "percent", 69.12, "69.12 ± 0.10"),
        ({"percent": False}, "percent", 69.12, "69.12 ± 0.10"),
        ({}, "count", 3.75, "3.75 ± 0.10"),
        ({"digits": 1}, "nats", -1.25, "-1.2 ± 0.1"),
        ({"digits": 0}, "fraction", 1.0, "100 ± 10"),
        ({}, "fraction", -0.00001, "0.00 ± 10.00"),
        ({"show_ci": True}, "fraction", 0.5, "50.00 ± 10.00 [30.00, 70.00]"),
        ({}, "nats", 1e12, "1.00e+12 ± 0.10"),
        ({}, "nats", math.inf, "inf ± 0.10 [1]"),
        ({}, "fraction", math.nan, "nan ± 10.00 [1]"),
    ],
)
def test_numbers_keep_their_unit(
    settings: dict[str, Any], unit: str, value: float, shown: str
) -> None:
    text = md_text(
        [record(estimates=(estimate(value=value, unit=unit),))],
        SummarySettings.from_mapping(settings),
    )
    assert md_cells(text.splitlines()[2])[-1] == shown


def test_the_csv_gives_the_same_numbers_back() -> None:
    values = [0.1 + 0.2, 1 / 3, 5e-324, math.inf, math.nan, -0.0]
    records = [record(task=str(i), estimates=(estimate(value=v),)) for i, v in enumerate(values)]
    read = [
        float(row["value"]) for row in csv.DictReader(io.StringIO(csv_text(records), newline=""))
    ]
    assert list(map(repr, read)) == list(map(repr, values))


HOSTILE = [
    "a,b",
    'say "hi"',
    "x|y",
    "\x1b[31mred",
    "中文模型",
    "a\nb",
    "back\\|slash\\",
    "*b* `c` <i> _d_",
    "[bold]x[/]",
    "é\u202e",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name: str) -> None:
    records = [
        record(name, name, estimates=(estimate(name),)),
        record("ok", name, estimates=(estimate(name),)),
    ]
    rows = list(csv.DictReader(io.StringIO(csv_text(records), newline="")))
    assert [(r["dataset"], r["metric"], r["model"]) for r in rows] == [
        (name, name, name),
        (name, name, "ok"),
    ]
    md, txt, shown = md_text(records), txt_text(records), on_terminal(records, 80)
    lines = md.splitlines()
    assert {len(md_cells(line)) for line in lines[:3]} == {8}
    assert len(txt.splitlines()) == 5
    assert "\x1b" not in md + txt + shown
    assert "\u202e" not in md + txt + shown
    assert "50.00 ± 10.00" in shown
    title, rule, row = txt.splitlines()[:3]
    assert cell_len(rule) >= max(cell_len(title), cell_len(row))
    assert (
        cell_len(row[: row.index("50.00")])
        == cell_len(rule[: rule.rindex("  ", 0, rule.rindex("  "))]) + 2
    )


def test_markdown_escapes_only_what_markdown_reads() -> None:
    text = md_text([record(task="mmlu:abstract_algebra|5")])
    assert r"| mmlu:abstract_algebra\|5 |" in text
    assert "mmlu:abstract_algebra|5" in csv_text([record(task="mmlu:abstract_algebra|5")])


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ["one", "trio", "mixed"])
def test_no_number_and_no_name_is_lost_on_a_terminal(name: str, width: int) -> None:
    records, shown = load(name), on_terminal(load(name), width)
    for row in tidy(records):
        if row["value"] is not None:
            factor = 100 if row["unit"] == "fraction" else 1
            assert f"{row['value'] * factor:.2f}" in shown
    if width >= 80:
        assert max(cell_len(line) for line in shown.splitlines()) <= width
    assert "…" not in shown


def test_many_long_models_follow_in_further_tables() -> None:
    models = [f"organisation/a-rather-long-model-name-{i}" for i in range(7)]
    records = [record(m, estimates=(estimate(value=i / 10),)) for i, m in enumerate(models)]
    shown = on_terminal(records, 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert all(f"{i * 10}.00" in shown for i in range(7))
    assert shown.count("dataset") >= 2
    text = txt_text(records)
    assert all(part in text for part in ("organisation/", "-name-6"))


def test_not_a_terminal_gets_the_text_file() -> None:
    out = io.StringIO()
    print_table(load("mixed"), Console(file=out, width=40))
    assert out.getvalue() == (CASES / "mixed.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["a-b_c/d", "中文数学", "x" * 30, "", "ab cd"])
@pytest.mark.parametrize("span", [1, 2, 5, 80])
def test_fold_loses_nothing(text: str, span: int) -> None:
    lines = fold(text, span)
    assert "".join(lines) == text
    assert all(cell_len(line) <= max(span, 2) for line in lines)


def test_notes_shared_by_all_are_said_once() -> None:
    records = [record("m1", notes=("all",)), record("m2", notes=("all", "only two"))]
    notes = txt_text(records).splitlines()[-2:]
    assert notes == ["all.", "t, m2: only two."]


def test_unscored_documents_are_named() -> None:
    assert "accuracy is over 8 of 10 documents" in txt_text(
        [record(estimates=(estimate(n_scored=8),))]
    )


def test_files_are_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "summary"
    first = write_summary(folder, load("one"), DEFAULTS, "20260101_000000")
    assert [p.name for p in first] == [f"summary_20260101_000000.{e}" for e in ("csv", "md", "txt")]
    assert first[0].read_bytes() == (CASES / "one.csv").read_bytes()
    assert first[2].read_bytes() == (CASES / "one.txt").read_bytes()
    (folder / "summary_20260101_000000_2.md").write_text("mine")
    second = write_summary(folder, load("trio"), DEFAULTS, "20260101_000000")
    assert [p.name for p in second] == [
        f"summary_20260101_000000_3.{e}" for e in ("csv", "md", "txt")
    ]
    assert first[0].read_bytes() == (CASES / "one.csv").read_bytes()
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EvalrunError, match="file"):
        write_summary(tmp_path / "file", load("one"), DEFAULTS, "s")
    with pytest.raises(EvalrunError, match="file"):
        write_summary(tmp_path / "file" / "summary", load("one"), DEFAULTS, "s")


def test_writers_at_once_get_names_of_their_own(tmp_path: Path) -> None:
    found: list[Path] = []
    records = load("one")
    threads = [
        threading.Thread(
            target=lambda: found.extend(write_summary(tmp_path, records, DEFAULTS, "s"))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 24
    assert all(path.stat().st_size > 0 for path in found)
    assert len(list(tmp_path.iterdir())) == 24


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"digit": 2}, "digits"),
        ({"digits": "2"}, "0 to 15"),
        ({"digits": True}, "0 to 15"),
        ({"digits": 99}, "0 to 15"),
        ({"percent": 1}, "true or false"),
        ({"show_ci": "yes"}, "true or false"),
    ],
)
def test_wrong_settings_are_faults(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Fault, match=said):
        SummarySettings.from_mapping(given)


def test_the_configured_defaults_are_the_defaults() -> None:
    from omegaconf import OmegaConf

    plain = OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "summary" / "table.yaml"))
    assert isinstance(plain, dict)
    assert plain.pop("name") == "table"
    assert plain == dataclasses.asdict(DEFAULTS)


def test_the_frame_holds_the_tidy_rows() -> None:
    frame = results_frame(load("mixed"))
    assert tuple(frame.columns) == COLUMNS
    assert str(frame["value"].dtype) == "float64"
    assert str(frame["n_docs"].dtype) == "Int64"
    failed = frame[frame["value"].isna()]
    assert list(failed["metric"]) == ["accuracy", "maj@2", "pass@k:k=1&n=2"]
    assert frame.loc[0, "value"] == 0.6
    assert tuple(results_frame([]).columns) == COLUMNS


def test_no_records_give_empty_tables() -> None:
    assert csv_text([]) == ",".join(COLUMNS) + "\r\n"
    assert md_text([]).splitlines()[0] == "| dataset | version | metric | mode | n_docs | n |"
    assert txt_text([]).splitlines()[0].split() == [
        "dataset",
        "version",
        "metric",
        "mode",
        "n_docs",
        "n",
    ]
    assert "dataset" in on_terminal([], 80)
