"""Warm models: engines that stay loaded between the tasks and jobs that ask them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from evalrun.backends.base import Backend
from evalrun.backends.registration import create
from evalrun.types import ModelPlan


class Engines:
    """Engines by model, at most `limit` of them open; the least recently used is closed first.

    Two models that differ in nothing but their names share an engine. Made by whoever runs
    something, handed down to what asks, and closed at the end (a context manager).

    Args:
        limit: how many engines may be open at once, at least 1.
        make: makes an engine for a model; loads nothing heavy.
    """

    def __init__(self, limit: int = 1, make: Callable[[ModelPlan], Backend] = create) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1; got {limit}")
        self.limit = limit
        self._make = make
        self._open: OrderedDict[ModelPlan, Backend] = OrderedDict()
        self._mutex = threading.RLock()

    def warm(self, model: ModelPlan) -> Backend:
        """The engine of this model: the open one, else a new one that is not started yet.

        Engines beyond the limit are closed before the new one is made, so that two never need
        memory at once. Fault: see `backends.check`.
        """
        key = replace(model, name="")
        with self._mutex:
            if key not in self._open:
                while len(self._open) >= self.limit:
                    self._open.popitem(last=False)[1].close()
                self._open[key] = self._make(model)
            self._open.move_to_end(key)
            return self._open[key]

    def drop(self, model: ModelPlan) -> None:
        """Close the engine of this model, if one is open: the next `warm` makes a new one."""
        with self._mutex:
            engine = self._open.pop(replace(model, name=""), None)
        if engine is not None:
            engine.close()

    def with_maker(self, make: Callable[[ModelPlan], Backend]) -> Engines:
        """Engines of the same limit that are made in another way. Ours are closed first: their
        memory may be needed.
        """
        self.close()
        return Engines(self.limit, make)

    def close(self) -> None:
        """Close every engine, the least recently used first. May be called twice."""
        with self._mutex:
            while self._open:
                self._open.popitem(last=False)[1].close()

    def __enter__(self) -> Engines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
