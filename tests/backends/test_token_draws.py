"""Gumbel noise draws from the softmax, one generator per row; ends and penalties see a row's own
tokens only.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2

from evalrun.backends.cancelling import Cancellation
from evalrun.backends.hf.token_draws import Ends, GumbelNoise, RepetitionPenalty, processors
from evalrun.types import Sampling

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5, -float("inf")])
DRAWN = Sampling(max_tokens=4, temperature=1.0)


def test_draws_follow_the_softmax() -> None:
    n = 20_000
    seeds = range(1000, 1000 + n)  # neighbouring seeds, as the samples of a document have
    drawn = GumbelNoise(seeds, "cpu")(None, LOGITS.repeat(n, 1)).argmax(-1)
    counts = torch.bincount(drawn, minlength=6).double()
    expected = n * torch.softmax(LOGITS.double(), 0)
    assert counts[5] == 0
    statistic = float(((counts[:5] - expected[:5]) ** 2 / expected[:5]).sum())
    assert statistic < chi2.ppf(0.999, df=4)


def test_the_steps_of_one_row_are_independent() -> None:
    noise, n = GumbelNoise([5], "cpu"), 4000
    two = torch.zeros(1, 2)
    bits = torch.tensor([int(noise(None, two).argmax()) for _ in range(n)])
    pairs = torch.bincount(2 * bits[:-1] + bits[1:], minlength=4).double()
    assert float(((pairs - (n - 1) / 4) ** 2 / ((n - 1) / 4)).sum()) < chi2.ppf(0.999, df=3)


@pytest.mark.parametrize("seeds", [(7,), (7, 8, 9), (9, 8, 7), (1, 7)])
def test_a_row_depends_on_its_seed_only(seeds: tuple[int, ...]) -> None:
    alone = GumbelNoise([7], "cpu")
    many = GumbelNoise(seeds, "cpu")
    for _ in range(3):
        want = alone(None, LOGITS.repeat(1, 1))[0]
        got = many(None, LOGITS.repeat(len(seeds), 1))[seeds.index(7)]
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_the_logits_are_left_alone() -> None:
    scores = torch.zeros(1, 4)
    GumbelNoise([1], "cpu")(None, scores)
    assert scores.abs().sum() == 0


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (DRAWN, {0, 1, 2, 3, 4}),
        (replace(DRAWN, top_k=2), {0, 1}),
        (replace(DRAWN, top_p=0.6), {0, 1}),  # softmax: 0.561, 0.206, 0.125, 0.076, 0.028
        (replace(DRAWN, min_p=0.2), {0, 1, 4}),
        (replace(DRAWN, temperature=0.05), {0}),
        (replace(DRAWN, temperature=0.0), {0}),
        (replace(DRAWN, temperature=0.0, top_k=3, top_p=0.1), {0}),
    ],
)
def test_warpers(sampling: Sampling, kept: set[int]) -> None:
    n = 600
    chain = processors(sampling, range(n), "cpu", [0] * n)
    drawn = chain(torch.zeros(n, 1, dtype=torch.long), LOGITS.repeat(n, 1)).argmax(-1)
    assert set(drawn.tolist()) == kept


def test_greedy_has_no_noise() -> None:
    assert len(processors(replace(DRAWN, temperature=0.0), [1], "cpu", [0])) == 0
    assert (
        len(processors(replace(DRAWN, temperature=0.0, repetition_penalty=1.0), [1], "cpu", [0]))
        == 0
    )


def test_penalty_ignores_padding() -> None:
    ids = torch.tensor([[3, 3, 0, 1], [3, 2, 0, 1]])
    scores = torch.tensor([[1.0, -1.0, 1.0, 1.0]]).repeat(2, 1)
    got = RepetitionPenalty(2.0, [2, 0])(ids, scores)
    assert got.tolist() == [[0.5, -2.0, 1.0, 1.0], [0.5, -2.0, 0.5, 0.5]]
    assert scores[0].tolist() == [1.0, -1.0, 1.0, 1.0]


LETTERS = "abcdefgh"


def spell(ids: list[int], skip_special_tokens: bool) -> str:
    assert skip_special_tokens
    return "".join(LETTERS[i] for i in ids)


@pytest.mark.parametrize(
    ("stop", "words", "lengths"),
    [
        ((), ("abch", "abcd"), [4, None]),
        (("bc",), ("abcd", "acbd"), [3, None]),
        (("xa", "bc"), ("dbca", "haaa"), [3, 1]),  # the prompt ends in x: only new text counts
        (("d",), ("dddd", "abcd"), [1, 4]),
    ],
)
def test_ends(stop: tuple[str, ...], words: tuple[str, str], lengths: list[int | None]) -> None:
    ends = Ends(2, 2, frozenset({7}), stop, spell, Cancellation())
    for step in range(1, 5):
        ids = torch.tensor([[0, 1, *(LETTERS.index(c) for c in word[:step])] for word in words])
        done = ends(ids, None)
    assert ends.lengths == lengths
    assert done.tolist() == [length is not None for length in lengths]
    assert [at is not None for at in ends.finished_s] == done.tolist()
