"""Progress of inference on stderr: a bar per task on a terminal, else a plain line now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from evalrun.errors import visible
from evalrun.types import Reply

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

INTERVAL_S = 10.0
REFRESHES_PER_S = 4.0
SHORTEST_BAR = 6
SHORTEST_NAME = 8


class TaskProgress:
    """Counters of one task. Rows that were there before (`done`) count as done, never in a rate.

    The clock starts when the task is made, so make it when its requests start. `advance` only adds
    to counters.
    """

    __slots__ = (
        "_owner",
        "done",
        "ended_s",
        "failures",
        "is_closed",
        "name",
        "rows",
        "shown",
        "started_s",
        "tokens",
        "total",
    )

    def __init__(self, owner: Progress, name: str, total: int, done: int) -> None:
        self._owner = owner
        self.name, self.total, self.done = name, total, done
        self.rows = self.failures = self.tokens = 0
        self.shown = done
        self.started_s = owner.clock()
        self.ended_s: float | None = None
        self.is_closed = False

    def advance(self, reply: Reply) -> None:
        """Count one reply that is now stored. The reply that makes the total ends the task."""
        self.rows += 1
        self.done += 1
        if reply.is_failure:
            self.failures += 1
        if reply.completion_tokens is not None:
            self.tokens += reply.completion_tokens
        self._owner.counted(self)
        if self.done >= self.total:
            self.close()
        else:
            self._owner.tick()

    def close(self) -> None:
        """End the task: its last line is written. May be called twice."""
        if not self.is_closed:
            self.is_closed = True
            self.ended_s = self._owner.clock()
            self._owner.closed(self)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the task was made, until it ended."""
        return (self._owner.clock() if self.ended_s is None else self.ended_s) - self.started_s

    def parts(self) -> tuple[str, str, str, str, str]:
        """(128/1319, 3 failed, 4.2 rows/s, 410 tokens/s, 0:04:43 left); empty where nothing is
        to be said.
        """
        elapsed = self.elapsed_s
        rate = self.rows / elapsed if elapsed > 0 else 0.0
        left = self.total - self.done
        time_text = f"{clock_text(left / rate)} left" if rate else ""
        if self.is_closed:
            time_text = f"in {clock_text(elapsed)}"
        return (
            f"{self.done}/{self.total}",
            f"{self.failures} failed" if self.failures else "",
            f"{_short(rate)} rows/s" if rate else "",
            f"{_short(self.tokens / elapsed)} tokens/s" if self.tokens and elapsed > 0 else "",
            time_text,
        )

    def line(self) -> str:
        """`gsm8k: 128/1319 rows, 3 failed, 4.2 rows/s, 410 tokens/s, 0:04:43 left`."""
        count, *others = self.parts()
        return f"{visible(self.name)}: " + ", ".join([f"{count} rows", *filter(None, others)])


class Progress:
    """Shows how far inference is; used as a context manager, from one thread.

    stream: where to (default stderr). On a terminal, bars of the open tasks stand below the text
    and ended tasks become lines above them; else the lines of tasks that moved are written at most
    every `interval_s` seconds. on_count: called with (task, done, total) when a task starts and
    after each row, to keep the counts elsewhere. Leaving the context, also by an interrupt, closes
    every task and gives the terminal back.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
        on_count: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self.clock = clock
        self._on_count = on_count
        self._stream = sys.stderr if stream is None else stream
        self._interval_s = interval_s
        self._tasks: list[TaskProgress] = []
        self._is_live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._live: Live | None = None
        self._console: Console | None = None
        self._next_s = clock() + interval_s

    def __enter__(self) -> Self:
        if self._is_live:
            from rich.console import Console
            from rich.live import Live

            self._console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
            self._live = Live(
                console=self._console,
                get_renderable=self._bars,
                refresh_per_second=REFRESHES_PER_S,
                redirect_stdout=False,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for task in list(self._tasks):
                task.close()
        finally:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def task(self, name: str, total: int, done: int = 0) -> TaskProgress:
        """Start a task of `total` rows of which `done` are stored already.

        One with nothing to do ends at once.
        """
        handle = TaskProgress(self, name, total, done)
        self._tasks.append(handle)
        self.counted(handle)
        if done >= total:
            handle.close()
        return handle

    def note(self, text: str) -> None:
        """Write a line of text; control characters are shown as escapes."""
        self._write(visible(text))

    def counted(self, task: TaskProgress) -> None:
        """A task has moved: tell who keeps the counts."""
        if self._on_count is not None:
            self._on_count(task.name, task.done, task.total)

    def tick(self) -> None:
        """Without a terminal: write what moved, if it is time. Called after each row."""
        if self._is_live or (now := self.clock()) < self._next_s:
            return
        self._next_s = now + self._interval_s
        for task in self._tasks:
            if task.shown != task.done:
                task.shown = task.done
                self._write(task.line())

    def closed(self, task: TaskProgress) -> None:
        """A task has ended: its last line."""
        self._tasks.remove(task)
        self._write(task.line())

    def _write(self, line: str) -> None:
        try:
            if self._live is not None and self._console is not None:
                self._console.print(line)
                self._live.refresh()
            else:
                self._stream.write(line + "\n")
                self._stream.flush()
        except OSError:
            # nobody reads any more (terminal or pipe gone): the run goes on, silently
            self._is_live = True

    def _bars(self) -> RenderableType:
        """One line per open task, without tokens/s where room is short; called by the refreshing
        thread.
        """
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        tasks = list(self._tasks)
        parts = [task.parts() for task in tasks]
        width = self._console.width if self._console else 80
        for shown in ((0, 1, 2, 3, 4), (0, 1, 2, 4)):
            numbers = [max((len(p[i]) for p in parts), default=0) for i in shown]
            room = width - sum(n + 1 for n in numbers) - SHORTEST_BAR - 1
            if room >= SHORTEST_NAME:
                break
        grid: Any = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(
            no_wrap=True, overflow="ellipsis", max_width=max(SHORTEST_NAME, min(24, room))
        )
        grid.add_column(ratio=1)
        for number in numbers:
            grid.add_column(no_wrap=True, justify="right", min_width=number)
        for task, texts in zip(tasks, parts, strict=True):
            bar = ProgressBar(total=max(task.total, 1), completed=task.done)
            cells = (Text(texts[i], style="red" if i == 1 else "") for i in shown)
            grid.add_row(Text(visible(task.name)), bar, *cells)
        return grid  # type: ignore[no-any-return]


def _short(number: float) -> str:
    return (
        f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 0.1 else f"{number:.3f}"
    )


def clock_text(seconds: float) -> str:
    """h:mm:ss, rounded."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
