"""Log-probabilities by the offline vLLM engine: spans -> asks -> scores, with the engine's prefix
cache.

An ask is one request for one token: its prompt is a span without the last token. The last one is
read among the log-probabilities of the next token (`logprob_token_ids`), so all one-token choices
of a context are one ask; the others are read among the log-probabilities of the prompt itself. vLLM
(0.32) keeps none for prompt tokens that were in its cache: their rows are uninitialised memory,
which is never read. What they would have held is asked for again, as the end of a shorter prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalrun.backends.base import Sink
from evalrun.backends.loglikelihood.encoder import Encoder, Item
from evalrun.backends.loglikelihood.partial_sum import ReportedSum
from evalrun.backends.loglikelihood.pending_rows import PendingRows
from evalrun.backends.loglikelihood.spans import Score, ScoredRequest, shared_length
from evalrun.errors import TaskFailure
from evalrun.types import ModelPlan, Reply, Status

BLOCK_TOKENS = 32_768  # of one board
MOST_WANTED = 128  # tokens that one request may name (vLLM 0.32)
# of the rows that one ask scores: logits, their log-softmax and a copy, in float32
LOGIT_BYTES = 256 << 20
PARAMETERS = ("logprob_token_ids", "skip_reading_prefix_cache", "flat_logprobs")


class Unread(Exception):
    """An output that does not hold what was asked for; becomes failure rows."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """One request to the engine.

    The prompt's tokens from `start` on are scored, and the wanted ones as next token.

    Attributes:
        wanted: pairs (token, whom it is for). None wanted: the prompt is only read, so that it is
            in the cache.
    """

    prompt: tuple[int, ...]
    start: int
    wanted: tuple[tuple[int, ReportedSum], ...] = ()

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """What the engine reads."""
        return self.prompt

    @property
    def size(self) -> int:
        """How many places in flight it takes."""
        return 1

    def parameters(self) -> Any:
        """vLLM's SamplingParams: one greedy token, with raw log-probabilities.

        Plain values only: it is not cloned.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        tokens = list(dict.fromkeys(token for token, _ in self.wanted))
        return SamplingParams(
            temperature=0.0,
            max_tokens=1,
            ignore_eos=True,
            detokenize=False,
            logprob_token_ids=tokens or None,
            prompt_logprobs=1 if self.wanted and self.start < len(self.prompt) else None,
            flat_logprobs=True,
            skip_reading_prefix_cache=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )

    def take(self, output: Any) -> tuple[ScoringRequest, ...]:
        """Add what a finished output holds; what it lacks is a further request."""
        if not self.wanted:
            return ()
        try:
            return self._taken(output)
        except Unread as fault:
            self.fail(fault.error_type, str(fault))
            return ()

    def _taken(self, output: Any) -> tuple[ScoringRequest, ...]:
        (made,) = output.outputs
        if made.finish_reason not in ("stop", "length"):
            self.fail(
                "engine", f"the engine ended the request: {made.finish_reason}", Status.INCOMPLETE
            )
            return ()
        n_cached = cached_tokens(output) if self.start < len(self.prompt) else 0
        # The row of a place is made at the place before it: the first that can be read is n_cached
        # + 1.
        first = self.start if n_cached < self.start else n_cached + 1
        parts = [
            score_at(output.prompt_logprobs, place, self.prompt[place])
            for place in range(first, len(self.prompt))
        ]
        is_whole = first == self.start
        for token, span_sum in self.wanted:
            try:
                for score in (*parts, score_at(made.logprobs, 0, token)):
                    span_sum.take(score.logprob, score.is_greedy)
            except Unread as fault:
                span_sum.give_up(fault.error_type, str(fault))
        if is_whole:
            return ()
        token = self.prompt[n_cached]
        rest = tuple((token, span_sum) for _, span_sum in self.wanted if not span_sum.is_over)
        return (ScoringRequest(self.prompt[:n_cached], self.start, rest),) if rest else ()

    def fail(self, error_type: str, message: str, status: Status = Status.ERROR) -> None:
        """All that wait for it fail."""
        for _, span_sum in self.wanted:
            span_sum.give_up(error_type, message, status)


class ScoringQueue:
    """Makes the asks of one run. Documents stay together, so that what they share is in the cache.

    config: vLLM's VllmConfig.
    """

    def __init__(self, model: ModelPlan, tokenizer: Any, config: Any, sink: Sink) -> None:
        require_parameters()
        most_tokens = int(
            config.model_config.max_model_len
        )  # the prompt has one less, the generated token is the last
        self._encoder = Encoder(model, tokenizer, most_tokens)
        # without a cache, a text in pieces would be read again for each
        self._most_rows = most_tokens
        if config.cache_config.enable_prefix_caching:
            self._most_rows = max(
                32, LOGIT_BYTES // (3 * 4 * int(config.model_config.get_vocab_size()))
            )
        self._sink = sink
        self._known: dict[bytes, Score] = {}
        self._items: list[Item] = []
        self._n_tokens = 0
        self._last: tuple[int, ...] = ()

    def add(self, request: ScoredRequest) -> Iterator[ScoringRequest]:
        """Take a request in; the asks of a board where one is full.

        What cannot be asked goes to the sink.
        """
        item = self._encoder.ready(request)
        if isinstance(item, Reply):
            self._sink(item)
            return
        if self._n_tokens >= BLOCK_TOKENS and item.row.doc_id != self._items[-1].row.doc_id:
            yield from self.flush()
        self._items.append(item)
        self._n_tokens += sum(len(span.ids) for span in item.spans)

    def flush(self) -> Iterator[ScoringRequest]:
        """The asks of what was taken in since the last board."""
        items, self._items, self._n_tokens = self._items, [], 0
        for request in requests_of(PendingRows(items, self._sink, self._known), self._most_rows):
            n_new = request.start - shared_length(request.prompt, self._last)
            if request.start < len(request.prompt) and n_new > self._most_rows:
                # read first, without a row of logits for each token
                yield ScoringRequest(request.prompt[: request.start], request.start)
            self._last = request.prompt
            yield request


def requests_of(pending: PendingRows, most_rows: int) -> Iterator[ScoringRequest]:
    """The asks of a board in order of coming.

    Spans that differ in their last token share one; long ones are several.
    """
    groups: dict[tuple[tuple[int, ...], int], list[tuple[int, ReportedSum]]] = {}
    for span in pending.spans:
        ends = [*range(span.start + most_rows, len(span.ids), most_rows), len(span.ids)]
        span_sum = ReportedSum(span, pending)
        for start, end in zip([span.start, *ends], ends, strict=False):
            groups.setdefault((span.ids[: end - 1], start), []).append(
                (span.ids[end - 1], span_sum)
            )
    for (prompt, start), wanted in groups.items():
        for i in range(0, len(wanted), MOST_WANTED):
            yield ScoringRequest(prompt, start, tuple(wanted[i : i + MOST_WANTED]))


def score_at(rows: Any, place: int, token: int) -> Score:
    """The score of a token at a place of vLLM's log-probabilities (a mapping token -> entry for
    each place).

    The value is looked up by the token, wherever it stands; a place may hold others, which say
    whether it is the most likely one. Unread: the token is not there, or its value is no
    log-probability.
    """
    entries: Mapping[int, Any] | None = (
        rows[place] if rows is not None and place < len(rows) else None
    )
    if not entries or token not in entries:
        raise Unread(
            "no_logprob", f"the engine gave no log-probability for token {token} at place {place}"
        )
    value = float(entries[token].logprob)
    if math.isnan(value) or value > 1e-3:
        raise Unread(
            "bad_logprob",
            f"the engine gave {value} as log-probability of token {token} at place {place}",
        )
    return Score(value, all(value >= entry.logprob for entry in entries.values()))


def cached_tokens(output: Any) -> int:
    """How many tokens of the prompt were not computed. Unread where the engine does not say."""
    if output.num_cached_tokens is None:
        raise Unread(
            "engine", "the engine does not say how many tokens of the prompt were in its cache"
        )
    return int(output.num_cached_tokens)


def require_parameters() -> None:
    """TaskFailure where the installed vLLM is too old to give the log-probabilities of named
    tokens.
    """
    import vllm

    missing = [name for name in PARAMETERS if not hasattr(vllm.SamplingParams, name)]
    if missing:
        raise TaskFailure(
            f"Log-likelihoods need a vLLM whose SamplingParams know {', '.join(missing)} (0.32 "
            f"does; installed: {vllm.__version__}). Update vllm, or use model.backend=hf."
        )
