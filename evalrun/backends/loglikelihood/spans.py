"""A span is a row of tokens of which the last ones are scored, each given all tokens before it.

Engines score spans; `encoder` makes them of requests, `pending_rows` makes rows of their scores.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from evalrun.types import Generate, Loglikelihood, Rolling

ScoredRequest: TypeAlias = Loglikelihood | Rolling
"""The requests that ask for log-probabilities."""


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of which those from `start` on are scored. 1 <= start < len(ids)."""

    ids: tuple[int, ...]
    start: int

    @property
    def n_scored(self) -> int:
        """How many tokens are scored."""
        return len(self.ids) - self.start

    @property
    def digest(self) -> bytes:
        """16 bytes that tell spans apart."""
        return hashlib.blake2b(
            array("q", (self.start, *self.ids)).tobytes(), digest_size=16
        ).digest()


@dataclass(frozen=True, slots=True)
class Score:
    """The log-probability of a span.

    Attributes:
        logprob: sum over its scored tokens, in nats.
        is_greedy: each is the most likely.
    """

    logprob: float
    is_greedy: bool


def split(
    requests: Iterable[Generate | ScoredRequest],
) -> tuple[list[Generate], list[ScoredRequest]]:
    """The requests for texts, and those for log-probabilities; each in order."""
    texts: list[Generate] = []
    scored: list[ScoredRequest] = []
    for request in requests:
        if isinstance(request, Generate):
            texts.append(request)
        else:
            scored.append(request)
    return texts, scored


def windows(head: tuple[int, ...], tokens: tuple[int, ...], most: int | None) -> tuple[Span, ...]:
    """Spans in which every token of a text is scored exactly once, the first after `head` (BOS).

    Each window but the first keeps one token of context; the last one is filled with earlier
    tokens.

    Args:
        most: length of the longest span.

    ValueError where it leaves no room. lm-evaluation-harness, get_rolling_token_windows.
    """
    if most is None or len(head) + len(tokens) <= most:
        return (Span((*head, *tokens), len(head)),)
    if most <= max(len(head), 1):
        raise ValueError(f"a window of {most} tokens has no room for one that is scored")
    done = most - len(head)
    spans = [Span((*head, *tokens[:done]), len(head))]
    while done < len(tokens):
        end = min(done + most - 1, len(tokens))
        begin = max(end - most, 0)
        spans.append(Span(tokens[begin:end], done - begin))
        done = end
    return tuple(spans)


def shared_length(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """How many tokens both begin with. Halves the range that is unsure: slices compare fast."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low
