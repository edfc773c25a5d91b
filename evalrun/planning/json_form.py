"""A Plan as JSON text and back. `from_json(to_json(plan)) == plan` for every plan."""

from __future__ import annotations

import math
from datetime import datetime

from evalrun import strict_json
from evalrun.config import Mode
from evalrun.errors import Fault, visible
from evalrun.json_types import structured
from evalrun.strict_json import Misfit
from evalrun.types import Cell, Kind, Plan

FORMAT_VERSION = 1


def to_json(plan: Plan) -> str:
    """The plan as strict, indented JSON. Tuples become lists."""
    return strict_json.to_json(plan, indent=1) + "\n"


def from_json(text: str, where: str = "plan.json") -> Plan:
    """The plan behind `to_json`. Keys that only a later evalrun knows are passed over.

    Fault, naming file and key, where the text is no plan, of another format, or damaged.
    """
    try:
        data = strict_json.from_object(text)
        version = data["format_version"]
    except (Misfit, KeyError) as cause:
        what = str(cause) if isinstance(cause, Misfit) else "format_version is missing"
        raise Fault(
            f"{where} is not a run plan ({visible(what)}). Name a run folder that evalrun wrote."
        ) from cause
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise Fault(
            f"{where} has plan format {visible(repr(version))}; this evalrun reads format "
            f"{FORMAT_VERSION}. Use the evalrun version that wrote it, or a newer one."
        )
    try:
        plan = structured(Plan, data, has_more=True)
        _check(plan)
        return plan
    except Misfit as misfit:
        raise Fault(
            f"{where} is damaged: {visible(str(misfit))}. Restore the file or infer again."
        ) from misfit


def _check(plan: Plan) -> None:
    """Misfit where a value has the right type but no plan has it: nothing after this asks again."""
    try:
        datetime.fromisoformat(plan.created)
    except ValueError:
        raise Misfit(f"is {plan.created!r:.100}, which is no time", "created") from None
    modes = [mode.value for mode in Mode]
    if plan.mode not in modes:
        raise Misfit(f"is {plan.mode!r:.100}; it must be one of {', '.join(modes)}", "mode")
    if not (math.isfinite(plan.max_error_rate) and 0 <= plan.max_error_rate <= 1):
        raise Misfit(f"is {plan.max_error_rate}; it must be from 0 to 1", "max_error_rate")
    if not plan.cells:
        raise Misfit("is empty; a plan has one cell at least", "cells")
    for place, cell in enumerate(plan.cells):
        try:
            _check_cell(cell)
        except Misfit as misfit:
            raise misfit.inside(f"[{place}]").inside("cells") from None


def _check_cell(cell: Cell) -> None:
    for name, n in (("n", cell.n), ("limit", cell.limit)):
        if n is not None and n < 1:
            raise Misfit(f"is {n}; it must be 1 or more", name)
    for name, entries in (("metrics", cell.metrics), ("kinds", cell.kinds)):
        if not entries:
            raise Misfit("is empty; a cell has one at least", name)
    known = [kind.value for kind in Kind]
    for kind in cell.kinds:
        if kind not in known:
            raise Misfit(f"holds {kind!r:.100}; known are {', '.join(known)}", "kinds")
