"""RunConfig -> the frozen Plan; its JSON form; its address; the stored runs that it meets."""

from evalrun.planning.json_form import from_json, to_json
from evalrun.planning.plan_builder import build

__all__ = ["build", "from_json", "to_json"]
