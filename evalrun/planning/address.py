"""What a run asks, as written, and the hash of it. Needs no dataset, tokenizer or network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from evalrun.config import ModelConfig, TaskConfig
from evalrun.tasks.sources.forms import COMPRESSED, form_of
from evalrun.types import Json, Pairs

# Prompt keys that came later: absent, they leave a task's version as it was.
_LATER = {"continuation", "context", "unconditioned"}

_PLACES = ("dataset.path", "fewshot.path")
_MODEL_FILES = (".gguf",)


def asked_of(model: ModelConfig, task: TaskConfig, subset: str | None, seed: int) -> Pairs:
    """Everything that changes what is asked or answered, as dotted key -> value; absent values
    are left out.
    """
    parts: dict[str, Any] = {"seed": seed}
    if subset is not None:
        parts["subset"] = subset
    parts |= _asked_of_model(model)
    for part in ("dataset", "prompt", "fewshot", "sampling"):
        parts |= {f"{part}.{k}": v for k, v in _flat(getattr(task, part))}
    if parts.get("dataset.index_base") == 0:  # what a run without the key counts from
        del parts["dataset.index_base"]
    for key in _PLACES:
        if isinstance(parts.get(key), str):
            parts[key] = shareable(parts[key])
    return tuple(
        (key, _json(value)) for key, value in sorted(parts.items()) if not _is_absent(value)
    )


def _asked_of_model(model: ModelConfig) -> dict[str, Any]:
    """The model keys that count, as each says at its own field (config.schema.ModelConfig)."""
    parts: dict[str, Any] = {}
    for each in fields(model):
        value, facts = getattr(model, each.name), each.metadata
        for key in facts.get("asked_entries", ()):
            if key in value:
                parts[f"model.{each.name}.{key}"] = value[key]
        if not facts["is_asked"]:
            continue
        if facts["is_place"] and isinstance(value, str):
            value = shareable(value)
        if value is not None and str(value) == facts["as_absent"]:
            continue
        parts |= {f"model.{k}": v for k, v in _flat({each.name: value})}
    return parts


def ask_id(task: str, asked: Pairs) -> str:
    """16 hex digits: SHA-256 over the task's name and what is asked."""
    text = json.dumps([task, asked], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def task_version(task: TaskConfig) -> str:
    """6 hex digits over the task's definition: dataset, prompt, few-shot rule, sampling,
    extraction.
    """
    dataset = [(k, _portable(k, v)) for k, v in _flat(task.dataset)]
    prompt = [(k, v) for k, v in _flat(task.prompt) if v is not None or k not in _LATER]
    parts = [dataset, prompt, list(_flat(task.fewshot)), list(_flat(task.sampling)), task.extract]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:6]


def _portable(key: str, value: Any) -> Any:
    """A dataset's value as every machine, and every earlier version, wrote it."""
    if key == "path" and isinstance(value, str):
        return shareable(value)
    return None if key == "index_base" and value == 0 else value


def is_local(path: str) -> bool:
    """True for a path that is written as a local one; says nothing of whether it exists."""
    return (
        path.startswith(("/", "./", "../", "~"))
        or path in (".", "..")
        or form_of(path) is not None
        or path.lower().endswith((*COMPRESSED, *_MODEL_FILES))
    )


def shareable(path: str) -> str:
    """A local path by its file name, so that every machine finds the same address; a hub name as
    it is.
    """
    return PurePath(path).name if is_local(path) else path


def differing(ours: Pairs, theirs: Pairs) -> list[str]:
    """Lines `key: stored X, asked Y` for every key that differs, sorted by key."""
    mine, other = dict(ours), dict(theirs)
    keys = sorted(k for k in mine.keys() | other.keys() if mine.get(k) != other.get(k))
    return [f"{k}: stored {_shown(other.get(k))}, asked {_shown(mine.get(k))}" for k in keys]


def _shown(value: Json) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _flat(config: Any) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    items = (
        [(f.name, getattr(config, f.name)) for f in fields(config)]
        if is_dataclass(config)
        else config.items()
    )
    for key, value in items:
        if isinstance(value, Mapping):
            rows += [(f"{key}.{k}", v) for k, v in _flat(value)]
        else:
            rows.append((str(key), value.value if isinstance(value, Enum) else value))
    return rows


def _json(value: Any) -> Json:
    if isinstance(value, Mapping):
        return tuple((str(k), _json(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(_json(v) for v in value)
    return value


def _is_absent(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}
