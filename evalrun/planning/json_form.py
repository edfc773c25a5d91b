"""A Plan as JSON text and back. `from_json(to_json(plan)) == plan` for every plan."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import Any

from evalrun.errors import Fault
from evalrun.types import Plan

FORMAT_VERSION = 1


def to_json(plan: Plan) -> str:
    """The plan as strict, indented JSON. Tuples become lists."""
    return json.dumps(_plain(plan), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, where: str = "plan.json") -> Plan:
    """The plan behind `to_json`. Fault where the text is no plan or of a newer format."""
    try:
        data = json.loads(text)
        version = data["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise Fault(
            f"{where} is not a run plan ({error}). Name a run folder that evalrun wrote."
        ) from error
    if version != FORMAT_VERSION:
        raise Fault(
            f"{where} has plan format {version}; this evalrun reads format {FORMAT_VERSION}. "
            "Use the evalrun version that wrote it, or a newer one."
        )
    try:
        return typing.cast(Plan, _typed(Plan, data))
    except (KeyError, TypeError, ValueError) as error:
        raise Fault(
            f"{where} is damaged: {type(error).__name__} {error}. Restore the file or infer again."
        ) from error


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _typed(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint)
        known = {f.name for f in dataclasses.fields(hint)}
        return hint(**{k: _typed(hints[k], v) for k, v in value.items() if k in known})
    origin = typing.get_origin(hint)
    if origin is tuple and isinstance(value, list):
        args = typing.get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_typed(args[0], v) for v in value)
        return tuple(_typed(a, v) for a, v in zip(args, value, strict=True))
    if origin in (typing.Union, types.UnionType):
        inner = [a for a in typing.get_args(hint) if a is not type(None)]
        return None if value is None else _typed(inner[0], value)
    return _frozen(value)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
