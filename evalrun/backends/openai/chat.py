"""A chat server behind /v1/chat/completions, streamed: many requests at once, one body per
sample.
"""

from __future__ import annotations

import json
from typing import Any

from evalrun.backends.openai.backend import ServiceBackend
from evalrun.backends.openai.replies.stream import ChatStream
from evalrun.backends.openai.scoring.chat_scorer import ChatScorer
from evalrun.types import Message


class OpenaiChatBackend(ServiceBackend):
    """The backend `openai_chat`. The server applies its own chat template to the messages."""

    name = "openai_chat"
    route = "chat/completions"
    stream = ChatStream
    scorer = ChatScorer
    chat_modes = ("auto", "template")
    chat_reason = "the server applies its own chat template to messages"

    def prompt_fields(self, messages: tuple[Message, ...]) -> dict[str, Any]:
        """The messages."""
        return {"messages": _turns(messages)}

    def prompt_text(self, messages: tuple[Message, ...]) -> str:
        """The messages as JSON."""
        return json.dumps(_turns(messages), ensure_ascii=False)


def _turns(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]
