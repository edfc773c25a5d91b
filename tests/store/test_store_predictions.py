"""Predictions: round trips, recovery, duplicates, faults of files, disk full."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.store_cases import CASES, GOLDEN, META, REPLIES, reply, stored

from evalrun.errors import Fault, TaskFailure
from evalrun.store.cell.predictions import (
    count,
    is_final,
    open_writer,
    read,
    read_answers,
    read_file,
)
from evalrun.store.cell.reply_rows import PREDICTIONS
from evalrun.store.layout import Run
from evalrun.store.rows import row_writer, shard_writer
from evalrun.store.rows.row_writer import Recovery
from evalrun.types import Reply


@given(st.lists(REPLIES, max_size=12, unique_by=lambda row: row.key), st.booleans())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Reply], is_last: bool
) -> None:
    run = Run(tmp_path_factory.mktemp("r"))
    with open_writer(run.cell("m", "t"), META) as writer:
        for row in rows:
            writer.append(row)
        assert writer.stored_keys() == {row.key for row in rows}
        assert writer.failed_keys() == {row.key for row in rows if row.is_failure}
        if is_last:
            writer.finalize(sorted({row.doc_id for row in rows}))
    if not rows and not is_last:
        with pytest.raises(Fault, match="There are no predictions"):
            read(run.cell("m", "t"))
        return
    got = read(run.cell("m", "t"))
    assert got.rows == (sorted(rows, key=lambda row: row.key) if is_last else rows)
    assert got.keys == [row.key for row in got.rows]
    assert (count(run.cell("m", "t")), is_final(run.cell("m", "t")), got.n_duplicates) == (
        len(rows),
        is_last,
        0,
    )


def test_schema_is_row_version_1() -> None:
    assert PREDICTIONS.schema.names == [field.name for field in fields(Reply)]
    assert {
        str(field.type)
        for field in PREDICTIONS.schema
        if field.type not in (pa.int64(), pa.float64())
    } == {
        "large_string",
        "bool",
        "large_list<item: int32>",
    }


@pytest.mark.parametrize("name", ["predictions_v1.arrow", "predictions_v1.arrows"])
def test_golden_file_of_row_version_1(name: str) -> None:
    got = read_file(CASES / name)
    assert got.rows == GOLDEN
    wanted = {**META, "format_version": "1", "model": "m", "task": "t", "table": "predictions"}
    assert wanted.items() <= got.metadata.items()


def test_nan_survives(tmp_path: Path) -> None:
    got = (
        read_file(stored(Run(tmp_path), [replace(reply("a"), logprob=float("nan"))]))
        .rows[0]
        .logprob
    )
    assert got is not None
    assert got != got


def test_lone_surrogates_are_stored_visibly(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with open_writer(run.cell("m", "t"), {**META, "note": "\udcff"}) as writer:
        writer.append(Reply("d\ud800", "generate", 0, text="x\udfffy"))
        assert writer.missing([("d\ud800", "generate", 0, 0), ("e", "generate", 0, 0)]) == [
            ("e", "generate", 0, 0)
        ]
        writer.finalize(["d\ud800"])
    with open_writer(run.cell("m", "t"), META) as writer:
        assert writer.missing([("d\ud800", "generate", 0, 0)]) == []
    assert [(row.doc_id, row.text) for row in read(run.cell("m", "t")).rows] == [
        ("d\\ud800", "x\\udfffy")
    ]


def test_last_row_of_a_key_wins(tmp_path: Path) -> None:
    """RE-001."""
    run = Run(tmp_path)
    stored(run, [reply("0", text="A"), reply("1", text="B")], is_final=True)
    stored(run, [reply("1", text="C")])
    got = read(run.cell("m", "t"))
    assert ([row.text for row in got.rows], got.n_duplicates) == (["A", "C"], 1)
    with open_writer(run.cell("m", "t"), META) as writer:
        assert writer.recovery == Recovery(n_rows=2, n_duplicates=1)
        assert writer.notes == ["1 rows were stored twice; the last of each key counts."]
        writer.finalize(["1", "0"])
    assert [row.text for row in read(run.cell("m", "t")).rows] == ["C", "A"]
    assert run.cell("m", "t").predictions.shards() == []


def test_samples_of_one_prompt_stay_apart(tmp_path: Path) -> None:
    """RE-006."""
    run = Run(tmp_path)
    stored(run, [reply("q", i, f"s{i}") for i in (2, 0, 3, 1)], is_final=True)
    assert [row.text for row in read(run.cell("m", "t")).rows] == ["s0", "s1", "s2", "s3"]


def test_column_that_first_appears_later_is_kept(tmp_path: Path) -> None:
    """DA-007."""
    rows = [reply("0"), replace(reply("1", text="", status="timeout"), error_type="timeout")]
    assert [row.error_type for row in read_file(stored(Run(tmp_path), rows)).rows] == [
        None,
        "timeout",
    ]


def test_failures_are_asked_again_and_never_displace_answers(tmp_path: Path) -> None:
    run = Run(tmp_path)
    stored(run, [reply("a", text=None, status="error"), reply("b")], is_final=True)
    with open_writer(run.cell("m", "t"), META) as writer:
        assert writer.missing([reply(doc).key for doc in "abc"]) == [reply("a").key, reply("c").key]
        writer.append(reply("a", text="now"))
        writer.append(reply("b", text=None, status="timeout"))
        assert writer.failed_keys() == set()
    got = read(run.cell("m", "t"))
    assert ([row.text for row in got.rows], got.n_duplicates) == (["now", "x"], 0)


def test_answers_by_document(tmp_path: Path) -> None:
    run = Run(tmp_path)
    ends = ["ok", "error", "truncated", "empty", "filtered", "timeout", "incomplete"]
    rows = [
        reply(f"d{i % 2}", i, None if i == 1 else str(i), status) for i, status in enumerate(ends)
    ]
    stored(
        run, [*rows[::-1], replace(reply("d0", 0), turn=1), replace(reply("d0", 0), kind="rolling")]
    )
    got = read_answers(run.cell("m", "t"))
    assert got.by_doc["d0"] == [(i, str(i), ends[i]) for i in (0, 2, 4, 6)]
    assert got.by_doc["d1"] == [(1, None, "error"), (3, "3", "empty"), (5, "5", "timeout")]
    assert (got.n_error, got.n_truncated, got.n_filtered, got.n_empty) == (3, 1, 1, 1)
    assert list(read_answers(run.cell("m", "t"), turn=1).by_doc) == ["d0"]
    assert read(run.cell("m", "t")).column("index")[0] == 6


def test_final_is_sorted_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_writer, "_BLOCK_ROWS", 7)
    run = Run(tmp_path)
    docs = [f"d{i:03}" for i in range(90)]
    mixed = [reply(docs[i * 37 % 90], index, f"{i}") for index in (1, 0) for i in range(90)]
    for start in range(0, 180, 50):
        stored(run, mixed[start : start + 50])
    assert len(run.cell("m", "t").predictions.shards()) == 4
    with open_writer(run.cell("m", "t"), META) as writer:
        writer.finalize(docs[::-1][:60])
    by_key = {row.key: row for row in mixed}
    order = docs[::-1][:60] + docs[:30]
    assert read(run.cell("m", "t")).rows == [
        by_key[doc, "generate", i, 0] for doc in order for i in (0, 1)
    ]


def test_resume_with_nothing_new_leaves_the_file(tmp_path: Path) -> None:
    run = Run(tmp_path)
    path = stored(run, GOLDEN, is_final=True)
    before = path.stat().st_ino
    with open_writer(run.cell("m", "t"), META) as writer:
        writer.finalize(["q1", "q2", "q3"])
    assert path.stat().st_ino == before
    with open_writer(run.cell("m", "t"), {**META, "n": "3"}) as writer:
        assert writer.stored_metadata["n"] == "2"
        writer.finalize(["q1", "q2", "q3"], {"content": "{}"})
    assert path.stat().st_ino != before
    assert (
        read(run.cell("m", "t")).metadata["n"],
        read(run.cell("m", "t")).metadata["content"],
    ) == (
        "3",
        "{}",
    )
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["t.arrow"]


def test_an_empty_run_has_an_empty_final(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert not is_final(run.cell("m", "t"))
    stored(run, [], is_final=True)
    assert (
        read(run.cell("m", "t")).rows,
        count(run.cell("m", "t")),
        is_final(run.cell("m", "t")),
    ) == (
        [],
        0,
        True,
    )


def test_rows_of_another_address_are_never_mixed(tmp_path: Path) -> None:
    run = Run(tmp_path)
    stored(run, GOLDEN)
    with (
        pytest.raises(Fault, match="ask_id 'a1b2c3', not 'other'"),
        open_writer(run.cell("m", "t"), {"ask_id": "other"}),
    ):
        pass
    assert not run.cell("m", "t").predictions.lock_file.exists()


def test_slow_rows_are_on_disk_after_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_writer, "FLUSH_AFTER_S", 0.05)
    run = Run(tmp_path)
    with open_writer(run.cell("m", "t"), META) as writer:
        for doc in ("a", "b"):
            writer.append(reply(doc))
            deadline = time.monotonic() + 5
            while count(run.cell("m", "t")) < 1 + (doc == "b") and time.monotonic() < deadline:
                time.sleep(0.01)
        assert count(run.cell("m", "t")) == 2
        writer.append(reply("c"))
        writer.flush()
        assert count(run.cell("m", "t")) == 3


def test_a_batch_is_written_at_64_rows(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with open_writer(run.cell("m", "t"), META) as writer:
        for i in range(64):
            writer.append(reply(str(i)))
        assert count(run.cell("m", "t")) == 64


def test_many_threads_append(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with open_writer(run.cell("m", "t"), META) as writer:
        work = [
            threading.Thread(
                target=lambda k=k: [writer.append(reply(f"{k}", i)) for i in range(200)]
            )
            for k in "abcd"
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        writer.finalize(list("abcd"))
    assert read(run.cell("m", "t")).keys == [
        (doc, "generate", i, 0) for doc in "abcd" for i in range(200)
    ]


def test_a_row_that_fits_no_column_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    run = Run(tmp_path)
    rows = [reply("a"), replace(reply("b"), completion_tokens=2**70), reply("c")]
    with pytest.raises(TaskFailure, match=r"\('b', 'generate', 0, 0\) cannot be stored"):
        stored(run, rows)
    assert [row.doc_id for row in read(run.cell("m", "t")).rows] == ["a", "c"]


def test_a_write_error_in_the_background_is_raised_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shard_writer, "FLUSH_AFTER_S", 0.01)
    run = Run(tmp_path)
    writer = open_writer(run.cell("m", "t"), META).__enter__()
    writer.append(reply("a"))
    writer.flush()
    monkeypatch.setattr(shard_writer, "_write_at", full)
    writer.append(reply("b"))
    time.sleep(0.2)
    for late in (
        lambda: writer.append(reply("c")),
        writer.flush,
        lambda: writer.__exit__(None, None, None),
    ):
        with pytest.raises(TaskFailure, match=r"Cannot write .*t\.1\.arrows: .*No space left"):
            late()
    assert not run.cell("m", "t").predictions.lock_file.exists()
    monkeypatch.undo()
    assert [row.doc_id for row in read(run.cell("m", "t")).rows] == ["a"]


def test_an_interrupt_between_two_writes_leaves_a_sound_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path)
    write = shard_writer._write_at

    def half(fd: int, data: bytes, offset: int) -> None:
        write(fd, bytes(data)[: len(data) // 2], offset)
        monkeypatch.setattr(shard_writer, "_write_at", write)
        raise KeyboardInterrupt

    with open_writer(run.cell("m", "t"), META) as writer:
        writer.append(reply("a"))
        writer.flush()
        for i in range(63):
            writer.append(reply("b", i))
        monkeypatch.setattr(shard_writer, "_write_at", half)
        with pytest.raises(KeyboardInterrupt):
            writer.append(reply("b", 63))
    got = read(run.cell("m", "t"))
    assert (len(got.rows), got.n_dropped_tails, got.n_duplicates) == (65, 0, 0)


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = change(pa.ipc.open_file(path).read_all())
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def with_meta(rows: pa.Table, **entries: str) -> pa.Table:
    return rows.replace_schema_metadata(
        {**rows.schema.metadata, **{k.encode(): v.encode() for k, v in entries.items()}}
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: with_meta(t, format_version="2"),
            r"format_version 2 .* reads predictions up to format_version 1",
        ),
        (lambda t: with_meta(t, format_version="x"), "a whole number from 1 on is allowed"),
        (lambda t: with_meta(t, table="docs"), "holds docs, not predictions"),
        (lambda t: t.replace_schema_metadata({}), "no format_version"),
        (lambda t: t.drop_columns(["seed"]), "column 'seed' is missing; it must be int64"),
        (lambda t: t.append_column("zz", t["seed"]), "no column 'zz'"),
        (
            lambda t: t.set_column(2, "index", t["index"].cast("int32")),
            "column 'index' is int32; it must be int64",
        ),
        (lambda t: t.set_column(2, "index", pa.nulls(6, "int64")), "'index' has empty cells"),
        (
            lambda t: t.set_column(4, "status", pa.array(["fine"] * 6, pa.large_string())),
            "no status 'fine'",
        ),
    ],
)
def test_foreign_files_are_refused(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    run = Run(tmp_path)
    path = stored(run, GOLDEN, is_final=True)
    rewritten(path, change)
    before = path.read_bytes()
    with pytest.raises(Fault, match=message):
        read(run.cell("m", "t"))
    with pytest.raises(Fault, match=message), open_writer(run.cell("m", "t"), META):
        pass
    assert path.read_bytes() == before


def test_corrupt_files_are_refused_and_never_crash(tmp_path: Path) -> None:
    path = stored(Run(tmp_path), GOLDEN, is_final=True)
    whole = path.read_bytes()
    for cut in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(Fault, match=r"t\.arrow is not a sound predictions file"):
            read_file(path)
    for at in range(0, len(whole), 31):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            read_file(path).rows  # noqa: B018  - a flipped bit within a text cannot be seen, all else is a Fault
        except Fault:
            pass
    with pytest.raises(Fault, match="no predictions file"):
        read_file(tmp_path / "absent.arrow")
