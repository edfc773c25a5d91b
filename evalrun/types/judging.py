"""From a reply to a number: answers, verdicts, estimates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Samples:
    """All generated texts of one document, in index order. None: no answer was given.

    failed[i] is True where the request itself failed, so that nothing was answered at all.
    """

    texts: tuple[str | None, ...]
    failed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """How likely each choice of one document is, in the order of the choices.

    Log-probabilities in nats, summed.

    Attributes:
        unconditioned: the same without the context (PMI).
        n_tokens: tokens per choice.
        is_greedy: the choice is the model's own greedy continuation. Absent: None.
    """

    logprobs: tuple[float, ...]
    unconditioned: tuple[float, ...] | None = None
    n_tokens: tuple[int, ...] | None = None
    is_greedy: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class Roll:
    """How likely one whole text is: its log-probability in nats, summed over its tokens."""

    text: str
    logprob: float
    n_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """No log-probabilities: a request of this document failed for good. Metrics never see it."""


Answer: TypeAlias = Samples | Choices | Roll | Lost
"""Closed union: all replies to one document of one request kind."""


class State(StrEnum):
    """How judging one sample ended."""

    SCORED = "scored"
    UNPARSED = "unparsed"  # no answer could be read from the text: judged as wrong, and counted
    FAILED = "failed"  # the request had failed: wrong, and counted
    TIMEOUT = "timeout"  # the scorer ran out of time: not scored
    ERROR = "error"  # the scorer raised: not scored


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place in a text that could be its answer.

    Attributes:
        value: the answer in canonical form (a capital letter, a number as text, an expression).
        start, end: its characters [start, end) in the text.
        rule: name of the rule that found it.
    """

    value: str
    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sample judged by one scorer.

    Attributes:
        value: in [0, 1], None where the sample is not scored (state timeout or error).
        extracted: the answer as it was read.
        span: its characters [start, end) in the text; rule: which rule found it. note: why, on
            error.
    """

    value: float | None
    extracted: str | None = None
    span: tuple[int, int] | None = None
    rule: str | None = None
    state: State = State.SCORED
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A corpus number that knows itself.

    Attributes:
        value, stderr, ci_low, ci_high: in `unit` (fraction, percent, count, nats); None is
            "absent".
        method: how the error was found.
        n_docs: documents asked.
        n: samples per document.
        n_scored: documents in the number.
        n_error, n_truncated, n_unparsed: samples.
        bounds: the value with failures all wrong and all right.
    """

    metric: str
    display: str
    version: int
    value: float | None
    unit: str
    is_higher_better: bool
    stderr: float | None
    rerun_stderr: float | None
    ci_low: float | None
    ci_high: float | None
    method: str
    n_docs: int
    n: int
    n_scored: int
    n_error: int
    n_truncated: int
    n_unparsed: int
    bounds: tuple[float, float] | None
    signature: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How many samples of a task ended how. unsent: asked for by the plan, but no row was ever
    written.
    """

    n_error: int = 0
    n_truncated: int = 0
    n_unparsed: int = 0
    n_filtered: int = 0
    n_empty: int = 0
    n_unsent: int = 0


@dataclass(frozen=True, slots=True)
class Consistency:
    """How steadily documents are answered: how many of them have how many of their n samples right.

    Attributes:
        always: all n.
        mostly: more than half, not all.
        unstable: some, at most half.
        never: none. The four are counts of documents and add up to the scored ones.
        n_right: right samples of all documents.
        signature: what was counted.
    """

    n: int
    always: int
    mostly: int
    unstable: int
    never: int
    n_right: int
    signature: str

    @property
    def n_scored(self) -> int:
        """Documents that were counted, 1 or more."""
        return self.always + self.mostly + self.unstable + self.never

    @property
    def pass_at_n(self) -> float:
        """The share of documents with a right sample."""
        return (self.n_scored - self.never) / self.n_scored

    @property
    def cons_at_n(self) -> float:
        """The share of documents with more than half of their samples right."""
        return (self.always + self.mostly) / self.n_scored

    @property
    def avg_at_n(self) -> float:
        """The share of right samples."""
        return self.n_right / (self.n * self.n_scored)


@dataclass(frozen=True, slots=True)
class Record:
    """What one (run, model, task) came to; `dataclasses.asdict` of it is strict JSON but for nan
    and inf.

    Attributes:
        task: name, or name:subset.
        version: 6 hex digits of the task's definition.
        mode: gen, ll, ppl or judge.
        state: complete, incomplete, failed or missing.
        reason: why, when not complete.
        log: path of the log to read.
        n_docs: documents that the plan asks.
        n: samples per document.
        estimates: in the plan's order; none, or with value None, where nothing was scored.
        consistency: one per scorer, threshold and n > 1 that samples were counted by.
    """

    model: str
    task: str
    version: str
    mode: str
    state: str
    reason: str | None
    log: str | None
    n_docs: int
    n: int
    counts: Counts = Counts()
    notes: tuple[str, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    consistency: tuple[Consistency, ...] = ()
