"""What the server under test may see: an allow-listed environment, and the python of the
machine, not evalrun's.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from evalrun.errors import Fault, visible
from evalrun.types import DeployPlan

NAMES = ("PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR")
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
PREFIXES = ("ASCEND_", "NPU_", "HCCL_", "CUDA_", "NVIDIA_", "VLLM_", "OMP_")
SECRET_ENDINGS = ("KEY", "TOKEN", "SECRET")
OURS = ("MODEL_PATH", "HOME")


def is_secret(name: str) -> bool:
    """True for a variable whose name ends in KEY, TOKEN or SECRET, in any case."""
    return name.upper().endswith(SECRET_ENDINGS)


def is_allowed(name: str) -> bool:
    """True for a variable of ours that the server gets as it is."""
    return (
        name in NAMES or name.lower() in PROXIES or name.startswith(PREFIXES)
    ) and not is_secret(name)


def server_environment(
    deploy: DeployPlan, outside: Mapping[str, str], home: Path, weights: Path, venv: Path | None
) -> dict[str, str]:
    """The whole environment of the server and of its installation.

    Args:
        outside: ours. deploy.env wins over it; MODEL_PATH and HOME are the run's. The bin folder of
            `venv` comes first on PATH, that of evalrun's own environment last: python3 means the
            machine's.
    """
    env = {name: value for name, value in outside.items() if is_allowed(name)}
    env["PATH"] = os.pathsep.join(_foreign_first(env.get("PATH", os.defpath)))
    env |= {name: str(value) for name, value in deploy.env}
    if venv is not None:
        env["PATH"] = os.pathsep.join([str(venv / "bin"), env["PATH"]])
    return {**env, "MODEL_PATH": str(weights), "HOME": str(home)}


def _is_own(folder: str) -> bool:
    """Whether a folder of PATH is that of evalrun's own virtual environment."""
    return sys.prefix != sys.base_prefix and os.path.realpath(folder) == os.path.realpath(
        Path(sys.prefix) / "bin"
    )


def _foreign_first(path: str) -> list[str]:
    folders = [folder for folder in path.split(os.pathsep) if folder]
    return sorted(folders, key=_is_own)  # stable: the order stays otherwise


def machine_python(deploy: DeployPlan) -> str:
    """The python that environments are made with. Fault where it does not exist."""
    if deploy.python is not None:
        found = shutil.which(os.path.expanduser(deploy.python))
        if found is None:
            raise Fault(
                f"deploy.python={visible(deploy.python)!r} is no program. Name a python, by its "
                "path or as PATH knows it."
            )
        return os.path.abspath(found)
    folders = [
        f for f in os.environ.get("PATH", os.defpath).split(os.pathsep) if f and not _is_own(f)
    ]
    found = shutil.which("python3", path=os.pathsep.join(folders))
    if found is None:
        raise Fault(
            "requirements.txt is to be installed, but there is no python3 on PATH besides "
            "evalrun's own. Name the one that has torch and the drivers: "
            "deploy.python=/usr/bin/python3, or an environment: deploy.venv=DIR."
        )
    return os.path.abspath(found)


def check_env(deploy: DeployPlan) -> None:
    """Fault for a variable of deploy.env that cannot be one, or that the run itself sets."""
    for name, _ in deploy.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise Fault(
                f"deploy.env.{visible(name)} is no name of a variable: letters, digits and _ are "
                "allowed."
            )
        if name in OURS:
            where = "model.weights sets it" if name == "MODEL_PATH" else "it is a folder of the run"
            raise Fault(f"deploy.env.{name} cannot be set: {where}.")
