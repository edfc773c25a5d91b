"""Backends `openai_chat` and `openai_completions`: models behind an OpenAI-like API."""

from evalrun.backends import registration
from evalrun.backends.base import Backend
from evalrun.types import Kind, ModelPlan

NEEDS = {"base_url": "http://HOST:PORT/v1"}


@registration.backend(
    "openai_chat",
    kinds=(Kind.GENERATE,),
    packages=("aiohttp",),
    install="pip install aiohttp",
    needs=NEEDS,
    single_token_kinds=(Kind.LOGLIKELIHOOD, Kind.UNCONDITIONED),
    is_server=True,
    is_deployable=True,
)
def make_chat(model: ModelPlan) -> Backend:
    """The backend for /v1/chat/completions; `start` finds the server."""
    from evalrun.backends.openai.chat import OpenaiChatBackend

    return OpenaiChatBackend(model)


@registration.backend(
    "openai_completions",
    kinds=Kind,
    packages=("aiohttp",),
    install="pip install aiohttp",
    needs=NEEDS,
    is_server=True,
)
def make_completions(model: ModelPlan) -> Backend:
    """The backend for /v1/completions; `start` finds the server."""
    from evalrun.backends.openai.completions import OpenaiCompletionsBackend

    return OpenaiCompletionsBackend(model)
