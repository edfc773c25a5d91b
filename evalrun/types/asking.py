"""What is asked of a model and what it answers: documents, requests, replies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class Kind(StrEnum):
    """What a request asks for. The value is the `kind` column of a row."""

    GENERATE = "generate"
    LOGLIKELIHOOD = "loglikelihood"
    UNCONDITIONED = "unconditioned"  # a log-likelihood without the document's context (PMI)
    ROLLING = "rolling"

    @property
    def mode(self) -> str:
        """How tables name it: gen, ll (log-likelihoods of choices) or ppl (of whole texts)."""
        return {"generate": "gen", "rolling": "ppl"}.get(self.value, "ll")


class Status(StrEnum):
    """How a reply ended: the first that holds, in this order."""

    ERROR = "error"
    TIMEOUT = "timeout"
    INCOMPLETE = "incomplete"
    FILTERED = "filtered"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    OK = "ok"

    @property
    def is_failure(self) -> bool:
        """True where no answer came: the request failed for good and may be asked again."""
        return self in (Status.ERROR, Status.TIMEOUT, Status.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat.

    Attributes:
        role: system, user or assistant.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Doc:
    """One benchmark question.

    Attributes:
        id: the dataset's own, else a hash of the content (`#2`, `#3` for repeats).
        row: its place in the dataset, from 0.
        gold: right answers as texts, or indices into `choices`.
        cluster: documents that share it are not independent.
        extra: further columns of the row, as JSON-able values.
    """

    id: str
    task: str
    row: int
    query: str
    gold: tuple[str, ...] | tuple[int, ...]
    choices: tuple[str, ...] = ()
    subset: str | None = None
    system: str | None = None
    fewshot: tuple[str, ...] = ()
    cluster: str | None = None
    extra: tuple[tuple[str, Any], ...] = ()

    @property
    def gold_texts(self) -> tuple[str, ...]:
        """The right answers as texts; indices are looked up in `choices`."""
        return tuple(self.choices[g] if isinstance(g, int) else g for g in self.gold)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw. Absent (None) means: not said, the engine's default. seed is the run's seed."""

    max_tokens: int
    temperature: float
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop: tuple[str, ...] = ()
    seed: int = 0


Key: TypeAlias = tuple[str, str, int, int]
"""(doc_id, kind, index, turn): unique within the predictions of one cell."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask for texts: one per entry of `indices` (sample numbers within 0..n-1).

    Attributes:
        seed: base seed of the document; sample i is drawn with seed + i. prompt: `messages`
            rendered as the model gets them (set by the backend).
    """

    doc_id: str
    messages: tuple[Message, ...]
    indices: tuple[int, ...]
    sampling: Sampling
    seed: int
    turn: int = 0

    def keys(self) -> tuple[Key, ...]:
        """The key of every reply that this request must bring."""
        return tuple((self.doc_id, Kind.GENERATE.value, i, self.turn) for i in self.indices)


@dataclass(frozen=True, slots=True)
class Loglikelihood:
    """Ask how likely one continuation is after a context: the sum of its tokens' log-probabilities,
    in nats.

    Attributes:
        index: which choice.
        messages: the context; empty: none, so that the first token stands after BOS.
        continuation: the text that is scored, as it stands, leading space and all. is_conditioned
            False: the context is not the document's own (PMI), and the key's kind is
            `unconditioned`.
        is_single_token: the continuation must be one token.
    """

    doc_id: str
    index: int
    messages: tuple[Message, ...]
    continuation: str
    is_conditioned: bool = True
    is_single_token: bool = False

    def keys(self) -> tuple[Key, ...]:
        """The key of the one reply that this request must bring."""
        kind = Kind.LOGLIKELIHOOD if self.is_conditioned else Kind.UNCONDITIONED
        return ((self.doc_id, kind.value, self.index, 0),)


@dataclass(frozen=True, slots=True)
class Rolling:
    """Ask how likely a whole text is: the sum over all its tokens, each scored once, the first
    after BOS. In nats.
    """

    doc_id: str
    text: str

    def keys(self) -> tuple[Key, ...]:
        """The key of the one reply that this request must bring."""
        return ((self.doc_id, Kind.ROLLING.value, 0, 0),)


Request: TypeAlias = Generate | Loglikelihood | Rolling
"""Closed union of the request kinds. A `match` over it ends in `assert_never`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One row of predictions (row version 1). Absent is None.

    Attributes:
        text: the answer, None when there is none.
        reasoning: what was split off before it.
        raw_text: what came, where text and reasoning do not give it back. Times are seconds since
            the epoch.
    """

    doc_id: str
    kind: str
    index: int
    turn: int = 0
    status: str = Status.OK.value
    text: str | None = None
    reasoning: str | None = None
    raw_text: str | None = None
    logprob: float | None = None
    n_tokens: int | None = None
    is_greedy: bool | None = None
    token_ids: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    http_status: int | None = None
    error_type: str | None = None
    error_message: str | None = None
    attempts: int = 1
    seed: int | None = None
    started_s: float | None = None
    first_token_s: float | None = None
    ended_s: float | None = None
    extra: str | None = field(default=None)

    @property
    def key(self) -> Key:
        """(doc_id, kind, index, turn)."""
        return (self.doc_id, self.kind, self.index, self.turn)

    @property
    def is_failure(self) -> bool:
        """True where no answer came (status error, timeout or incomplete)."""
        return Status(self.status).is_failure
