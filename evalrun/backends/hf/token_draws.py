"""Drawing tokens so that a sample depends on its own seed only: Gumbel noise and the maximum, one
generator per row.

`generate` of transformers has one random state per batch. Here decoding is always "greedy", and a
row that is to be drawn gets noise on its warped logits first: argmax(logit_v + G_v) with G_v =
-log(E_v), E_v exponential with rate 1, falls on token v with probability softmax(logits)_v (the
Gumbel-max rule; Gumbel 1954, Maddison et al. 2014).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evalrun.backends.base import without_blank_lines
from evalrun.backends.cancelling import Cancellation
from evalrun.types import Sampling


class GumbelNoise:
    """A logits processor: adds noise to row i of (rows, vocabulary) from its own generator,
    seeded with seeds[i].
    """

    def __init__(self, seeds: Sequence[int], device: Any) -> None:
        self.generators = [torch.Generator(device=device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """A float32 copy of `scores`, plus noise."""
        noisy = scores.to(torch.float32, copy=True)
        tiny = torch.finfo(torch.float32).tiny
        for row, generator in enumerate(self.generators):
            drawn = torch.empty_like(noisy[row]).exponential_(generator=generator)
            noisy[row] -= drawn.clamp_min_(tiny).log_()
        return noisy


class RepetitionPenalty:
    """A logits processor: divides positive and multiplies negative logits of tokens already seen by
    `penalty`.

    The formula of CTRL (Keskar et al. 2019). Padding (the first pads[i] tokens of row i) was never
    seen: counting it, as transformers does, would let the penalty of the end token depend on the
    other rows of the batch.
    """

    def __init__(self, penalty: float, pads: Sequence[int]) -> None:
        self.penalty = penalty
        self.pads = pads

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """`scores` with the penalty."""
        scores = scores.clone()
        for row, pad in enumerate(self.pads):
            seen = input_ids[row, pad:].unique()
            logits = scores[row, seen]
            scores[row, seen] = torch.where(
                logits < 0, logits * self.penalty, logits / self.penalty
            )
        return scores


def processors(sampling: Sampling, seeds: Sequence[int], device: Any, pads: Sequence[int]) -> Any:
    """The logits processors of one batch, in order: repetition penalty, temperature, top-k, top-p,
    min-p, noise.

    Temperature 0 is greedy: no warper and no noise.

    Args:
        pads: how many padding tokens stand before each prompt.
    """
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    chain: list[Any] = []
    if sampling.repetition_penalty is not None and sampling.repetition_penalty != 1.0:
        chain.append(RepetitionPenalty(sampling.repetition_penalty, pads))
    if sampling.temperature > 0:
        chain.append(TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_k is not None and sampling.top_k > 0:
            chain.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1.0:
            chain.append(TopPLogitsWarper(sampling.top_p))
        if sampling.min_p:
            chain.append(MinPLogitsWarper(sampling.min_p))
        chain.append(GumbelNoise(seeds, device))
    return LogitsProcessorList(chain)


class Ends:
    """A stopping criterion that also remembers when and where each row ended.

    A row ends at an end token, or (with `stop`) as soon as its text holds a stop string.
    lengths[i]: tokens of row i, the end token included; None while it runs. finished_s[i]: that
    moment, seconds since the epoch.
    """

    def __init__(
        self,
        prompt_tokens: int,
        rows: int,
        eos_ids: frozenset[int],
        stop: tuple[str, ...],
        decode: Callable[..., str],
        cancellation: Cancellation,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.eos_ids = eos_ids
        self.stop = stop
        self.decode = decode
        self.cancellation = cancellation
        # A stop string of c characters lies within the last c tokens of one byte each, plus the one
        # just drawn.
        self.tail = max((len(s.encode()) for s in stop), default=0) + 8
        self.lengths: list[int | None] = [None] * rows
        # the token of each row that ends its leading blank lines
        self.begins: list[int | None] = [None] * rows
        self.finished_s: list[float | None] = [None] * rows

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """One bool per row: it has ended."""
        if self.cancellation.is_wanted:  # every row stops; the caller throws them away
            return torch.ones(len(self.lengths), dtype=torch.bool, device=input_ids.device)
        now = time.time()
        n_new = input_ids.shape[1] - self.prompt_tokens
        last = input_ids[:, -1].tolist()
        for row, length in enumerate(self.lengths):
            if length is None and (
                last[row] in self.eos_ids or self._has_stop(row, input_ids[row], n_new)
            ):
                self.lengths[row], self.finished_s[row] = n_new, now
        return torch.tensor(
            [length is not None for length in self.lengths], device=input_ids.device
        )

    def _has_stop(self, row: int, ids: Any, n_new: int) -> bool:
        if not self.stop:
            return False
        if self.begins[row] is None:
            if not self._text(ids, n_new).strip():
                return False  # nothing but blank lines, which no stop string may cut
            self.begins[row] = n_new - 1
        n_since = n_new - (self.begins[row] or 0)
        text = self._text(ids, min(self.tail, n_since))
        if n_since <= self.tail:  # the token that ended the blank lines may hold some itself
            text = without_blank_lines(text)
        return any(s in text for s in self.stop)

    def _text(self, ids: Any, n_last: int) -> str:
        return self.decode(ids[-n_last:].tolist(), skip_special_tokens=True)
