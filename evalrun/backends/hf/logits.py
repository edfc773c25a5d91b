"""Forward passes of transformers: their bounds, the mask of a feed, log-probabilities of logits."""

from __future__ import annotations

from typing import Any

from evalrun.backends.loglikelihood.prefix_tree import Bounds, Feed

MOST_TOKENS_CPU, MOST_TOKENS_GPU = 512, 4096  # of one forward pass
# of the read positions of one forward pass, in float32
LOGIT_BYTES_CPU, LOGIT_BYTES_GPU = 128 << 20, 1 << 30
ROWS_AT_ONCE = 64  # whose logits are normalized in one step
# rotary positions that change with the length of the text
LENGTH_DEPENDENT = ("dynamic", "longrope")


def bounds_for(net: Any, batch_size: int | None) -> Bounds:
    """What one forward pass of the model may hold."""
    is_cpu = net.device.type == "cpu"
    of_logits = LOGIT_BYTES_CPU if is_cpu else LOGIT_BYTES_GPU
    n_reads = max(1, of_logits // (4 * net.config.get_text_config().vocab_size))
    return Bounds(MOST_TOKENS_CPU if is_cpu else MOST_TOKENS_GPU, n_reads, batch_size)


def is_length_dependent(config: Any) -> bool:
    """Whether the rotary positions of a token change with the length of the whole text."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    return any(f"'{kind}'" in str(rope) for kind in LENGTH_DEPENDENT)


def ancestors_mask(feed: Feed, dtype: Any, device: Any) -> Any:
    """What is added to the attention weights, (1, 1, fed, depth + fed): 0 for what a token sees,
    else the lowest.
    """
    import torch

    n = len(feed.ids)
    place = torch.arange(n, device=device)
    ends = torch.tensor(feed.ends, device=device)
    is_seen = (place[None, :] <= place[:, None]) & (place[:, None] < ends[None, :])
    mask = torch.zeros((n, feed.depth + n), dtype=dtype, device=device)
    mask[:, feed.depth :].masked_fill_(~is_seen, torch.finfo(dtype).min)
    return mask[None, None]


def kept_of(cache: Any) -> list[tuple[Any, Any]]:
    """Keys and values of each layer, (1, heads, tokens, size)."""
    if hasattr(cache, "layers"):
        return [(layer.keys, layer.values) for layer in cache.layers]
    return list(zip(cache.key_cache, cache.value_cache, strict=True))  # transformers before 4.56


def values_of(logits: Any, rows: list[int], tokens: list[int]) -> list[tuple[float, bool]]:
    """(log-probability in nats, whether it is the highest) of tokens[i] in row rows[i] of logits
    (n, vocabulary).

    The logarithm of the softmax in float32 whatever the logits are, some rows at a time. (torch's
    own, since the field takes it: over 49,152 entries it lies some 2e-5 above the exact value, and
    other formulas would differ by that.)
    """
    import torch

    found: list[tuple[float, bool]] = [(0.0, False)] * len(rows)
    for first in range(0, logits.shape[0], ROWS_AT_ONCE):
        part = logits[first : first + ROWS_AT_ONCE].float()
        here = [i for i, row in enumerate(rows) if first <= row < first + ROWS_AT_ONCE]
        if not here:
            continue
        row = torch.tensor([rows[i] - first for i in here], device=logits.device)
        token = torch.tensor([tokens[i] for i in here], device=logits.device)
        picked = part.log_softmax(-1)[row, token].tolist()
        is_best = (part.argmax(-1)[row] == token).tolist()
        for i, value in enumerate(zip(picked, is_best, strict=True)):
            found[here[i]] = value
    return found
