"""Where the configuration files lie: ours, those of installed add-ons, and the user's."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from evalrun.errors import Fault

PACKAGE = Path(__file__).resolve().parent.parent


def own(folder: str) -> Path:
    """conf or tasks_yaml: inside the package (a wheel) or beside it (a checkout)."""
    inside = PACKAGE / folder
    return inside if inside.is_dir() else PACKAGE.parent / folder


@cache
def add_ons() -> tuple[Path, ...]:
    """Folders of the entry-point group evalrun.conf: `pip install evalrun-mytasks` adds tasks.

    Asked for once: looking through 120 installed packages takes 30 ms.
    """
    folders = []
    for point in entry_points(group="evalrun.conf"):
        spec = find_spec(point.value)
        places = list(spec.submodule_search_locations or []) if spec else []
        if not places:
            raise Fault(
                f"The add-on {point.name} names the package {point.value}, which has no folder."
            )
        folders.append(Path(places[0]))
    return tuple(folders)


def sources(config_dir: str | None) -> list[Path]:
    """All folders that hold groups of configuration files, the user's last.

    Fault where config_dir is not a folder.
    """
    found = [own("conf"), own("tasks_yaml"), *add_ons()]
    if config_dir is not None:
        found.append(user_folder(config_dir))
    return found


def user_folder(config_dir: str) -> Path:
    """The full path of the user's folder of configuration files. Fault where it is not a folder."""
    folder = Path(config_dir).expanduser()
    if not folder.is_dir():
        raise Fault(
            f"--config-dir {config_dir} is not a folder. It should hold task/NAME.yaml, "
            "model/NAME.yaml, ..."
        )
    return folder.resolve()


def names(group: str, config_dir: str | None = None) -> dict[str, Path]:
    """Name -> file of one group (task, suite, model, dataset, metric, judge, summary) over all
    sources.

    Fault for a name that exists in two sources: Hydra would silently take one of them.
    """
    found: dict[str, Path] = {}
    for source in sources(config_dir):
        for path in sorted((source / group).glob("*.yaml")):
            if path.stem in found:
                raise Fault(
                    f"{group} {path.stem} exists twice: {found[path.stem]} and {path}. Rename one "
                    "of the two files."
                )
            found[path.stem] = path
    return found
