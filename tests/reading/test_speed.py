"""How long the readers take, as a ratio to one plain regular expression in the same process.

Absolute times depend on the machine; tests/bench/bench_reading.py prints them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from support.reading_texts import made_texts

from evalrun.reading.formulas.expressions import read_expression
from evalrun.reading.numbers import read_number

NUMBERS = re.compile(r"\d+(?:\.\d+)?")
TEXTS = made_texts()


def seconds(read: Callable[[str], object], repeats: int = 7) -> float:
    """The shortest CPU time of `repeats` runs over all texts."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        for text in TEXTS:
            read(text)
        times.append(time.process_time() - started)
    return min(times)


@pytest.mark.parametrize(("read", "ceiling"), [(read_number, 26), (read_expression, 31)])
def test_costs_at_most_so_many_plain_searches(
    read: Callable[[str], object], ceiling: float
) -> None:
    """Measured: 19 and 23. A loaded machine disturbs both sides, so the best of three counts."""
    ratios = []
    for _ in range(3):
        ratios.append(seconds(read) / seconds(NUMBERS.findall))
        if ratios[-1] <= ceiling:
            return
    raise AssertionError(
        f"{read.__name__} costs {min(ratios):.1f} plain searches, at most {ceiling}"
    )
