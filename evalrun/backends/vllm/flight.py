"""What is in flight at the vLLM engine, and how the engine's death is noticed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from evalrun.backends.local import prompts
from evalrun.backends.vllm.scorer import ScoringRequest
from evalrun.types import Reply


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request to the engine: child i is drawn with the seed of the first row + i.

    Attributes:
        job: the request and its prompt.
        rows: of consecutive sample numbers.
        started_s: seconds since the epoch.
        has_blank_stops: stop strings such as "\\n\\n" end it too, also before it has begun.
    """

    job: prompts.Job
    rows: tuple[Reply, ...]
    started_s: float
    has_blank_stops: bool = True

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings that the engine looks for."""
        stop = self.job.request.sampling.stop
        return stop if self.has_blank_stops else tuple(s for s in stop if s.strip())

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """What the engine reads."""
        return self.job.prompt.token_ids

    @property
    def size(self) -> int:
        """How many places in flight it takes."""
        return len(self.rows)


EngineRequest: TypeAlias = GenerationRequest | ScoringRequest


class Flight:
    """The work of one run: not begun, in the engine, and to be asked again.

    Args:
        waiting: the work in order, each made when there is room for it.
        most: places in flight.
    """

    def __init__(self, waiting: Iterator[EngineRequest], most: int) -> None:
        self._waiting = waiting
        self._most = most
        self.again: deque[EngineRequest] = deque()
        self.flying: dict[str, EngineRequest] = {}

    def due(self) -> Iterator[EngineRequest]:
        """What there is room for now. Where nothing is in flight after it, the run is over."""
        while sum(work.size for work in self.flying.values()) < self._most:
            work = self.again.popleft() if self.again else next(self._waiting, None)
            if work is None:
                return
            yield work


class EngineDeathWatch:
    """Wakes a run whose engine process was killed.

    vLLM (0.32) notices the death, but its synchronous client goes on waiting for an output; this
    thread puts the error where the output would come.
    """

    def __init__(self, engine: Any) -> None:
        self._over = threading.Event()
        core = engine.engine_core
        if hasattr(core, "resources") and hasattr(core, "outputs_queue"):
            threading.Thread(
                target=self._watch, args=(core.resources, core.outputs_queue), daemon=True
            ).start()

    def end(self) -> None:
        """Stop watching."""
        self._over.set()

    def _watch(self, resources: Any, outputs: Any) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        while not self._over.wait(0.5):
            if getattr(resources, "engine_dead", False):
                outputs.put(EngineDeadError())
                return
