"""Spans as whole texts side by side, for models whose prefixes cannot be shared."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from evalrun.backends.loglikelihood.prefix_tree import Bounds, Read
from evalrun.backends.loglikelihood.spans import Span


@dataclass(frozen=True, slots=True)
class Line:
    """A text that is fed whole, and what is read of it."""

    ids: tuple[int, ...]
    reads: tuple[Read, ...]

    @property
    def places(self) -> set[int]:
        """The positions that are read."""
        return {read.place for read in self.reads}


def lines(spans: Sequence[Span], n_reads: int, is_whole: bool = False) -> deque[Line]:
    """One line per different text, longest first; spans of the same text are read from one line.

    A line that reads more than `n_reads` positions becomes several, each fed only as far as it
    reads, unless `is_whole`.
    """
    reads: dict[tuple[int, ...], dict[int, list[Read]]] = {}
    for number, span in enumerate(spans):
        by_place = reads.setdefault(span.ids[:-1], {})
        for place in range(span.start - 1, len(span.ids) - 1):
            by_place.setdefault(place, []).append(Read(place, span.ids[place + 1], number))
    made = []
    for ids, by_place in reads.items():
        places = sorted(by_place)
        for first in range(0, len(places), n_reads):
            some = places[first : first + n_reads]
            fed = ids if is_whole else ids[: some[-1] + 1]
            made.append(Line(fed, tuple(read for place in some for read in by_place[place])))
    return deque(sorted(made, key=lambda line: (-len(line.ids), line.ids)))


def take(waiting: deque[Line], bounds: Bounds) -> list[Line]:
    """Take the next lines that one forward pass may hold: padded to the longest, every place
    read in every row.
    """
    batch = [waiting.popleft()]
    places = batch[0].places
    while waiting:
        n_rows, more = len(batch) + 1, places | waiting[0].places
        is_too_much = (
            n_rows * len(batch[0].ids) > bounds.n_tokens or n_rows * len(more) > bounds.n_reads
        )
        if is_too_much or (bounds.n_rows is not None and n_rows > bounds.n_rows):
            break
        places = more
        batch.append(waiting.popleft())
    return batch
