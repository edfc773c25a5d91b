"""Names to things: one table type for metrics, scorers, extractors, normalisers and backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from evalrun.errors import unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named things with aliases.

    `what` is the word used in errors. Adding a name or alias twice raises ValueError (a programming
    fault); looking up an unknown name raises Fault with the nearest valid one.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._things: dict[str, T] = {}
        self._aliases: dict[str, str] = {}

    def add(self, name: str, thing: T, aliases: tuple[str, ...] = ()) -> T:
        """Register `thing` under `name` and its aliases."""
        for each in (name, *aliases):
            if each in self._things or each in self._aliases:
                raise ValueError(f"{self.what} {each!r} is registered twice")
        self._things[name] = thing
        self._aliases.update(dict.fromkeys(aliases, name))
        return thing

    def named(self, name: str, aliases: tuple[str, ...] = ()) -> Callable[[T], T]:
        """Decorator form of `add`."""
        return lambda thing: self.add(name, thing, aliases)

    def key(self, name: str, where: str = "") -> str:
        """The registered name behind `name`, which may be an alias. Fault if there is none."""
        if name in self._things:
            return name
        if name in self._aliases:
            return self._aliases[name]
        raise unknown(self.what, name, [*self._things, *self._aliases], where)

    def get(self, name: str, where: str = "") -> T:
        """The thing behind a name or alias. Fault if there is none."""
        return self._things[self.key(name, where)]

    def aliases(self, name: str) -> tuple[str, ...]:
        """All aliases of a registered name."""
        return tuple(alias for alias, key in self._aliases.items() if key == name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in self._aliases

    def __len__(self) -> int:
        return len(self._things)
