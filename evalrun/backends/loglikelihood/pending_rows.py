"""From the scores of spans to the rows that wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from evalrun.backends.base import Sink, failed
from evalrun.backends.loglikelihood.encoder import Encoder, Item
from evalrun.backends.loglikelihood.partial_sum import PartialSum
from evalrun.backends.loglikelihood.spans import Score, ScoredRequest, Span
from evalrun.types import Reply, Status

MOST_KNOWN = 100_000  # scores of a run that are kept: some 15 MB


class PendingRows:
    """The rows of one block that wait for the scores of their spans. Equal spans are scored once.

    A row reaches the sink the moment its last span is there.

    Args:
        items: the requests of the block.
        sink: gets the rows.
        known: scores of earlier blocks by digest, used and added to.
    """

    def __init__(
        self, items: Iterable[Item], sink: Sink, known: dict[bytes, Score] | None = None
    ) -> None:
        self._sink = sink
        self._known = known
        self._waiting: dict[Span, list[_PendingRow]] = {}
        self._started_s = time.time()
        for item in items:
            pending = _PendingRow(item)
            for span in item.spans:
                self._waiting.setdefault(span, []).append(pending)
        for span in self.spans:
            if known and (score := known.get(span.digest)) is not None:
                self.put(span, score)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The distinct spans still to be scored, in the order of the requests."""
        return tuple(self._waiting)

    def put(self, span: Span, score: Score) -> None:
        """The score of a span: rows that have all theirs go to the sink."""
        if self._known is not None and len(self._known) < MOST_KNOWN:
            self._known[span.digest] = score
        for pending in self._waiting.pop(span):
            whole = pending.add(score.logprob, score.is_greedy)
            if whole is not None:
                row = replace(pending.row, started_s=self._started_s, ended_s=time.time())
                self._sink(replace(row, logprob=whole.logprob, is_greedy=whole.is_greedy))

    def fail(
        self, span: Span, error_type: str, message: str, status: Status = Status.ERROR
    ) -> None:
        """A span that could not be scored: its rows fail, and wait for none of their other
        spans.
        """
        for pending in self._waiting.pop(span):
            if pending.fail():
                row = replace(pending.row, started_s=self._started_s, ended_s=time.time())
                self._sink(failed(row, status, error_type, message))


class _PendingRow(PartialSum):
    """A row, and the sum over those of its spans that are scored."""

    __slots__ = ("row",)

    def __init__(self, item: Item) -> None:
        super().__init__(len(item.spans))
        self.row = item.row


def blocks(
    encoder: Encoder, requests: Iterable[ScoredRequest], sink: Sink, n_tokens: int
) -> Iterator[PendingRows]:
    """Blocks of about `n_tokens` tokens each, so that memory does not grow with the number of
    requests.

    The choices of a document stay together. Requests that cannot be asked go to the sink at once.
    What a block scored is known to those after it, so that no span is scored twice.
    """
    items: list[Item] = []
    size = 0
    known: dict[bytes, Score] = {}
    for request in requests:
        item = encoder.ready(request)
        if isinstance(item, Reply):
            sink(item)
            continue
        if items and size >= n_tokens and item.row.doc_id != items[-1].row.doc_id:
            yield PendingRows(items, sink, known)
            items, size = [], 0
        items.append(item)
        size += sum(len(span.ids) for span in item.spans)
    if items:
        yield PendingRows(items, sink, known)
