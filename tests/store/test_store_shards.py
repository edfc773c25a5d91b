"""Cut and damaged streams: every whole batch before the cut comes back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.store_cases import META, REPLIES, reply, whole_batches

from evalrun.errors import Fault
from evalrun.store.cell.predictions import open_writer, read, read_file
from evalrun.store.cell.reply_rows import REPLY_ROWS
from evalrun.store.layout import Run
from evalrun.store.rows.row_writer import Recovery
from evalrun.store.rows.shard_reader import read_shard
from evalrun.types import Reply

ROWS = [reply(f"d{i}", text="x" * (i % 50)) for i in range(300)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    run = Run(tmp_path_factory.mktemp("whole"))
    return _stream(run, ROWS)


def _stream(run: Run, rows: list[Reply], per_batch: int = 64) -> bytes:
    with open_writer(run.cell("m", "t"), META) as writer:
        for i, row in enumerate(rows, start=1):
            writer.append(row)
            if i % per_batch == 0:
                writer.flush()
    return run.cell("m", "t").predictions.shards()[0].read_bytes()


def test_every_cut_gives_back_the_whole_batches(tmp_path: Path, data: bytes) -> None:
    ends = whole_batches(data)
    assert [rows for _, rows in ends] == [0, 64, 128, 192, 256, 300]
    near = [end + step for end, _ in ends for step in (-1, 0, 1, 7, 8, 9)]
    randoms = random.Random(0).sample(range(len(data)), 150)
    path = tmp_path / "t.1.arrows"
    for cut in sorted({*range(len(data) - 200, len(data) + 1), *near, *randoms, *range(16)}):
        if not 0 <= cut <= len(data):
            continue
        path.write_bytes(data[:cut])
        shard = read_shard(path, REPLY_ROWS)
        n_rows = max((rows for end, rows in ends if end <= cut), default=0)
        good = max((end for end, _ in ends if end <= cut), default=0)
        assert sum(batch.num_rows for batch in shard.batches) == n_rows
        assert shard.dropped_bytes == (0 if cut == len(data) else cut - good)
        assert shard.is_cut
    assert read_file(path).rows == ROWS


def test_cut_40_bytes_before_the_end(tmp_path: Path) -> None:
    """RE-002."""
    run = Run(tmp_path)
    whole = _stream(run, ROWS[:3], per_batch=1)
    run.cell("m", "t").predictions.shards()[0].write_bytes(whole[:-40])
    wanted = [row.key for row in ROWS[:3]]
    with open_writer(run.cell("m", "t"), META) as writer:
        recovery = writer.recovery
        assert (recovery.n_rows, recovery.n_dropped_tails) == (2, 1)
        assert recovery.dropped_bytes > 0
        assert "Dropped an unfinished batch" in writer.notes[0]
        assert writer.missing(wanted) == wanted[2:]
        writer.append(ROWS[2])
        assert writer.files.new_shard().name == "t.2.arrows"
        writer.finalize([row.doc_id for row in ROWS])
    assert read(run.cell("m", "t")).rows == ROWS[:3]
    assert [path.name for path in (tmp_path / "predictions/m").iterdir()] == ["t.arrow"]


@given(st.lists(REPLIES, min_size=1, max_size=6, unique_by=lambda row: row.key), st.data())
@settings(max_examples=25, deadline=None)
def test_any_rows_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Reply], draw: st.DataObject
) -> None:
    run = Run(tmp_path_factory.mktemp("r"))
    whole = _stream(run, rows, per_batch=1)
    for cut in draw.draw(st.lists(st.integers(0, len(whole)), min_size=1, max_size=8)):
        run.cell("m", "t").predictions.shards()[0].write_bytes(whole[:cut])
        n_rows = max((n for end, n in whole_batches(whole) if end <= cut), default=0)
        assert read(run.cell("m", "t")).rows == rows[:n_rows]


def test_zeros_after_a_power_cut_are_a_dropped_tail(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "t.1.arrows"
    end, rows = whole_batches(data)[2]
    path.write_bytes(data[:end] + bytes(5000))
    shard = read_shard(path, REPLY_ROWS)
    assert (sum(batch.num_rows for batch in shard.batches), shard.is_cut) == (rows, True)
    assert 0 < shard.dropped_bytes <= 5000
    path.write_bytes(bytes(5000))
    assert (read_shard(path, REPLY_ROWS).batches, read_shard(path, REPLY_ROWS).dropped_bytes) == (
        [],
        5000,
    )


def test_a_damaged_batch_is_set_aside_not_deleted(tmp_path: Path) -> None:
    run = Run(tmp_path)
    whole = _stream(run, ROWS)
    end, rows = whole_batches(whole)[2]
    path = run.cell("m", "t").predictions.shards()[0]
    path.write_bytes(whole[: end + 16] + b"\xff" * 400 + whole[end + 416 :])
    with open_writer(run.cell("m", "t"), META) as writer:
        assert (writer.recovery.n_rows, writer.recovery.n_dropped_tails) == (rows, 1)
        assert "Dropped damaged data" in writer.notes[0]
        writer.finalize([row.doc_id for row in ROWS])
    assert read(run.cell("m", "t")).rows == ROWS[:rows]
    kept = path.with_name("t.1.arrows.damaged")
    assert kept.stat().st_size == len(whole)
    assert run.cell("m", "t").predictions.new_shard().name == "t.2.arrows"


def test_text_that_is_no_utf8_is_never_taken_in(tmp_path: Path) -> None:
    run = Run(tmp_path)
    whole = _stream(run, [reply("good"), reply("bad", text="findme!!")], per_batch=1)
    run.cell("m", "t").predictions.shards()[0].write_bytes(
        whole.replace(b"findme!!", b"find\xff\xfe!!")
    )
    got = read(run.cell("m", "t"))
    assert ([row.doc_id for row in got.rows], got.n_dropped_tails) == (["good"], 1)


@pytest.mark.parametrize(
    "junk",
    [b"PK\x03\x04 and more than eight bytes", b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"j" * 90],
)
def test_a_file_that_is_no_stream_is_refused(tmp_path: Path, junk: bytes) -> None:
    run = Run(tmp_path)
    path = run.cell("m", "t").predictions.new_shard()
    path.parent.mkdir(parents=True)
    path.write_bytes(junk)
    with pytest.raises(Fault, match=r"t\.1\.arrows is not a sound predictions file"):
        read(run.cell("m", "t"))
    assert path.read_bytes() == junk


def test_flipped_bytes_never_crash(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "t.1.arrows"
    for at in random.Random(1).sample(range(len(data)), 200):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xA5]) + data[at + 1 :])
        try:
            n_rows = sum(batch.num_rows for batch in read_shard(path, REPLY_ROWS).batches)
        except Fault:
            continue
        assert n_rows <= 300


def test_recovery_counts_start_at_nothing() -> None:
    assert Recovery() == Recovery(0, 0, 0, 0)
