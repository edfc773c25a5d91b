"""What spans share, worked off part by part: every wanted token is read once, after exactly the
tokens before it.
"""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.backends.hf.batches import lines, take
from evalrun.backends.loglikelihood.prefix_tree import Bounds, Feed, Tree
from evalrun.backends.loglikelihood.spans import Span, shared_length

TEXTS = st.lists(st.integers(0, 2), min_size=2, max_size=9).map(tuple)
SPANS = st.lists(
    TEXTS.flatmap(lambda ids: st.builds(Span, st.just(ids), st.integers(1, len(ids) - 1))),
    min_size=1,
)
BOUNDS = st.builds(Bounds, st.integers(1, 12), st.integers(1, 12), st.none() | st.integers(1, 4))


def seen_by(feed: Feed, place: int) -> list[int]:
    """The tokens of the feed that one of them sees, in order."""
    return [feed.ids[i] for i in range(place + 1) if place < feed.ends[i]]


def work_off(tree: Tree, bounds: Bounds) -> list[tuple[tuple[int, ...], Feed]]:
    """(path, feed) of every pass, as the scorer walks the tree."""
    passes, waiting = [], [tree.whole]
    while waiting:
        part = waiting.pop()
        if tree.n_tokens(part) == 0:
            continue
        text = tree.texts[part.low]
        if tree.fits(part, bounds):
            passes.append((text[: part.depth], tree.feed(part)))
        elif (common := tree.n_shared(part)) > part.depth:
            end = min(common, part.depth + bounds.chain)
            passes.append((text[: part.depth], tree.feed(part, end)))
            waiting.append(type(part)(part.low, part.high, end))
        else:
            waiting.extend(reversed(list(tree.children(part, bounds))))
    return passes


@given(spans=SPANS, bounds=BOUNDS)
def test_every_token_is_read_once_after_all_before_it(spans: list[Span], bounds: Bounds) -> None:
    tree = Tree(spans)
    assert set(tree.spans) == set(spans)
    read: Counter[tuple[Span, int]] = Counter()
    for path, feed in work_off(tree, bounds):
        assert 0 < len(feed.ids) <= bounds.n_tokens
        assert len({r.place for r in feed.reads}) <= bounds.n_reads
        for r in feed.reads:
            before = (*path, *seen_by(feed, r.place))
            span = tree.spans[r.span]
            assert before == span.ids[: len(before)]
            assert r.token == span.ids[len(before)]
            assert feed.positions[r.place] == len(before) - 1
            read[span, len(before)] += 1
    assert read == Counter(
        (span, i) for span in set(spans) for i in range(span.start, len(span.ids))
    )


@given(spans=SPANS)
def test_no_prefix_is_fed_twice_where_bounds_are_wide(spans: list[Span]) -> None:
    tree = Tree(spans)
    ((_, feed),) = work_off(tree, Bounds(10_000, 10_000))
    assert len(feed.ids) == len({span.ids[:i] for span in spans for i in range(1, len(span.ids))})


def test_choices_of_a_document_are_one_row() -> None:
    """Context 1 2 3, choices 4 | 5 6 | 5 7 8: the context once, each choice but its last token,
    5 once.
    """
    spans = [Span((1, 2, 3, 4), 3), Span((1, 2, 3, 5, 6), 3), Span((1, 2, 3, 5, 7, 8), 3)]
    feed = Tree(spans).feed(Tree(spans).whole)
    assert feed.ids == [1, 2, 3, 5, 7]
    assert feed.positions == [0, 1, 2, 3, 4]
    assert feed.ends == [5, 5, 5, 5, 5]
    assert sorted((r.place, r.token) for r in feed.reads) == [
        (2, 4),
        (2, 5),
        (2, 5),
        (3, 6),
        (3, 7),
        (4, 8),
    ]


def test_branches_do_not_see_each_other() -> None:
    spans = [Span((1, 2, 3, 9), 1), Span((1, 4, 9), 1)]
    feed = Tree(spans).feed(Tree(spans).whole)
    assert feed.ids == [1, 2, 3, 4]
    assert feed.ends == [4, 3, 3, 4]
    assert seen_by(feed, 3) == [1, 4]


def test_a_long_chain_of_prefixes_needs_no_recursion() -> None:
    text = tuple(range(1500))
    tree = Tree([Span(text[:n], n - 1) for n in range(2, 1500)])
    assert sum(len(feed.ids) for _, feed in work_off(tree, Bounds(1, 1))) == 1498


@pytest.mark.parametrize(
    ("bounds", "n_tokens", "n_rows", "want"),
    [
        (Bounds(512, 600), 512, 9, Bounds(256, 300)),
        (Bounds(512, 600, 4), 90, 3, Bounds(45, 300, 1)),
        (Bounds(20, 16, 1), 20, 1, Bounds(16, 16, 1)),
        (Bounds(8, 4), 8, 1, Bounds(8, 4)),
    ],
)
def test_bounds_are_halved_down_to_the_fewest(
    bounds: Bounds, n_tokens: int, n_rows: int, want: Bounds
) -> None:
    assert bounds.halved(n_tokens, n_rows) == want


@given(first=TEXTS, second=TEXTS)
def test_shared_length(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    n = shared_length(first, second)
    assert first[:n] == second[:n]
    assert n == min(len(first), len(second)) or first[n] != second[n]


@given(spans=SPANS, bounds=BOUNDS)
def test_plain_rows_read_everything_once(spans: list[Span], bounds: Bounds) -> None:
    spans = list(dict.fromkeys(spans))
    waiting = lines(spans, bounds.n_reads)
    assert isinstance(waiting, deque)
    read: Counter[tuple[int, int]] = Counter()
    while waiting:
        batch = take(waiting, bounds)
        assert bounds.n_rows is None or len(batch) <= bounds.n_rows
        assert len(batch) == 1 or len(batch) * len(batch[0].ids) <= bounds.n_tokens
        for line in batch:
            assert len(line.places) <= bounds.n_reads
            for r in line.reads:
                ids = spans[r.span].ids
                assert line.ids[: r.place + 1] == ids[: r.place + 1]
                assert r.token == ids[r.place + 1]
                read[r.span, r.place] += 1
    assert read == Counter(
        (n, i - 1) for n, span in enumerate(spans) for i in range(span.start, len(span.ids))
    )
