"""Log-likelihoods over HTTP against a real vLLM server: equal to a plain forward pass of
transformers in float32.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from support import likelihood_contract

from evalrun.backends.local import embedded
from evalrun.backends.loglikelihood.spans import Span, windows
from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.openai.completions import OpenaiCompletionsBackend
from evalrun.backends.openai.scoring.prompt_scorer import PromptScorer
from evalrun.backends.openai.scoring.token_tree import contexts_of, is_cheaper
from evalrun.errors import Fault
from evalrun.types import (
    Generate,
    Loglikelihood,
    Message,
    ModelPlan,
    Reply,
    Request,
    Rolling,
    Sampling,
)

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

TOLERANCE = 1e-3
QUESTIONS: list[tuple[str, list[str]]] = [
    ("What is the capital of France?", ["Paris", "Rome", "a small village", "Berlin, in Germany"]),
    ("What do bees make?", ["honey", "bread", "steel girders", "wine"]),
    ("How many legs has a spider?", ["eight", "six", "four", "none at all"]),
    ("Which planet is the largest?", ["Jupiter", "Mars", "the Earth", "Venus"]),
    ("What is frozen water called?", ["ice", "steam", "sand", "liquid glass"]),
    ("Who wrote Hamlet?", ["William Shakespeare", "Goethe", "nobody knows", "Homer"]),
    ("What colour is the clear sky?", ["blue", "green", "striped red", "black"]),
    ("Wie heißt die Hauptstadt Österreichs?", ["Wien", "Köln", "Graz an der Mur", "Zürich"]),
]
TEXT = (
    "The lighthouse stood at the end of the pier, and nobody remembered who had built it. 北京 too."
)


def context(number: int) -> str:
    question, choices = QUESTIONS[number]
    lines = [f"{letter}. {choice}" for letter, choice in zip("ABCD", choices, strict=True)]
    return "\n".join([question, *lines, "Answer:"])


def letters() -> list[Loglikelihood]:
    return [
        Loglikelihood(
            f"l{i}", j, (Message("user", context(i)),), f" {letter}", is_single_token=True
        )
        for i in range(len(QUESTIONS))
        for j, letter in enumerate("ABCD")
    ]


def texts() -> list[Loglikelihood]:
    return [
        Loglikelihood(
            f"t{i}", j, (Message("user", f"Question: {question}\nAnswer:"),), f" {choice}"
        )
        for i, (question, choices) in enumerate(QUESTIONS)
        for j, choice in enumerate(choices)
    ]


@lru_cache(maxsize=1)
def plain() -> tuple[Any, Any]:
    """The tokenizer and the weights, in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(embedded.resolve(embedded.PATH))
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32
    )


def logprobs_of(ids: list[int]) -> Any:
    """Log-probabilities at each position, by one forward pass without any cache."""
    import torch

    with torch.no_grad():
        return torch.log_softmax(plain()[1](torch.tensor([ids])).logits[0].float(), -1)


def score(ids: list[int], start: int) -> tuple[float, bool, int]:
    """(sum of log-probabilities of the tokens from `start` on, greedy, tokens)."""
    import torch

    rows, scored = logprobs_of(ids)[start - 1 : -1], torch.tensor(ids[start:])
    values = rows.gather(1, scored[:, None]).sum().item()
    return values, bool((rows.argmax(-1) == scored).all()), len(ids) - start


def forward(before: str, after: str) -> tuple[float, bool, int]:
    """The same of a text after a text."""
    tokenizer, _ = plain()
    return score(tokenizer.encode(before + after), len(tokenizer.encode(before)))


def next_letters(before: str) -> list[tuple[float, bool, int]]:
    """The same of the letters after a text: one pass for all."""
    tokenizer, _ = plain()
    last = logprobs_of(tokenizer.encode(before))[-1]
    ids = [token for letter in "ABCD" for token in tokenizer.encode(f" {letter}")]
    assert len(ids) == 4
    return [(last[token].item(), int(last.argmax()) == token, 1) for token in ids]


def rows_of(backend: Any, requests: list[Request]) -> list[Reply]:
    rows: dict[Any, Reply] = {}
    backend.run(requests, lambda row: rows.setdefault(row.key, row))
    return [rows[key] for request in requests for key in request.keys()]  # noqa: SIM118


@pytest.fixture(scope="module")
def completions(url: str) -> OpenaiCompletionsBackend:
    backend = OpenaiCompletionsBackend(
        ModelPlan("m", "openai_completions", base_url=url, concurrency=4)
    )
    backend.check_scores()
    return backend


@pytest.fixture(scope="module")
def by_forward() -> dict[Any, tuple[float, bool, int]]:
    found = {(r.doc_id, r.index): forward(r.messages[0].content, r.continuation) for r in texts()}
    for i in range(len(QUESTIONS)):
        found |= {(f"l{i}", j): value for j, value in enumerate(next_letters(context(i)))}
    return found


def hold(rows: list[Reply], by_forward: dict[Any, tuple[float, bool, int]]) -> None:
    """Every row equals the forward pass, and every document has the same best choice."""
    best: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        value, is_greedy, n_tokens = by_forward[row.doc_id, row.index]
        assert row.status == "ok", row
        assert row.logprob == pytest.approx(value, abs=TOLERANCE), row
        assert (row.is_greedy, row.n_tokens) == (is_greedy, n_tokens), row
        best.setdefault(row.doc_id, []).append((row.logprob or 0.0, value))
    for pairs in best.values():
        assert max(range(4), key=lambda i: pairs[i][0]) == max(range(4), key=lambda i: pairs[i][1])


@pytest.mark.parametrize("check", likelihood_contract.CHECKS, ids=lambda check: check.__name__)
def test_likelihood_contract(check: Any, completions: OpenaiCompletionsBackend) -> None:
    check(completions)


def test_what_the_server_can_do(completions: OpenaiCompletionsBackend) -> None:
    way: Any = completions._scoring().check(is_single_token=False)
    assert (way.kind, way.has_token_ids, way.block_size) == ("prompt_logprobs", True, 32)


def test_long_contexts_are_asked_token_by_token(completions: OpenaiCompletionsBackend) -> None:
    """Five examples before each question, as in a few-shot task: no prompt is scored whole, and
    the values hold.
    """
    examples = "".join(f"{context(i)} {'ABCD'[i % 4]}\n\n" for i in range(6))
    asked = [
        Loglikelihood(
            f"s{i}", j, (Message("user", f"{examples}Question: {question}\nAnswer:"),), f" {choice}"
        )
        for i, (question, choices) in enumerate(QUESTIONS[4:7])
        for j, choice in enumerate(choices)
    ]
    encoded = [plain()[0].encode(request.messages[0].content) for request in asked]
    spans = [
        Span((*ids, *plain()[0].encode(r.continuation)), len(ids))
        for ids, r in zip(encoded, asked, strict=True)
    ]
    assert all(is_cheaper(some, 32) for some in contexts_of(spans))
    hold(
        rows_of(completions, asked),
        {(r.doc_id, r.index): forward(r.messages[0].content, r.continuation) for r in asked},
    )


def test_letters_and_texts(
    completions: OpenaiCompletionsBackend, by_forward: dict[Any, Any]
) -> None:
    hold(rows_of(completions, [*letters(), *texts()]), by_forward)


def test_the_numbers_do_not_depend_on_the_order(
    completions: OpenaiCompletionsBackend, by_forward: dict[Any, Any]
) -> None:
    """Second time round the server has all contexts in its prefix cache; alone and backwards,
    nothing moves.
    """
    hold(rows_of(completions, [*reversed(texts()[:8]), *reversed(letters()[:8])]), by_forward)


def test_texts_sent_as_texts(
    url: str, by_forward: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a server that tells no tokens: the border is found in the echoed text."""

    async def no_tokenizer(self: PromptScorer, session: Any) -> None:
        return None

    monkeypatch.setattr(PromptScorer, "_tokenizer", no_tokenizer)
    backend = OpenaiCompletionsBackend(
        ModelPlan("m", "openai_completions", base_url=url, concurrency=4)
    )
    rows = rows_of(backend, [*letters()[:8], *texts()])
    assert backend._scorer is not None
    way: Any = backend._scorer.check(is_single_token=False)
    assert way.kind == "text"
    hold(rows, by_forward)


def test_a_whole_text_stands_after_bos(completions: OpenaiCompletionsBackend, url: str) -> None:
    """BOS comes from /tokenizer_info, or from the tokenizer that the plan names."""
    tokenizer, _ = plain()
    value, _, n_tokens = score([tokenizer.bos_token_id, *tokenizer.encode(TEXT)], 1)
    paris = score([tokenizer.bos_token_id, *tokenizer.encode(" Paris")], 1)[0]
    own = ModelPlan(
        "m", "openai_completions", base_url=url, tokenizer=str(embedded.resolve(embedded.PATH))
    )
    for backend in (completions, OpenaiCompletionsBackend(own)):
        row, bare = rows_of(
            backend, [Rolling("r", TEXT), Loglikelihood("p", 0, (), " Paris", False)]
        )
        assert (row.logprob, row.n_tokens) == (pytest.approx(value, abs=TOLERANCE), n_tokens)
        assert (bare.kind, bare.logprob) == ("unconditioned", pytest.approx(paris, abs=TOLERANCE))


def test_a_text_longer_than_the_model(url: str) -> None:
    """Windows in which each token is scored once; a context is cut from the left."""
    tokenizer, _ = plain()
    text = " ".join(f"Number {i} comes before {i + 1}." for i in range(20))
    model = ModelPlan("m", "openai_completions", base_url=url, max_model_len=101)
    whole, cut = rows_of(
        OpenaiCompletionsBackend(model),
        [Rolling("long", text), Loglikelihood("cut", 0, (Message("user", text),), " Number 20")],
    )
    ids = tuple(tokenizer.encode(text))
    spans = windows((tokenizer.bos_token_id,), ids, 100)
    assert len(spans) > 1
    total = sum(score(list(span.ids), span.start)[0] for span in spans)
    assert (whole.logprob, whole.n_tokens) == (pytest.approx(total, abs=TOLERANCE), len(ids))
    more = tokenizer.encode(text + " Number 20")
    assert cut.logprob == pytest.approx(
        score(more[-100:], 100 - (len(more) - len(ids)))[0], abs=TOLERANCE
    )
    assert cut.extra == f'{{"cut_tokens": {len(more) - 100}}}'


def test_texts_and_scores_in_one_run(
    completions: OpenaiCompletionsBackend, by_forward: dict[Any, Any]
) -> None:
    ask = Generate("g", (Message("user", "The sea is"),), (0,), Sampling(4, 0.0), 7)
    rows = rows_of(completions, [ask, *letters()[:4]])
    assert rows[0].text
    hold(rows[1:], by_forward)


def test_letters_by_the_chat_endpoint(url: str) -> None:
    backend = OpenaiChatBackend(ModelPlan("m", "openai_chat", base_url=url, concurrency=4))
    backend.check_scores(is_single_token=True)
    rows = rows_of(backend, [*letters()])
    by_forward = {}
    for i in range(len(QUESTIONS)):
        turns = [{"role": "user", "content": context(i)}]
        before = plain()[0].apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        by_forward |= {(f"l{i}", j): value for j, value in enumerate(next_letters(before))}
    hold(rows, by_forward)
    with pytest.raises(Fault, match="single tokens at most"):
        backend.check_scores(is_single_token=False)
    (row,) = rows_of(backend, [Loglikelihood("t", 0, letters()[0].messages, " a small village")])
    assert row.error_type == "not_one_token"
