"""A server behind /v1/completions, streamed: raw prompts, no chat template."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evalrun.backends import local
from evalrun.backends.base import Sink
from evalrun.backends.deltas import TextStream
from evalrun.backends.likelihood import Scored
from evalrun.backends.openai_likelihood import PromptScorer
from evalrun.backends.server import ApiKey, Server
from evalrun.backends.service import ServiceBackend
from evalrun.types import Message


class OpenaiCompletionsBackend(ServiceBackend):
    """The backend `openai_completions`. Messages are joined by blank lines."""

    name = "openai_completions"
    route = "completions"
    stream = TextStream
    chat_modes = ("auto", "raw")
    chat_reason = "a prompt is sent as it stands, and no chat template is applied to it"
    _scorer: PromptScorer | None = None

    def prompt_fields(self, messages: tuple[Message, ...]) -> dict[str, Any]:
        """The prompt."""
        return {"prompt": self.prompt_text(messages)}

    def prompt_text(self, messages: tuple[Message, ...]) -> str:
        """The messages' texts, joined by blank lines."""
        return "\n\n".join(message.content for message in messages)

    def check_scores(self, is_single_token: bool = False) -> None:
        """Fault where the server tells no log-probabilities of a prompt."""
        self._scoring(*self._started()).check()

    def _score(self, server: Server, key: ApiKey, requests: Iterable[Scored], sink: Sink) -> None:
        self._scoring(server, key).score(requests, sink)

    def _scoring(self, server: Server, key: ApiKey) -> PromptScorer:
        if self._scorer is None:
            self._scorer = PromptScorer(self.model, server, key, local.plain(self.model.extra_body))
        return self._scorer
