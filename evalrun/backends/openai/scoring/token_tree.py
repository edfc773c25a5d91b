"""Continuations of one context as a tree: a node asks for the tokens that may follow its prefix, by
one generated token.

A server that keeps prefixes in a cache computes a context once for all nodes. Asked for the
log-probabilities of a whole prompt, vLLM computes it anew each time, with a row of logits for every
token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from evalrun.backends.loglikelihood.partial_sum import SpanSum
from evalrun.backends.loglikelihood.spans import Span

CALL_COST = 10  # of a call, in tokens that are read (vLLM 0.32 on a CPU: 9)
# of a prompt's token with its row of logits, in tokens that are read (measured there: 1.65)
SCORED_COST = 1.6
Prefix = tuple[int, ...]


Node = dict[int, list[SpanSum]]
"""Token that may follow -> whose part it is."""


def contexts_of(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """The spans of each context, in order of coming."""
    found: dict[Prefix, list[Span]] = {}
    for span in spans:
        found.setdefault(span.ids[: span.start], []).append(span)
    yield from found.values()


def nodes_of(spans: Sequence[Span]) -> dict[Prefix, Node]:
    """The nodes of one context: prefix -> its tokens.

    Shared beginnings are one node; the context comes first.
    """
    nodes: dict[Prefix, Node] = {}
    for span in spans:
        whole = SpanSum(span)
        for place in range(span.start, len(span.ids)):
            nodes.setdefault(span.ids[:place], {}).setdefault(span.ids[place], []).append(whole)
    return dict(sorted(nodes.items(), key=lambda item: len(item[0])))


def is_cheaper(spans: Sequence[Span], block_size: int) -> bool:
    """Whether nodes cost less than whole prompts.

    Args:
        block_size: of the cache, in tokens.

    The cache holds whole blocks, so a node computes half a block on average; the context itself is
    computed once.
    """
    most = (SCORED_COST * sum(len(span.ids) for span in spans) - spans[0].start) / (
        block_size / 2 + CALL_COST
    )
    children: dict[tuple[int, int], int] = {}
    nodes: set[int] = set()  # those that some token follows
    for span in spans:
        node = 0
        for place in range(span.start, len(span.ids)):
            nodes.add(node)
            # whole texts have a node for each token: they are not counted to their end
            if len(nodes) >= most:
                return False
            node = children.setdefault((node, span.ids[place]), len(children) + 1)
    return True
