"""What spans of tokens have in common, so that it is computed once: which tokens to feed on top of
which, and what to read.

The spans of a block, sorted by their tokens, are the leaves of a tree; a range of neighbours shares
the path to it. A `Feed` is a part of that tree as one row of tokens, parents before children, of
which each sees its ancestors only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from evalrun.backends.loglikelihood.spans import Span, shared_length

FEWEST = 16  # tokens of a pass: below that, less of them saves no memory


@dataclass(frozen=True, slots=True)
class Read:
    """Wanted: the log-probability of `token` after the fed token number `place`, for span number
    `span`.
    """

    place: int
    token: int
    span: int


@dataclass(frozen=True, slots=True)
class Feed:
    """Tokens to feed after the first `depth` tokens of a path.

    Attributes:
        positions: of each in its text.
        ends: token i is seen by the tokens i to ends[i] - 1, itself included.
    """

    depth: int
    ids: list[int]
    positions: list[int]
    ends: list[int]
    reads: list[Read]


@dataclass(frozen=True, slots=True)
class Range:
    """The spans low to high - 1, whose first `depth` tokens are the same and done."""

    low: int
    high: int
    depth: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one forward pass may hold. n_tokens fed, n_reads positions read, n_rows different
    texts; None: any number.
    """

    n_tokens: int
    n_reads: int
    n_rows: int | None = None

    @property
    def chain(self) -> int:
        """How many tokens of a single text may be fed at once."""
        return max(1, min(self.n_tokens, self.n_reads))

    def halved(self, n_tokens: int, n_rows: int) -> Bounds:
        """Bounds of half of what was too much."""
        rows = None if self.n_rows is None else max(1, min(self.n_rows, n_rows) // 2)
        tokens = max(min(FEWEST, self.n_tokens), min(self.n_tokens, n_tokens) // 2)
        return Bounds(tokens, max(min(FEWEST, self.n_reads), self.n_reads // 2), rows)


class Tree:
    """Distinct spans in the order of their tokens.

    The last token of a span is never fed: nothing follows it.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        keyed = sorted({(span.ids[:-1], span.ids[-1], span.start): span for span in spans}.items())
        self.spans = [span for _, span in keyed]
        self.texts = [key[0] for key, _ in keyed]
        n = len(self.spans)
        self._shared = [0] + [shared_length(self.texts[i - 1], self.texts[i]) for i in range(1, n)]
        is_new = [i == 0 or self.texts[i] != self.texts[i - 1] for i in range(n)]
        reads = [
            self.spans[i].n_scored
            if is_new[i] or self.spans[i].start != self.spans[i - 1].start
            else 0
            for i in range(n)
        ]
        # Sums over the spans before number i: new tokens, reads (those that two texts share counted
        # twice), texts.
        self._tokens = [
            0,
            *accumulate(
                len(text) - common for text, common in zip(self.texts, self._shared, strict=True)
            ),
        ]
        self._reads = [0, *accumulate(reads)]
        self._rows = [0, *accumulate(map(int, is_new))]

    @property
    def whole(self) -> Range:
        """All spans, nothing done."""
        return Range(0, len(self.spans), 0)

    def n_tokens(self, part: Range) -> int:
        """How many tokens remain to be fed for a range."""
        first = len(self.texts[part.low]) - part.depth
        return first + self._tokens[part.high] - self._tokens[part.low + 1]

    def n_rows(self, part: Range) -> int:
        """How many different texts a range holds."""
        return self._rows[part.high] - self._rows[part.low + 1] + 1

    def fits(self, part: Range, bounds: Bounds) -> bool:
        """Whether one forward pass may hold the range."""
        n_reads = self._reads[part.high] - self._reads[part.low + 1] + self.spans[part.low].n_scored
        return (
            self.n_tokens(part) <= bounds.n_tokens
            and n_reads <= bounds.n_reads
            and (bounds.n_rows is None or self.n_rows(part) <= bounds.n_rows)
        )

    def n_shared(self, part: Range) -> int:
        """How many tokens all texts of a range begin with."""
        return min(self._shared[part.low + 1 : part.high], default=len(self.texts[part.low]))

    def first_read(self, part: Range) -> int:
        """The first position at which something is read in a range."""
        return min(span.start for span in self.spans[part.low : part.high]) - 1

    def halves(self, part: Range) -> tuple[Range, Range]:
        """A range of at least two spans, cut in the middle."""
        middle = (part.low + part.high + 1) // 2
        return Range(part.low, middle, part.depth), Range(middle, part.high, part.depth)

    def children(self, part: Range, bounds: Bounds) -> Iterator[Range]:
        """The range where its texts part, neighbours together again as far as the bounds allow."""
        cuts = [i for i in range(part.low + 1, part.high) if self._shared[i] <= part.depth]
        low = part.low
        for end, after in zip([*cuts, part.high], [*cuts[1:], part.high, None], strict=True):
            if after is None or not self.fits(Range(low, after, part.depth), bounds):
                yield Range(low, end, part.depth)
                low = end

    def feed(self, part: Range, end: int | None = None) -> Feed:
        """What remains of a range as one feed; or, up to position `end`, the chain of tokens
        that its texts share.
        """
        ids: list[int] = []
        positions: list[int] = []
        ends: list[int] = []
        reads: list[Read] = []
        path: list[int] = []  # the places of the tokens from `depth` down to the text at hand
        for number in range(part.low, part.high):
            text, span = self.texts[number], self.spans[number]
            if end is None or number == part.low:
                common = part.depth if number == part.low else self._shared[number]
                for place in path[common - part.depth :]:
                    ends[place] = len(ids)
                new = text[common:end]
                path[common - part.depth :] = range(len(ids), len(ids) + len(new))
                ids.extend(new)
                positions.extend(range(common, common + len(new)))
                ends.extend([0] * len(new))
            until = len(text) if end is None else end
            for position in range(max(span.start - 1, part.depth), until):
                reads.append(Read(path[position - part.depth], span.ids[position + 1], number))
        for place in path:
            ends[place] = len(ids)
        return Feed(part.depth, ids, positions, ends, reads)
