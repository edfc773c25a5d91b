"""What a finish_reason says of an answer: whole, cut off, filtered, or broken off."""

from __future__ import annotations

from evalrun.types import Status

WHOLE = frozenset(
    {
        "stop",
        "tool_calls",
        "function_call",
        "eos",
        "eos_token",
        "stop_sequence",
        "end_turn",
        "complete",
        "completed",
    }
)
"""The model ended the answer itself, or a stop string did (OpenAI, TGI, Anthropic, Cohere)."""

CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens", "max_length"})
"""A limit of tokens ended it: max_tokens, or what the model can hold (Mistral: model_length)."""

FILTERED = frozenset(
    {"content_filter", "content_filtered", "safety", "recitation", "blocklist", "refusal",
     "prohibited_content", "sensitive"}
)  # fmt: skip
"""A filter ended it (OpenAI, Azure, Gemini, Anthropic, Zhipu)."""


def ending(finish_reason: str | None) -> Status:
    """OK, TRUNCATED, FILTERED or INCOMPLETE, by a server's or engine's finish_reason.

    None (an answer that was imported, or whose server sends none) counts as whole. Any other word,
    such as abort, error or insufficient_system_resource, says that the answer was broken off.
    """
    word = (finish_reason or "stop").lower()
    if word in WHOLE:
        return Status.OK
    if word in CUT:
        return Status.TRUNCATED
    return Status.FILTERED if word in FILTERED else Status.INCOMPLETE
