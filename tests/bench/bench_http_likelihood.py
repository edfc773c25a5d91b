"""Log-likelihoods over HTTP from a real vLLM server: 200 five-shot questions, letters and texts,
against the plain way.

    python tests/bench/bench_http_likelihood.py [--shared DIR] [--questions 200] [--plain 16]

Needs vllm (`make test-vllm` makes an environment with it) and the reference files. Ours is the
backend openai_completions at concurrency 64. The plain way is what any client of /v1/completions
can do: each prompt with its choice, `echo` and `logprobs`, 64 at once, and the tokens of the choice
added up; it gets the first few questions only, and ours is timed on those too. Both start with an
empty prefix cache. Printed: questions per second of each and their ratio; deviations, from the
references (lm-evaluation-harness 0.4.13, float32) too; how many documents choose the same.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import aiohttp
from bench_vllm_likelihood import (
    SHARED,
    Question,
    Values,
    files_of,
    is_ready,
    measure,
    questions,
    reference_model,
    scored,
)

from evalrun.backends.openai.completions import OpenaiCompletionsBackend
from evalrun.types import ModelPlan

N_AT_ONCE = 64


def forget(url: str) -> None:
    """Empty the server's prefix cache."""
    urllib.request.urlopen(
        urllib.request.Request(f"{url}/reset_prefix_cache", method="POST"), timeout=60
    ).close()


def ours(url: str, asked: Sequence[Question], is_single_token: bool) -> tuple[float, Values]:
    """Seconds and values of the backend, the server's prefix cache empty at first."""
    backend = OpenaiCompletionsBackend(
        ModelPlan("m", "openai_completions", base_url=url, concurrency=N_AT_ONCE)
    )
    backend.check_scores(is_single_token)
    forget(url)
    return scored(backend, asked, is_single_token)


async def _echoed(url: str, asked: Sequence[Question]) -> Values:
    values: Values = {}
    places = asyncio.Semaphore(N_AT_ONCE)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3600)) as session:
        async with session.get(f"{url}/v1/models") as answer:
            name = (await answer.json())["data"][0]["id"]

        async def one(i: int, j: int, prompt: str, text: str) -> None:
            body = {
                "model": name,
                "prompt": prompt + text,
                "max_tokens": 1,
                "echo": True,
                "logprobs": 1,
                "temperature": 0,
            }
            async with places, session.post(f"{url}/v1/completions", json=body) as answer:
                found = (await answer.json())["choices"][0]["logprobs"]
            offsets = [at for at in found["text_offset"] if at < len(prompt + text)]
            inside = [k for k, at in enumerate(offsets) if at >= len(prompt)]
            tops = [max(found["top_logprobs"][k].values()) for k in inside]
            own = [found["token_logprobs"][k] for k in inside]
            values[i, j] = (sum(own), own == tops)

        await asyncio.gather(
            *(
                one(i, j, q.prompt, text)
                for i, q in enumerate(asked)
                for j, text in enumerate(q.continuations)
            )
        )
    return values


def plain(url: str, asked: Sequence[Question]) -> tuple[float, Values]:
    """Seconds and values of echoed prompts."""
    forget(url)
    begun = time.perf_counter()
    values = asyncio.run(_echoed(url, asked))
    return time.perf_counter() - begun, values


def main() -> None:
    """Start a server, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--plain", type=int, default=16)
    options = parser.parse_args()
    if not is_ready(options.shared):
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vllm"))
    from vllm_serving import vllm_server

    os.environ["VLLM_SERVER_DEV_MODE"] = "1"  # the route that empties the prefix cache
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        reference_model(model)
        with vllm_server(model, Path(folder) / "server.log") as url:
            for name, file in files_of(options.shared):
                way = partial(ours, url, is_single_token=name == "letters")
                asked = questions(file, options.questions)
                measure(name, asked, options.plain, way, partial(plain, url), "echoed")


if __name__ == "__main__":
    main()
