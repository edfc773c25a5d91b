"""Memory and faults of a model that torch runs: what a batch takes, what is free, what went
wrong.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from evalrun.errors import TaskFailure

FAULTS = (RuntimeError, ValueError, TypeError, IndexError, ArithmeticError)
"""What torch and transformers raise for a batch that they cannot work on."""

NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a batch failed, as plain text: a kept exception would keep the batch's tensors alive."""

    is_memory: bool
    error_type: str
    message: str


def problem_of(error: BaseException, model: str) -> Problem:
    """What went wrong. TaskFailure where the GPU is of no use any more."""
    is_memory = ran_out_of_memory(error)
    if "CUDA error" in str(error) and not is_memory:
        raise TaskFailure(f"The GPU of model {model} is in a broken state: {error}") from error
    return Problem(is_memory, "out_of_memory" if is_memory else type(error).__name__, str(error))


def ran_out_of_memory(error: BaseException) -> bool:
    """True for torch's memory faults, on a GPU and (a plain RuntimeError there) on a CPU."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(
        said in str(error).lower() for said in NO_MEMORY
    )


def row_bytes(config: Any, item_bytes: int, tokens: int) -> int:
    """Memory of one row of `tokens` tokens: keys and values of every layer, and float32 logits
    with their copies.
    """
    text = config.get_text_config()
    heads = getattr(text, "num_attention_heads", 1) or 1
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    head = getattr(text, "head_dim", None) or text.hidden_size // heads
    per_token = (
        2 * text.num_hidden_layers * kv_heads * head * item_bytes
        + 4 * text.hidden_size * item_bytes
    )
    return int(tokens * per_token + 6 * 4 * text.vocab_size)


def free_bytes(device: Any) -> int:
    """Free memory of the device."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_memory() -> None:
    """Give back what a failed batch held."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
