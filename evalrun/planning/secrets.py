"""No configuration key holds a secret.

Refused before anything is written; the value itself is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from evalrun.errors import Fault

_SECRET_KEY = re.compile(
    r"(^|[._])(api-?key|apikey|hf_token|authorization|auth|credentials?|secret|bearer|passwd|pwd)$",
    re.I,
)
_SECRET_ENDING = re.compile(r"(api_key|_secret|access_token|auth_token|password)$", re.I)
# A mapping written as one value: model.extra_body={api_key: ...}
_SECRET_INSIDE = re.compile(
    r"[{,][\s'\"]*[\w.-]*(api_?-?key|_secret|access_token|auth_token|password|hf_token|authorization)[\s'\"]*:",
    re.I,
)
_URL_WITH_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@]+@", re.I)
_SERVER = "deploy.env"
_SERVER_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SERVER_SECRET_INSIDE = re.compile(
    rf"[{{,][\s'\"]*(\w*({'|'.join(_SERVER_SECRET)}))[\s'\"]*:", re.I
)
_MAY_READ_ENVIRONMENT = re.compile(
    r"(.+\.)?path|model\.(tokenizer|base_url|device)|output_dir|reuse"
)
_WAY_OUT = (
    "Put the secret into an environment variable and name that variable: model.api_key_env=NAME "
    "(evalrun never stores secrets)."
)


def refuse_in_overrides(words: list[str]) -> None:
    """Fault for a word of the command line whose key names a secret, or whose value holds one."""
    for word in words:
        key, sign, value = word.lstrip("+~-").partition("=")
        if sign and (key == _SERVER or key.startswith(f"{_SERVER}.")):
            _refuse_for_server(key, value)
        if sign and (is_secret_key(key) or _SECRET_INSIDE.search(value)):
            raise Fault(f"The override {key}=*** would write a secret into files. {_WAY_OUT}")
        if _URL_WITH_CREDENTIALS.search(value):
            raise Fault(f"The override {key}=*** holds a URL with credentials. {_WAY_OUT}")
        if key == "model.api_key_env" and not _is_env_name(value.strip("'\"")):
            raise Fault(
                "model.api_key_env=*** is no name of an environment variable, such as "
                f"OPENAI_API_KEY. {_WAY_OUT}"
            )


def _refuse_for_server(key: str, value: object) -> None:
    """Fault for a variable of the server under test that holds a secret;

    Args:
        value: as written, perhaps a mapping.
    """
    inside = (
        _SERVER_SECRET_INSIDE.search(value) if key == _SERVER and isinstance(value, str) else None
    )
    name = inside[1] if inside else key.removeprefix(f"{_SERVER}.")
    if inside or name.upper().endswith(_SERVER_SECRET):
        raise Fault(
            f"{_SERVER}.{name}=*** is never given to the server: names that end in "
            f"{', '.join(_SERVER_SECRET)} hold secrets, and would be written into the run's files. "
            "Let deploy.sh read it from a file of its own."
        )
    if isinstance(value, str) and _URL_WITH_CREDENTIALS.search(value):
        raise Fault(
            f"{key}=*** holds a URL with credentials, which would be written into the run's files. "
            "Let deploy.sh read it from a file of its own; pip reads one where "
            "deploy.env.PIP_CONFIG_FILE or deploy.env.NETRC names it."
        )


def _is_env_name(value: object) -> bool:
    return isinstance(value, str) and (
        value in ("", "null") or re.fullmatch(r"[A-Za-z_]\w*", value) is not None
    )


def is_secret_key(key: str) -> bool:
    """True where the last part of a dotted key is, or ends in, the name of a secret."""
    last = key.rsplit(".", 1)[-1].strip("'\"")
    return bool(_SECRET_KEY.search(last) or _SECRET_ENDING.search(last))


def refuse_in_config(config: Any) -> None:
    """The same for the whole composed configuration, wherever it came from."""
    for key, value in _walk(config, ""):
        if key.startswith(f"{_SERVER}."):
            _refuse_for_server(key, value)
        if is_secret_key(key) and value not in (None, ""):
            raise Fault(f"The configuration key {key} would hold a secret. {_WAY_OUT}")
        if isinstance(value, str) and _URL_WITH_CREDENTIALS.search(value) and not _is_prompt(key):
            raise Fault(f"The configuration key {key} holds a URL with credentials. {_WAY_OUT}")
        if key == "model.api_key_env" and value is not None and not _is_env_name(value):
            raise Fault(
                "model.api_key_env is no name of an environment variable, such as OPENAI_API_KEY. "
                f"{_WAY_OUT}"
            )


def refuse_environment(raw: Any) -> None:
    """Fault where anything but a place (a path, an address, a folder) reads the environment: it
    would be saved.

    Args:
        raw: the composed configuration as plain containers, interpolations not resolved.
    """
    for key, value in _walk(raw, ""):
        if (
            isinstance(value, str)
            and "oc.env" in value
            and not _MAY_READ_ENVIRONMENT.fullmatch(key)
        ):
            fate = (
                "sent and saved"
                if _is_prompt(key) or ".extra_body" in key
                else "saved in the run's files"
            )
            raise Fault(
                f"{key} reads the environment (${{oc.env:...}}); that text would be {fate}. "
                f"{_WAY_OUT}"
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
