"""Reading rows: local files with types untouched, faults with their place, hub data, filters."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.workspace import ROOT

from evalrun.errors import Fault, TaskFailure
from evalrun.tasks import rows as rows_module
from evalrun.tasks.docs import make_docs
from evalrun.tasks.rows import load_rows
from evalrun.tasks.sources.local_files import is_file, is_local
from evalrun.types import DatasetPlan

CASES = {
    row["id"]: row
    for row in map(
        json.loads, (ROOT / "tests" / "cases" / "data.jsonl").read_text("utf-8").strip().split("\n")
    )
}


def written(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return str(path)


def read(folder: Path, name: str, content: str | bytes) -> list[dict[str, Any]]:
    return list(load_rows(DatasetPlan(written(folder, name, content))).rows)


def golds(folder: Path, name: str, content: str | bytes, query: str = "question") -> list[str]:
    plan = DatasetPlan(
        written(folder, name, content), columns=(("query", query), ("gold", "answer"))
    )
    return [doc.gold_texts[0] for doc in make_docs("t", None, plan, load_rows(plan), None)]


# ---- public reports ------------------------------------------------------------------------------


def test_da001_byte_order_mark(tmp_path: Path) -> None:
    case = CASES["DA-001"]
    rows = load_rows(
        DatasetPlan(written(tmp_path, "a.csv", bytes.fromhex(case["input"]["bytes_hex"])))
    )
    assert list(rows.columns) == case["expected"]["columns"]
    assert rows.rows[0]["answer"] == "4"
    assert rows.rows[0]["question"] == "q1"


def test_da002_na_none_and_leading_zeros_are_text(tmp_path: Path) -> None:
    case = CASES["DA-002"]
    assert golds(tmp_path, "a.csv", case["input"]["text"]) == case["expected"]["answers"]


def test_da004_unicode_line_separators_do_not_split(tmp_path: Path) -> None:
    text = '{"q":"a\u2028b","answer":"1"}\n{"q":"c\u0085\u2029d","answer":"2"}\n'
    rows = read(tmp_path, "a.jsonl", text)
    assert [row["q"] for row in rows] == ["a\u2028b", "c\u0085\u2029d"]
    case = CASES["DA-004"]
    rows = read(tmp_path, "b.jsonl", case["input"]["text"])
    assert [row["q"] for row in rows] == [case["expected"]["q0"], case["expected"]["q1"]]


def test_da005_strings_and_numbers_in_one_column(tmp_path: Path) -> None:
    assert golds(tmp_path, "a.jsonl", CASES["DA-005"]["input"]["text"], "q") == ["1", "2", "2.50"]


def test_da006_dates_stay_text(tmp_path: Path) -> None:
    case = CASES["DA-006"]
    assert golds(tmp_path, "a.jsonl", case["input"]["text"], "q") == case["expected"]["answers"]


def test_da007_a_column_of_a_later_row_is_kept(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row) for row in CASES["DA-007"]["input"]["rows"])
    rows = load_rows(DatasetPlan(written(tmp_path, "a.jsonl", lines)))
    assert rows.columns == ("id", "prediction", "error")
    assert [row.get("error") for row in rows.rows] == [None, "timeout"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", ""),
        ("a.jsonl", "\n \r\n"),
        ("a.json", "[]"),
        ("a.json", ""),
        ("a.csv", "q,answer\n"),
        ("a.tsv", ""),
    ],
)
def test_da015_no_rows_is_a_fault(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(Fault, match=r"holds no rows, so there is nothing to ask"):
        read(tmp_path, name, content)


def test_da017_an_edited_file_is_read_again(tmp_path: Path) -> None:
    case = CASES["DA-017"]["input"]
    first = load_rows(DatasetPlan(written(tmp_path, "a.jsonl", case["run1"])))
    second = load_rows(DatasetPlan(written(tmp_path, "a.jsonl", case["run2"])))
    assert [first.rows[0]["answer"], second.rows[0]["answer"]] == ["1", "2"]
    assert first.digest == hashlib.sha256(case["run1"].encode()).hexdigest()
    assert second.digest == hashlib.sha256(case["run2"].encode()).hexdigest()


# ---- what files hold -----------------------------------------------------------------------------

ROWS = [{"q": "a", "answer": "007"}, {"q": 'b, \n"c"', "answer": "NA"}]
CSV = 'q,answer\r\na,007\r\n\r\n"b, \n""c""",NA\r\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", "\ufeff" + "\r\n\r\n".join(map(json.dumps, ROWS))),
        ("a.ndjson", "\n".join(map(json.dumps, ROWS))),
        ("a.json", json.dumps(ROWS, indent=1)),
        ("a.json", "\n".join(map(json.dumps, ROWS)) + "\n"),
        ("a.json", json.dumps({"canary": "x", "examples": ROWS, "n": [1]})),
        ("a.csv", CSV),
        ("A.CSV", CSV),
        (
            "a.tsv",
            CSV.replace(",answer", "\tanswer").replace(",007", "\t007").replace('",NA', '"\tNA'),
        ),
        ("a.csv.gz", gzip.compress(CSV.encode())),
        ("a.jsonl.gz", gzip.compress("\n".join(map(json.dumps, ROWS)).encode())),
    ],
)
def test_forms_of_text(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert read(tmp_path, name, content) == ROWS


def arrow_file(path: Path, is_file: bool, batches: int = 1) -> str:
    table = pa.Table.from_pylist(ROWS)
    new = pa.ipc.new_file if is_file else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return str(path)


def test_arrow_file_and_stream(tmp_path: Path) -> None:
    for is_file_form in (True, False):
        plan = DatasetPlan(arrow_file(tmp_path / f"a{is_file_form}.arrow", is_file_form, 2))
        assert list(load_rows(plan).rows) == ROWS * 2
    cut = Path(plan.path).read_bytes()[:-200]
    with pytest.raises(Fault, match=r"cut\.arrow: not a whole, valid Arrow IPC file"):
        read(tmp_path, "cut.arrow", cut)


def test_parquet_keeps_its_types_and_ignores_folder_names(tmp_path: Path) -> None:
    folder = tmp_path / "answer=9"
    folder.mkdir()
    pq.write_table(
        pa.Table.from_pylist([{"q": "a", "answer": 7, "tags": ["x"]}]), folder / "a.parquet"
    )
    rows = load_rows(DatasetPlan(str(folder / "a.parquet")))
    assert list(rows.rows) == [{"q": "a", "answer": 7, "tags": ["x"]}]
    with pytest.raises(Fault, match=r"b\.parquet: not a whole, valid Parquet file"):
        read(tmp_path, "b.parquet", (folder / "a.parquet").read_bytes()[:-9])


def test_invalid_utf8_in_arrow_is_a_fault(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    table = pa.table({"q": bad})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(Fault, match=r"a\.arrow: not a whole, valid Arrow IPC file: .*UTF8"):
        load_rows(DatasetPlan(str(tmp_path / "a.arrow")))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"q":1}\n{"q":\n', r"a\.jsonl:2: not valid JSON: Expecting value"),
        (
            "a.jsonl",
            '{"q":1}\n\n[1]\n',
            r"a\.jsonl:3: a row is an object \{\.\.\.\}; this is a list",
        ),
        ("a.jsonl", '{"q":1,"q":2}', r"a\.jsonl:1: the key 'q' stands twice in one object"),
        ("a.jsonl", '{"a":1}\n{"q":"\\ud800"}', r"a\.jsonl:2: \\ud800 is half of a character"),
        (
            "a.jsonl",
            b'{"a":1}\n{"q":"x\xff"}',
            r"a\.jsonl:2: byte 0xff \(byte 8 of the line\) is not UTF-8",
        ),
        (
            "a.jsonl",
            "\ufeff{}\n{}".encode("utf-16"),
            r"a\.jsonl:1: the file is UTF-16\. Allowed is UTF-8",
        ),
        ("a.jsonl", '{"q":' + "[" * 100_000, r"a\.jsonl:1: lists or objects are nested too deeply"),
        ("a.jsonl", '{"q":' + "9" * 5000 + "}", r"a\.jsonl:1: .*4300 digits"),
        ("a.json", '[{"q":1},\n{"q" 2}]', r"a\.json:2: not valid JSON: Expecting ':' delimiter"),
        ("a.json", "[1]", r"a\.json: entry 1: a row is an object \{\.\.\.\}; this is a number"),
        (
            "a.json",
            '{"a":[{"q":1}],"b":[{"q":2}]}',
            r"several lists of objects: a, b\. Choose with dataset\.name=KEY",
        ),
        ("a.csv", "q,answer\na,1\nb\n", r"a\.csv:3: the row has 1 cells, the header has 2"),
        (
            "a.csv",
            'q,answer\n"a\nb",1\nb,2,3\n',
            r"a\.csv:4: the row has 3 cells, the header has 2",
        ),
        ("a.csv", 'q,answer\na,1\n"b,2\nc,3\n', r"a\.csv:3: not valid CSV: unexpected end of data"),
        ("a.csv", "q,q\na,1\n", r"a\.csv:1: the header names column 'q' twice"),
        (
            "a.csv",
            b"\xef\xbb\xbfq,answer\na,\xe9\n",
            r"a\.csv:2: byte 0xe9 \(byte 3 of the line\) is not UTF-8",
        ),
        ("a.csv.gz", gzip.compress(CSV.encode())[:-9], r"not a whole gzip file"),
        ("a.csv.gz", "q,answer\n", r"not a whole gzip file"),
        ("a.arrow", "q,answer\n", r"a\.arrow: not a whole, valid Arrow IPC file"),
    ],
)
def test_bad_files_say_where(
    tmp_path: Path, name: str, content: str | bytes, expected: str
) -> None:
    with pytest.raises(Fault, match=expected):
        read(tmp_path, name, content)


def test_control_characters_and_huge_cells_pass_untouched(tmp_path: Path) -> None:
    text = "\x00\x1b[31m\x7f" + "x" * 3_000_000
    (row,) = read(tmp_path, "a.jsonl", json.dumps({"q": text}))
    assert row["q"] == text
    (row,) = read(tmp_path, "a.csv", f"q,answer\n{text},1\n")
    assert row["q"] == text


def test_100k_rows_take_linear_time(tmp_path: Path) -> None:
    line = (
        '{{"q": "How many is {0} and {0}?", "answer": "{0}", "meta": {{"level": {0}, "p": 0.50}}}}'
    )
    took = []
    for size in (10_000, 100_000):
        path = written(tmp_path, "a.jsonl", "\n".join(line.format(i) for i in range(size)))
        start = time.process_time()
        rows = load_rows(DatasetPlan(path, filter=(("meta.p", 0.5),)))
        took.append(time.process_time() - start)
        assert len(rows) == size
        assert rows.rows[size - 1]["meta"]["level"] == size - 1
    assert took[1] < 0.5 + 30 * took[0]


# ---- finding files -------------------------------------------------------------------------------


def test_what_is_local(tmp_path: Path) -> None:
    (tmp_path / "owner" / "data").mkdir(parents=True)
    local = (
        "a.jsonl",
        "owner/a.csv.gz",
        "./x",
        "~/x",
        "/x",
        "package:demo_math.jsonl",
        "owner/data",
        "x.ARROW",
    )
    assert [path for path in local if not is_local(path, tmp_path)] == []
    assert [
        path
        for path in ("openai/gsm8k", "gsm8k", "a.parquet.gz", "v1.2")
        if is_local(path, tmp_path)
    ] == []
    assert is_file("a.jsonl", tmp_path)
    assert not is_file("owner/data", tmp_path)


def test_relative_paths_start_at_the_base_folder(tmp_path: Path) -> None:
    written(tmp_path, "in/a.jsonl", '{"q":"x"}')
    assert load_rows(DatasetPlan("in/a.jsonl"), tmp_path).rows[0] == {"q": "x"}


def test_missing_files_name_the_nearest(tmp_path: Path) -> None:
    written(tmp_path, "questions.jsonl", "{}")
    with pytest.raises(
        Fault, match=r"There is no file .*question\.jsonl.*Did you mean '.*/questions\.jsonl'\?"
    ):
        load_rows(DatasetPlan(str(tmp_path / "question.jsonl")))
    with pytest.raises(
        Fault, match=rf"does not exist either\. The nearest folder that does is {tmp_path}\."
    ):
        load_rows(DatasetPlan(str(tmp_path / "no" / "such" / "a.jsonl")))
    with pytest.raises(Fault, match=r"is an Excel workbook.*as CSV.*Allowed: \.jsonl"):
        load_rows(DatasetPlan(written(tmp_path, "table.xlsx", "x")))
    with pytest.raises(
        Fault, match=r"no data file 'demo_maths\.jsonl'.*Did you mean 'demo_math\.jsonl'\?"
    ):
        load_rows(DatasetPlan("package:demo_maths.jsonl"))


@pytest.mark.parametrize(
    ("files", "split", "expected"),
    [
        (["main/test.jsonl", "main/train.jsonl"], "train", ["main/train.jsonl"]),
        (["main/test-00000-of-00002.csv", "main/test-00001-of-00002.csv"], "test", ["a", "b"]),
        (["main/data/test-00000-of-00001.jsonl"], "test", ["x"]),
        (
            ["main/test/data-00000-of-00002.jsonl", "main/test/data-00001-of-00002.jsonl"],
            "test",
            ["x", "x"],
        ),
        (["main/tests.jsonl"], "test", r"no split 'test' in .*Did you mean 'tests\.jsonl'"),
        (["main/test.jsonl", "main/test.jsonl.gz"], "test", r"'test' is there more than once"),
        (["main/test.jsonl", "main/test.csv"], "test", r"'test' is there more than once"),
        (["main/test-00000-of-00002.csv"], "test", r"there are 1 of 2 parts"),
        (["test.jsonl"], "test", r"no folder 'main' in .*set tasks\.NAME\.dataset\.name=null"),
    ],
)
def test_folders(tmp_path: Path, files: list[str], split: str, expected: list[str] | str) -> None:
    for file in files:
        written(tmp_path, file, f"q\n{file}\n" if ".csv" in file else json.dumps({"q": file}))
    plan = DatasetPlan(str(tmp_path), name="main", split=split)
    if isinstance(expected, str):
        with pytest.raises(Fault, match=expected):
            load_rows(plan)
    else:
        wanted = [file for file in files if file in expected] or files
        assert [row["q"] for row in load_rows(plan).rows] == wanted


# ---- filters -------------------------------------------------------------------------------------

MIXED = (
    '{"k":1,"s":"x","m":{"a":"u"}}\n{"k":"1","s":"y","m":{"a":"v"}}\n'
    '{"k":2.0,"s":null}\n{"s":"z","k":true}\n'
)


@pytest.mark.parametrize(
    ("column", "value", "kept"),
    [
        ("k", 1, [0, 1]),
        ("k", "1", [0, 1]),
        ("k", 2, [2]),
        ("k", True, [3]),
        ("s", ("x", "z"), [0, 3]),
        ("s", None, [2]),
        ("m.a", ["v"], [1]),
        ("m.a", None, [2, 3]),
    ],
)
def test_filter(tmp_path: Path, column: str, value: Any, kept: list[int]) -> None:
    rows = load_rows(DatasetPlan(written(tmp_path, "a.jsonl", MIXED), filter=((column, value),)))
    assert list(rows.numbers) == kept
    assert rows.place(0).startswith(f"row {kept[0] + 1} of ")


def test_filter_faults(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", MIXED)
    with pytest.raises(
        Fault,
        match=r"dataset\.filter\.s='w' leaves none of the 4 rows .*Values there: 'x', 'y', 'z'",
    ):
        load_rows(DatasetPlan(path, filter=(("s", "w"),)))
    with pytest.raises(
        Fault, match=r"no column 'm\.b' in .* \(dataset\.filter\)\. Did you mean 'm\.a'\?"
    ):
        load_rows(DatasetPlan(path, filter=(("m.b", "w"),)))


# ---- hub -----------------------------------------------------------------------------------------

HUB = """
import json, sys
from pathlib import Path
from evalrun.errors import EvalrunError
from evalrun.tasks.rows import _load_hub
from evalrun.types import DatasetPlan
folder = Path(sys.argv[1])
for path, split in ((str(folder), "test"), (str(folder), "tset"), ("nobody/nothing", "test")):
    try:
        rows = _load_hub(DatasetPlan(path, split=split))
        print(json.dumps([list(rows.rows), rows.digest, rows.columns]))
    except EvalrunError as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""


def test_hub_data_through_datasets(tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "test.parquet")
    env = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "cache"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", HUB, str(folder)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    found, no_split, unreachable = map(json.loads, done.stdout.splitlines())
    assert found == [ROWS, rows_module.digest_of(ROWS), ["q", "answer"]]
    assert no_split[0] == "Fault"
    assert re.search(
        r"no such part .*split=tset.*Unknown split \"tset\"\. Should be one of \['test'\]",
        no_split[1],
    )
    assert unreachable[0] == "TaskFailure"
    assert re.search(r"could not be loaded.*nobody/nothing.*set dataset\.path=FILE", unreachable[1])


def test_without_the_package_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        Fault,
        match=r"'openai/gsm8k' names a dataset of the hub, .*pip install datasets.*dataset\.path=",
    ):
        load_rows(DatasetPlan("openai/gsm8k", "main"))


def test_a_failing_client_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(
        TaskFailure,
        match=r"name=main, split=test, revision=None\): ConnectionError: no route to host\.",
    ):
        load_rows(DatasetPlan("openai/gsm8k", "main"))


def test_reading_text_files_loads_nothing_heavy(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", '{"q":"x"}')
    code = (
        "import sys; from evalrun.tasks import rows, docs, fewshot, prompt; from evalrun.types "
        f"import DatasetPlan; rows.load_rows(DatasetPlan({path!r})); heavy = ('datasets', "
        "'pyarrow', 'pandas', 'jinja2', 'torch', 'hydra', 'numpy'); print([m for m in heavy if m "
        "in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
