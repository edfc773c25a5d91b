"""Wall time of `evalrun --mode eval` over saved rows, and its ratio to the imports that it cannot
do without.

python tests/bench/bench_eval.py [ROWS]     5,000 rows by default; best of five real processes each
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
EVALRUN = [sys.executable, "-m", "evalrun"]
IMPORT = [
    "--question",
    "question",
    "--gold",
    "gold",
    "--prediction",
    "solution",
    "--task",
    "gsm8k",
    "--model",
    "m",
]


def best_s(command: list[str], folder: Path) -> float:
    """The fastest of five starts, in seconds."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    """Make a run by import, score it, print the times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "rows.jsonl").open("w") as file:
            for i in range(ROWS):
                steps = f"First {i} apples, then {i + 1} more make {2 * i + 1}. " * 6
                row = {
                    "question": f"Question {i}?",
                    "gold": f"#### {i}",
                    "solution": f"{steps}\nA: {i if i % 3 else 1}",
                }
                file.write(json.dumps(row) + "\n")
        subprocess.run(
            [*EVALRUN, "import", "rows.jsonl", *IMPORT], cwd=folder, check=True, capture_output=True
        )
        scoring = best_s([*EVALRUN, "--mode", "eval", "--reuse", "latest"], folder)
        imports = best_s([sys.executable, "-c", "import hydra, pyarrow, numpy"], folder)
    print(
        f"--mode eval on {ROWS} rows: {scoring:.2f} s, {scoring / imports:.1f} x `import hydra, "
        "pyarrow, numpy`"
    )


if __name__ == "__main__":
    main()
