"""Three levels: a Scorer judges a sample, a Metric gives a document its statistics, an Output
reduces them.

text  --Scorer.judge_text-->  Verdict  --Metric.score-->  one row of columns  --Output.reduce-->
number
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalrun.grammar import write_call
from evalrun.registry import Registry
from evalrun.types import Answer, Doc, Kind, Verdict

Statistic: TypeAlias = float | int | str
Matrix: TypeAlias = Mapping[str, NDArray[Any]]
"""Column name -> array over the scored documents."""


class ErrorMethod(StrEnum):
    """How the error of an output is found. Declared per output, never guessed."""

    # analytic, over documents: sd / sqrt(N), clustered where documents carry a cluster
    MEAN = "mean"
    BOOTSTRAP = "bootstrap"  # standard deviation over resampled documents


@dataclass(frozen=True, slots=True)
class Column:
    """One statistic per document.

    Attributes:
        type: float, int or label.
    """

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Output:
    """One number of a metric.

    Exactly one of three says how the number is made:
      per_doc   matrix -> float64 [documents]: the value of each document; the number is their
                mean (error MEAN)
      of_sums   float64 [..., columns], the sums of `columns` over documents -> [...]: a corpus
                formula, vectorised over leading axes, so that a bootstrap costs one matrix product
                (error BOOTSTRAP)
      of_rows   matrix -> float: any other formula over the rows (error BOOTSTRAP, by resampling
                rows)

    Attributes:
        name: the metric's own, or with the parameter that distinguishes it (`pass@k:k=2&n=8`).
        columns: the statistics that it reads.
        params: the parameters that this output fixes, in declared order.
        unit: fraction, percent, count or nats.
        is_bounded: values lie in [0, 1].
        rerun: matrix -> float64 [documents]: the variance of a document's value over fresh samples;
            NaN where it cannot be estimated.
    """

    name: str
    columns: tuple[str, ...]
    per_doc: Callable[[Matrix], NDArray[np.float64]] | None = None
    params: tuple[tuple[str, Any], ...] = ()
    unit: str = "fraction"
    is_higher_better: bool = True
    is_bounded: bool = True
    of_sums: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    of_rows: Callable[[Matrix], float] | None = None
    rerun: Callable[[Matrix], NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        if sum(way is not None for way in (self.per_doc, self.of_sums, self.of_rows)) != 1:
            raise ValueError(
                f"output {self.name} must have exactly one of per_doc, of_sums, of_rows"
            )

    @property
    def error(self) -> ErrorMethod:
        """MEAN where the number is a mean over documents, else BOOTSTRAP."""
        return ErrorMethod.MEAN if self.per_doc is not None else ErrorMethod.BOOTSTRAP

    def reduce(self, matrix: Matrix) -> float:
        """The number over all documents. ValueError where there is no document."""
        if len(matrix[self.columns[0]]) == 0:
            raise ValueError("no document to reduce")
        if self.per_doc is not None:
            return float(np.mean(self.per_doc(matrix)))
        if self.of_sums is not None:
            return float(self.of_sums(self.stacked(matrix).sum(axis=0)))
        assert self.of_rows is not None
        return float(self.of_rows(matrix))

    def stacked(self, matrix: Matrix) -> NDArray[np.float64]:
        """float64 [documents, columns] of this output's columns."""
        return np.stack(
            [np.asarray(matrix[name], dtype=np.float64) for name in self.columns], axis=1
        )


class Scorer(ABC):
    """Judges one text against one document. A frozen dataclass; its fields are its parameters.

    Attributes:
        is_slow: judging may take long or never end, so that it is done in worker processes, each
            text under the deadline `deadline_s` (seconds, a parameter of such a scorer); a text
            that exceeds it has state timeout.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    # what must be installed to judge; looked for while planning
    packages: ClassVar[tuple[str, ...]] = ()
    is_slow: ClassVar[bool] = False
    # its values are degrees, not right or wrong: there is no pass@k of them
    is_graded: ClassVar[bool] = False
    deadline_s: float
    # of the user's own file, or NAME-VERSION of the installed package, that it comes from
    file_digest: ClassVar[str | None] = None

    @abstractmethod
    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """The verdict on one answer text.

        A text without a readable answer: value 0.0, state unparsed.
        """

    def judge_quick(self, doc: Doc, text: str) -> Verdict | None:
        """Of a slow scorer: the verdict where it is found at once, the same as `judge_text`;
        else None.
        """
        return None

    def warm_up(self) -> None:  # noqa: B027
        """Of a slow scorer: import what judging needs.

        Called once per worker, outside the deadline.
        """

    def check_doc(self, doc: Doc) -> str | None:
        """Why this document cannot be judged at all (no gold, an unreadable one), or None.

        Asked while planning.
        """
        return None if doc.gold else f"document {doc.id!r} has no gold answer"

    def judge_batch(self, items: Sequence[tuple[Doc, str]]) -> list[Verdict]:
        """The same for many; equal to looping over `judge_text` (a law of the tests)."""
        return [self.judge_text(doc, text) for doc, text in items]

    @property
    def signature(self) -> str:
        """name.vVERSION, with the parameters that differ from their default in brackets."""
        return write_call(self.name, self.version, _set_parameters(self))

    @property
    def spec(self) -> str:
        """The signature without the version: what a metric's `scorer` parameter says."""
        return write_call(self.name, None, _set_parameters(self))


class Metric(ABC):
    """Gives each document one row of statistics. A frozen dataclass; its fields are its parameters.

    Attributes:
        name: the key.
        aliases: other accepted names.
        display: base of the shown name (pass@k).
        reads: the request kind.
        has_scorer: it reads verdicts. A field named n is the number of samples, k the draw size.
            None is open.
        has_own_scorer: it is always judged by the scorer of its own name, or by the one that its
            field `scorer` is set to.
    """

    name: ClassVar[str]
    display: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1
    reads: ClassVar[Kind] = Kind.GENERATE
    has_scorer: ClassVar[bool] = True
    has_own_scorer: ClassVar[bool] = False
    source: ClassVar[str]
    # it has no meaning without a number of samples that somebody chose
    needs_n: ClassVar[bool] = False
    needs_k: ClassVar[bool] = False
    # every choice is one token: one forward pass scores them all
    is_single_token: ClassVar[bool] = False
    # it also reads the choices' scores without the context
    needs_unconditioned: ClassVar[bool] = False
    # what must be installed to score; looked for while planning
    packages: ClassVar[tuple[str, ...]] = ()
    # of the user's own file, or NAME-VERSION of the installed package, that it comes from
    file_digest: ClassVar[str | None] = None
    # a field of every metric with has_scorer: a scorer's name, None = the task's own
    scorer: str | None

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The statistics of a document."""

    @abstractmethod
    def outputs(self) -> tuple[Output, ...]:
        """The numbers that the statistics fill."""

    def check_doc(self, doc: Doc) -> str | None:
        """Why this document cannot enter the metric, or None."""
        return None

    def notes(self, matrix: Matrix) -> tuple[str, ...]:
        """What a reader should know of these statistics beside the number (ties, scores that are
        no number).
        """
        return ()

    @abstractmethod
    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        """One row, in the order of `columns`. answer and verdicts hold the first n samples, in
        index order.
        """

    def score_batch(
        self, docs: Sequence[Doc], answers: Sequence[Answer], verdicts: Sequence[Sequence[Verdict]]
    ) -> list[tuple[Statistic, ...]]:
        """The same for many documents; equal to looping over `score` (a law of the tests)."""
        return [self.score(d, a, v) for d, a, v in zip(docs, answers, verdicts, strict=True)]


METRICS: Registry[type[Metric]] = Registry("metric", entry_points="evalrun.metrics")
SCORERS: Registry[type[Scorer]] = Registry("scorer")


def _set_parameters(thing: Any) -> list[tuple[str, Any]]:
    """(name, value) of the fields that differ from their default, in declared order."""
    return [
        (f.name, getattr(thing, f.name))
        for f in fields(thing)
        if getattr(thing, f.name) != f.default
    ]
