"""Choices asked token by token over HTTP: when it pays, that the numbers are the same, what a
failing step takes along.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.scoring_server import VLLM, Toy, choice, expected, plan, rows_of, token_id, toy_server

from evalrun.backends.loglikelihood.spans import Span
from evalrun.backends.openai.completions import OpenaiCompletionsBackend
from evalrun.backends.openai.scoring.token_tree import CALL_COST, SCORED_COST, is_cheaper, nodes_of
from evalrun.errors import TaskFailure
from evalrun.types import Reply

LONG = "one two three four five six seven eight nine ten " * 20
STEPS = [
    choice("s", i, f"{LONG}Answer:", text)
    for i, text in enumerate((" a b c", " a b d", " a", " x"))
]


def scoring_of(toy: Toy) -> list[dict[str, Any]]:
    """The bodies that score, without the probe's."""
    return [asked for path, asked in toy.asked if path == "/v1/completions"][2:]


def test_long_contexts_are_asked_token_by_token() -> None:
    """A node per distinct prefix, the context first; the numbers are those of whole prompts."""
    with toy_server(*VLLM, block_size=16) as (url, toy):
        rows = rows_of(plan(url, concurrency=1), *STEPS)
        named = [asked["logprob_token_ids"] for asked in scoring_of(toy)]
        assert named == [
            [*map(token_id, (" a", " x"))],
            [token_id(" b")],
            [*map(token_id, (" c", " d"))],
        ]
        assert [(row.logprob, row.is_greedy, row.n_tokens) for row in rows] == [
            (pytest.approx(expected(toy, request)[0], abs=1e-9), *expected(toy, request)[1:3])
            for request in STEPS
        ]


@pytest.mark.parametrize(
    ("block_size", "context"),
    [(None, LONG), (512, LONG), (16, "one two ")],
    ids=["unknown", "large", "short"],
)
def test_whole_prompts_where_steps_cost_more(block_size: int | None, context: str) -> None:
    asked = [
        choice("s", i, f"{context}Answer:", text) for i, text in enumerate((" a b c", " a b d"))
    ]
    with toy_server(*VLLM, block_size=block_size) as (url, toy):
        rows = rows_of(plan(url), *asked)
        assert ["prompt_logprobs" in body for body in scoring_of(toy)] == [True, True]
        assert [row.logprob for row in rows] == pytest.approx(
            [expected(toy, r)[0] for r in asked], abs=1e-9
        )


@pytest.mark.parametrize("last", [" c", " b"])
def test_a_step_that_fails(last: str) -> None:
    """The choices on its branch fail, each with one row, however many of their steps fail; the
    others are scored.
    """
    with toy_server(*VLLM, block_size=16) as (url, toy):
        toy.refused = {token_id(" a"), token_id(last)}
        rows = rows_of(plan(url, retries=0), *STEPS, choice("t", 0, f"{LONG}Then:", " y z"))
        assert [row.status for row in rows] == ["error"] * 4 + ["ok"]
    with toy_server(*VLLM, block_size=16) as (url, toy):
        toy.refused = {token_id(last)}
        rows = rows_of(plan(url, retries=0), *STEPS)
        assert [row.status for row in rows] == ["error", "error", "ok", "ok"]
        assert all("no such token" in (row.error_message or "") for row in rows[:2])
        assert [row.logprob for row in rows[2:]] == [
            pytest.approx(expected(toy, r)[0]) for r in STEPS[2:]
        ]


@pytest.mark.parametrize("bend", ["429", "500"])
def test_a_step_that_is_asked_again_counts_once(bend: str) -> None:
    with toy_server(*VLLM, block_size=16) as (url, toy):
        model = plan(url, concurrency=1)
        backend = OpenaiCompletionsBackend(model)
        backend.check_scores()
        toy.bend, toy.n_bent = bend, 2
        rows: dict[int, Reply] = {}
        backend.run(STEPS, lambda row: rows.__setitem__(row.index, row))
        assert [rows[i].logprob for i in range(4)] == [
            pytest.approx(expected(toy, r)[0]) for r in STEPS
        ]


@pytest.mark.parametrize("concurrency", [1, 64])
def test_one_document_that_is_refused_does_not_end_the_run(concurrency: int) -> None:
    """Its thirty steps are refused alike, or not sent any more; the documents after it are
    scored.
    """
    words = [f" w{i}" for i in range(30)]
    bad = choice("bad", 0, f"{LONG * 9}Bad:", "".join(words))
    with toy_server(*VLLM, block_size=16, limit=10_000) as (url, toy):
        toy.refused = {token_id(word) for word in words}
        rows = rows_of(plan(url, concurrency=concurrency), bad, *STEPS)
        assert [row.status for row in rows] == ["error", *["ok"] * 4]
        refused = [
            asked for asked in scoring_of(toy) if toy.refused & {*asked["logprob_token_ids"]}
        ]
        assert len(refused) == 1 if concurrency == 1 else 1 < len(refused) <= 30


def test_refused_documents_end_the_run() -> None:
    """Twenty in a row: something is wrong with all of them."""
    asked = [choice(f"d{i}", 0, f"{LONG}Number {i}:", " y z") for i in range(60)]
    with toy_server(*VLLM, block_size=16) as (url, toy):
        toy.refused = {token_id(" y")}
        with pytest.raises(TaskFailure, match="20 requests in a row failed in the same way"):
            rows_of(plan(url, concurrency=1), *asked)
        assert len(scoring_of(toy)) == 20


def test_whole_texts_are_not_taken_apart_to_see_that_steps_cost_more() -> None:
    """Texts share BOS alone, and have as many prefixes as tokens: none is built."""
    texts = [Span((1, *range(2000 * i, 2000 * i + 1900)), 1) for i in range(256)]
    tracemalloc.start()
    assert not is_cheaper(texts, 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6


@given(
    st.lists(
        st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    st.integers(1, 120),
    st.sampled_from([16, 32, 128]),
)
def test_law_costs_are_those_of_the_nodes(
    ends: list[tuple[int, ...]], n_context: int, block_size: int
) -> None:
    spans = [Span((*range(100, 100 + n_context), *end), n_context) for end in ends]
    in_steps = n_context + len(nodes_of(spans)) * (block_size / 2 + CALL_COST)
    whole = SCORED_COST * sum(len(span.ids) for span in spans)
    assume(abs(in_steps - whole) > 1e-6)
    assert is_cheaper(spans, block_size) == (in_steps < whole)
