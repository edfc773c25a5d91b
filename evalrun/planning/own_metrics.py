"""A user's own metric: one file with one Metric or Scorer, named by the key `metric_files`,
imported here only.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from os import PathLike
from pathlib import Path
from types import ModuleType

from evalrun.config import RunConfig
from evalrun.errors import Fault, visible
from evalrun.grammar import name_of_call
from evalrun.metrics import METRICS, Metric, Scorer, foreign
from evalrun.metrics.naming import without_number
from evalrun.types import Plan

KEY = "metric_files"
ALLOW = "allow_code"


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """What a file brought.

    Attributes:
        metric: its name in the registry.
        is_scorer: that it is the mean of the file's scorer.
    """

    path: str
    digest: str
    metric: str
    is_scorer: bool


_loaded: dict[str, OwnMetric] = {}
"""SHA-256 of a file's bytes -> what it brought, in this process."""


def load_all(config: RunConfig, typed: Sequence[str], folders: Mapping[str, Path]) -> None:
    """Import the files that the configuration names, and write their full paths into it; import
    what installed packages offer where a metric or a scorer is named so.

    Args:
        typed: the overrides of the command line; a file that is named anywhere else needs a typed
            allow_code=true, since a folder that is searched for tasks must not bring in code by
            itself.
        folders: task -> folder of its YAML, where a relative path is looked for when the current
            folder does not have it.
    """
    keys = {override.lstrip("+").partition("=")[0] for override in typed}
    is_allowed = config.allow_code and ALLOW in keys
    for where, names, folder in _named(config, folders):
        if where not in keys and not is_allowed:
            raise Fault(
                f"{where} names {', '.join(map(visible, names))}: Python code that a configuration "
                f"file would run. Say {ALLOW}=true on the command line if you trust it, or name it "
                f"there: {KEY}=[{visible(names[0])}]."
            )
        names[:] = [load(_place(name, folder), where).path for name in names]
    for metrics in (config.metrics, *(task.metrics for task in config.tasks.values())):
        for name, params in metrics.items():
            foreign.register_entry_point(without_number(name))
            scorer = params.get("scorer") if isinstance(params, Mapping) else None
            if isinstance(scorer, str):
                foreign.register_entry_point(name_of_call(scorer))


def recorded(config: RunConfig) -> tuple[tuple[str, str, str], ...]:
    """(metric, file, SHA-256) of the files that the configuration names and that were imported."""
    paths = [path for _, names, _ in _named(config, {}) for path in names]
    return tuple(
        (own.metric, own.path, own.digest) for own in _loaded.values() if own.path in paths
    )


def check_stored(plan: Plan) -> None:
    """Fault where a metric of a stored plan comes from a user's file, or from an installed package,
    that this command does not name.

    Nothing is imported because a stored plan names it: a run folder may come from anybody.
    """
    used = {metric.key for cell in plan.cells for metric in cell.metrics}
    for metric, path, digest in plan.metric_files:
        if metric in used and metric not in METRICS:
            raise Fault(
                f"Metric {metric} of the stored run comes from {visible(path)} (SHA-256 "
                f"{digest[:12]}). Name that file again, {KEY}=[{visible(path)}], or ask for other "
                "metrics: metric=NAME."
            )
    for metric in used:
        METRICS.key(metric, "the stored run")


def _named(
    config: RunConfig, folders: Mapping[str, Path]
) -> Iterable[tuple[str, list[str], Path | None]]:
    if config.metric_files:
        yield KEY, config.metric_files, None
    for name, task in config.tasks.items():
        if task.metric_files:
            yield f"tasks.{name}.{KEY}", task.metric_files, folders.get(name)


def _place(name: str, folder: Path | None) -> Path:
    path = Path(name).expanduser()
    return (
        folder / path
        if folder is not None and not path.is_absolute() and not path.exists()
        else path
    )


def load(path: str | PathLike[str], where: str = "") -> OwnMetric:
    """Import one file and register its class under its `name`.

    The same content is imported once a process.

    Fault, naming the file: it is not there, does not end in .py, raises, holds no class or several,
    or a name that is taken.

    Args:
        where: the key that names it.
    """
    file = Path(path).expanduser()
    at = f" (named by {where})" if where else ""
    if file.suffix != ".py":
        raise Fault(
            f"{visible(str(path))} is no Python file{at}. A user's own metric is one file NAME.py."
        )
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Fault(f"{visible(str(path))} cannot be read{at}: {error.strerror}.") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest not in _loaded:
        with foreign.all_or_nothing():
            cls = _class_of(_module(file, digest, at), f"{file}{at}")
            foreign.adopt(cls, digest[:12], f"{file}{at}", _owner)
        is_scorer = issubclass(cls, Scorer)
        _loaded[digest] = OwnMetric(str(file.resolve()), digest, cls.name, is_scorer)
    return _loaded[digest]


def _owner(name: str) -> str:
    """Who has a registered name."""
    paths = (own.path for own in _loaded.values() if own.metric == name)
    return next(paths, "evalrun itself")


def _module(file: Path, digest: str, at: str) -> ModuleType:
    name = f"evalrun_own_{file.stem}_{digest[:12]}"
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except foreign.IMPORT_ERRORS as error:
        del sys.modules[name]
        raise Fault(
            f"{file}{at} cannot be imported: {type(error).__name__}: {visible(str(error))}."
        ) from error
    return module


def _class_of(module: ModuleType, at: str) -> foreign.Foreign:
    """The only class of a metric or a scorer that the file defines."""
    own = [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type)
        and issubclass(thing, Metric | Scorer)
        and thing.__module__ == module.__name__
        and not getattr(thing, "__abstractmethods__", None)
    ]
    if len(own) != 1:
        named = ", ".join(each.__name__ for each in own) or "none"
        raise Fault(
            f"{at} must hold exactly one class derived from Metric or Scorer; it holds {named}."
        )
    return own[0]
