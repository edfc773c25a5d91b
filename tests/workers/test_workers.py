"""Workers: order, endings, deadlines that kill, no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import worker_calls as calls
from support.workspace import ROOT

from evalrun import workers
from evalrun.workers import Ending, Outcome, Pool

TESTS = ROOT / "tests"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(2) as pool:
        yield pool


def is_alive(pid: int) -> bool:
    """False for a process that has ended, also where nobody has asked for its exit code yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def within(seconds: float, is_so: Callable[[], bool]) -> bool:
    """Wait until it is so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.02)
    return is_so()


def test_values_come_in_the_order_of_the_items(pool: Pool) -> None:
    outcomes = pool.run(calls.add, [(i, 1) for i in range(1000)], 5)
    assert outcomes == [Outcome(Ending.DONE, i + 1) for i in range(1000)]
    assert pool.run(calls.add, [], 5) == []


def test_small_call_costs_less_than_a_millisecond(pool: Pool) -> None:
    pool.run(calls.add, [(1, 1)] * 100, 5)
    started = time.perf_counter()
    pool.run(calls.add, [(1, 1)] * 5000, 5)
    assert (time.perf_counter() - started) / 5000 < 1e-3


ENDINGS = [
    ("fine", Ending.DONE, None),
    ("exit", Ending.DIED, "exit code 3"),
    ("killed", Ending.DIED, "SIGKILL"),
    ("raise", Ending.RAISED, "ValueError: no such thing"),
    ("quit", Ending.RAISED, "SystemExit: 4"),
    ("unsendable", Ending.RAISED, "lambda"),
    ("hungry", Ending.RAISED, "MemoryError"),
    ("deep", Ending.RAISED, "RecursionError"),
    ("power", Ending.TIMEOUT, "not finished within 1 s"),
    ("sleep", Ending.TIMEOUT, "not finished within 1 s"),
]


def test_each_call_ends_its_own_way_and_the_others_go_on(pool: Pool) -> None:
    """Every bad call stands in one batch with good ones."""
    items = [(word,) for what, *_ in ENDINGS for word in ("before", what, "after")]
    started = time.monotonic()
    outcomes = pool.run(calls.act, items, 1.0)
    assert time.monotonic() - started < 20
    assert [o.value for o in outcomes[::3]] == ["before"] * len(ENDINGS)
    assert [o.value for o in outcomes[2::3]] == ["after"] * len(ENDINGS)
    for (what, ending, note), outcome in zip(ENDINGS, outcomes[1::3], strict=True):
        assert outcome.ending is ending, what
        assert (note or "") in (outcome.note or ""), what
    assert pool.run(calls.add, [(1, 2)], 5) == [Outcome(Ending.DONE, 3)]


def test_preparation_stands_outside_the_deadline() -> None:
    with Pool(1) as pool:
        assert pool.run(calls.add, [(1, 2)], 0.2, prepare=calls.slowly) == [Outcome(Ending.DONE, 3)]
        (failed,) = pool.run(calls.add, [(1, 2)], 5, prepare=calls.badly)
        assert (failed.ending, failed.note) == (Ending.RAISED, "ImportError: no module named x")


def test_workers_stay_warm_and_dead_ones_are_replaced() -> None:
    with Pool(1) as pool:
        (first,) = pool.run(calls.pid, [()], 5)
        assert pool.run(calls.pid, [()], 5) == [first]
        assert pool.pids == (first.value,)
        os.kill(first.value, signal.SIGKILL)
        (second,) = pool.run(calls.pid, [()], 5)
        assert second.ending is Ending.DONE
        assert second.value != first.value
    assert within(5, lambda: not is_alive(second.value))


def test_worker_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Pool(2) as pool:
        outcomes = pool.run(calls.add, [(1, 2)] * 3, 5)
    assert [(o.ending, o.note) for o in outcomes] == [(Ending.DIED, "no worker could start")] * 3


def test_argument_that_cannot_be_sent_is_the_callers_fault(pool: Pool) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError), match="lambda"):
        pool.run(calls.act, [(lambda: 1,)], 5)


def test_deadline_ends_also_what_the_worker_started(tmp_path: Path) -> None:
    with Pool(1) as pool:
        (outcome,) = pool.run(calls.hang_with_child, [(str(tmp_path),)], 1.0)
    assert outcome.ending is Ending.TIMEOUT
    (child,) = [int(path.name) for path in tmp_path.iterdir()]
    assert within(5, lambda: not is_alive(child))


def test_forked_child_leaves_the_workers_alone() -> None:
    before = workers.run(calls.pid, [()], 5)
    child = os.fork()
    if child == 0:
        is_fine = workers.run(calls.add, [(1, 2)], 5) == [Outcome(Ending.DONE, 3)]
        workers.close()
        os._exit(0 if is_fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert workers.run(calls.pid, [()], 5) == before
    workers.close()
    assert within(5, lambda: not is_alive(before[0].value))


SCRIPT = """
import sys
from support import worker_calls as calls
from evalrun import workers
if sys.argv[2] == "idle":
    workers.run(calls.add, [(1, 2)] * 100, 5)
    open(f"{sys.argv[1]}/{workers.run(calls.pid, [()], 5)[0].value}", "w").close()
    if sys.argv[3] == "exits":
        sys.exit(0)
    import time
    time.sleep(60)
workers.run(calls.note_and_hang, [(sys.argv[1], sys.argv[2])] * 4, 60)
"""


def started(folder: Path, how: str, then: str) -> subprocess.Popen[bytes]:
    """A process with workers at work, or idle; they have left their ids in `folder`."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)])}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), how, then], env=env, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize(
    ("how", "then", "code"),
    [
        ("power", signal.SIGKILL, -9),
        ("sleep", signal.SIGKILL, -9),
        ("idle", signal.SIGKILL, -9),
        ("power", signal.SIGINT, -2),
        ("sleep", signal.SIGTERM, -15),
        ("idle", None, 0),
    ],
)
def test_no_worker_outlives_its_parent(
    tmp_path: Path, how: str, then: int | None, code: int
) -> None:
    process = started(tmp_path, how, "exits" if then is None else "waits")
    assert within(20, lambda: bool(list(tmp_path.iterdir())))
    if then is not None:
        time.sleep(0.1)
        process.send_signal(then)
    _, err = process.communicate(timeout=20)
    assert process.returncode == code
    if then == signal.SIGINT:
        assert err.rstrip().endswith(b"KeyboardInterrupt")
        assert err.count(b"Traceback") == 1  # the workers say nothing
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert pids
    assert within(5, lambda: not any(map(is_alive, pids)))
