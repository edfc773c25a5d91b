"""Reported faults of other tools' backends, each a test by its id."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import backend_contract as contract
from support import tiny_model
from support.workspace import ROOT

from evalrun.backends.hf.backend import HfBackend
from evalrun.backends.hf.scorer import HfScorer
from evalrun.backends.local.prompts import renderer_for
from evalrun.backends.loglikelihood.encoder import Encoder, Item
from evalrun.backends.loglikelihood.spans import Score, Span
from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.openai.scoring.responses import from_prompt_logprobs
from evalrun.runs.preview import _others
from evalrun.types import Generate, Loglikelihood, Message, ModelPlan, Reply, Sampling

FILE = ROOT / "tests" / "cases" / "backend.jsonl"
CASES = {row["id"]: row for row in map(json.loads, FILE.read_text("utf-8").splitlines())}
GREEDY = Sampling(max_tokens=6, temperature=0.0)


def case(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(input, what is expected) of a reported fault."""
    return CASES[name]["input"], CASES[name]["expected"]


def ask(
    text: str, indices: tuple[int, ...] = (0,), sampling: Sampling = GREEDY, doc_id: str = "d"
) -> Generate:
    return Generate(doc_id, (Message("user", text),), indices, sampling, 5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.save(tmp_path_factory.mktemp("tiny"), context=24)


def plan(folder: Path, **keys: Any) -> ModelPlan:
    return ModelPlan("tiny", "hf", path=str(folder), **keys)


def test_every_case_has_its_test() -> None:
    assert {f"test_{name.replace('-', '_').lower()}" for name in CASES} == {
        n for n in globals() if n.startswith("test_bk")
    }


def test_bk_001() -> None:
    """The template brings BOS and the tokenizer would add it: it stands there once, for texts
    and for choices.
    """
    given, expected = case("BK-001")
    words = tiny_model.tokenizer(given["chat_template"])
    prompt = renderer_for(ModelPlan("m", "hf"), words).prompt((Message("user", given["message"]),))
    item = Encoder(ModelPlan("m", "hf", chat="template"), words, None).ready(
        Loglikelihood("d", 0, (Message("user", given["message"]),), " w1")
    )
    assert isinstance(item, Item)
    for ids in (prompt.token_ids, item.spans[0].ids):
        assert ids.count(words.bos_token_id) == expected["count_of_bos_at_start"]
        assert ids[0] == words.bos_token_id


def test_bk_003() -> None:
    """The blank that ends a context is scored with the continuation."""
    given, expected = case("BK-003")

    class Characters:
        chat_template = bos_token_id = eos_token_id = None

        def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
            return [ord(letter) for letter in text]

        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return [chr(token) for token in ids]

    request = Loglikelihood("d", 0, (Message("user", given["context"]),), given["continuation"])
    item = Encoder(ModelPlan("m", "hf"), Characters(), None).ready(request)
    assert isinstance(item, Item)
    (span,) = item.spans
    assert "".join(map(chr, span.ids[: span.start])) == expected["context_used"]
    assert "".join(map(chr, span.ids[span.start :])) == expected["scored_text"]


def test_bk_005() -> None:
    """Only the continuation's terms, each read at the position before it."""
    import torch

    given, expected = case("BK-005")
    ids = (*given["context_ids"], *given["continuation_ids"])
    table = torch.full((len(ids) - 1, 20), -1e4)
    for place, token in enumerate(ids[1:]):
        value = torch.tensor(given["logprob_of_id_given_prefix"][str(token)])
        table[place, token], table[place, 0] = value, torch.log1p(-value.exp())
    text = SimpleNamespace(vocab_size=20)

    class Net:
        device, dtype = torch.device("cpu"), torch.float32
        config = SimpleNamespace(get_text_config=lambda: text)

        def forward(self, input_ids: Any, use_cache: bool) -> Any:
            assert input_ids.tolist() == [list(ids[:-1])], "the last token is never fed"
            return SimpleNamespace(logits=table[None])

        __call__ = forward

    found: dict[Span, Score] = {}
    ledger = SimpleNamespace(put=found.__setitem__, fail=lambda *what: pytest.fail(str(what)))
    span = Span(ids, len(given["context_ids"]))
    HfScorer(Net(), "m", None, has_sharing=False).score([span], ledger)
    assert found[span].logprob == pytest.approx(expected["loglikelihood"], abs=1e-5)


def test_bk_006() -> None:
    """The value of the token that was sent, whatever else its position holds; nothing for the
    first.
    """
    given, expected = case("BK-006")
    found = {"choices": [{"prompt_logprobs": given["prompt_logprobs"]}]}
    score = from_prompt_logprobs(found, Span(tuple(given["prompt_token_ids"]), 2))
    first = from_prompt_logprobs(
        found, Span(tuple(given["prompt_token_ids"]), given["continuation_start"])
    )
    assert score.logprob == pytest.approx(-4.0)
    assert first.logprob == pytest.approx(expected["loglikelihood"])
    assert first.is_greedy is expected["is_greedy"]


def test_bk_008(folder: Path) -> None:
    """Texts of a batch equal those drawn one by one: padding stands on the left and is masked."""
    given, expected = case("BK-008")
    texts = [" ".join(f"w{len(word)}" for word in prompt.split()) for prompt in given["prompts"]]
    asked = [ask(text, doc_id=text) for text in texts]
    seen: list[dict[str, Any]] = []
    by_size = []
    for size in given["batch_size"]:
        backend = HfBackend(plan(folder, batch_size=size))
        backend.start()
        generate = backend._net.generate
        backend._net.generate = lambda ids, generate=generate, **more: (
            seen.append({"ids": ids, **more}) or generate(ids, **more)
        )
        by_size.append({key: row.text for key, row in contract.replies(backend, asked).items()})
    assert (by_size[0] == by_size[1]) is expected["texts_equal"]
    batch = seen[-1]
    assert batch["attention_mask"][:, 0].tolist() == [1, 0]
    assert batch["attention_mask"].sum(1).tolist()[1] < batch["ids"].shape[1]
    assert batch["attention_mask"][:, -1].tolist() == [1, 1]


def test_bk_010(folder: Path) -> None:
    """Every sample has a seed of its own; n samples are not n times the same."""
    given, _ = case("BK-010")
    backend = HfBackend(plan(folder))
    drawn = replace(GREEDY, temperature=given["temperature"])
    asked = replace(ask("w1 w2", tuple(range(given["n"])), drawn), seed=given["seed"])
    rows = contract.replies(backend, [asked])
    assert [rows["d", i].seed for i in range(4)] == [1234, 1235, 1236, 1237]
    assert len({row.text for row in rows.values()}) > 1


def test_bk_011() -> None:
    """What matters is always sent; what was not said is not sent and shown as the server's
    default.
    """
    server = OpenaiChatBackend(ModelPlan("m", "openai_chat", base_url="http://127.0.0.1:1/v1"))
    body = server.body_of("m", ask("w1"))
    assert {key: body[key] for key in ("temperature", "top_p", "max_tokens")} == {
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": 6,
    }
    assert not {"top_k", "min_p", "repetition_penalty"} & set(body)
    cell: Any = SimpleNamespace(sampling=replace(GREEDY, min_p=0.1))
    assert (
        _others(cell, "openai_chat")
        == "top_k server default, min_p 0.1, repetition_penalty server default"
    )


def test_bk_013(folder: Path) -> None:
    """A prompt as long as the limit is a row that says so; the others are answered.

    A choice is scored: it fits.
    """
    given, _ = case("BK-013")
    limit = 24
    assert given["prompt_tokens"] == given["max_model_len"]
    backend = HfBackend(plan(folder, chat="raw"))
    full = "w1 " * (limit - 1)  # with BOS
    one = replace(GREEDY, max_tokens=given["max_new_tokens"])
    rows: dict[Any, Reply] = contract.replies(
        backend, [ask("w1", sampling=one, doc_id="a"), ask(full, sampling=one)]
    )
    assert rows["d", 0].error_type == "prompt_too_long"
    assert rows["a", 0].error_type is None
    scored: list[Reply] = []
    backend.run([Loglikelihood("d", 0, (Message("user", full),), " w2")], scored.append)
    assert (scored[0].status, scored[0].prompt_tokens, scored[0].extra) == ("ok", limit, None)
