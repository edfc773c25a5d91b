"""Frozen dataclasses of the values of strict JSON. Nothing is guessed: true and "5" are no numbers.

Libraries were tried. msgspec 0.23 lets double and unknown keys of dataclasses pass, writes floats
otherwise than the files that exist (1e16, not 1e+16) and nan as null. cattrs 26.2 makes 1 of true
and of "1", and takes 0.1 s to import.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Hashable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeAlias, TypeVar

from evalrun.strict_json import Misfit, frozen, number

_NAMES: dict[type, str] = {dict: "an object", list: "a list"}

T = TypeVar("T")
ValueReader: TypeAlias = Callable[[Any], Any]
"""Makes a value of one type from a value of JSON. Raises Misfit."""


def structured(kind: type[T], value: Any, has_more: bool = False) -> T:
    """The dataclass `kind` of a value that `from_json` gave. Misfit where it does not fit.

    Args:
        kind: a dataclass of str, int, float, bool, Enum, None, tuples, other dataclasses, Any
            (lists become tuples) and dict (kept as it is).
        value: a field without default must be there; one with a default may be missing.
        has_more: keys that the dataclass does not have are passed over (a later version wrote
            them); else a Misfit.
    """
    return typing.cast(T, _reader(typing.cast(Hashable, kind), has_more)(value))


@cache
def _reader(hint: Any, has_more: bool) -> ValueReader:
    """What makes a value of type `hint` from a value of JSON."""
    if is_dataclass(hint) and isinstance(hint, type):
        return _object_reader(hint, has_more)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        return _object
    if origin is tuple:
        return _tuple_reader([_reader(each, has_more) for each in inner if each is not ...], inner)
    if origin in (typing.Union, types.UnionType):
        (some,) = (each for each in inner if each is not type(None))
        read = _reader(some, has_more)
        return lambda value: None if value is None else read(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda value: _member(hint, value)
    return {Any: frozen, str: _text, bool: _truth, int: _whole, float: _real}[hint]


def _object_reader(kind: type, has_more: bool) -> ValueReader:
    hints = typing.get_type_hints(kind)
    readers = {f.name: _reader(hints[f.name], has_more) for f in fields(kind)}
    needed = [f.name for f in fields(kind) if f.default is f.default_factory is MISSING]

    def read(value: Any) -> Any:
        given, found = _object(value), {}
        if lacking := [name for name in needed if name not in given]:
            raise Misfit("is missing", lacking[0])
        for name, each in given.items():
            if (reader := readers.get(name)) is None:
                if not has_more:
                    raise Misfit("is no known key", name)
                continue
            try:
                found[name] = reader(each)
            except Misfit as misfit:
                raise misfit.inside(name) from None
        return kind(**found)

    return read


def _tuple_reader(readers: list[ValueReader], inner: tuple[Any, ...]) -> ValueReader:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise _other(value, "a list")
        each = readers * len(value) if ... in inner else readers
        if len(each) != len(value):
            raise Misfit(f"has {len(value)} entries; it must have {len(each)}")
        found = []
        for place, (reader, entry) in enumerate(zip(each, value, strict=True)):
            try:
                found.append(reader(entry))
            except Misfit as misfit:
                raise misfit.inside(f"[{place}]") from None
        return tuple(found)

    return read


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise _other(value, "an object")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _other(value, "a text")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _other(value, "true or false")


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise _other(value, "a whole number")
    if not -(2**63) <= value < 2**63:
        raise Misfit("is a number that does not fit 64 bits")
    return value


def _real(value: Any) -> float:
    """A whole number stays whole, so that it is written as it was read."""
    found = number(value)
    if type(found) not in (int, float):
        raise _other(value, "a number")
    return float(found) if type(found) is float else _whole(found)


def _member(kind: type[Enum], value: Any) -> Enum:
    known = {each.value: each for each in kind}
    if not isinstance(value, str) or value not in known:
        raise _other(value, f"one of {', '.join(map(str, known))}")
    return known[value]


def _other(value: Any, wanted: str) -> Misfit:
    shown = _NAMES.get(type(value)) or f"{value!r:.100}"
    if value is None or isinstance(value, bool):
        shown = {None: "null", True: "true", False: "false"}[value]
    return Misfit(f"is {shown}; it must be {wanted}")
