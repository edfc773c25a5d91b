"""Speed of the readers of letters, numbers and formulas, in µs of CPU time per 1,000 characters.

python tests/bench/bench_reading.py [texts] [repeats]

Beside them stand a plain regular expression and, where it is installed, Math-Verify's parse on the
same texts. The texts: the labelled answers and MMLU-Pro outputs of EVALRUN_SHARED (default: the
folder shared beside the repository) where it exists, else made ones. Exit code 1 where the median
of a reader is above the bar.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.reading_texts import made_texts  # noqa: E402

from evalrun.reading.formulas.expressions import read_expression  # noqa: E402
from evalrun.reading.letters import read_letter  # noqa: E402
from evalrun.reading.numbers.number_reader import read_number  # noqa: E402

BAR = 250.0
"""µs per 1,000 characters."""
SHARED = Path(os.environ.get("EVALRUN_SHARED") or ROOT.parent / "shared")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def real_texts(count: int) -> list[str]:
    """The labelled answers and `count` outputs of MMLU-Pro, drawn with a fixed seed."""
    rows = (SHARED / "reading" / "numbers.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(row)["text"] for row in rows]
    outputs: list[str] = []
    for path in sorted((SHARED / "data" / "mmlu_pro").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            outputs += [json.loads(line)["output"] for line in lines]
    return [text for text in texts + random.Random(7).sample(outputs, count) if text]


def rates(read: Callable[[str], object], texts: list[str], repeats: int) -> list[float]:
    """For each text the shortest time of all repeats, in µs per 1,000 characters.

    A repeat goes over all texts, so that each is read with cold caches, as in a run.
    """
    best = [float("inf")] * len(texts)
    for _ in range(repeats):
        for place, text in enumerate(texts):
            started = time.process_time_ns()
            read(text)
            best[place] = min(best[place], time.process_time_ns() - started)
    return [spent / len(text) for spent, text in zip(best, texts, strict=True)]


def shown(name: str, found: list[float], texts: list[str]) -> str:
    """One row: median over the texts, the whole corpus, short and long texts."""
    sizes = [len(text) for text in texts]
    whole = sum(rate * size for rate, size in zip(found, sizes, strict=True)) / sum(sizes)
    short = [rate for rate, size in zip(found, sizes, strict=True) if 400 <= size < 700]
    long = [rate for rate, size in zip(found, sizes, strict=True) if size >= 1000]
    parts = (
        statistics.median(found),
        whole,
        *(statistics.median(p or [0.0]) for p in (short, long)),
    )
    return f"{name:22}" + "".join(f"{part:12.0f}" for part in parts)


def readers() -> dict[str, Callable[[str], object]]:
    """The readers and what stands beside them, by name."""
    found: dict[str, Callable[[str], object]] = {
        "letter": lambda text: read_letter(text, 10),
        "number": read_number,
        "expression": read_expression,
        "plain search": NUMBER.findall,
    }
    if importlib.util.find_spec("math_verify"):
        from math_verify import parse

        found["Math-Verify's parse"] = parse
    return found


def main(count: int, repeats: int) -> int:
    """Print the table; 1 where a reader's median is above the bar."""
    is_real = (SHARED / "reading" / "numbers.jsonl").exists()
    texts = real_texts(count) if is_real else made_texts()
    print(
        f"{len(texts)} {'real' if is_real else 'made'} texts, {sum(map(len, texts)):,} characters"
    )
    print(f"{'µs per 1,000 chars':22}{'median':>12}{'whole':>12}{'400-700':>12}{'1,000+':>12}")
    is_slow = False
    for name, read in readers().items():
        found = rates(read, texts, 1 if name.startswith("Math") else repeats)
        is_slow |= name in ("letter", "number", "expression") and statistics.median(found) > BAR
        print(shown(name, found, texts), flush=True)
    return int(is_slow)


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*(words + [400, 7][len(words) :])))
