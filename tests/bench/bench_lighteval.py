"""Text metrics against LightEval 0.13.0 on pairs of 60 to 200 words: values, seconds and their
ratio; error bars timed.

    python tests/bench/bench_lighteval.py [--pairs 10000] [--peer-venv DIR]

LightEval and its libraries live in an environment of their own, made by pip at the first run in DIR
(default: in the system's temporary folder). Both sides run one after the other, metric by metric,
on one core with one thread, and are timed in CPU seconds of their process, which other work on the
machine does not stretch. Where LightEval takes seconds per hundred documents it gets a tenth of the
pairs. Texts hold words only, since LightEval reads numbers in another way (docs/lighteval.md). Exit
code 1 where a value differs or a ratio misses its target; absolute times are only printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

PACKAGES = ("torch==2.13.0", "lighteval==0.13.0")
READY = "ready.txt"
ARTICLES = ("the", "a", "an")
LONGEST = 180  # words without the articles, which make them 200 at most
Pairs = list[tuple[str, str]]
Values = list[list[float]]


class Case(NamedTuple):
    """A metric of both sides. least: the ratio that is wanted; share: one pair in so many is
    LightEval's.
    """

    title: str
    metric: str
    least: float
    share: int


CASES = (
    Case("quasi_exact_match", "quasi_exact_match", 5, 1),
    Case("f1_score_quasi", "f1_score_quasi", 5, 1),
    Case("edit distance alone", "edit_distance", 30, 10),
    Case("copyright, all three", "copyright", 30, 10),
)


def made_pairs(n: int) -> Pairs:
    """(prediction, gold) pairs of sentences of 60 to 200 words; a third are equal but for case,
    marks and articles.
    """
    draw = random.Random(13)
    words = [
        "".join(draw.choices("etaoinshrdlucmwfgypbvk", k=draw.randint(2, 10)))
        for _ in range(20_000)
    ]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    pairs = []
    for place in range(n):
        gold = draw.choices(words, weights, k=draw.randint(60, LONGEST))
        if place % 3 == 0:
            pred = list(gold)
        elif place % 3 == 1:  # copied, with words changed
            pred = [
                word if draw.random() > 0.3 else draw.choices(words, weights)[0] for word in gold
            ]
        else:  # copied at first
            kept = draw.randint(0, len(gold))
            pred = gold[:kept] + draw.choices(
                words, weights, k=draw.randint(max(0, 60 - kept), LONGEST - kept)
            )
        pairs.append((written(pred, draw), written(gold, draw)))
    return pairs


def written(words: list[str], draw: random.Random) -> str:
    """Words as sentences with capitals, commas and full stops; one word in 20 gets an article
    before it.
    """
    text, is_first = [], True
    for word in words:
        if draw.random() < 0.05:
            word = f"{draw.choice(ARTICLES)} {word}"
        mark = draw.choices(("", ",", ".", ";"), (86, 6, 7, 1))[0]
        text.append((word.capitalize() if is_first else word) + mark)
        is_first = mark == "."
    return " ".join(text) + "."


def ours(name: str, pairs: Pairs) -> tuple[float, Values]:
    """(CPU seconds, values of each document) of evalrun: from texts to the rows of the metric."""
    from evalrun.metrics import make_metric, make_scorer
    from evalrun.types import Doc, Samples

    metric = make_metric(name)
    docs = [Doc(str(i), "t", i, "?", (gold,)) for i, (_, gold) in enumerate(pairs)]
    answers = [Samples((pred,), (False,)) for pred, _ in pairs]
    judged = [(doc, pred) for doc, (pred, _) in zip(docs, pairs, strict=True)]
    scorer = make_scorer(metric.scorer, None) if metric.has_scorer else None

    def work(n: int) -> Values:
        verdicts = (
            [(verdict,) for verdict in scorer.judge_batch(judged[:n])] if scorer else [()] * n
        )
        return [list(row) for row in metric.score_batch(docs[:n], answers[:n], verdicts)]

    return timed(work, len(pairs))


def peer(name: str, pairs: Pairs) -> tuple[float, Values]:
    """(CPU seconds, values of each document) of LightEval: from texts to what its metric gives a
    document.
    """
    from lighteval.metrics.metrics_sample import ExactMatches, F1_score, StringDistance
    from lighteval.metrics.normalizations import helm_normalizer
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    trio = ["longest_common_prefix_length", "edit_distance", "edit_similarity"]
    metric = {
        "quasi_exact_match": lambda: ExactMatches(
            normalize_gold=helm_normalizer, normalize_pred=helm_normalizer
        ),
        "f1_score_quasi": lambda: F1_score(
            normalize_gold=helm_normalizer, normalize_pred=helm_normalizer
        ),
        "edit_distance": lambda: StringDistance(
            metric_types=["edit_distance"], strip_prediction=True
        ),
        "copyright": lambda: StringDistance(metric_types=trio, strip_prediction=True),
    }[name]()
    docs = [Doc(query="?", choices=[gold], gold_index=0) for _, gold in pairs]
    answers = [ModelResponse(text=[pred]) for pred, _ in pairs]

    def work(n: int) -> Values:
        found = [
            metric.compute(doc=d, model_response=a)
            for d, a in zip(docs[:n], answers[:n], strict=True)
        ]
        return [
            [float(value[x]) for x in value] if isinstance(value, dict) else [float(value)]
            for value in found
        ]

    return timed(work, len(pairs))


def timed(work: Callable[[int], Values], n: int) -> tuple[float, Values]:
    """(CPU seconds, values) of the work on n pairs, after a first one that loads what is needed."""
    work(1)
    start = process_time()
    values = work(n)
    return process_time() - start, values


def peer_python(folder: Path) -> Path:
    """The interpreter of LightEval's environment, made where it is missing."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    marker = folder / READY
    if not marker.exists() or marker.read_text(encoding="utf-8") != "\n".join(PACKAGES):
        if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
            raise SystemExit(
                f"--peer-venv {folder}: this folder holds other things; name a new or an empty one."
            )
        print(f"making {folder}: {' '.join(PACKAGES)}", flush=True)
        venv.create(folder, with_pip=True)
        for package in PACKAGES:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", package], check=True)
        marker.write_text("\n".join(PACKAGES), encoding="utf-8")
    return python


def run_peer(python: Path, name: str, pairs: Pairs) -> tuple[float, Values]:
    """`peer` in a process of LightEval's environment, on the same core."""
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "pairs.json", Path(folder) / "answer.json"
        given.write_text(json.dumps(pairs), encoding="utf-8")
        done = subprocess.run(
            [str(python), __file__, "--answer", name, str(given), str(answer)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"LightEval's side of {name} failed:\n{done.stderr}")
        seconds, values = json.loads(answer.read_text(encoding="utf-8"))
    return seconds, values


def compare(python: Path, case: Case, pairs: Pairs) -> bool:
    """Print the line of a case; True where the values are equal and the ratio reaches its
    target.
    """
    some = pairs[: len(pairs) // case.share]
    mine, got = ours(case.metric, pairs)
    theirs, wanted = run_peer(python, case.metric, some)
    if case.metric == "edit_distance":  # evalrun gives all three in any case
        got = [[row[1]] for row in got]
    both = zip(got[: len(some)], wanted, strict=True)
    gap = max(abs(a - b) for one, other in both for a, b in zip(one, other, strict=True))
    mine_rate, their_rate = mine / len(pairs) * 1000, theirs / len(some) * 1000
    ratio = their_rate / mine_rate
    is_good = gap < 1e-9 and ratio >= case.least
    print(
        f"{case.title:22} {mine_rate:9.4f} {their_rate:9.3f} {len(some):9} {ratio:7.1f} "
        f"{case.least:7g} {gap:11.1e}  {'yes' if is_good else 'NO'}",
        flush=True,
    )
    return is_good


def print_errors() -> None:
    """Print the wall time of corpus BLEU's bootstrap and of pass@k with its errors, best of
    five.
    """
    import numpy as np

    from evalrun.metrics import make_metric
    from evalrun.stages.scoring.error_bars import error_of
    from evalrun.stages.scoring.estimates import matrix_of
    from evalrun.types import Doc, Samples

    bleu, passed = make_metric("bleu"), make_metric("pass_at_k", {"k": 4, "n": 16})
    some = made_pairs(1000)
    docs = [Doc(str(i), "t", i, "?", (gold,)) for i, (_, gold) in enumerate(some)]
    rows = bleu.score_batch(
        docs, [Samples((pred,), (False,)) for pred, _ in some], [()] * len(docs)
    )
    counts = {"n": np.full(1_000_000, 16), "c": np.random.default_rng(0).integers(0, 17, 1_000_000)}
    jobs = (
        ("1,000 bootstrap draws of corpus BLEU, 1,000 documents", bleu, matrix_of(bleu, rows), 0.5),
        ("pass@k with its errors, 1,000,000 documents", passed, counts, 0.1),
    )
    for title, metric, matrix, limit in jobs:
        (output,), times = metric.outputs(), []
        for _ in range(5):
            start = perf_counter()
            error_of(output, matrix)
            times.append(perf_counter() - start)
        print(f"{title:54} {min(times):7.3f} s wall, {limit} s wanted")


def main() -> int:
    """Print the table; 1 where a value differs or a ratio misses its target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10_000, help="at least 10; default 10,000")
    folder = Path(tempfile.gettempdir()) / "evalrun-lighteval-0.13.0"
    parser.add_argument("--peer-venv", type=Path, default=folder, metavar="DIR")
    # the side of LightEval: metric, pairs, answer
    parser.add_argument("--answer", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pairs < 10:
        parser.error(f"--pairs must be 10 or more, got {options.pairs}")
    if options.answer:
        name, given, answer = options.answer
        pairs = [(pred, gold) for pred, gold in json.loads(Path(given).read_text(encoding="utf-8"))]
        Path(answer).write_text(json.dumps(peer(name, pairs)), encoding="utf-8")
        return 0
    python = peer_python(options.peer_venv)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pairs = made_pairs(options.pairs)
    print(
        f"{len(pairs)} pairs, LightEval on the first so many; one core; CPU seconds per 1,000 "
        "documents\n"
    )
    heads = ("what", "evalrun", "LightEval", "on first", "ratio", "target", "unequal by", "ok")
    print("{:22} {:>9} {:>9} {:>9} {:>7} {:>7} {:>11}  {}".format(*heads))
    is_good = [compare(python, case, pairs) for case in CASES]
    print()
    print_errors()
    return 0 if all(is_good) else 1


if __name__ == "__main__":
    sys.exit(main())
