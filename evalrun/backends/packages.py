"""Which optional packages are installed, found out without importing them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from evalrun.errors import Fault


def is_installed(package: str) -> bool:
    """True where a package of that name can be imported; a bare folder of that name does not
    count.
    """
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


def need(what: str, packages: Sequence[str], extra: str, note: str = "") -> None:
    """Fault unless every package is installed. Imports none of them.

    Args:
        what: needs them, for the message.
        packages: their names.
        extra: what pip installs to get them.
        note: one more sentence for the message, with its leading blank.
    """
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        raise Fault(
            f"{what} needs {_listed(packages)}: pip install '{extra}' (missing: "
            f"{_listed(missing)}).{note}"
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
