"""Registers the schema, the metrics and the second search path with Hydra; composes without a
command line.
"""

from __future__ import annotations

from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from evalrun.config import places
from evalrun.config.schema import RunConfig, TaskConfig
from evalrun.errors import Fault
from evalrun.metrics import parameter_defaults

ERRORS = (HydraException, OmegaConfBaseException)
"""What Hydra and OmegaConf raise where a configuration cannot be composed."""


class EvalrunSearchPath(SearchPathPlugin):
    """Adds tasks_yaml and the folders of add-ons to Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra before it composes."""
        for folder in [places.own("tasks_yaml"), *places.add_ons()]:
            search_path.append(provider="evalrun", path=f"file://{folder}")


def register() -> None:
    """Make Hydra know our types: unknown keys, wrong types and unknown metric parameters fail
    while composing.
    """
    GlobalHydra.instance().clear()
    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConfig)
    store.store(name="task_schema", node=TaskConfig)
    for key, parameters in parameter_defaults().items():
        store.store(group="metric", name=key, package="metrics", node={key: dict(parameters)})
    Plugins.instance().register(EvalrunSearchPath)


def composed(overrides: list[str]) -> RunConfig:
    """The configuration of these overrides, without hydra.main. Raises one of ERRORS."""
    register()
    with initialize_config_dir(str(places.own("conf")), version_base="1.3", job_name="evalrun"):
        return to_run_config(compose("config", overrides))


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
