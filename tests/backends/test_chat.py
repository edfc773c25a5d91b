"""Prompts of local engines: the template exactly once, exactly one BOS, and what cannot be
rendered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import tiny_model

from evalrun.backends.local import loading, prompts
from evalrun.errors import Fault
from evalrun.types import Generate, Message, ModelPlan, Sampling

MODEL = ModelPlan("tiny", "hf", path="/models/tiny")
NO_BOS = "{% for m in messages %} {{ m['role'] }} {{ m['content'] }}{% endfor %} assistant"
THINKS = tiny_model.TEMPLATE + "{{ ' <think>\n' }}"


def messages(*turns: tuple[str, str]) -> tuple[Message, ...]:
    return tuple(Message(role, content) for role, content in turns)


ONE = messages(("user", "w1 w2"))
SHOTS = messages(("system", "w0"), ("user", "w1"), ("assistant", "w2"), ("user", "w3"))


@pytest.mark.parametrize(
    ("template", "mode", "turns", "text"),
    [
        (tiny_model.TEMPLATE, "auto", ONE, "<s> user w1 w2 assistant"),
        (tiny_model.TEMPLATE, "template", ONE, "<s> user w1 w2 assistant"),
        (NO_BOS, "auto", ONE, "<s> user w1 w2 assistant"),
        (
            tiny_model.TEMPLATE,
            "auto",
            SHOTS,
            "<s> system w0 user w1 assistant w2 user w3 assistant",
        ),
        (tiny_model.TEMPLATE, "raw", ONE, "<s>w1 w2"),
        (None, "auto", ONE, "<s>w1 w2"),
        (None, "raw", SHOTS, "<s>w0\n\nw1\n\nw2\n\nw3"),
        (None, "raw", messages(("user", "<s> w1")), "<s> w1"),
        (THINKS, "auto", ONE, "<s> user w1 w2 assistant <think>\n"),
    ],
)
def test_one_template_one_bos(
    template: str | None, mode: str, turns: tuple[Message, ...], text: str
) -> None:
    words = tiny_model.tokenizer(template)
    prompt = prompts.renderer_for(replace(MODEL, chat=mode), words).prompt(turns)
    assert prompt.text == text
    assert prompt.token_ids.count(words.bos_token_id) == 1
    assert prompt.token_ids[0] == words.bos_token_id
    assert list(prompt.token_ids) == words.encode(text, add_special_tokens=False)
    assert prompt.is_open is (template == THINKS)


def test_a_tokenizer_without_bos_gets_none() -> None:
    words = tiny_model.tokenizer(NO_BOS)
    words.backend_tokenizer.post_processor = None
    assert prompts.renderer_for(MODEL, words).prompt(ONE).text == " user w1 w2 assistant"


def test_end_token_of_the_tokenizer_does_not_close_the_prompt() -> None:
    from tokenizers import processors

    words = tiny_model.tokenizer(None)
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    assert words.encode("w1")[-1] == 2
    assert prompts.renderer_for(MODEL, words).prompt(ONE).token_ids == tuple(
        words.encode("<s> w1 w2")[1:-1]
    )


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("template", "model.chat=template, but the tokenizer of model tiny .* Use model.chat=raw"),
        ("tempalte", "'tempalte' in model.chat. Did you mean 'template'?"),
    ],
)
def test_wrong_chat_mode_is_a_fault(mode: str, said: str) -> None:
    with pytest.raises(Fault, match=said):
        prompts.renderer_for(replace(MODEL, chat=mode), tiny_model.tokenizer(None))


def test_template_digest_follows_use() -> None:
    one, other = (
        prompts.renderer_for(MODEL, tiny_model.tokenizer(t)).template_digest()
        for t in (NO_BOS, THINKS)
    )
    raw = prompts.renderer_for(
        replace(MODEL, chat="raw"), tiny_model.tokenizer(THINKS)
    ).template_digest()
    assert len({one, other, raw, "none"}) == 3
    assert raw == "none"


def request(content: str, role: str = "user", max_tokens: int = 4) -> Generate:
    return Generate("d", (Message(role, content),), (2, 5), Sampling(max_tokens, 0.0), seed=10)


@pytest.mark.parametrize(
    ("asked", "limit", "error_type", "words"),
    [
        (request("refuse", "system"), None, "template_error", ("no system",)),
        (
            request("w1 " * 20),
            26,
            "prompt_too_long",
            ("23 tokens", "4 more", "26 in all", "sampling.max_tokens"),
        ),
    ],
)
def test_what_cannot_be_asked_is_a_failure_row(
    asked: Generate, limit: int | None, error_type: str, words: tuple[str, ...]
) -> None:
    made: Any = prompts.ready(
        prompts.renderer_for(MODEL, tiny_model.tokenizer()), asked, limit, lambda: 5.0
    )
    assert [(row.index, row.seed, row.status, row.error_type) for row in made] == [
        (2, 12, "error", error_type),
        (5, 15, "error", error_type),
    ]
    assert all(word in made[0].error_message for word in words)


@pytest.mark.parametrize("limit", [27, None])
def test_a_prompt_that_just_fits_is_asked(limit: int | None) -> None:
    rendering = prompts.renderer_for(MODEL, tiny_model.tokenizer())
    # BOS, 2 roles, 20 words; 4 to come
    made: Any = prompts.ready(rendering, request("w1 " * 20), limit, lambda: 5.0)
    assert isinstance(made, prompts.Job)
    assert [row.prompt_tokens for row in made.rows] == [23, 23]


def test_tokenizer_digest_sees_vocabulary_not_state() -> None:
    words, other = tiny_model.tokenizer(), tiny_model.tokenizer()
    other.backend_tokenizer.enable_padding(length=5)
    assert loading.tokenizer_digest(words) == loading.tokenizer_digest(other)
    other.add_tokens(["w41"])
    assert loading.tokenizer_digest(words) != loading.tokenizer_digest(other)
