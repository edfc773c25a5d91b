"""The writer takes any kind of rows: judgements are stored and recovered as predictions are."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.judgement_rows import JUDGEMENTS, Judgement
from support.store_cases import META, reply, stored
from support.workspace import ROOT

from evalrun.errors import Fault, TaskFailure
from evalrun.store.cell import predictions
from evalrun.store.cell.files import RowFiles
from evalrun.store.layout import Run
from evalrun.store.rows.row_schema import KeyValues, RowSchema
from evalrun.store.rows.row_writer import Recovery, RowWriter
from evalrun.store.rows.stored_rows import count, is_final, load, load_file
from evalrun.types import Reply

ASKED = {"ask_id": "a1b2c3"}

WRITE = """
    import sys, time
    from pathlib import Path
    from support.judgement_rows import JUDGEMENTS, Judgement
    from evalrun.store.layout import Run
    from evalrun.store.rows.row_writer import RowWriter
    files = Run(Path(sys.argv[1])).cell("m", "t").judgements
    with RowWriter(files, JUDGEMENTS, {"ask_id": "a1b2c3"}) as writer:
        keys = [(f"d{i // 4}", i // 2 % 2, "judge", i % 2, 0, 0) for i in range(100_000)]
        for i, key in enumerate(writer.missing(keys)):
            writer.append(Judgement(*key, text=f"text of {key}"))
            print(i + 1, flush=True)
"""


def key_of(i: int) -> KeyValues:
    return (f"d{i // 4}", i // 2 % 2, "judge", i % 2, 0, 0)


def files_of(folder: Path) -> RowFiles:
    return Run(folder).cell("m", "t").judgements


def rows_of(files: RowFiles) -> list[Judgement]:
    """The row that stands for each key, in stored order."""
    found = load(files, JUDGEMENTS)
    rows = JUDGEMENTS.to_rows(found.batches)
    return [rows[place] for place in found.chosen.values()]


def killed_after(folder: Path, n_rows: int) -> int:
    """Start a writer, kill -9 it once it has taken `n_rows`; the number that it had taken."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITE), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    )
    assert child.stdout is not None
    while int(child.stdout.readline()) < n_rows:
        pass
    child.kill()
    rest = [line for line in child.stdout.read().splitlines(keepends=True) if line.strip()]
    child.wait()
    return int(rest[-1]) if rest else n_rows


def test_kill_9_of_a_writer_of_judgements(tmp_path: Path) -> None:
    files, before = files_of(tmp_path), 0
    for n_rows in (300, 70):
        taken = killed_after(tmp_path, n_rows)
        now = count(files, JUDGEMENTS)
        assert before + taken - 64 <= now <= before + taken + 1
        before = now
    wanted = [key_of(i) for i in range(before + 50)]
    with RowWriter(files, JUDGEMENTS, ASKED) as writer:
        assert (writer.recovery.n_rows, writer.recovery.n_duplicates) == (before, 0)
        assert "Took over the lock" in writer.notes[0]
        missing = writer.missing(wanted)
        assert missing == wanted[before:]
        for key in missing:
            writer.append(Judgement(*key, text=f"text of {key}"))
        writer.finalize([f"d{i}" for i in range(len(wanted))])
    assert sorted(path.name for path in (tmp_path / "judgements/m").iterdir()) == ["t.arrow"]
    assert [JUDGEMENTS.key_of(row) for row in rows_of(files)] == wanted
    assert all(row.text == f"text of {JUDGEMENTS.key_of(row)}" for row in rows_of(files))


def test_a_cut_stream_of_judgements_gives_back_its_whole_batches(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    rows = [Judgement(*key_of(i), text="x" * i, evidence=("a", "b")) for i in range(3)]
    with RowWriter(files, JUDGEMENTS, ASKED) as writer:
        for row in rows:
            writer.append(row)
            writer.flush()
    (shard,) = files.shards()
    whole = shard.read_bytes()
    assert load_file(shard, JUDGEMENTS).n_dropped_tails == 0
    shard.write_bytes(whole[:-40])
    assert rows_of(files) == rows[:2]
    with RowWriter(files, JUDGEMENTS, ASKED) as writer:
        assert (writer.recovery.n_rows, writer.recovery.n_dropped_tails) == (2, 1)
        assert writer.missing(map(key_of, range(3))) == [key_of(2)]


def test_keys_failures_and_duplicates_are_those_of_the_schema(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    first = Judgement("d0", 0, "judge", text="first")
    rows = [
        first,
        replace(first, asking=1, text="again"),  # another key
        replace(first, part=1, status="error", text=None),
        replace(first, ask_hash="h1", text="asked anew"),  # the same key: it displaces
        replace(
            first, asker="other", status="unreadable", text="?"
        ),  # an answer, if not a readable one
        replace(first, asking=1, status="error"),  # never displaces an answer
    ]
    with RowWriter(files, JUDGEMENTS, ASKED) as writer:
        for row in rows:
            writer.append(row)
        assert writer.failed_keys() == {("d0", 0, "judge", 1, 0, 0)}
        assert len(writer.stored_keys()) == 4
    with RowWriter(files, JUDGEMENTS, ASKED) as writer:
        assert writer.recovery == Recovery(n_rows=4, n_duplicates=1)
        writer.finalize(["d0"])
    assert is_final(files)
    assert [(row.asker, row.part, row.asking, row.text) for row in rows_of(files)] == [
        ("judge", 0, 0, "asked anew"),
        ("judge", 0, 1, "again"),
        ("judge", 1, 0, None),
        ("other", 0, 0, "?"),
    ]


def test_predictions_and_judgements_of_a_cell_know_nothing_of_each_other(tmp_path: Path) -> None:
    run = Run(tmp_path)
    files = files_of(tmp_path)
    with (
        predictions.open_writer(run.cell("m", "t"), META),
        RowWriter(files, JUDGEMENTS, ASKED) as w,
    ):
        w.append(Judgement("d0", 0, "judge"))
    path = stored(run, [reply("d0")], is_final=True)
    assert len(rows_of(files)) == 1
    with pytest.raises(Fault, match="holds predictions, not judgements"):
        load_file(path, JUDGEMENTS)
    with (
        pytest.raises(
            Fault, match=r"judgements/m/t\.arrow was written for ask_id 'a1b2c3', not 'x'"
        ),
        RowWriter(files, JUDGEMENTS, {"ask_id": "x"}),
    ):
        pass
    with (
        RowWriter(files, JUDGEMENTS, ASKED),
        pytest.raises(Fault, match=r"Another writer .* at work on .*judgements/m/t\.arrow"),
        RowWriter(files, JUDGEMENTS, ASKED),
    ):
        pass


@pytest.mark.parametrize(
    ("misfit", "message"),
    [
        ({"part": 2**70}, "a number does not fit int64"),
        ({"ask_hash": None}, "column 'ask_hash' got None"),
        ({"text": 3}, "a text column got int 3"),
    ],
)
def test_a_judgement_that_fits_no_column_is_named(
    tmp_path: Path, misfit: dict[str, Any], message: str
) -> None:
    files = files_of(tmp_path)
    writer = RowWriter(files, JUDGEMENTS, ASKED).__enter__()
    writer.append(replace(Judgement("d0", 0, "judge"), **misfit))
    writer.append(Judgement("d1", 0, "judge"))
    with pytest.raises(TaskFailure, match=rf"\('d0', 0, 'judge', .*cannot be stored.*{message}"):
        writer.__exit__(None, None, None)
    assert [row.doc_id for row in rows_of(files)] == ["d1"]


def test_a_status_of_another_kind_is_refused(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    with RowWriter(files, JUDGEMENTS, ASKED) as writer:
        with pytest.raises(ValueError, match="there is no status 'truncated'"):
            writer.append(Judgement("d0", 0, "judge", status="truncated"))
        writer.append(Judgement("d1", 0, "judge"))
        assert writer.stored_keys() == {("d1", 0, "judge", 0, 0, 0)}
    assert [row.doc_id for row in rows_of(files)] == ["d1"]


@pytest.mark.parametrize(
    ("row", "key", "message"),
    [
        (Reply, JUDGEMENTS.key, "Reply has other fields than judgements columns"),
        (Judgement, ("doc_id",), "no key of two columns and a status"),
        (Judgement, ("doc_id", "kind"), "no key of two columns and a status"),
    ],
)
def test_a_schema_that_does_not_hold_together(
    row: type, key: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RowSchema(JUDGEMENTS.table, row, key, JUDGEMENTS.statuses, JUDGEMENTS.failures)
