"""Estimates and records made by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

from evalrun.types import Estimate, Record


def estimate(display: str = "accuracy", value: float | None = 0.5, **changes: Any) -> Estimate:
    base = Estimate(
        *(display.split("@")[0], display, 1, value, "fraction", True, 0.1, None, 0.3, 0.7, "mean"),
        *(10, 1, 10, 0, 0, 0, None, f"{display}|v:1|n:1|ask:abc123"),
    )
    return dataclasses.replace(base, **changes)


def record(model: str = "m", task: str = "t", state: str = "complete", **changes: Any) -> Record:
    base = Record(model, task, "abcdef", "gen", state, None, None, 10, 1, estimates=(estimate(),))
    return dataclasses.replace(base, **changes)
