"""No configuration key holds a secret. Refused before anything is written; the value itself is never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from evalrun.errors import Fault

_SECRET_KEY = re.compile(r"(^|[._])(api_?key|apikey|access_token|auth_token|authorization|password|secret)$", re.I)
_SECRET_ENDING = re.compile(r"(api_key|_secret|access_token|auth_token|password)$", re.I)
_URL_WITH_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@]+@", re.I)
_WAY_OUT = (
    "Put the secret into an environment variable and name that variable: model.api_key_env=NAME "
    "(evalrun never stores secrets)."
)


def refuse_in_overrides(overrides: list[str]) -> None:
    """Fault for an override whose key names a secret, or whose value is a URL with credentials."""
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if is_secret_key(key):
            raise Fault(f"The override {key}=*** would write a secret into files. {_WAY_OUT}")
        if _URL_WITH_CREDENTIALS.search(value):
            raise Fault(f"The override {key}=*** holds a URL with credentials. {_WAY_OUT}")


def is_secret_key(key: str) -> bool:
    """True where the last part of a dotted key is, or ends in, the name of a secret."""
    last = key.rsplit(".", 1)[-1].strip("'\"")
    return bool(_SECRET_KEY.search(last) or _SECRET_ENDING.search(last))


def refuse_in_config(config: Any) -> None:
    """The same for the whole composed configuration, wherever it came from."""
    for key, value in _walk(config, ""):
        if is_secret_key(key) and value not in (None, ""):
            raise Fault(f"The configuration key {key} would hold a secret. {_WAY_OUT}")
        if isinstance(value, str) and _URL_WITH_CREDENTIALS.search(value) and not _is_prompt(key):
            raise Fault(f"The configuration key {key} holds a URL with credentials. {_WAY_OUT}")


def refuse_env_in_prompts(raw: Any) -> None:
    """Fault where a prompt, a system text or the request body reads the environment: it would be sent and saved.

    raw: the composed configuration as plain containers, interpolations not resolved.
    """
    for key, value in _walk(raw, ""):
        if isinstance(value, str) and "oc.env" in value and (_is_prompt(key) or ".extra_body" in key):
            raise Fault(
                f"{key} reads the environment (${{oc.env:...}}); that text would be sent and saved. {_WAY_OUT}"
            )


def _is_prompt(key: str) -> bool:
    return ".prompt." in key or key.endswith(".system")


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _walk(inner, f"{path}.{i}")
    else:
        yield path, value
