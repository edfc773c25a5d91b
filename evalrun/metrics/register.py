"""One way to register a metric or a scorer: its name and facts stand once, above its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from evalrun.metrics.base import METRICS, SCORERS, Metric, Scorer
from evalrun.types import Kind

M = TypeVar("M", bound=Metric)
S = TypeVar("S", bound=Scorer)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def metric(
    name: str,
    *,
    aliases: tuple[str, ...] = (),
    display: str | None = None,
    source: str | None = None,
    reads: Kind | None = None,
    packages: tuple[str, ...] | None = None,
) -> Callable[[type[M]], type[M]]:
    """Make the class below a frozen dataclass with slots, and register it as a metric.

    Facts that are left out are those of its base class. ValueError for a name or alias that is
    taken, and for a metric without a source.

    Args:
        name: the key in plans and signatures.
        aliases: other names that are read; never inherited.
        display: the base of the shown name (pass@k), which is read as an alias too; default: the
            name.
        source: the paper or library that defines the number.
        reads: the request kind.
        packages: importable names that scoring needs; looked for while planning.
    """

    def register(cls: type[M]) -> type[M]:
        also = (*(() if display in (None, name) else (display,)), *aliases)
        cls.name, cls.display, cls.aliases = name, display or name, also
        if source is not None:
            cls.source = source
        if reads is not None:
            cls.reads = reads
        if packages is not None:
            cls.packages = packages
        if not getattr(cls, "source", ""):
            raise ValueError(f"metric {name} names no source")
        if cls.has_own_scorer and "scorer" not in vars(cls):
            # The default of the field says to whoever asks which scorer it is.
            cls.__annotations__["scorer"] = "str | None"
            cls.scorer = field(default=name, init=False)
        made = dataclass(frozen=True, slots=True)(cls)
        METRICS.add(name, made, also)
        return made

    return register


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def scorer(
    name: str, *, aliases: tuple[str, ...] = (), packages: tuple[str, ...] | None = None
) -> Callable[[type[S]], type[S]]:
    """Make the class below a frozen dataclass with slots, and register it as a scorer.

    ValueError for a name or alias that is taken.

    Args:
        name: the key in plans and signatures.
        aliases: other names that are read.
        packages: importable names that judging needs; default: those of the base class.
    """

    def register(cls: type[S]) -> type[S]:
        cls.name = name
        if packages is not None:
            cls.packages = packages
        made = dataclass(frozen=True, slots=True)(cls)
        SCORERS.add(name, made, aliases)
        return made

    return register
