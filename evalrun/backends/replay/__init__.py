"""Backend `replay`: saved predictions served again."""

from evalrun.backends import registration
from evalrun.backends.base import Backend
from evalrun.types import Kind, ModelPlan


@registration.backend(
    "replay",
    kinds=Kind,
    packages=("pyarrow",),
    install="pip install pyarrow",
    needs={"path": "RUN_FOLDER, FILE.arrow or FILE.jsonl"},
    is_recorded=True,
)
def make(model: ModelPlan) -> Backend:
    """The backend; the saved rows are read by `start`."""
    from evalrun.backends.replay.backend import ReplayBackend

    return ReplayBackend(model)
