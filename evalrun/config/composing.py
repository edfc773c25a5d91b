"""Composing with Hydra: the schema, the metrics and the second search path are ours for the time
of it, and Hydra is left as it was found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, cast

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobRuntime
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.version import VersionBase
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from evalrun.config import places
from evalrun.config.schema import RunConfig, TaskConfig
from evalrun.errors import Fault
from evalrun.metrics import parameter_defaults

ERRORS = (HydraException, OmegaConfBaseException)
"""What Hydra and OmegaConf raise where a configuration cannot be composed."""

_mutex = threading.RLock()  # Hydra keeps its state in globals: one thread composes at a time


class EvalrunSearchPath(SearchPathPlugin):
    """Adds tasks_yaml, the folders of add-ons and the user's own to Hydra's search path.

    A registered plugin stays registered, so it does nothing where somebody else composes.
    """

    is_composing: ClassVar[bool] = False
    config_dir: ClassVar[str | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra before it composes."""
        if not self.is_composing:
            return
        for folder in [places.own("tasks_yaml"), *places.add_ons()]:
            search_path.append(provider="evalrun", path=f"file://{folder}")
        if self.config_dir is not None:
            folder = places.user_folder(self.config_dir)
            search_path.append(provider="command-line", path=f"file://{folder}")


@contextmanager
def own_hydra(config_dir: str | None = None) -> Iterator[None]:
    """Within the block Hydra knows our types, so that unknown keys, wrong types and unknown metric
    parameters fail while composing. After it, Hydra is as it was: a caller may use it himself.

    Args:
        config_dir: the user's folder of configuration files; None: none, or hydra.main reads it.
    """
    with _mutex:
        store, runtime, version = ConfigStore.instance(), JobRuntime.instance(), VersionBase()
        Plugins.instance().register(EvalrunSearchPath)  # imports what stores nodes of its own
        hydra, job = GlobalHydra.instance(), HydraConfig.instance()
        before = (hydra.hydra, job.cfg, dict(runtime.conf), version.version_base, store.repo)
        hydra.clear()
        store.repo = _copy(store.repo)
        _store_ours(store)
        EvalrunSearchPath.is_composing, EvalrunSearchPath.config_dir = True, config_dir
        try:
            yield
        finally:
            EvalrunSearchPath.is_composing, EvalrunSearchPath.config_dir = False, None
            GlobalHydra.set_instance(hydra)
            hydra.hydra, job.cfg, conf, version.version_base, store.repo = before
            runtime.conf = OmegaConf.create(conf)


def _copy(repo: dict[str, Any]) -> dict[str, Any]:
    """The groups of a ConfigStore, which are dictionaries in each other; the nodes are shared."""
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in repo.items()}


def _store_ours(store: ConfigStore) -> None:
    store.store(name="run_schema", node=RunConfig)
    store.store(name="task_schema", node=TaskConfig)
    for key, parameters in parameter_defaults().items():
        store.store(group="metric", name=key, package="metrics", node={key: dict(parameters)})


def composed_settings(overrides: list[str], config_dir: str | None = None) -> Any:
    """The composed DictConfig of these overrides. Raises one of ERRORS.

    Args:
        overrides: in Hydra's grammar, as runs.words reads them from a command line.
        config_dir: the user's folder of configuration files.
    """
    with (
        own_hydra(config_dir),
        initialize_config_dir(str(places.own("conf")), version_base="1.3", job_name="evalrun"),
    ):
        return compose("config", overrides)


def composed(overrides: list[str]) -> RunConfig:
    """The configuration of these overrides as an object. Raises one of ERRORS, or a Fault."""
    return to_run_config(composed_settings(overrides))


def to_run_config(cfg: Any) -> RunConfig:
    """A composed DictConfig as a RunConfig object, resolved and checked.

    Fault where a value is missing or broken.
    """
    try:
        return cast(RunConfig, OmegaConf.to_object(cfg))
    except OmegaConfBaseException as error:
        first, *rest = [line.strip() for line in str(error).split("\n")]
        key = next(
            (line.partition(":")[2].strip() for line in rest if line.startswith("full_key:")),
            "the configuration",
        )
        raise Fault(
            f"{key} cannot be resolved: {first.rstrip('.')}. ${{NAME}} stands for another setting; "
            "a plain one is written \\${NAME}."
        ) from error


def to_yaml(cfg: Any) -> str:
    """A composed configuration as YAML, as it is saved beside the plan."""
    return OmegaConf.to_yaml(cfg, resolve=True)


def unresolved(cfg: Any) -> Any:
    """A composed configuration as plain containers, interpolations as they were written."""
    return OmegaConf.to_container(cfg, resolve=False)
