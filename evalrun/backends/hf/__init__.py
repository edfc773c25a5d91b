"""Backend `hf`: models that transformers runs on this machine."""

from evalrun.backends import registration
from evalrun.backends.base import Backend
from evalrun.types import Kind, ModelPlan


@registration.backend(
    "hf",
    kinds=Kind,
    packages=("torch", "transformers"),
    install="pip install 'evalrun[hf]'",
    needs={"path": "FOLDER or ORG/NAME"},
)
def make(model: ModelPlan) -> Backend:
    """The backend; its engine is loaded by `start`."""
    from evalrun.backends.hf.backend import HfBackend

    return HfBackend(model)
