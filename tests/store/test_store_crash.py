"""Real processes: kill -9 in the middle, two writers, a full disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.store_cases import META, reply, stored

from evalrun.errors import Fault
from evalrun.store.cell.predictions import count, open_writer, read
from evalrun.store.layout import Run
from evalrun.store.lock import Lock, identity, is_alive

WRITE = """
    import sys, time
    from pathlib import Path
    from evalrun.store.layout import Run
    from evalrun.store.cell.predictions import open_writer
    from evalrun.types import Reply
    run, pause_s = Run(Path(sys.argv[1])), float(sys.argv[2])
    with open_writer(run.cell("m", "t"), {"ask_id": "a1b2c3"}) as writer:
        keys = [(f"d{i}", "generate", 0, 0) for i in range(100_000)]
        for i, key in enumerate(writer.missing(keys)):
            writer.append(Reply(key[0], "generate", 0, text=f"text of {key[0]}"))
            print(i + 1, flush=True)
            time.sleep(pause_s)
"""


def start(code: str, *args: object) -> subprocess.Popen[str]:
    """A writer of its own; its output is the number of rows that append() has taken."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_after(run: Run, n_rows: int, pause_s: float) -> int:
    """Start a writer, kill -9 it once it has taken `n_rows`; the number of rows that it had
    taken.
    """
    child = start(WRITE, run.path, pause_s)
    assert child.stdout is not None
    while int(child.stdout.readline()) < n_rows:
        pass
    child.kill()
    rest = [line for line in child.stdout.read().splitlines(keepends=True) if line.strip()]
    child.wait()
    return int(rest[-1]) if rest else n_rows


def test_kill_9_loses_64_rows_at_most(tmp_path: Path) -> None:
    run = Run(tmp_path)
    before = 0
    for n_rows in (500, 137, 1):
        taken = killed_after(run, n_rows, 0.0)
        now = count(run.cell("m", "t"))
        assert before + taken - 64 <= now <= before + taken + 1
        before = now
    with open_writer(run.cell("m", "t"), META) as writer:
        assert writer.recovery.n_rows == before
        assert writer.recovery.n_duplicates == 0
        assert "Took over the lock" in writer.notes[0]
        wanted = [(f"d{i}", "generate", 0, 0) for i in range(before + 100)]
        missing = writer.missing(wanted)
        assert set(missing) == set(wanted) - writer.stored_keys()
        for key in missing:
            writer.append(reply(key[0], text=f"text of {key[0]}"))
        writer.finalize([key[0] for key in wanted])
    got = read(run.cell("m", "t"))
    assert got.keys == wanted
    assert all(row.text == f"text of {row.doc_id}" for row in got.rows)
    assert sorted(path.name for path in (tmp_path / "predictions/m").iterdir()) == ["t.arrow"]


def test_kill_9_of_a_slow_writer_loses_the_last_second_at_most(tmp_path: Path) -> None:
    run = Run(tmp_path)
    taken = killed_after(run, 36, 0.05)
    assert taken - 25 <= count(run.cell("m", "t")) <= taken


def test_two_writers(tmp_path: Path) -> None:
    run = Run(tmp_path)
    child = start(WRITE, run.path, 0.01)
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(
        Fault, match=rf"Another writer \(pid {child.pid} on .*one run has one writer"
    ):
        open_writer(run.cell("m", "t"), META).__enter__()
    child.kill()
    child.wait()
    with open_writer(run.cell("m", "t"), META) as writer:
        assert f"of pid {child.pid}, which no longer runs" in writer.notes[0]
        with pytest.raises(Fault, match=rf"Another writer \(pid {os.getpid()}\)"):
            open_writer(run.cell("m", "t"), META).__enter__()
        with open_writer(run.cell("m", "other"), META):
            pass
    assert not run.cell("m", "t").predictions.lock_file.exists()


@pytest.mark.parametrize(
    ("change", "is_stale"),
    [
        ({}, False),
        ({"boot_id": "another"}, True),
        ({"started": "1"}, True),
        ({"pid": 2**22 + 5}, True),
        ({"pid": "x"}, True),
    ],
)
def test_a_lock_is_judged_by_pid_start_time_and_boot(
    tmp_path: Path, change: dict[str, object], is_stale: bool
) -> None:
    """Also where the kernel holds no lock, as on file systems that know none."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = identity(child.pid)
    path = tmp_path / "t.lock"
    path.write_text(json.dumps({**owner, **change}))
    if is_stale:
        lock = Lock(path)
        assert lock.note is not None
        lock.release()
    else:
        with pytest.raises(Fault, match=f"pid {child.pid}"):
            Lock(path)
    assert is_alive(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(owner)  # a zombie: ended, but not yet waited for
    child.wait()
    assert not is_alive(owner)


@pytest.mark.parametrize("text", ["", "garbage", "[1]", "\x00" * 50])
def test_a_lock_file_without_owner_is_free(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.lock"
    path.write_text(text)
    lock = Lock(path)
    assert json.loads(path.read_text())["pid"] == os.getpid()
    lock.release()
    lock.release()
    assert not path.exists()


FULL = """
    import resource, signal, sys
    from pathlib import Path
    from evalrun.errors import EvalrunError
    from evalrun.store.layout import Run
    from evalrun.store.cell.predictions import open_writer
    from evalrun.types import Reply
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = int(sys.argv[2])
    try:
        with open_writer(Run(Path(sys.argv[1])).cell("m", "t"), {"ask_id": "a1b2c3"}) as writer:
            if sys.argv[3] == "finalize":
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                writer.finalize([])
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            for i in range(2000):
                writer.append(Reply(f"d{i}", "generate", 0, text="x" * 100))
    except EvalrunError as error:
        print(error.exit_code, error)
"""


def test_a_full_disk_is_a_task_failure_and_flushed_rows_stay(tmp_path: Path) -> None:
    run = Run(tmp_path)
    child = start(FULL, run.path, 100_000, "append")
    said, errors = child.communicate(timeout=60)
    assert said.startswith(
        f"3 Cannot write {run.cell('m', 't').predictions.shards()[0]}: [Errno 27]"
    )
    assert errors == ""
    got = read(run.cell("m", "t"))
    assert len(got.rows) > 100
    assert got.keys == [(f"d{i}", "generate", 0, 0) for i in range(len(got.rows))]
    assert len(got.rows) % 64 == 0
    assert got.n_dropped_tails == 0


def test_a_full_disk_while_merging_leaves_the_shards(tmp_path: Path) -> None:
    run = Run(tmp_path)
    stored(run, [reply(f"d{i}") for i in range(300)])
    said, _ = start(FULL, run.path, 10_000, "finalize").communicate(timeout=60)
    assert said.startswith(f"3 Cannot write {run.cell('m', 't').predictions.file}: ")
    assert sorted(path.name for path in (tmp_path / "predictions/m").iterdir()) == ["t.1.arrows"]
    assert count(run.cell("m", "t")) == 300


def test_sigint_keeps_the_rows(tmp_path: Path) -> None:
    run = Run(tmp_path)
    child = start(WRITE, run.path, 0.002)
    assert child.stdout is not None
    while int(child.stdout.readline()) < 70:
        pass
    child.send_signal(signal.SIGINT)
    rest = child.stdout.read().split()
    child.wait()
    taken = int(rest[-1]) if rest else 70
    assert taken <= count(run.cell("m", "t")) <= taken + 1
    assert not run.cell("m", "t").predictions.lock_file.exists()


def test_reading_and_writing_load_no_pandas(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from evalrun.store.cell import predictions, results, saved_docs, statistics, verdicts
        from evalrun.store.layout import Run
        from evalrun.types import Doc, Reply, Verdict
        run = Run(Path(sys.argv[1]))
        with predictions.open_writer(run.cell("m", "t"), {}) as writer:
            writer.append(Reply("a", "generate", 0, token_ids=(1,)))
            writer.finalize(["a"])
        predictions.read(run.cell("m", "t")).rows
        saved_docs.write_docs(run.cell("m", "t"), [Doc("a", "t", 0, "q", (0,), ("x",))], {})
        saved_docs.read_docs(run.cell("m", "t"))
        verdicts.write_verdicts(run.cell("m", "t"), {"s": {("a", 0): Verdict(1.0)}})
        verdicts.read_verdicts(run.cell("m", "t"))
        statistics.write_statistics(run.cell("m", "t"), {"doc_id": ["a"], "c": [1]})
        statistics.read_statistics(run.cell("m", "t"))
        print([name for name in ("pandas", "datasets", "torch", "scipy") if name in sys.modules])
    """
    said, errors = start(code, tmp_path).communicate(timeout=60)
    assert (said.strip(), errors) == ("[]", "")
