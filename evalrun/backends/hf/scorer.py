"""Log-probabilities of spans by a model of transformers: what spans share is computed once.

The tree of a block (`prefix_tree`) is worked off from its root: a path that many spans share is fed
once and its keys and values are kept, also for the next block; what hangs below it is fed as one
row under a mask that lets each token see its ancestors only, so there is no padding and no copy per
choice. Logits are made for the read positions alone.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from evalrun.backends.cancelling import Cancellation
from evalrun.backends.hf import batches
from evalrun.backends.hf.batches import Line
from evalrun.backends.hf.logits import (
    ancestors_mask,
    bounds_for,
    is_length_dependent,
    kept_of,
    values_of,
)
from evalrun.backends.hf.memory import FAULTS, Problem, free_memory, problem_of
from evalrun.backends.loglikelihood.partial_sum import ReportedSum, ScoreReceiver
from evalrun.backends.loglikelihood.prefix_tree import Bounds, Feed, Range, Read, Tree
from evalrun.backends.loglikelihood.spans import Score, Span, shared_length
from evalrun.types import Status

PROBE_TOLERANCE = {"float32": 1e-3, "float64": 1e-3}
ROUGH_TOLERANCE = 0.25  # of the other dtypes; a wrong mask or position is off by whole nats

log = logging.getLogger(__name__)

Sums: TypeAlias = Sequence[ReportedSum]
"""Of the spans at work, by their numbers."""


def take(sums: Sums, reads: Iterable[Read], values: Iterable[tuple[float, bool]]) -> None:
    """Add the (log-probability, whether it is the highest) of each read to its span's sum."""
    for read, (logprob, is_best) in zip(reads, values, strict=True):
        sums[read.span].take(logprob, is_best)


def give_up(sums: Iterable[ReportedSum], problem: Problem) -> None:
    """These spans fail where they are not done."""
    for each in sums:
        each.give_up(problem.error_type, problem.message)


class HfScorer:
    """Scores spans with one loaded model. Whether prefixes can be shared is probed on first use.

    Args:
        net: the model.
        name: of the model, for messages.
        batch_size: how many different texts one forward pass may hold; None: as many as the bounds
            on tokens take.
        has_sharing: False where the user turned sharing off.
        cancellation: looked at before each forward pass.
    """

    def __init__(
        self,
        net: Any,
        name: str,
        batch_size: int | None,
        has_sharing: bool = True,
        cancellation: Cancellation | None = None,
    ) -> None:
        self.net = net
        self._name = name
        self._cancellation = cancellation or Cancellation()
        self._bounds = bounds_for(net, batch_size)
        names = inspect.signature(net.forward).parameters
        self._has_keep = "logits_to_keep" in names
        # the name before transformers 5.20
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self._has_sharing = has_sharing
        self._is_checked = not has_sharing
        self._window = getattr(net.config.get_text_config(), "sliding_window", None)
        self._is_length_dependent = is_length_dependent(net.config.get_text_config())
        if self._is_length_dependent:
            # a row padded to a longer one would change
            self._bounds = replace(self._bounds, n_rows=1)
        self._path: tuple[int, ...] = ()
        # keys and values of each layer, for the tokens of the path
        self._kept: list[tuple[Any, Any]] = []

    def score(self, spans: Sequence[Span], receiver: ScoreReceiver) -> None:
        """Every span gets its score or its fault."""
        if not self._is_checked:
            self._is_checked = True
            if reason := self._why_alone():
                self._has_sharing = False
                log.warning(
                    "model %s: prefixes are not shared, each text is fed whole: %s",
                    self._name,
                    reason,
                )
        shared = [span for span in spans if self._has_sharing and not self._is_beyond_window(span)]
        if shared:
            self._score_shared(Tree(shared), receiver)
        if alone := [
            span for span in spans if not self._has_sharing or self._is_beyond_window(span)
        ]:
            self._score_alone(alone, receiver)

    def _is_beyond_window(self, span: Span) -> bool:
        """Whether a token would see less than all those before it: kept keys and values then do
        not fit.
        """
        return self._window is not None and len(span.ids) - 1 > self._window

    def _why_alone(self) -> str | None:
        """Why prefixes cannot be shared; None where they can.

        The last word has a try on made tokens.
        """
        text = self.net.config.get_text_config()
        if getattr(self.net, "_is_stateful", False):
            return "it keeps a state in place of keys and values"
        kinds = set(getattr(text, "layer_types", None) or ()) - {
            "full_attention",
            "sliding_attention",
        }
        if kinds:
            return f"it has layers of the type {', '.join(sorted(kinds))}"
        if self._is_length_dependent:
            return "its positions depend on the length of the whole text"
        return None if self._is_equal_on_probe() else "its numbers would change"

    def _is_equal_on_probe(self) -> bool:
        """Score some made spans in both ways: a chain that is kept, and branches below it in one
        pass.
        """
        size = self.net.config.get_text_config().vocab_size
        ids = [(7 * i * i + 31 * i + 5) % size for i in range(40)]
        trunk = ids[:6]
        tails = (
            ids[6:8],
            ids[8:12],
            (*ids[8:10], ids[13]),
            ids[14:19],
            (*ids[14:17], ids[20], ids[21]),
        )
        spans = [Span((*trunk, *tail), len(trunk) - 1) for tail in tails]
        one, other = _Probe(), _Probe()
        usual, self._bounds = self._bounds, Bounds(8, self._bounds.n_reads)
        try:
            self._score_alone(spans, one)
            self._score_shared(Tree(spans), other)
        finally:
            self._bounds, self._path, self._kept = usual, (), []
        near = PROBE_TOLERANCE.get(str(self.net.dtype).removeprefix("torch."), ROUGH_TOLERANCE)
        return len(other.found) == len(spans) and all(
            abs(other.found[span] - one.found.get(span, float("nan"))) <= near * span.n_scored
            for span in spans
        )

    def _score_shared(self, tree: Tree, receiver: ScoreReceiver) -> None:
        """Work off the tree, leftmost part first; a part that fits is one pass, else its path is
        fed or it is cut.
        """
        sums = [ReportedSum(span, receiver) for span in tree.spans]
        waiting = [tree.whole]
        while waiting:
            part = waiting.pop()
            common = tree.n_shared(part)
            known = shared_length(
                self._path, tree.texts[part.low][: min(common, tree.first_read(part))]
            )
            part = Range(part.low, part.high, max(part.depth, known))
            if tree.n_tokens(part) == 0:
                continue
            if tree.fits(part, self._bounds):
                outcome, rest = self._fed(tree, part, None, sums), None
            elif common > part.depth:
                end = min(common, part.depth + self._bounds.chain)
                outcome, rest = self._fed(tree, part, end, sums), Range(part.low, part.high, end)
            else:
                waiting.extend(reversed(list(tree.children(part, self._bounds))))
                continue
            if outcome is not None:
                waiting.extend(reversed(self._retried(tree, part, outcome, sums, rest is not None)))
            elif rest is not None:
                waiting.append(rest)

    def _fed(self, tree: Tree, part: Range, end: int | None, sums: Sums) -> Problem | None:
        """Feed a range, or up to `end` the chain that it shares, which then is the path.

        What went wrong, if anything.
        """
        text = tree.texts[part.low]
        try:
            have = shared_length(self._path, text[: part.depth])
            while have < part.depth:  # another text's path was kept meanwhile
                until = min(part.depth, have + self._bounds.chain)
                chain = Feed(
                    have,
                    list(text[have:until]),
                    list(range(have, until)),
                    [until - have] * (until - have),
                    [],
                )
                self._pass(chain, text[:until])
                have = until
            feed = tree.feed(part, end)
            n_shared = end or tree.n_shared(part)  # what all share stands first in the feed
            values = self._pass(feed, text[:n_shared] if n_shared > part.depth else None)
        except FAULTS as error:
            return problem_of(error, self._name)
        take(sums, feed.reads, values)
        return None

    def _retried(
        self, tree: Tree, part: Range, problem: Problem, sums: Sums, is_chain: bool
    ) -> tuple[Range, ...]:
        """What is tried again after a fault.

        Memory: smaller passes from now on. Else halves, down to one span.
        """
        if problem.is_memory:
            size = len(tree.texts[part.low][part.depth :]) if is_chain else tree.n_tokens(part)
            before = self._bounds
            self._bounds = before.halved(min(size, before.n_tokens), tree.n_rows(part))
            free_memory()
            if self._bounds != before:
                return (part,)
        elif not is_chain and part.high - part.low > 1:
            return tree.halves(part)
        give_up(sums[part.low : part.high], problem)
        return ()

    def _pass(self, feed: Feed, path: tuple[int, ...] | None) -> list[tuple[float, bool]]:
        """One forward pass.

        Args:
            path: its tokens' keys and values are kept, as those of this path.
        """
        import torch

        self._cancellation.check()
        places = sorted({read.place for read in feed.reads}) or [len(feed.ids) - 1]
        device = self.net.device
        with torch.inference_mode():
            cache = self._cache(feed.depth)
            keep = torch.tensor(places)  # on the CPU: the last layer may be on another device
            logits = self.net(
                input_ids=torch.tensor([feed.ids], device=device),
                attention_mask=ancestors_mask(feed, self.net.dtype, device),
                position_ids=torch.tensor([feed.positions], device=device),
                use_cache=True,
                **{self._cache_name: cache, **({"logits_to_keep": keep} if self._has_keep else {})},
            ).logits[0]
            if path is not None:
                self._path, self._kept = path, kept_of(cache)
            rows = {place: row for row, place in enumerate(places)}
            wanted = [rows[read.place] for read in feed.reads], [read.token for read in feed.reads]
            return values_of(logits if self._has_keep else logits[keep], *wanted)

    def _cache(self, depth: int) -> Any:
        """A cache that holds the first `depth` tokens of the path; feeding it leaves the path as
        it is.
        """
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (keys, values) in enumerate(self._kept if depth else ()):
            cache.update(keys[:, :, :depth], values[:, :, :depth], layer)
        return cache

    def _score_alone(self, spans: Sequence[Span], receiver: ScoreReceiver) -> None:
        """Feed every text whole, right-padded in batches; spans of one text are read from one
        row.
        """
        sums = [ReportedSum(span, receiver) for span in spans]
        waiting = batches.lines(spans, self._bounds.n_reads, self._is_length_dependent)
        again: list[list[Line]] = []
        while again or waiting:
            batch = again.pop() if again else batches.take(waiting, self._bounds)
            try:
                values = self._rows_pass(batch)
            except FAULTS as error:
                problem = problem_of(error, self._name)
            else:
                take(sums, [read for line in batch for read in line.reads], values)
                continue
            if problem.is_memory:
                free_memory()
                self._bounds = self._bounds.halved(sum(len(line.ids) for line in batch), len(batch))
            if len(batch) == 1:
                give_up([sums[read.span] for read in batch[0].reads], problem)
            else:
                middle = (len(batch) + 1) // 2
                again += batch[middle:], batch[:middle]

    def _rows_pass(self, batch: Sequence[Line]) -> list[tuple[float, bool]]:
        """One forward pass over whole texts.

        Nothing sees the padding on its right, so it needs no mask.
        """
        import torch

        self._cancellation.check()
        width = max(len(line.ids) for line in batch)
        places = sorted({read.place for line in batch for read in line.reads})
        row_of = {place: row for row, place in enumerate(places)}
        device = self.net.device
        with torch.inference_mode():
            keep = torch.tensor(places)  # on the CPU: the last layer may be on another device
            logits = self.net(
                input_ids=torch.tensor(
                    [[*line.ids, *[0] * (width - len(line.ids))] for line in batch], device=device
                ),
                use_cache=False,
                **({"logits_to_keep": keep} if self._has_keep else {}),
            ).logits
            found: list[tuple[float, bool]] = []
            for row, line in zip(logits, batch, strict=True):
                wanted = (
                    [row_of[read.place] for read in line.reads],
                    [read.token for read in line.reads],
                )
                found += values_of(row if self._has_keep else row[keep], *wanted)
        return found


class _Probe:
    """Keeps log-probabilities by span."""

    def __init__(self) -> None:
        self.found: dict[Span, float] = {}

    def put(self, span: Span, score: Score) -> None:
        self.found[span] = score.logprob

    def fail(
        self, span: Span, error_type: str, message: str, status: Status = Status.ERROR
    ) -> None:
        log.debug("probe: %s: %s", error_type, message)
