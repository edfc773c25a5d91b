"""All keys of the configuration, read off its own types: what a key holds, and the nearest one
for a misspelt.
"""

from __future__ import annotations

import types
import typing
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from evalrun.config.schema import RunConfig
from evalrun.errors import Fault, nearest, visible

PEERS = {
    "tasks": "task",
    "models": "model",
    "metrics": "metric",
    "suites": "suite",
    "max_samples": "limit",
    "num_samples": "limit",
    "max_examples": "limit",
    "num_fewshot": "tasks.NAME.fewshot.n",
    "shots": "tasks.NAME.fewshot.n",
    "n": "num_return_sequences",
    "num_generations": "num_return_sequences",
    "n_samples": "num_return_sequences",
    "max_gen_toks": "model.max_tokens",
    "output": "output_dir",
    "output_path": "output_dir",
    "model_args": "model.path",
    "api_base": "model.base_url",
}
"""What other tools call a setting -> ours."""


class KeyKind(Enum):
    """What a key holds. mapping: free keys; open: a value in one; column: one there that names a
    column, or several.
    """

    text = "text"
    texts = "texts"
    open = "open"
    column = "column"
    section = "section"
    mapping = "mapping"
    other = "other"


def kind(key: str) -> KeyKind | None:
    """What the dotted key holds; None where the configuration has no such key."""
    node: Any = RunConfig
    before = ""
    for part in key.split("."):
        if is_dataclass(node):
            node = _hints(typing.cast(type, node)).get(part)
        elif typing.get_origin(node) is dict and part:
            node = typing.get_args(node)[1]
            if node is Any:
                return KeyKind.column if before == "columns" else KeyKind.open
            if node is str:
                return KeyKind.column  # deploy.env: a text under a free key
        else:
            return None
        if node is None:
            return None
        before = part
    return _kind_of(node)


def _kind_of(node: Any) -> KeyKind:
    if node is str:
        return KeyKind.text
    if node == list[str]:
        return KeyKind.texts
    if typing.get_origin(node) is dict:
        is_free = typing.get_args(node)[1] in (Any, str)
        return KeyKind.mapping if is_free else KeyKind.section
    return KeyKind.section if is_dataclass(node) else KeyKind.other


def all_keys(tasks: list[str]) -> list[str]:
    """Dotted keys that can be set, with `tasks.NAME.` for each of the given tasks."""
    return [
        k
        for k in _below(RunConfig, "", tasks)
        if k not in ("tasks", "metrics", "task_params", "suite_name")
    ]


def unknown_key(key: str, where: str = "") -> Fault:
    """A Fault for a key that does not exist: the nearest one, and those that stand at its place.

    Args:
        key: dotted, as it was written.
        where: the place that is named in the error, such as `FILE:LINE`.
    """
    known = _candidates(key)
    parent = _section_above(key)
    depth = parent.count(".") + 1 if parent else 0
    below = [k for k in known if not parent or k.startswith(parent + ".")]
    siblings = sorted({k.split(".")[depth] for k in below})
    hint = _nearest_key(key, known)
    guess = f" Did you mean {hint!r}?" if hint else ""
    place = f" in {where}" if where else ""
    under = f" below {parent}" if parent else ""
    return Fault(
        f"There is no setting {visible(key)!r}{place}.{guess} Allowed{under}: "
        f"{', '.join(siblings)}."
    )


def _candidates(key: str) -> list[str]:
    """The keys that may have been meant; keys of tasks only where one was written."""
    parts = key.split(".")
    tasks = [parts[1]] if parts[0] == "tasks" and len(parts) > 2 else ["NAME"]
    known = [*all_keys(tasks), "task", "metric", "suite"]
    if parts[0] == "metrics" or (parts[0] != "tasks" and "." in key):
        known = [k for k in known if "NAME" not in k]
    return known


def _nearest_key(key: str, known: list[str]) -> str | None:
    """What peers call it, else a key with the same last part, else the most similar one."""
    last = key.rpartition(".")[2]
    same_last = (k for k in known if k.rpartition(".")[2] == last and k != key)
    return PEERS.get(key) or next(same_last, None) or nearest(key, known)


def _section_above(key: str) -> str:
    """The nearest section that holds the key; empty at the top."""
    parent = key.rpartition(".")[0]
    while parent and kind(parent) is not KeyKind.section:
        parent = parent.rpartition(".")[0]
    return parent


@cache
def _hints(config: type) -> dict[str, Any]:
    return {name: _plain(hint) for name, hint in typing.get_type_hints(config).items()}


def _plain(hint: Any) -> Any:
    """The type without its Optional."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(a for a in typing.get_args(hint) if a is not type(None))
    return hint


def _below(config: type, prefix: str, tasks: list[str]) -> list[str]:
    keys = []
    for name, hint in _hints(config).items():
        keys.append(prefix + name)
        if is_dataclass(hint):
            keys += _below(typing.cast(type, hint), f"{prefix}{name}.", tasks)
        elif typing.get_origin(hint) is dict and is_dataclass(typing.get_args(hint)[1]):
            for task in tasks:
                keys += _below(typing.get_args(hint)[1], f"{prefix}{name}.{task}.", tasks)
    return keys
