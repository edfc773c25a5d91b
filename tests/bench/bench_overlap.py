"""Overlap metrics against rouge-score, sacrebleu and nltk on pairs of 60 to 200 words: ratios, and
equal values.

python tests/bench/bench_overlap.py CACHE [--small]

CACHE: a folder for the libraries' own environment, made there by pip at the first run. 10,000
pairs; --small: 1,000. Both sides run on one core, one after the other, for each metric in turn.
Exit code 1 where a value or a ratio falls short.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGES = ("rouge-score==0.1.2", "sacrebleu==2.6.0", "nltk==3.9.1")
KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
LEAST = {
    "rouge": 8.0,
    "rougeL": 15.0,
    "bleu": 1.0,
    "chrf": 1.0,
    "chrf++": 1.0,
    "ter": 1.0,
    "copyright": 30.0,
}
# pairs of what takes the library tens of milliseconds each, or more
SLOW = {"ter": 20, "copyright": 200}
Pairs = list[tuple[str, str]]


def made_pairs(n: int) -> Pairs:
    """(gold, prediction) pairs: words by Zipf's law, the prediction a gold with edits, moved
    parts and new lines.
    """
    draw = random.Random(20)
    words = ["".join(draw.choices("etaoinshrdlucm", k=draw.randint(2, 9))) for _ in range(4000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    pairs = []
    for _ in range(n):
        gold = draw.choices(words, weights, k=draw.randint(60, 200))
        pred = [word if draw.random() > 0.3 else draw.choices(words, weights)[0] for word in gold]
        cut = draw.randrange(len(pred))
        pred = (pred[cut:] + pred[:cut] if draw.random() < 0.3 else pred)[
            : max(60, draw.randint(60, 200))
        ]
        pairs.append((written(gold, draw), written(pred, draw)))
    return pairs


def written(words: list[str], draw: random.Random) -> str:
    """Words as sentences of 8 to 24 words, apart by a new line or a blank."""
    parts, start = [], 0
    mark = draw.choice("\n ")
    while start < len(words):
        stop = start + draw.randint(8, 24)
        parts.append(" ".join(words[start:stop]).capitalize() + ".")
        start = stop
    return mark.join(parts)


def library(name: str, pairs: Pairs) -> Any:
    """What the library gives: a corpus score, or one value or list of values per pair."""
    golds, preds = [gold for gold, _ in pairs], [pred for _, pred in pairs]
    if name in ("rouge", "rougeL"):
        from rouge_score.rouge_scorer import RougeScorer

        kinds = KINDS if name == "rouge" else ("rougeL",)
        scorer = RougeScorer(list(kinds))
        scores = (scorer.score(gold, pred) for gold, pred in pairs)
        return [[score[kind].fmeasure for kind in kinds] for score in scores]
    if name == "copyright":
        from nltk.metrics.distance import edit_distance
        from nltk.tokenize import TreebankWordTokenizer

        cut = TreebankWordTokenizer().tokenize
        values = []
        for gold, pred in pairs:  # as three metrics apart, of which two need the distance
            distance = edit_distance(cut(gold[: len(pred)]), cut(pred))
            sides = cut(gold[: len(pred)]), cut(pred)
            values.append([distance, 1 - edit_distance(*sides) / max(map(len, sides))])
        return values
    from sacrebleu.metrics import BLEU, CHRF, TER

    metric = {"bleu": BLEU, "chrf": CHRF, "chrf++": lambda: CHRF(word_order=2), "ter": TER}[name]()
    return metric.corpus_score(preds, [golds]).score


def ours(name: str, pairs: Pairs) -> Any:
    """The same by evalrun: verdicts or statistics of each document, reduced where the library
    gives one number.
    """
    import numpy as np

    from evalrun.metrics import make_metric, make_scorer
    from evalrun.types import Doc, Samples

    metric = make_metric(name)
    docs = [Doc(str(i), "t", i, "?", (gold,)) for i, (gold, _) in enumerate(pairs)]
    if metric.has_scorer:
        found = make_scorer(metric.scorer, None).judge_batch(
            [(d, p) for d, (_, p) in zip(docs, pairs, strict=True)]
        )
        return [[verdict.value] for verdict in found]
    rows = metric.score_batch(
        docs, [Samples((pred,), (False,)) for _, pred in pairs], [()] * len(docs)
    )
    if name == "rouge":
        return [list(row[:4]) for row in rows]
    if name == "copyright":
        return [list(row[1:]) for row in rows]
    table = np.array(rows, dtype=np.float64)
    return metric.outputs()[0].reduce(
        {column.name: table[:, i] for i, column in enumerate(metric.columns)}
    )


def timed(work: Callable[[str, Pairs], Any], name: str, pairs: Pairs) -> tuple[float, Any]:
    """(seconds, values) of one run, after a first run on one pair that loads what is needed."""
    work(name, pairs[:1])
    start = time.perf_counter()
    values = work(name, pairs)
    return time.perf_counter() - start, values


def library_python(cache: Path) -> Path:
    """The interpreter of the libraries' own environment, made where it is missing."""
    folder = cache / "overlap-libraries"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    marker = folder / "ready.txt"
    if not marker.exists() or marker.read_text(encoding="utf-8") != "\n".join(PACKAGES):
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        marker.write_text("\n".join(PACKAGES), encoding="utf-8")
    return python


def differ(left: Any, right: Any) -> float:
    """Largest absolute difference between two numbers or two tables."""
    if not isinstance(left, list):
        return abs(left - right)
    return max(
        (
            abs(a - b)
            for one, other in zip(left, right, strict=True)
            for a, b in zip(one, other, strict=True)
        )
    )


def run_library(python: Path, name: str, pairs: Pairs) -> tuple[float, Any]:
    """(seconds, values) of the library, in a process of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.json"
        file.write_text(json.dumps(pairs), encoding="utf-8")
        words = [str(python), __file__, "--library", name, str(file)]
        answer = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    seconds, values = json.loads(answer)
    return seconds, values


def main(words: list[str]) -> int:
    """Print one line per metric; 1 where a value or a ratio falls short."""
    if words[:1] == ["--library"]:
        pairs = [tuple(pair) for pair in json.loads(Path(words[2]).read_text(encoding="utf-8"))]
        print(json.dumps(timed(library, words[1], pairs)))
        return 0
    folders = [word for word in words if not word.startswith("--")]
    folders = folders or [str(Path(tempfile.gettempdir()) / "evalrun-bench")]
    if len(folders) != 1 or set(words) - {"--small", *folders}:
        print(__doc__)
        return 2
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    python = library_python(Path(folders[0]))
    pairs = made_pairs(1000 if "--small" in words else 10_000)
    is_good = True
    print(
        f"{len(pairs)} pairs, one core; {SLOW} pairs of these; copyright: against nltk's "
        "edit_distance"
    )
    for name, least in LEAST.items():
        some = pairs[: SLOW.get(name, len(pairs))]
        theirs, wanted = run_library(python, name, some)
        mine, got = timed(ours, name, some)
        gap = differ(got, wanted)
        is_good &= gap < 1e-9 and theirs / mine >= least
        print(
            f"{name:10} library {theirs:8.3f} s  evalrun {mine:8.3f} s  ratio {theirs / mine:6.1f} "
            f"(>= {least:g})  largest difference {gap:.1e}"
        )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
