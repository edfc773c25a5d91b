"""A chat server behind /v1/chat/completions, streamed: many requests at once, one body per sample."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from evalrun.backends import local
from evalrun.backends.base import Sink
from evalrun.backends.chat_likelihood import ChatScorer
from evalrun.backends.deltas import ChatStream
from evalrun.backends.likelihood import Scored
from evalrun.backends.server import ApiKey, Server
from evalrun.backends.service import ServiceBackend
from evalrun.types import Message


class OpenaiChatBackend(ServiceBackend):
    """The backend `openai_chat`. The server applies its own chat template to the messages."""

    name = "openai_chat"
    route = "chat/completions"
    stream = ChatStream
    chat_modes = ("auto", "template")
    chat_reason = "the server applies its own chat template to messages"
    _scorer: ChatScorer | None = None

    def prompt_fields(self, messages: tuple[Message, ...]) -> dict[str, Any]:
        """The messages."""
        return {"messages": _turns(messages)}

    def prompt_text(self, messages: tuple[Message, ...]) -> str:
        """The messages as JSON."""
        return json.dumps(_turns(messages), ensure_ascii=False)

    def check_scores(self, is_single_token: bool = False) -> None:
        """Fault where the server does not score named tokens, or choices of more than one token are asked for."""
        self._scoring(*self._started()).check(is_single_token)

    def _score(self, server: Server, key: ApiKey, requests: Iterable[Scored], sink: Sink) -> None:
        self._scoring(server, key).score(requests, sink)

    def _scoring(self, server: Server, key: ApiKey) -> ChatScorer:
        if self._scorer is None:
            self._scorer = ChatScorer(self.model, server, key, local.plain(self.model.extra_body))
        return self._scorer


def _turns(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]
