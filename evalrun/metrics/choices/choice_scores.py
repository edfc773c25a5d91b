"""Scores of the choices of many documents as arrays: what every log-likelihood metric reads.

Rules: equal scores go to the lower index; a score that is no number never wins (NaN and +inf count
as -inf); where no score is finite nothing was chosen and the answer is wrong; a length of 0 counts
as 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault, visible
from evalrun.metrics.base import Matrix, Metric
from evalrun.types import Answer, Choices, Doc, Kind

NORMALIZATIONS = ("char", "char_nospace", "token", "pmi")


@dataclass(frozen=True, slots=True)
class ChoiceTable:
    """The choices of many documents, shorter rows filled up at the right with choices that never
    win.

    Attributes:
        scores, is_gold: [documents, choices]; scores are -inf where they are no number. first_gold,
            n_choices, n_broken (scores that are no number): [documents].
    """

    scores: NDArray[np.float64]
    is_gold: NDArray[np.bool_]
    first_gold: NDArray[np.int64]
    n_choices: NDArray[np.int64]
    n_broken: NDArray[np.int64]

    @property
    def has_answer(self) -> NDArray[np.bool_]:
        """[documents]: at least one score is finite."""
        return np.asarray(np.isfinite(self.scores).any(axis=1), dtype=bool)

    @property
    def best(self) -> NDArray[np.int64]:
        """[documents]: index of the best choice, the lower one of equals; 0 where there is no
        answer.
        """
        return np.asarray(np.argmax(self.scores, axis=1), dtype=np.int64)

    def order(self) -> NDArray[np.int64]:
        """[documents, choices]: indices from best to worst, equals in the order of their
        indices.
        """
        return np.asarray(np.argsort(-self.scores, axis=1, kind="stable"), dtype=np.int64)

    def is_tied(self, k: int = 1) -> NDArray[np.bool_]:
        """[documents]: whether the k-th best and the next choice have the same finite score."""
        if k >= self.scores.shape[1]:
            return np.zeros(len(self.scores), dtype=bool)
        ranked = np.sort(self.scores, axis=1)[:, ::-1]
        return np.asarray(
            (ranked[:, k - 1] == ranked[:, k]) & np.isfinite(ranked[:, k]), dtype=bool
        )


class ChoiceMetric(Metric):
    """Base of the metrics that read how likely each choice is."""

    reads: ClassVar[Kind] = Kind.LOGLIKELIHOOD
    has_scorer: ClassVar[bool] = False

    def check_doc(self, doc: Doc) -> str | None:
        """A document needs a gold answer among its choices.

        Where it names no choices, the answer must tell.
        """
        try:
            gold_indices(doc, len(doc.choices) or None)
        except ValueError as error:
            return str(error)
        return None

    def table(
        self, docs: Sequence[Doc], answers: Sequence[Answer], normalization: str | None = None
    ) -> ChoiceTable:
        """The scores after `normalization`, checked. ValueError naming the document."""
        choices = [
            checked(doc, answer, self.is_single_token)
            for doc, answer in zip(docs, answers, strict=True)
        ]
        raw = padded([each.logprobs for each in choices])
        sizes = np.array([len(each.logprobs) for each in choices], dtype=np.int64)
        inside = np.arange(raw.shape[1]) < sizes[:, None]
        scores = _normalized(raw, docs, choices, normalization)
        is_broken = np.isnan(scores) | (scores == np.inf)
        golds = [
            gold_indices(doc, len(each.logprobs)) for doc, each in zip(docs, choices, strict=True)
        ]
        return ChoiceTable(
            scores=np.where(is_broken, -np.inf, scores),
            is_gold=marked(golds, raw.shape),
            first_gold=np.array([gold[0] for gold in golds], dtype=np.int64),
            n_choices=sizes,
            n_broken=(is_broken & inside).sum(axis=1),
        )


def gold_indices(doc: Doc, n_choices: int | None) -> tuple[int, ...]:
    """Places of the right answers among the choices, in the order in which they are given.

    Args:
        n_choices: None where it is not known yet.

    ValueError naming the document: no gold, an index out of range, a text that is none of the
    choices.
    """
    if not doc.gold:
        raise ValueError(f"document {doc.id!r} has no gold answer")
    places = tuple(gold if isinstance(gold, int) else _place(doc, gold) for gold in doc.gold)
    for place in places:
        if place < 0 or (n_choices is not None and place >= n_choices):
            allowed = "0 or more" if n_choices is None else f"0 to {n_choices - 1}"
            raise ValueError(
                f"document {doc.id!r}: gold index {place} is none of its choices (allowed: "
                f"{allowed})"
            )
    return places


def checked(doc: Doc, answer: Answer, is_single_token: bool = False) -> Choices:
    """`answer` if it scores the choices of `doc`.

    ValueError naming the document and what does not fit.
    """
    if not isinstance(answer, Choices):
        raise ValueError(
            f"document {doc.id!r}: expected log-probabilities of choices, got "
            f"{type(answer).__name__}"
        )
    if is_single_token:
        _check_single_tokens(doc, answer)
    n = len(answer.logprobs)
    if n == 0:
        raise ValueError(f"document {doc.id!r} has no choice with a log-probability")
    if doc.choices and len(doc.choices) != n:
        raise ValueError(
            f"document {doc.id!r} has {len(doc.choices)} choices, but {n} log-probabilities"
        )
    return answer


def padded(rows: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
    """float64 [rows, longest row]; NaN where a value is None and -inf behind the end of a row."""
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    table = np.full((len(rows), int(sizes.max(initial=0))), -np.inf)
    inside = np.arange(table.shape[1]) < sizes[:, None]
    table[inside] = np.array(list(chain.from_iterable(rows)), dtype=np.float64)
    return table


def marked(places: Sequence[Sequence[int]], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Truth values of this shape, True at the given places of each row."""
    table = np.zeros(shape, dtype=bool)
    rows = np.repeat(np.arange(len(places)), [len(each) for each in places])
    table[rows, np.array(list(chain.from_iterable(places)), dtype=np.int64)] = True
    return table


def check_word(metric: Metric, name: str, value: object, allowed: Iterable[object]) -> None:
    """Fault unless `value` is one of `allowed`."""
    allowed = tuple(allowed)
    if not any(type(value) is type(each) and value == each for each in allowed):
        ways = ", ".join(repr(each) for each in allowed)
        raise Fault(
            f"Metric {metric.name!r}: {name} must be one of {ways}; got {visible(repr(value))}."
        )


def choice_notes(matrix: Matrix, cut: int = 1) -> tuple[str, ...]:
    """What a reader should know of the scores behind a number; reads is_tied, n_broken and
    n_choices.

    Args:
        cut: how many of the best choices are looked at for a gold.
    """
    total = len(matrix["n_choices"])
    few = "one choice only" if cut == 1 else f"{cut} choices or fewer"
    cases = (
        (
            np.count_nonzero(matrix["is_tied"]),
            "have equally likely best choices; the lower index was taken",
        ),
        (
            np.count_nonzero(matrix["n_broken"]),
            "have a score that is no number; such a choice never wins",
        ),
        (
            np.count_nonzero(np.asarray(matrix["n_choices"]) <= cut),
            f"have {few}, which cannot be wrong",
        ),
    )
    return tuple(f"{count} of {total} documents {what}" for count, what in cases if count)


def _place(doc: Doc, gold: str) -> int:
    if gold not in doc.choices:
        raise ValueError(
            f"document {doc.id!r}: gold {gold[:80]!r} is none of its {len(doc.choices)} choices"
        )
    return doc.choices.index(gold)


def _check_single_tokens(doc: Doc, answer: Choices) -> None:
    long = [(i, n) for i, n in enumerate(answer.n_tokens or ()) if n != 1]
    if long:
        named = [
            repr(doc.choices[i][:40]) if i < len(doc.choices) else f"choice {i}" for i, _ in long
        ]
        shown = ", ".join(f"{name} has {n}" for name, (_, n) in zip(named, long, strict=True))
        raise ValueError(
            f"document {doc.id!r}: every choice must be exactly one token after the context; "
            f"{shown}"
        )


def _normalized(
    raw: NDArray[np.float64],
    docs: Sequence[Doc],
    choices: Sequence[Choices],
    normalization: str | None,
) -> NDArray[np.float64]:
    if normalization is None:
        return raw
    with np.errstate(invalid="ignore"):  # behind the end of a row there is -inf on both sides
        if normalization == "pmi":
            return raw - padded([_unconditioned(*each) for each in zip(docs, choices, strict=True)])
        return raw / padded(
            [_lengths(*each, normalization) for each in zip(docs, choices, strict=True)]
        )


def _unconditioned(doc: Doc, answer: Choices) -> tuple[float, ...]:
    if answer.unconditioned is None:
        raise ValueError(
            f"document {doc.id!r}: log-probabilities without the context are needed and missing"
        )
    return _as_many(doc, answer, answer.unconditioned, "log-probabilities without the context")


def _lengths(doc: Doc, answer: Choices, normalization: str) -> list[int]:
    if normalization == "token":
        if answer.n_tokens is None:
            raise ValueError(
                f"document {doc.id!r}: the number of tokens of each choice is needed and missing"
            )
        return [max(n, 1) for n in _as_many(doc, answer, answer.n_tokens, "numbers of tokens")]
    if not doc.choices:
        raise ValueError(f"document {doc.id!r}: the texts of the choices are needed and missing")
    texts = [
        text.removeprefix(" ") if normalization == "char_nospace" else text for text in doc.choices
    ]
    return [max(len(text), 1) for text in texts]


T = TypeVar("T")


def _as_many(doc: Doc, answer: Choices, values: tuple[T, ...], what: str) -> tuple[T, ...]:
    if len(values) != len(answer.logprobs):
        raise ValueError(
            f"document {doc.id!r} has {len(answer.logprobs)} log-probabilities, but {len(values)} "
            f"{what}"
        )
    return values
