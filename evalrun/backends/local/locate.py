"""Where the weights of a local engine (hf, vllm) lie."""

from __future__ import annotations

from pathlib import Path

from evalrun.backends.local import embedded, loading
from evalrun.errors import Fault, unknown, visible
from evalrun.types import ModelPlan

DTYPES = ("auto", "float32", "bfloat16", "float16")


def locate(model: ModelPlan) -> str:
    """The folder or hub name to load.

    Fault where none is given, a local one is missing, or dtype is unknown.
    """
    if model.dtype not in DTYPES:
        raise unknown("dtype", model.dtype, DTYPES, "model.dtype")
    if not model.path:
        raise Fault(
            f"backend {model.backend} needs model.path: a hub name or a local folder (model "
            f"{model.name})."
        )
    path = str(embedded.resolve(model.path))
    looks_local = path.startswith(("/", ".", "~")) or path.count("/") > 1
    if looks_local and not Path(path).expanduser().is_dir():
        raise Fault(
            f"There is no folder {visible(path)!r} (model.path of model {model.name}). "
            f"{loading.WAY_OUT}"
        )
    return str(Path(path).expanduser()) if looks_local else path
