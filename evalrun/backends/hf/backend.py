"""Backend `hf`: transformers on this machine.

Texts are drawn in batches, left-padded, longest first, one generator per sample. Log-probabilities:
`scorer`.
"""

from __future__ import annotations

import copy
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from evalrun.backends import packages
from evalrun.backends.base import Sink, answered, failed
from evalrun.backends.cancelling import Cancellation
from evalrun.backends.hf.memory import (
    FAULTS,
    Problem,
    free_bytes,
    free_memory,
    problem_of,
    row_bytes,
)
from evalrun.backends.hf.scorer import HfScorer
from evalrun.backends.local import loading, locate, prompts
from evalrun.backends.loglikelihood.encoder import Encoder, context_renderer, shown
from evalrun.backends.loglikelihood.pending_rows import blocks
from evalrun.backends.loglikelihood.spans import ScoredRequest, split
from evalrun.errors import Fault
from evalrun.types import Generate, ModelPlan, Reply, Request, Sampling, Status

MOST_ROWS_CPU, MOST_ROWS_GPU = 16, 64  # of an automatic batch: small enough that progress is seen
SHARING = "prefix_sharing"  # in model.engine: our own switch, never passed to transformers
MEMORY_SHARE = 0.5  # of the free memory, for keys, values and logits of one batch
BLOCK_TOKENS = 200_000  # of the log-likelihood requests that are looked at together


@dataclass(frozen=True, slots=True)
class Row:
    """One sample to draw: where its prompt is, its seed, its reply before anything came."""

    job: prompts.Job
    reply: Reply


class HfBackend:
    """Answers with a model that transformers loads (see `base.Backend`).

    model.device: auto is the GPU if there is one, else the CPU. model.dtype: auto is the
    checkpoint's own on a GPU and float32 on a CPU (16 rows at once: 95 tokens/s against 23 in
    bfloat16). model.engine: more arguments for from_pretrained; prefix_sharing=false, which is
    ours, feeds every text of a log-likelihood whole.
    """

    def __init__(self, model: ModelPlan) -> None:
        self.model = model
        self._path: str | None = None
        self._renderer: prompts.PromptRenderer | None = None
        self._net: Any = None
        self._defaults: dict[str, Any] = {}
        self._eos: frozenset[int] = frozenset()
        self._limit: int | None = None
        self._most_rows: int | None = None  # lowered for good when memory ran out
        self._facts: dict[str, str] = {}
        self._cancellation = Cancellation()
        self._scorer: HfScorer | None = None

    def start(self) -> None:
        """Load tokenizer and weights. Fault where a package or the model is missing."""
        if self._net is not None:
            return
        is_sharing(self.model)  # reject an invalid value before loading weights
        rendering = self._rendering()
        self._net = self._load()
        self._limit = loading.context_tokens(self.model, self._net.config)
        self._defaults, ends = take_generation_defaults(self._net)
        own_end = rendering.tokenizer.eos_token_id
        self._eos = frozenset(ends if own_end is None else (*ends, own_end))
        self._most_rows = self.model.batch_size

    def render(self, request: Request) -> str:
        """The prompt's text; of a log-likelihood the context, or the whole text.

        Needs the tokenizer only.
        """
        if isinstance(request, Generate):
            return self._rendering().prompt(request.messages).text
        return shown(context_renderer(self.model, self._rendering().tokenizer), request)

    def facts(self) -> dict[str, str]:
        """See `base.Backend.facts`; starts the engine.

        Floats depend on the batch: is_deterministic is "no".
        """
        self.start()
        if not self._facts:
            import transformers

            rendering = self._rendering()
            self._facts = {
                "engine": "transformers",
                "engine_version": str(transformers.__version__),
                "dtype": str(self._net.dtype).removeprefix("torch."),
                "revision": loading.revision(str(self._path), self._net.config),
                "tokenizer": loading.tokenizer_digest(rendering.tokenizer),
                "chat_template": rendering.template_digest(),
                "is_deterministic": "no",
            }
        return dict(self._facts)

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """Answer all requests, texts first; the rows of a forward pass or batch reach the sink
        when it ends.
        """
        self.start()
        texts, scored = split(requests)
        with self._cancellation.run():
            self._draw(texts, sink)
            if scored:
                self._score(scored, sink)

    def cancel(self) -> None:
        """End the run at its next token, or forward pass."""
        self._cancellation.request()

    def _draw(self, requests: list[Generate], sink: Sink) -> None:
        rows: list[Row] = []
        for request in requests:
            job = prompts.ready(self._rendering(), request, self._limit, time.time)
            if isinstance(job, prompts.Job):
                rows.extend(Row(job, reply) for reply in job.rows)
            else:
                for reply in job:
                    sink(reply)
        for batch in self._batches(rows):
            for reply in self._answers(batch):
                sink(reply)

    def _score(self, requests: list[ScoredRequest], sink: Sink) -> None:
        if self._scorer is None or self._scorer.net is not self._net:
            self._scorer = HfScorer(
                self._net,
                self.model.name,
                self.model.batch_size,
                is_sharing(self.model),
                self._cancellation,
            )
        # the last token is scored, but never fed
        most = None if self._limit is None else self._limit + 1
        encoder = Encoder(self.model, self._rendering().tokenizer, most)
        for pending in blocks(encoder, requests, sink, BLOCK_TOKENS):
            self._scorer.score(pending.spans, pending)

    def close(self) -> None:
        """Free the weights."""
        if self._net is None:
            return
        self._net = self._scorer = None
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _rendering(self) -> prompts.PromptRenderer:
        if self._renderer is None:
            packages.need("backend hf", ("torch", "transformers"), "evalrun[hf]")
            # Threads that spin while they wait make a busy machine several times slower. Read when
            # torch loads.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            self._path = locate.locate(self.model)
            self._renderer = prompts.renderer_for(
                self.model, loading.load_tokenizer(self.model, self._path)
            )
        return self._renderer

    def _load(self) -> Any:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM

        device = self.model.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = self.model.dtype
        if dtype == "auto" and device.startswith("cpu"):
            dtype = "float32"
        engine = {
            key: value for key, value in loading.plain(self.model.engine).items() if key != SHARING
        }
        try:
            net = AutoModelForCausalLM.from_pretrained(
                self._path,
                revision=self.model.revision,
                trust_remote_code=self.model.trust_remote_code,
                **{"dtype": dtype if dtype == "auto" else getattr(torch, dtype), **engine},
            )
            if "device_map" not in engine:
                net = net.to(device)
        except (*loading.LOAD_ERRORS, SafetensorError) as error:
            raise loading.cannot_load(self.model, "weights", error) from error
        return net.eval()

    def _batches(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Rows of equal sampling, longest prompts first, as many at once as memory takes."""

        def drawing(row: Row) -> str:
            return repr(replace(row.job.request.sampling, seed=0))

        for _, group in groupby(
            sorted(rows, key=lambda row: (drawing(row), -row.job.n_tokens)), key=drawing
        ):
            waiting = deque(group)
            while waiting:
                size = self._rows_at_once(waiting[0])
                yield [waiting.popleft() for _ in range(min(size, len(waiting)))]

    def _rows_at_once(self, longest: Row) -> int:
        """model.batch_size (lowered where memory ran out), else what fits into a share of the
        free memory.
        """
        if self._most_rows is not None:
            return self._most_rows
        tokens = longest.job.n_tokens + longest.job.request.sampling.max_tokens
        per_row = row_bytes(self._net.config, self._net.dtype.itemsize, tokens)
        is_cpu = self._net.device.type == "cpu"
        fits = int(free_bytes(self._net.device) * MEMORY_SHARE / per_row)
        return max(1, min(fits, MOST_ROWS_CPU if is_cpu else MOST_ROWS_GPU))

    def _answers(self, batch: list[Row]) -> Iterator[Reply]:
        """Replies to a batch.

        A fault is halved down to its row; a memory fault lowers the batch size for good.
        """
        started = time.time()
        outcome = self._attempt(batch, started)
        if isinstance(outcome, list):
            yield from outcome
            return
        if len(batch) == 1:
            row = replace(batch[0].reply, started_s=started, ended_s=time.time())
            yield failed(row, Status.ERROR, outcome.error_type, outcome.message)
            return
        half = (len(batch) + 1) // 2
        if outcome.is_memory:
            self._most_rows = min(half, self._most_rows or half)
            free_memory()
        yield from self._answers(batch[:half])
        yield from self._answers(batch[half:])

    def _attempt(self, batch: list[Row], started: float) -> list[Reply] | Problem:
        """The replies, or what went wrong."""
        try:
            return self._generate(batch, started)
        except FAULTS as error:
            return problem_of(error, self.model.name)

    def _generate(self, batch: list[Row], started: float) -> list[Reply]:
        import torch

        from evalrun.backends.hf.token_draws import Ends, processors

        sampling = self._resolved(batch[0].job.request.sampling)
        tokenizer = self._rendering().tokenizer
        width = max(row.job.n_tokens for row in batch)
        pads = [width - row.job.n_tokens for row in batch]
        filler = self._filler()
        ids = [
            [filler] * pad + list(row.job.prompt.token_ids)
            for pad, row in zip(pads, batch, strict=True)
        ]
        device = self._net.device
        tokens = torch.tensor(ids, device=device)
        mask = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads], device=device)
        stop = sampling.stop if self.model.reasoning is False else ()
        ends = Ends(width, len(batch), self._eos, stop, tokenizer.decode, self._cancellation)
        seeds = [row.job.request.seed + row.reply.index for row in batch]
        with torch.inference_mode():
            drawn = self._net.generate(
                tokens,
                attention_mask=mask,
                do_sample=False,
                max_new_tokens=sampling.max_tokens,
                pad_token_id=filler,
                eos_token_id=sorted(self._eos) or None,
                logits_processor=processors(sampling, seeds, device, pads),
                stopping_criteria=[ends],
            )
        self._cancellation.check()  # the rows of a batch that was ended early are not whole
        new = drawn[:, width:].tolist()
        return [
            self._reply(row, new[i], ends.lengths[i], started, ends.finished_s[i])
            for i, row in enumerate(batch)
        ]

    def _reply(
        self, row: Row, ids: list[int], ended: int | None, started: float, at: float | None
    ) -> Reply:
        """The row of one sample.

        Args:
            ended: tokens up to its end; None where max_tokens cut it.
        """
        ids = ids if ended is None else ids[:ended]
        raw = self._rendering().tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return answered(
            replace(
                row.reply, completion_tokens=len(ids), started_s=started, ended_s=at or time.time()
            ),
            raw,
            stop=row.job.request.sampling.stop,
            is_open=row.job.prompt.is_open,
            tags=self._rendering().tags,
            finish_reason="length" if ended is None else "stop",
        )

    def _resolved(self, sampling: Sampling) -> Sampling:
        """What was not said is taken from the model's generation_config, as engines do."""
        open_names = [name for name in self._defaults if getattr(sampling, name) is None]
        return replace(sampling, **{name: self._defaults[name] for name in open_names})

    def _filler(self) -> int:
        """The token of the padding: never seen by the model, so any will do."""
        own = self._rendering().tokenizer.pad_token_id
        return int(own) if own is not None else min(self._eos, default=0)


def is_sharing(model: ModelPlan) -> bool:
    """Whether prefixes may be shared: model.engine.prefix_sharing, true where it is not said.

    Fault: no truth value.
    """
    said = dict(model.engine).get(SHARING, True)
    if not isinstance(said, bool):
        raise Fault(f"model.engine.{SHARING} must be true or false; got {said!r}.")
    return said


def take_generation_defaults(net: Any) -> tuple[dict[str, Any], tuple[int, ...]]:
    """(what the model's generation_config says of top_k, min_p, repetition_penalty; its end
    tokens).

    Takes everything that concerns drawing out of the model's configuration: `generate` would apply
    it a second time.
    """
    config = copy.deepcopy(net.generation_config)
    said = config.to_diff_dict()
    names = ("top_k", "min_p", "repetition_penalty")
    defaults = {name: said[name] for name in names if said.get(name) is not None}
    ends = config.eos_token_id
    for name in (
        *names,
        "temperature",
        "top_p",
        "typical_p",
        "max_length",
        "max_new_tokens",
        "num_beams",
    ):
        setattr(config, name, None)
    config.do_sample, config.num_beams, config.num_return_sequences = False, 1, 1
    net.generation_config = config
    return defaults, () if ends is None else (ends,) if isinstance(ends, int) else tuple(ends)
