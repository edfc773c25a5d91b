"""A tiny Llama with random weights and a word tokenizer that adds BOS: loads in a moment, needs
no network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = tuple(f"w{i}" for i in range(40))
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' and m['content'] == "
    "'refuse' %}{{ raise_exception('no system') }}{% endif %} {{ m['role'] }} {{ m['content'] }}{% "
    "endfor %}{% if add_generation_prompt %} assistant{% endif %}"
)


def tokenizer(template: str | None = TEMPLATE) -> Any:
    """Words are tokens; the tokenizer itself puts <s> before every text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ("<unk>", "<s>", "</s>", "<pad>")
    names = (*special, "user", "system", "assistant", "<think>", "</think>", *WORDS)
    inner = Tokenizer(
        models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>")
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
    made.chat_template = template
    return made


def save(
    folder: Path, template: str | None = TEMPLATE, context: int = 64, **generation: Any
) -> Path:
    """Write model and tokenizer to `folder`; generation: what its generation_config says besides
    the end tokens.
    """
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    words = tokenizer(template)
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
        initializer_range=0.5,
    )
    net = LlamaForCausalLM(config)
    net.generation_config = GenerationConfig(
        bos_token_id=1, eos_token_id=[2, 4], pad_token_id=3, **generation
    )
    net.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
