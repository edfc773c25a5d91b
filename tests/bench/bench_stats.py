"""Speed of the errors: pass@k over a million documents, a thousand draws of a formula over sums.

python tests/bench/bench_stats.py [repeats]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import perf_counter

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

from evalrun.metrics import make_metric  # noqa: E402
from evalrun.metrics.base import Output  # noqa: E402
from evalrun.stages.scoring.error_bars import error_of  # noqa: E402


def best_of(work: Callable[[], object], repeats: int) -> float:
    """The shortest wall time of `repeats` runs, in seconds."""
    times = []
    for _ in range(repeats):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)


def main(repeats: int) -> int:
    """Print both times with their limits; 1 where one is missed."""
    rng = np.random.default_rng(0)
    (passed,) = make_metric("pass_at_k", {"k": 4, "n": 16}).outputs()
    counts = {"n": np.full(1_000_000, 16), "c": rng.integers(0, 17, 1_000_000)}
    rows = {f"x{i}": rng.integers(0, 200, 1000).astype(float) for i in range(10)}
    formula = Output(
        "log_mean", tuple(rows), of_sums=lambda s: np.exp(np.log(s).mean(axis=-1)), is_bounded=False
    )
    lines = (
        ("pass@k with its errors, 1,000,000 documents", lambda: error_of(passed, counts), 0.1),
        (
            "1,000 bootstrap draws, 10 sums over 1,000 documents",
            lambda: error_of(formula, rows),
            0.5,
        ),
    )
    is_slow = False
    for title, work, limit in lines:
        seconds = best_of(work, repeats)
        is_slow |= seconds > limit
        print(f"{title:55} {seconds:7.3f} s   limit {limit} s")
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
