"""Backends turn requests into replies: transformers, vLLM, servers, saved answers.

The rooms hold one engine each (hf, vllm, openai, replay) or what several share (local,
loglikelihood). A backend is imported only when a model names it.
"""

from evalrun.backends.base import Backend, Sink
from evalrun.backends.cancelling import Cancelled
from evalrun.backends.engines import Engines
from evalrun.backends.registration import (
    BackendFacts,
    answering,
    answers,
    backend,
    check,
    create,
    facts_of,
    kinds,
    names,
    register_entry_point,
)

__all__ = [
    "Backend",
    "BackendFacts",
    "Cancelled",
    "Engines",
    "Sink",
    "answering",
    "answers",
    "backend",
    "check",
    "create",
    "facts_of",
    "kinds",
    "names",
    "register_entry_point",
]
