"""Backends `openai_chat` and `openai_completions`: OpenAI-compatible servers."""
