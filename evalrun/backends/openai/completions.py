"""A server behind /v1/completions, streamed: raw prompts, no chat template."""

from __future__ import annotations

from typing import Any

from evalrun.backends.openai.backend import ServiceBackend
from evalrun.backends.openai.replies.stream import TextStream
from evalrun.backends.openai.scoring.prompt_scorer import PromptScorer
from evalrun.types import Message


class OpenaiCompletionsBackend(ServiceBackend):
    """The backend `openai_completions`. Messages are joined by blank lines."""

    name = "openai_completions"
    route = "completions"
    stream = TextStream
    scorer = PromptScorer
    chat_modes = ("auto", "raw")
    chat_reason = "a prompt is sent as it stands, and no chat template is applied to it"

    def prompt_fields(self, messages: tuple[Message, ...]) -> dict[str, Any]:
        """The prompt."""
        return {"prompt": self.prompt_text(messages)}

    def prompt_text(self, messages: tuple[Message, ...]) -> str:
        """The messages' texts, joined by blank lines."""
        return "\n\n".join(message.content for message in messages)
