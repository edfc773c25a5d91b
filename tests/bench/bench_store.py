"""Reading 5,000 stored rows, as a ratio to pyarrow reading the same file into Python lists.

python tests/bench/bench_store.py [ROWS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from evalrun.store.cell import predictions
from evalrun.store.layout import Run
from evalrun.types import Reply


def best_of(work: Callable[[], object], times: int = 7) -> float:
    """Shortest wall time of several runs, in seconds."""
    spans = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spans.append(time.perf_counter() - start)
    return min(spans)


def rows(n: int) -> list[Reply]:
    """`n` rows of about 1 kB."""
    text = "Natalia sold 48/2 = 24 clips in May. " * 25
    return [
        Reply(
            *(f"gsm8k-{i // 2:06}", "generate", i % 2),
            text=f"{text}#### {i}",
            prompt_tokens=100,
            completion_tokens=250,
            finish_reason="stop",
            seed=i,
            started_s=i / 7,
            ended_s=i / 7 + 1,
        )
        for i in range(n)
    ]


def main() -> None:
    """Print the times and ratios."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        made = rows(n)
        start = time.perf_counter()
        with predictions.open_writer(run.cell("m", "t"), {}) as writer:
            for row in made:
                writer.append(row)
            appended = time.perf_counter()
            writer.finalize(list(dict.fromkeys(row.doc_id for row in made)))
            merged = time.perf_counter()
        path = run.cell("m", "t").predictions.file
        plain = best_of(lambda: pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pydict())
        whole = best_of(lambda: predictions.read(run.cell("m", "t")).rows)
        answers = best_of(lambda: predictions.read_answers(run.cell("m", "t")))
        print(f"{n} rows, {path.stat().st_size / 1e6:.1f} MB")
        print(f"append   {appended - start:.3f} s ({n / (appended - start):.0f} rows/s)")
        print(f"finalize {merged - appended:.3f} s")
        print(f"pyarrow, to lists   {plain:.4f} s")
        print(f"read().rows         {whole:.4f} s   ratio {whole / plain:.2f}")
        print(f"read_answers()      {answers:.4f} s   ratio {answers / plain:.2f}")
        print(f"count()             {best_of(lambda: predictions.count(run.cell('m', 't'))):.4f} s")


if __name__ == "__main__":
    main()
