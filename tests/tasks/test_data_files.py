"""Files as people have them: odd quotes, separators, compressions, folders, types.

Names such as H237 are those of reported cases.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalrun.errors import Fault
from evalrun.tasks.rows import load_rows
from evalrun.tasks.values import as_text
from evalrun.types import DatasetPlan


def rows_of(path: Path, **keys: Any) -> list[dict[str, Any]]:
    """The rows of a file or folder."""
    return list(load_rows(DatasetPlan(str(path), **keys)).rows)


def written(folder: Path, name: str, data: bytes | str) -> Path:
    """A file with this content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# ---- TSV and CSV ---------------------------------------------------------------------------------

TSV: list[tuple[str, str, list[list[str]]]] = [
    (
        "H237 a quote that closes nowhere in its cell is text",
        'q\ta\n"Blue\t18\nWhat is 2+2?\t18\nWho wrote it?\t18\nand red"\t18\nLast one\t18\n',
        [['"Blue', "18"], ["What is 2+2?", "18"], ["Who wrote it?", "18"], ['and red"', "18"],
         ["Last one", "18"]],
    ),
    ("a quote that closes in the cell goes", 'q\ta\n"say ""hi"""\t1\n', [['say "hi"', "1"]]),
    ("a quoted tab is text", 'q\ta\n"x\ty"\t1\n', [["x\ty", "1"]]),
    ("a quote that closes before the end of the cell", 'q\ta\n"A" or B\t1\n', [['"A" or B', "1"]]),
    ("quotes inside a cell", 'q\ta\n5" disk\t6"\n', [['5" disk', '6"']]),
    ("a cell over two lines, where no line fits", 'q\ta\n"one\ntwo"\t1\n', [["one\ntwo", "1"]]),
    ("Windows line ends", 'q\ta\r\n"x\t1\r\n', [['"x', "1"]]),
    ("an empty last cell", "q\ta\nx\t\n", [["x", ""]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cells"), [row[1:] for row in TSV], ids=[row[0] for row in TSV])
def test_quotes_in_tsv(tmp_path: Path, text: str, cells: list[list[str]]) -> None:
    found = rows_of(written(tmp_path, "x.tsv", text))
    assert [list(row.values()) for row in found] == cells


def test_lines_that_are_no_rows_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", 'q,a\n"one\ntwo",1\n\nthree,2\n')
    loaded = load_rows(DatasetPlan(str(path)))
    assert [row["q"] for row in loaded.rows] == ["one\ntwo", "three"]
    assert "has 5 lines and gave 2 rows" in loaded.notes[0]
    assert load_rows(DatasetPlan(str(written(tmp_path, "y.csv", "q,a\nx,1\n")))).notes == ()


def test_semicolons_are_recognised_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", "q;a\n2,5 + 1?;3,5\nthree;2\n")
    loaded = load_rows(DatasetPlan(str(path)))
    assert list(loaded.rows) == [{"q": "2,5 + 1?", "a": "3,5"}, {"q": "three", "a": "2"}]
    assert "separated by semicolons" in loaded.notes[0]
    # One line that splits otherwise: it is no semicolon file.
    uneven = written(tmp_path, "y.csv", "q;a\none;1\ntwo\n")
    assert load_rows(DatasetPlan(str(uneven))).columns == ("q;a",)


def test_h248_empty_columns_of_an_export_are_dropped(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", "q,a,,\r\n2+2?,4,,\r\n")
    assert rows_of(path) == [{"q": "2+2?", "a": "4"}]
    with pytest.raises(Fault, match=r"x\.csv:1: column 3 of the header has no name"):
        rows_of(written(tmp_path, "x.csv", "q,a,\n2+2?,4,left\n"))
    with pytest.raises(Fault, match=r"column 2 of the header has no name"):
        rows_of(written(tmp_path, "x.csv", "q,,a\n2+2?,,4\n"))


# ---- bytes ---------------------------------------------------------------------------------------

LINE = b'{"q": "2+2?", "a": "4"}\n'
ROW = [{"q": "2+2?", "a": "4"}]


def test_h250_compressed_files(tmp_path: Path) -> None:
    packed = gzip.compress(LINE)
    assert rows_of(written(tmp_path, "UPPER.JSONL.GZ", packed)) == ROW
    wrong = load_rows(DatasetPlan(str(written(tmp_path, "wrongname.jsonl", packed))))
    assert list(wrong.rows) == ROW
    assert "gzip" in wrong.notes[0]
    with pytest.raises(Fault, match=r"Zstandard, which evalrun does not read\. Unpack it: zstd -d"):
        rows_of(written(tmp_path, "x.jsonl.zst", b"\x28\xb5\x2f\xfd...."))
    with pytest.raises(Fault, match="Zstandard"):
        rows_of(written(tmp_path, "x.jsonl", b"\x28\xb5\x2f\xfd...."))


def test_h250_joined_files_with_marks(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    assert rows_of(written(tmp_path, "x.jsonl", mark + LINE + mark + LINE)) == ROW * 2


def test_h251_another_encoding_names_utf8_and_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", b"q,a\n" + "问题,4\n".encode("gbk"))
    with pytest.raises(Fault, match=r"x\.csv:2: .*not UTF-8"):
        rows_of(path)


def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    with pytest.raises(Fault, match=r"pointer of Git LFS.*git lfs pull"):
        rows_of(written(tmp_path, "x.jsonl", pointer))


# ---- JSON by numbers -----------------------------------------------------------------------------


def test_h243_json_keyed_by_index(tmp_path: Path) -> None:
    rows = [{"gold": str(i), "prediction": f"It is {i}"} for i in range(11)]
    by_index = {str(i): row for i, row in enumerate(rows)}
    shuffled = dict(sorted(by_index.items()))  # "10" stands before "2"
    assert rows_of(written(tmp_path, "x.json", json.dumps(shuffled))) == rows
    columns = {name: {str(i): row[name] for i, row in enumerate(rows)} for name in rows[0]}
    assert rows_of(written(tmp_path, "y.json", json.dumps(columns))) == rows


# ---- folders -------------------------------------------------------------------------------------


def arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    """An Arrow stream, as `save_to_disk` writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def test_h238_a_folder_of_save_to_disk(tmp_path: Path) -> None:
    written(tmp_path, "set/dataset_dict.json", '{"splits": ["test"]}')
    arrow(tmp_path / "set/test/data-00000-of-00001.arrow", ROW)
    written(tmp_path, "set/test/state.json", "{}")
    written(tmp_path, "set/test/dataset_info.json", "{}")
    assert rows_of(tmp_path / "set") == ROW
    assert rows_of(tmp_path / "set" / "test") == ROW  # one split, saved alone


def test_shards_with_a_hash_in_their_names(tmp_path: Path) -> None:
    for part in (0, 1):
        path = tmp_path / f"data/test-0000{part}-of-00002-7f8a9b0c1d2e3f4a.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist([{"q": str(part)}]), path)
    assert rows_of(tmp_path) == [{"q": "0"}, {"q": "1"}]


# ---- typed values --------------------------------------------------------------------------------


def test_h240_short_floats_are_shown_as_written(tmp_path: Path) -> None:
    table = pa.table(
        {
            "gold": pa.array([0.1, 2.5, 0.0, 18.0, 1e-7, None], pa.float32()),
            "half": pa.array([0.1] * 6, pa.float32()).cast(pa.float16()),
            "inner": pa.array([[0.1, {}][:1]] * 6, pa.list_(pa.float32())),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    found = rows_of(tmp_path / "x.parquet")
    texts = [as_text(row["gold"]) for row in found]
    assert texts == ["0.1", "2.5", "0", "18", "0.0000001", None]
    assert as_text(found[0]["half"]) == "0.1"
    assert as_text(found[0]["inner"][0]) == "0.1"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (18.0, "18"), (0.1, "0.1"), (1e-7, "0.0000001"), (1e22, "1e+22"), (-0.0, "0"),
        (decimal.Decimal("1E-7"), "0.0000001"), (decimal.Decimal("1.10"), "1.10"),
        (decimal.Decimal("18.00"), "18"), (decimal.Decimal("1.8E+1"), "18"),
    ],
)  # fmt: skip
def test_numbers_of_typed_files(value: object, text: str) -> None:
    assert as_text(value) == text


def test_h242_a_date_that_python_lacks_ends_nothing(tmp_path: Path) -> None:
    table = pa.table(
        {
            "q": ["2+2?"],
            "expires": pa.array([253402300800], pa.timestamp("s")),
            "day": pa.array([datetime.date(2024, 1, 5)]),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    (row,) = rows_of(tmp_path / "x.parquet")
    assert row["q"] == "2+2?"
    assert str(row["expires"]).startswith("10000-01-01")
    assert as_text(row["day"]) == "2024-01-05"
