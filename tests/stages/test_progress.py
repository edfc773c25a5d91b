"""Progress: plain lines, bars on a terminal, rates over this process's rows, interrupts, cost
per row.
"""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from evalrun.stages.progress import Progress, clock_text
from evalrun.types import Reply, Status

GOOD = Reply("d", "generate", 0, completion_tokens=10)
BAD = Reply("d", "generate", 1, status=Status.ERROR.value)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def plain(clock: Clock) -> tuple[Progress, io.StringIO]:
    out = io.StringIO()
    return Progress(out, clock=clock), out


def test_lines_come_every_ten_seconds_and_at_the_end() -> None:
    clock = Clock()
    progress, out = plain(clock)
    with progress:
        task = progress.task("gsm8k", 40)
        for i in range(40):
            clock.now += 0.5
            task.advance(BAD if i == 4 else GOOD)
    assert out.getvalue().splitlines() == [
        "gsm8k: 20/40 rows, 1 failed, 2.0 rows/s, 19.0 tokens/s, 0:00:10 left",
        "gsm8k: 40/40 rows, 1 failed, 2.0 rows/s, 19.5 tokens/s, in 0:00:20",
    ]


def test_resumed_rows_are_done_but_in_no_rate() -> None:
    clock = Clock()
    progress, out = plain(clock)
    with progress:
        task = progress.task("t", 1319, done=1000)
        clock.now += 10
        task.advance(GOOD)
    assert out.getvalue().splitlines() == [
        "t: 1001/1319 rows, 0.1 rows/s, 1.0 tokens/s, 0:53:00 left",
        "t: 1001/1319 rows, 0.1 rows/s, 1.0 tokens/s, in 0:00:10",
    ]


@pytest.mark.parametrize(
    ("total", "done", "line"),
    [(0, 0, "t: 0/0 rows, in 0:00:00"), (5, 5, "t: 5/5 rows, in 0:00:00")],
)
def test_nothing_to_do_is_one_line(total: int, done: int, line: str) -> None:
    progress, out = plain(Clock())
    with progress:
        progress.task("t", total, done).close()
    assert out.getvalue().splitlines() == [line]


def test_several_tasks_and_quiet_ones() -> None:
    clock = Clock()
    progress, out = plain(clock)
    with progress:
        a, b = progress.task("a", 9), progress.task("b", 9)
        clock.now += 10
        a.advance(GOOD)
        clock.now += 10
        b.advance(BAD)
        clock.now += 5
        a.close()
        a.close()
    assert [line.split(" rows")[0] for line in out.getvalue().splitlines()] == [
        "a: 1/9",
        "b: 1/9",
        "a: 1/9",
        "b: 1/9",
    ]


def test_notes_and_names_show_control_characters() -> None:
    progress, out = plain(Clock())
    with progress:
        progress.note("server says \x1b[2J")
        progress.task("x\x1b", 0)
    assert out.getvalue().splitlines() == ["server says \\x1b[2J", "x\\x1b: 0/0 rows, in 0:00:00"]


@pytest.mark.parametrize("is_tty", [False, True])
def test_an_interrupt_passes_through_with_a_last_line(is_tty: bool) -> None:
    out = Tty() if is_tty else io.StringIO()
    progress = Progress(out)

    def run() -> None:
        with progress:
            progress.task("t", 5).advance(GOOD)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert "t: 1/5 rows" in out.getvalue()
    assert ("\x1b[?25h" in out.getvalue()) is is_tty


@pytest.mark.parametrize(("width", "has_tokens"), [(60, False), (80, True), (120, True)])
def test_bars_keep_their_numbers_whole(
    width: int, has_tokens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    clock, out = Clock(), Tty()
    with Progress(out, clock=clock) as progress:
        task = progress.task("a_very_long_task_name:with_a_subset", 131900)
        clock.now += 100
        for _ in range(12800):
            task.advance(GOOD)
        task.advance(BAD)
        time.sleep(0.6)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue()).split("a_very")
    bar = next(line for line in text if "0:15:30 left" in line)
    assert "12801/131900" in bar
    assert "1 failed" in bar
    assert ("1280 tokens/s" in bar) is has_tokens


def test_a_reader_that_went_away_does_not_end_the_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with Progress(Gone()) as progress:
        task = progress.task("t", 3)
        progress.note("x")
        for _ in range(3):
            task.advance(GOOD)
    assert task.is_closed
    assert task.rows == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.6, "0:01:00"), (283, "0:04:43"), (360000, "100:00:00")],
)
def test_clock_text(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


@pytest.mark.parametrize("is_tty", [False, True])
def test_a_row_costs_less_than_20_microseconds(is_tty: bool) -> None:
    n = 20_000
    with Progress(Tty() if is_tty else io.StringIO()) as progress:
        task = progress.task("t", n + 1)
        start = time.thread_time()
        for _ in range(n):
            task.advance(GOOD)
        spent = time.thread_time() - start
    assert spent / n < 20e-6


SCRIPT = """
import sys, time
from evalrun.stages.progress import Progress
from evalrun.types import Reply
good = Reply("d", "generate", 0, completion_tokens=10)
with Progress() as progress:
    task = progress.task("gsm8k [red]x", 1000)
    progress.note("note [bold]as it is")
    for i in range(150):
        task.advance(good)
        time.sleep(0.01)
    time.sleep(0.5)
    print("READY", flush=True)
    time.sleep(30)
"""


def test_a_real_terminal_is_given_back_after_ctrl_c() -> None:
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=slave, stdin=slave, env=env
    )
    os.close(slave)
    assert child.stdout is not None
    assert child.stdout.readline() == b"READY\n"
    child.send_signal(signal.SIGINT)
    shown = b""
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError:
        pass  # Linux says EIO when the other side is closed
    os.close(master)
    child.stdout.close()
    assert child.wait(20) in (1, 130, -signal.SIGINT)
    text = shown.decode()
    assert "note [bold]as it is" in text
    assert re.search(
        r"150/1000.*rows/s.*tokens/s.*left", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    )
    assert "gsm8k [red]x: 150/1000 rows" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
