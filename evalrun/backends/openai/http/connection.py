"""What all that asks one server shares: the model's plan, its address, its key, its cancelling."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from evalrun.backends.cancelling import Cancellation
from evalrun.backends.openai.http.event_loop import run_loop
from evalrun.backends.openai.http.refused_fields import RefusedFields
from evalrun.backends.openai.http.server import ApiKey, Server, new_session
from evalrun.types import ModelPlan

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connection:
    """A server that was found, with the plan of the model behind it.

    Attributes:
        model: the plan, whose limits hold for every request.
        server: where the model is.
        key: goes into the header of every request.
        cancellation: ends the requests in flight.
        refused: fields that the server turned out not to take.
    """

    model: ModelPlan
    server: Server
    key: ApiKey
    cancellation: Cancellation = field(default_factory=Cancellation)
    refused: RefusedFields = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", RefusedFields(self.model.name))

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` in an event loop of its own. Cancelled where another thread ended it."""
        return run_loop(main, self.cancellation)

    def session(self) -> aiohttp.ClientSession:
        """A new session, to be used in one event loop."""
        return new_session(self.key, self.model.connect_timeout_s)
