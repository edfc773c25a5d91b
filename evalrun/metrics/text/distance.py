"""Verbatim copying: how far an answer follows the gold text word by word (metric copyright,
scorer edit_similarity).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics.answers import texts_of, without_gold
from evalrun.metrics.base import Column, Matrix, Metric, Output, Scorer, Statistic
from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric, scorer
from evalrun.text.overlap import edit_distance, prefix_length
from evalrun.text.tokenize import treebank
from evalrun.types import Answer, Doc, Samples, Verdict

HELM = "Liang et al. 2022 (HELM, arXiv 2211.09110), copyright metrics; Treebank words of nltk"
COPYRIGHT = ("longest_common_prefix_length", "edit_distance", "edit_similarity")


def copied(gold: str, pred: str) -> tuple[int, int, float]:
    """(words of the common prefix, edit distance in words, edit similarity) of an answer and the
    start of a gold.

    The answer loses white space at its ends; the gold is cut to as many characters, which may cut a
    word. Similarity is 1 - distance / words of the longer side in [0, 1], 0 where a side is empty.
    Source: HELM, copyright metrics.
    """
    pred = pred.strip()
    wanted, found = treebank(gold[: len(pred)]), treebank(pred)
    distance = edit_distance(wanted, found)
    similarity = 1 - distance / max(len(wanted), len(found)) if wanted and found else 0.0
    return prefix_length(wanted, found), distance, similarity


@scorer("edit_similarity", packages=("rapidfuzz", "nltk"))
class EditSimilarityScorer(Scorer):
    """1 - edit distance in words / words of the longer side, against the first gold as `copyright`.

    Range [0, 1].
    """

    is_graded: ClassVar[bool] = True

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """ValueError where the document has no gold."""
        if reason := self.check_doc(doc):
            raise ValueError(reason)
        return Verdict(copied(doc.gold_texts[0], text)[2])


@metric("copyright", aliases=COPYRIGHT, source=HELM, packages=("rapidfuzz", "nltk"))
class Copyright(Metric):
    """How much of the gold an answer repeats: common prefix and edit distance in words, and edit
    similarity.

    Of n samples the best counts (longest prefix, smallest distance, largest similarity); the
    numbers are means over documents. Only the first gold is read. Range of
    longest_common_prefix_length and edit_distance from 0 up, of edit_similarity [0, 1]. A document
    whose request failed is left out: an empty answer has distance 0.
    """

    has_scorer: ClassVar[bool] = False
    n: int | None = None

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "float") for name in COPYRIGHT)

    def outputs(self) -> tuple[Output, ...]:
        prefix, distance, similarity = COPYRIGHT
        return (
            Output(
                prefix,
                (prefix,),
                partial(_column, prefix),
                (("output", prefix),),
                "count",
                is_bounded=False,
            ),
            Output(
                distance,
                (distance,),
                partial(_column, distance),
                (("output", distance),),
                "count",
                is_higher_better=False,
                is_bounded=False,
            ),
            Output(
                similarity, (similarity,), partial(_column, similarity), (("output", similarity),)
            ),
        )

    def check_doc(self, doc: Doc) -> str | None:
        return without_gold(doc)

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        if reason := self.check_doc(doc):
            raise ValueError(reason)
        texts = texts_of(doc, answer, self.n)
        if isinstance(answer, Samples) and any(answer.failed[: self.n]):
            raise ValueError(
                f"document {doc.id!r}: a request failed, and a distance to no answer says nothing"
            )
        found = [copied(doc.gold_texts[0], text) for text in texts]
        prefixes, distances, similarities = zip(*found, strict=True)
        return (float(max(prefixes)), float(min(distances)), max(similarities))


def _column(name: str, matrix: Matrix) -> NDArray[np.float64]:
    return np.asarray(matrix[name], dtype=np.float64)
