"""All keys of the configuration, for the nearest name in an error."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from evalrun.config.schema import RunConfig, TaskConfig


def all_keys(tasks: list[str]) -> list[str]:
    """Dotted keys of RunConfig, with `tasks.NAME.` for each of the given tasks."""
    keys = [k for k in _below(RunConfig(), "") if not k.startswith("tasks")]
    return keys + [f"tasks.{name}.{k}" for name in tasks for k in _below(TaskConfig(), "")]


def _below(config: Any, prefix: str) -> list[str]:
    keys = []
    for f in fields(config):
        value = getattr(config, f.name, None)
        keys.append(prefix + f.name)
        if is_dataclass(value):
            keys += _below(value, f"{prefix}{f.name}.")
    return keys
