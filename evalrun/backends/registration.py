"""Which backends there are, and what is known of each before it is imported.

A backend is registered where it is defined, by `@backend(...)` on its class or on a function that
imports it. Ours stand in the rooms of this package and are found by looking through them. Those of
an installed package are named by its entry points of the group `evalrun.backends`; its code is
imported by `register_entry_point` only, which whoever reads a command calls for the name that the
command, or a configuration file of the user, gives. A stored plan never leads to an import.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from evalrun.backends.base import Backend
from evalrun.backends.packages import is_installed
from evalrun.errors import Fault, unknown
from evalrun.registry import Registry
from evalrun.types import Kind, ModelPlan

ENTRY_POINTS = "evalrun.backends"

Make = Callable[[ModelPlan], Backend]
M = TypeVar("M", bound=Make)


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """What is known of a backend without its engine.

    Attributes:
        name: the value of model.backend.
        make: a backend for a model; loads no engine.
        kinds: the request kinds that it answers.
        packages: what must be installed.
        install: the command that installs them.
        needs: key of the model that must be set -> an example value, for the error.
        single_token_kinds: kinds that it may answer only where every choice is one token. Whether
            it does is found out before the run begins.
        is_server: its model runs behind an API (model.base_url), which has defaults of its own.
        is_deployable: it can ask a server that the run starts itself (model.repo).
        is_recorded: it serves answers that were saved, so it is no way to get new ones.
    """

    name: str
    make: Make
    kinds: tuple[Kind, ...]
    packages: tuple[str, ...] = ()
    install: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)
    single_token_kinds: tuple[Kind, ...] = ()
    is_server: bool = False
    is_deployable: bool = False
    is_recorded: bool = False


_FACTS: Registry[BackendFacts] = Registry("backend")


def backend(
    name: str,
    *,
    kinds: Iterable[Kind],
    packages: tuple[str, ...] = (),
    install: str = "",
    needs: Mapping[str, str] | None = None,
    single_token_kinds: tuple[Kind, ...] = (),
    is_server: bool = False,
    is_deployable: bool = False,
    is_recorded: bool = False,
) -> Callable[[M], M]:
    """Register a backend under `name`: decorates its class, or a function that makes one.

    Args:
        name: the value of model.backend; a name that is taken raises ValueError.
        kinds: the request kinds that it answers.
        packages: what must be installed.
        install: the command that installs them.
        needs: key of the model that must be set -> an example value.
        single_token_kinds: see `BackendFacts`, as for the rest.
        is_server: see `BackendFacts`.
        is_deployable: see `BackendFacts`.
        is_recorded: see `BackendFacts`.
    """

    def register(make: M) -> M:
        facts = BackendFacts(
            name,
            make,
            tuple(kinds),
            packages,
            install,
            dict(needs or {}),
            single_token_kinds,
            is_server,
            is_deployable,
            is_recorded,
        )
        _FACTS.add(name, facts)
        return make

    return register


@cache
def _find_own() -> None:
    """Import the rooms of this package, whose first lines register; none imports an engine."""
    for room in pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}."):
        if room.ispkg:
            importlib.import_module(room.name)


def register_entry_point(name: str) -> None:
    """Import the installed package that offers the backend `name`, if it is not one of ours.

    To be called with a name that the user typed or wrote into a configuration file of his own, and
    never with a name out of a stored plan: the import runs the package's code. Does nothing where
    the name is known, or no package offers it (`check` says so). Fault: the package cannot be
    imported, or registers no backend of that name.
    """
    _find_own()
    if name in _FACTS:
        return
    point = next(iter(metadata.entry_points(group=ENTRY_POINTS, name=name)), None)
    if point is None:
        return
    source = f"backend {name} of the installed package {_distribution(point)} ({point.value})"
    try:
        point.load()
    except (ImportError, AttributeError) as error:
        raise Fault(f"The {source} cannot be imported: {error}. Reinstall or remove it.") from error
    if name not in _FACTS:
        raise Fault(
            f"The {source} registers no such backend: @backend({name!r}, ...) must decorate what "
            "its entry point names."
        )


def _distribution(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "that offers it"


def names() -> tuple[str, ...]:
    """All registered backends."""
    _find_own()
    return tuple(_FACTS)


def facts_of(name: str, where: str = "model.backend") -> BackendFacts:
    """What is known of the backend `name`.

    Fault where there is none, or where the command does not name the installed package's backend.
    """
    if name in names():
        return _FACTS.get(name)
    offered = metadata.entry_points(group=ENTRY_POINTS).names
    if name in offered:
        raise Fault(
            f"Backend {name!r} in {where} belongs to an installed package, whose code runs only "
            f"where the command names it. Say model.backend={name}."
        )
    raise unknown("backend", name, {*names(), *offered}, where)


def kinds(name: str) -> tuple[Kind, ...]:
    """The request kinds that a backend answers. Fault where there is no such backend."""
    return facts_of(name).kinds


def answers(name: str, kind: Kind, is_single_token: bool) -> bool:
    """Whether a backend answers requests of this kind.

    Args:
        name: of the backend.
        kind: of the requests.
        is_single_token: all their choices are of one token. A server that may answer those is
            asked whether it does before the run begins.
    """
    facts = facts_of(name)
    return kind in facts.kinds or (is_single_token and kind in facts.single_token_kinds)


def answering(kind: Kind) -> tuple[str, ...]:
    """The backends that answer requests of this kind with a model, not with saved answers."""
    every = map(_FACTS.get, names())
    return tuple(facts.name for facts in every if kind in facts.kinds and not facts.is_recorded)


def check(model: ModelPlan) -> None:
    """Fault where the backend does not exist, a package that it needs is not installed, or a key
    that it needs is not set. Imports no engine.
    """
    facts = facts_of(model.backend, f"model.backend of model {model.name}")
    missing = [name for name in facts.packages if not is_installed(name)]
    if missing:
        raise Fault(
            f"Backend {model.backend} of model {model.name} needs {' and '.join(missing)}, not "
            f"installed here: {facts.install}."
        )
    for key, example in facts.needs.items():
        if not getattr(model, key):
            raise Fault(
                f"Model {model.name} (backend {model.backend}) has no model.{key}. Say "
                f"model.{key}={example}."
            )


def create(model: ModelPlan) -> Backend:
    """A backend for the model; loads no engine. Fault: see `check`."""
    check(model)
    return facts_of(model.backend).make(model)
