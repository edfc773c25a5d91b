"""Metrics and scorers that do not come with evalrun: a class of a user's own file, or what an
installed package offers by an entry point of the group `evalrun.metrics`.

Their code is imported only for a name that the user typed or wrote into a configuration file of
his own, never for a name out of a stored plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from importlib import metadata
from typing import Any, TypeAlias

from evalrun.errors import Fault, visible
from evalrun.metrics.base import METRICS, SCORERS, Metric, Scorer
from evalrun.metrics.text.exact import FixedScorer
from evalrun.registry import Registry, distribution

Foreign: TypeAlias = type[Metric] | type[Scorer]

IMPORT_ERRORS = (
    ImportError,
    SyntaxError,
    NameError,
    AttributeError,
    TypeError,
    ValueError,
    LookupError,
    OSError,
    RuntimeError,
    ArithmeticError,
    AssertionError,
)
"""What foreign code may raise while it is imported."""


def register_entry_point(name: str) -> None:
    """Import the installed package that offers the metric or scorer `name`, if it is not ours.

    Does nothing where the name is known, or no package offers it. A class that the package has not
    registered itself (`@metric`, `@scorer`) is registered under its `name`; a scorer is a metric
    too, the mean of its verdicts.

    Fault, naming the package: it cannot be imported, or brings nothing of that name.
    """
    if name in METRICS or name in SCORERS:
        return
    point = next(iter(metadata.entry_points(group="evalrun.metrics", name=name)), None)
    if point is None:
        return
    origin = distribution(point)
    at = f"metric {name} of the installed package {origin} ({point.value})"
    with all_or_nothing() as registered:
        try:
            thing = point.load()
        except IMPORT_ERRORS as error:
            raise Fault(
                f"The {at} cannot be imported: {type(error).__name__}: {visible(str(error))}. "
                "Reinstall or remove it."
            ) from error
        is_class = isinstance(thing, type) and issubclass(thing, Metric | Scorer)
        for cls in dict.fromkeys([*registered(), *([thing] if is_class else [])]):
            adopt(cls, origin, at, lambda _: "evalrun or another package")
        if name not in METRICS:
            raise Fault(
                f"The {at} registers no such metric: @metric({name!r}, ...) or @scorer must stand "
                "above the class that its entry point names."
            )


@contextmanager
def all_or_nothing() -> Iterator[Callable[[], list[Foreign]]]:
    """What foreign code registers in this block is taken out again where the block fails.

    Gives a function that returns the classes registered so far.
    """
    registries: tuple[Registry[Any], ...] = (METRICS, SCORERS)
    before = [{*registry} for registry in registries]

    def added() -> list[tuple[Registry[Any], str]]:
        pairs = zip(registries, before, strict=True)
        return [(registry, key) for registry, known in pairs for key in {*registry} - known]

    try:
        yield lambda: [registry.get(key) for registry, key in added()]
    except Fault:
        for registry, key in added():
            registry.remove(key)
        raise


def check_class(cls: Foreign, at: str) -> None:
    """Fault, beginning with `at`, unless the class is whole: frozen, named, with defaults only."""
    shown = cls.__name__
    if not getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
        raise Fault(
            f"{at}: {shown} must be a frozen dataclass: @dataclass(frozen=True, slots=True)."
        )
    needed = ("name",) if issubclass(cls, Scorer) else ("name", "display", "source")
    if missing := [name for name in needed if not isinstance(getattr(cls, name, None), str)]:
        raise Fault(f"{at}: {shown} lacks {', '.join(missing)} (ClassVar[str]).")
    if not str(cls.name).isidentifier():
        raise Fault(f"{at}: {cls.name!r} is no name of a metric. Allowed: letters, digits and _.")
    given: Any = fields(cls)  # type: ignore[arg-type]
    if open_ones := [
        f.name for f in given if f.init and f.default is MISSING and f.default_factory is MISSING
    ]:
        raise Fault(f"{at}: parameter {', '.join(open_ones)} of {shown} needs a default.")


def adopt(cls: Foreign, origin: str, at: str, owner: Callable[[str], str]) -> None:
    """Register a class under its `name`, if its own decorator has not; a scorer also as a metric.

    Fault where the class is not whole, or a name is taken.

    Args:
        cls: the class.
        origin: what its signatures say of where it comes from.
        at: the beginning of the error.
        owner: registered name -> who has it, for the error.
    """
    is_scorer = issubclass(cls, Scorer)
    if not any(cls is each.get(key) for each in (METRICS, SCORERS) for key in each):
        check_class(cls, at)
        for registry in (METRICS, SCORERS) if is_scorer else (METRICS,):
            for name in (cls.name, *getattr(cls, "aliases", ())):
                if name in registry:
                    raise Fault(
                        f"{at}: the name {name!r} is taken by {owner(name)}. Give {cls.__name__} "
                        "another one."
                    )
        if issubclass(cls, Metric):
            METRICS.add(cls.name, cls, tuple(cls.aliases))
        else:
            SCORERS.add(cls.name, cls)
    cls.file_digest = origin
    if issubclass(cls, Scorer) and cls.name not in METRICS:
        METRICS.add(cls.name, mean_of(cls))


def mean_of(scorer: type[Scorer]) -> type[Metric]:
    """The metric of a scorer's own name: the mean of its verdicts."""
    members = {
        "__doc__": scorer.__doc__,
        "__module__": scorer.__module__,
        "__annotations__": {"scorer": "str | None"},
        "name": scorer.name,
        "display": scorer.name,
        "version": scorer.version,
        "packages": scorer.packages,
        "source": str(getattr(scorer, "source", "a user's own scorer")),
        "scorer": field(default=scorer.name, init=False),
        "file_digest": scorer.file_digest,
    }
    return dataclass(frozen=True)(type(scorer.__name__, (FixedScorer,), members))
