"""Which examples stand before a question."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evalrun.errors import Fault, unknown
from evalrun.tasks.sources.local_files import is_file
from evalrun.types import DatasetPlan, Doc, FewshotPlan

RULES = ("first", "random")


def pool_dataset(
    dataset: DatasetPlan, fewshot: FewshotPlan, base_dir: Path | None = None
) -> DatasetPlan | None:
    """Where the examples come from: fewshot.path, fewshot.split of the dataset itself, or None: its
    own rows.

    Fault: a split is asked of a dataset that is one file.
    """
    if fewshot.n == 0:
        return None
    if fewshot.path is not None:
        return replace(
            dataset, path=fewshot.path, split=fewshot.split or dataset.split, revision=None
        )
    if fewshot.split is None or fewshot.split == dataset.split:
        return None
    if is_file(dataset.path, base_dir):
        raise Fault(
            f"fewshot.split={fewshot.split} cannot be taken from dataset.path={dataset.path}, "
            "which is one file. Set fewshot.path=FILE with the examples, or fewshot.split=null to "
            "take them from the file's other rows."
        )
    return replace(dataset, split=fewshot.split)


def choose(docs: Sequence[Doc], pool: Sequence[Doc], fewshot: FewshotPlan) -> list[tuple[Doc, ...]]:
    """For each document, in order, `fewshot.n` documents of the pool, never one with an equal
    question.

    Args:
        pool: another split, another file, or all documents of the task themselves. Questions that
            differ in case or white space only count as equal. first: the first of the pool. random:
            drawn without replacement by (fewshot.seed, document id); neither the order of `docs`
            nor that of the pool changes it.

    Fault: an unknown rule, a negative n, or a pool that holds too few.
    """
    if fewshot.rule not in RULES:
        raise unknown("few-shot rule", fewshot.rule, RULES, "fewshot.rule")
    if fewshot.n < 0:
        raise Fault(f"fewshot.n={fewshot.n}. Allowed: 0 (no examples) or a positive whole number.")
    if fewshot.n == 0:
        return [() for _ in docs]
    ordered = sorted(pool, key=lambda doc: doc.id) if fewshot.rule == "random" else list(pool)
    places: dict[str, set[int]] = defaultdict(set)
    for i, doc in enumerate(ordered):
        places[_question(doc)].add(i)
    chosen = []
    for doc in docs:
        own = places.get(_question(doc), set())
        free = len(ordered) - len(own)
        if free < fewshot.n:
            raise _too_few(doc, fewshot, len(ordered), free)
        picked = (
            _first(own, fewshot.n)
            if fewshot.rule == "first"
            else _drawn(own, len(ordered), fewshot, doc.id)
        )
        chosen.append(tuple(ordered[i] for i in picked))
    return chosen


def with_examples(docs: Sequence[Doc], chosen: Sequence[Sequence[Doc]]) -> list[Doc]:
    """The documents with the ids of their examples."""
    return [
        replace(doc, fewshot=tuple(example.id for example in examples))
        for doc, examples in zip(docs, chosen, strict=True)
    ]


def _question(doc: Doc) -> str:
    return " ".join(doc.query.split()).casefold()


def _first(own: set[int], n: int) -> list[int]:
    picked: list[int] = []
    i = 0
    while len(picked) < n:
        if i not in own:
            picked.append(i)
        i += 1
    return picked


def _drawn(own: set[int], size: int, fewshot: FewshotPlan, doc_id: str) -> list[int]:
    """A shuffle of range(size) that stops as soon as n places outside `own` have come up.

    Only `Random.random` is used: Python keeps its sequence for a seed through all versions.
    """
    digest = hashlib.sha256(f"{fewshot.seed}\x00{doc_id}".encode()).digest()
    rng = random.Random(int.from_bytes(digest[:8], "big"))
    moved: dict[int, int] = {}
    picked: list[int] = []
    for i in range(size):
        j = i + int(rng.random() * (size - i))
        moved[i], moved[j] = moved.get(j, j), moved.get(i, i)
        if moved[i] not in own:
            picked.append(moved[i])
        if len(picked) == fewshot.n:
            break
    return picked


def _too_few(doc: Doc, fewshot: FewshotPlan, size: int, free: int) -> Fault:
    pool = f"split {fewshot.split!r}" if fewshot.split else "the task's own documents"
    pool = f"{fewshot.path} ({pool})" if fewshot.path else pool
    return Fault(
        f"fewshot.n={fewshot.n} examples were asked for, but document {doc.id} of {doc.task} can "
        f"have {free}: the pool, {pool}, holds {size}, and {size - free} of them ask the same "
        "question. Lower fewshot.n, or name a larger pool with fewshot.split or fewshot.path."
    )
