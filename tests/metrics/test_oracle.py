"""Every row of the oracle holds at its tolerance: metrics through evalrun.score, functions by
their names.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.oracle_rows import agrees, rows, value_of

from evalrun.errors import Fault

ROWS = rows()


def failures(metric: str) -> list[str]:
    """One line per row that does not hold."""
    lines = []
    for row in ROWS[metric]:
        try:
            got: Any = value_of(row)
        except (Fault, ValueError) as error:
            got = {"error": True}
            why = f"{type(error).__name__}: {error}"
        else:
            why = repr(got)
        is_refused = got == {"error": True}
        if row["expected"] == {"error": True} if is_refused else agrees(got, row):
            continue
        lines.append(f"{metric} {row['case_id']}: expected {row['expected']}, got {why}")
    return lines


@pytest.mark.parametrize("metric", ROWS)
def test_rows_of_the_oracle_hold(metric: str) -> None:
    assert failures(metric) == []


def test_all_rows_are_there() -> None:
    assert sum(map(len, ROWS.values())) == 1950
    assert len(ROWS) == 90
