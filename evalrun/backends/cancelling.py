"""How another thread ends the requests of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evalrun.errors import TaskFailure


class Cancelled(TaskFailure):
    """The requests in flight were ended by `Backend.cancel`. Rows answered before are kept."""

    def __init__(self) -> None:
        super().__init__("the requests in flight were cancelled; --resume asks for them")


class Cancellation:
    """Requested from any thread, obeyed by the run at work, or by the next one where none is.

    An engine that works step by step calls `check` between its steps; one that waits in an event
    loop is woken (`waking`).
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_wanted = False
        self._wake: Callable[[], object] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether the run should end."""
        return self._is_wanted

    def request(self) -> None:
        """Ask the run to end."""
        with self._mutex:
            self._is_wanted = True
            if self._wake is not None:
                self._wake()

    def check(self) -> None:
        """Raise Cancelled where the run should end; the request then has been obeyed."""
        with self._mutex:
            is_wanted, self._is_wanted = self._is_wanted, False
        if is_wanted:
            raise Cancelled

    @contextmanager
    def run(self) -> Iterator[None]:
        """The block is a run: a request that comes too late for it does not end the next one."""
        try:
            yield
        finally:
            self._is_wanted = False

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Within the block a request also calls `wake`, at once where it has come already."""
        with self._mutex:
            self._wake = wake
            if self._is_wanted:
                wake()
        try:
            yield
        finally:
            with self._mutex:
                self._wake = None
