"""RunConfig -> the frozen Plan; its JSON form; its address; the stored runs that it meets."""

from evalrun.plan.build import build
from evalrun.plan.json_form import from_json, to_json

__all__ = ["build", "from_json", "to_json"]
