"""Names to things: one table type for metrics, scorers, extractors, normalisers and backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from evalrun.errors import Fault, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named things with aliases.

    Adding a name or alias twice raises ValueError (a programming fault); looking up an unknown name
    raises Fault with the nearest valid one.

    Args:
        what: the word used in errors.
        entry_points: the group of entry points by which installed packages offer more. A look-up
            imports none of them; it says that the command must name what they offer.
    """

    def __init__(self, what: str, entry_points: str | None = None) -> None:
        self.what = what
        self.entry_points = entry_points
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
        offered = self.offered()
        if name in offered:
            raise Fault(
                f"{self.what.capitalize()} {name!r} belongs to the installed package "
                f"{offered[name]}, whose code runs only where the command names it. Say "
                f"{self.what}={name}."
            )
        raise unknown(self.what, name, [*self._things, *self._aliases, *offered], where)

    def offered(self) -> dict[str, str]:
        """Name -> package and version, of what installed packages offer and nobody has imported."""
        if self.entry_points is None:
            return {}
        from importlib import metadata  # some 10 ms, and needed for a name that is not ours only

        points = metadata.entry_points(group=self.entry_points)
        return {point.name: distribution(point) for point in points if point.name not in self}

    def remove(self, name: str) -> None:
        """Take a name and its aliases out again."""
        del self._things[name]
        self._aliases = {alias: key for alias, key in self._aliases.items() if key != name}

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


def distribution(point: EntryPoint) -> str:
    """NAME-VERSION of the installed package that an entry point belongs to."""
    found = point.dist
    return "of an unknown name" if found is None else f"{found.name}-{found.version}"
