"""How a number and a name are written for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalrun.errors import Fault, unknown, visible


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """How numbers are shown.

    Attributes:
        percent: fractions times 100.
        digits: decimals.
        show_ci: add `[low, high]`.
        weighted: averages over tasks weigh each by its documents, instead of all alike.
        reading: advice on pass@n, avg@n and cons@n at the end of the files.
    """

    percent: bool = True
    digits: int = 2
    show_ci: bool = False
    weighted: bool = False
    reading: bool = True

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> SummarySettings:
        """Settings from the keys of conf/summary/*.yaml (`name` is not used).

        Fault on a wrong key or value.
        """
        allowed = ("name", "percent", "digits", "show_ci", "weighted", "reading")
        for key in given:
            if key not in allowed:
                raise unknown("key", str(key), allowed, "summary")
        values = {key: value for key, value in given.items() if key != "name"}
        for key in ("percent", "show_ci", "weighted", "reading"):
            if not isinstance(values.get(key, True), bool):
                raise Fault(f"summary.{key}={values[key]!r} must be true or false.")
        digits = values.get("digits", 2)
        if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 15:
            raise Fault(f"summary.digits={digits!r} must be a whole number from 0 to 15.")
        return cls(**values)


def flat(text: str) -> str:
    """`text` on one line, with control characters, newlines and tabs as escapes."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def scale(unit: str, settings: SummarySettings) -> tuple[float, str]:
    """(factor, shown unit) of a number in `unit`. Only fractions are ever multiplied."""
    if unit == "fraction":
        return (100.0, "%") if settings.percent else (1.0, "fraction")
    return (1.0, "%" if unit == "percent" else unit)


def number_text(value: float, unit: str, settings: SummarySettings) -> str:
    """`value` as it is shown: scaled, with `digits` decimals; `nan` and `inf` as words; no
    negative zero.
    """
    if not math.isfinite(value):
        return str(float(value))
    scaled = value * scale(unit, settings)[0]
    style = "e" if abs(scaled) >= 1e9 else "f"
    text = f"{scaled:.{settings.digits}{style}}"
    return text.removeprefix("-") if float(text) == 0 else text
