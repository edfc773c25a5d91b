"""Log-likelihoods by the backend vllm against the plain way, on one engine: 200 five-shot
questions, letters and texts.

    python tests/bench/bench_vllm_likelihood.py [--shared DIR] [--questions 200] [--plain 16]
    [--many 0] [--dtype TYPE]

Needs vllm (`make test-vllm` makes an environment with it) and the reference files. The plain way
asks the engine for `prompt_logprobs` of every choice, all of them at once; it is slow, so it gets
the first few questions only, and ours is timed on those too. Both start with an empty prefix cache.
Printed: questions per second of each and their ratio; the largest deviation between both, and from
the references (lm-evaluation-harness 0.4.13, float32), and how many of the documents choose the
same option. With `--many N`, N questions made of these follow: the peak memory of this process and
the engine's, that of the first questions beside it. The references' model has its matrices rounded
to bfloat16; so has this one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evalrun.backends.base import Backend
from evalrun.backends.local import embedded, loading
from evalrun.backends.vllm.backend import VllmBackend
from evalrun.types import Loglikelihood, Message, ModelPlan, Reply

SHARED = Path(os.environ.get("EVALRUN_SHARED") or Path(__file__).resolve().parents[3] / "shared")
LENGTH = 2048

Values = dict[tuple[int, int], tuple[float, bool]]
"""(document, choice) -> (log-probability, whether every token was the likeliest)."""
Way = Callable[[Sequence["Question"]], tuple[float, Values]]
"""Questions -> (seconds, values)."""


@dataclass(frozen=True)
class Question:
    """One row of a reference file."""

    prompt: str
    continuations: list[str]
    logprobs: list[float]
    is_greedy: list[bool]


def questions(file: Path, n: int) -> list[Question]:
    """The first n rows of a reference file."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()[:n]]
    return [Question(r["prompt"], r["continuations"], r["loglik"], r["is_greedy"]) for r in rows]


def reference_model(folder: Path) -> None:
    """Write the embedded model with its matrices rounded to bfloat16 (kept in float32)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loading.quiet()
    source = str(embedded.resolve(embedded.PATH))
    net = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    for parameter in net.parameters():
        if parameter.dim() == 2:
            parameter.data = parameter.data.to(torch.bfloat16).float()
    net.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)


def scored(
    backend: Backend, asked: Sequence[Question], is_single_token: bool
) -> tuple[float, Values]:
    """Seconds and values of a backend; every row must be there."""
    requests = [
        Loglikelihood(
            str(i), j, (Message("user", q.prompt),), text, is_single_token=is_single_token
        )
        for i, q in enumerate(asked)
        for j, text in enumerate(q.continuations)
    ]
    rows: list[Reply] = []
    begun = time.perf_counter()
    backend.run(requests, rows.append)
    seconds = time.perf_counter() - begun
    values: Values = {}
    for row in rows:
        assert row.logprob is not None, row
        values[int(row.doc_id), row.index] = (row.logprob, row.is_greedy is True)
    assert len(values) == len(rows) == len(requests)
    return seconds, values


def ours(
    backend: VllmBackend, asked: Sequence[Question], is_single_token: bool
) -> tuple[float, Values]:
    """Seconds and values of the backend, its prefix cache empty at first."""
    assert backend._llm.reset_prefix_cache()
    return scored(backend, asked, is_single_token)


def plain(backend: VllmBackend, asked: Sequence[Question]) -> tuple[float, Values]:
    """Seconds and values of vLLM's own prompt_logprobs, every prompt whole."""
    from vllm import SamplingParams

    encode = backend._rendering().tokenizer.encode
    prompts = [encode(q.prompt + text) for q in asked for text in q.continuations]
    keys = [
        (i, j, len(encode(q.prompt)))
        for i, q in enumerate(asked)
        for j in range(len(q.continuations))
    ]
    assert backend._llm.reset_prefix_cache()
    begun = time.perf_counter()
    given: list[Any] = [{"prompt_token_ids": ids} for ids in prompts]
    outputs = backend._llm.generate(
        given, SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1), use_tqdm=False
    )
    seconds = time.perf_counter() - begun
    values: Values = {}
    for (i, j, start), ids, output in zip(keys, prompts, outputs, strict=True):
        found = [output.prompt_logprobs[place][ids[place]] for place in range(start, len(ids))]
        values[i, j] = (sum(f.logprob for f in found), all(f.rank == 1 for f in found))
    return seconds, values


def compared(found: Values, expected: Values) -> str:
    """How far apart both are, over the documents of the first."""
    worst = max(abs(found[key][0] - expected[key][0]) for key in found)
    greedy = sum(found[key][1] == expected[key][1] for key in found)
    documents = sorted({i for i, _ in found})

    def choice(values: Values, document: int) -> int:
        return max((key for key in found if key[0] == document), key=lambda key: values[key][0])[1]

    equal = sum(choice(found, document) == choice(expected, document) for document in documents)
    return f"deviation {worst:.1e}, argmax {equal}/{len(documents)}, greedy {greedy}/{len(found)}"


def measure(
    name: str, asked: Sequence[Question], n_plain: int, ours: Way, plain: Way, what: str
) -> None:
    """Ours over all, ours and the plain way (what: its name) over the first few; printed."""
    expected: Values = {
        (i, j): (q.logprobs[j], q.is_greedy[j])
        for i, q in enumerate(asked)
        for j in range(len(q.logprobs))
    }
    seconds, values = ours(asked)
    print(
        f"{name}: {len(asked) / seconds:.2f} questions/s; against the references: "
        f"{compared(values, expected)}"
    )
    few = asked[:n_plain]
    plain_s, plain_values = plain(few)
    few_s, few_values = ours(few)
    print(
        f"{name}, {what}: {len(few) / plain_s:.2f} questions/s; ratio {plain_s / few_s:.1f} on the "
        f"same {len(few)} questions, {plain_s / len(few) * len(asked) / seconds:.1f} on all "
        f"{len(asked)}; both: {compared(few_values, plain_values)}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def peak_bytes() -> int:
    """The peak resident memory of this process and those below it, as far as they live (Linux)."""
    found, pids = 0, [os.getpid()]
    while pids:
        pid = pids.pop()
        folder = Path(f"/proc/{pid}")
        (line,) = [
            row for row in (folder / "status").read_text().splitlines() if row.startswith("VmHWM")
        ]
        found += int(line.split()[1]) * 1024
        pids += [
            int(child)
            for task in folder.glob("task/*/children")
            for child in task.read_text().split()
        ]
    return found


def many_of(asked: Sequence[Question], n: int) -> list[Question]:
    """n questions: those given, then the same with a mark before their last line."""
    made = []
    for i in range(n):
        question = asked[i % len(asked)]
        head, _, last = question.prompt.rpartition("\n")
        made.append(
            replace(question, prompt=f"{head} ({i // len(asked)})\n{last}")
            if i >= len(asked)
            else question
        )
    return made


def measure_many(backend: VllmBackend, name: str, asked: Sequence[Question], n: int) -> None:
    """Ours over n questions made of those given; printed."""
    before = peak_bytes()
    seconds, _ = ours(backend, many_of(asked, n), name == "letters")
    print(
        f"{name}: {n} questions: {n / seconds:.2f}/s; peak {before / 1e9:.2f} GB after "
        f"{len(asked)}, {peak_bytes() / 1e9:.2f} GB after {n}",
        flush=True,
    )


def files_of(shared: Path) -> Iterable[tuple[str, Path]]:
    """Name and file of each set of references."""
    return [(name, shared / "data" / f"ref_loglik_{name}.jsonl") for name in ("letters", "text")]


def is_ready(shared: Path) -> bool:
    """Whether vllm and the reference files are here; says what is not."""
    if importlib.util.find_spec("vllm") is None:
        print("vllm is not installed here: nothing measured")
        return False
    if missing := [str(file) for _, file in files_of(shared) if not file.exists()]:
        print(f"not here: {', '.join(missing)}; nothing measured")
        return False
    return True


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--plain", type=int, default=16)
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    if not is_ready(options.shared):
        return
    with tempfile.TemporaryDirectory() as folder:
        reference_model(Path(folder))
        backend = VllmBackend(
            ModelPlan("m", "vllm", path=folder, dtype=options.dtype, max_model_len=LENGTH)
        )
        backend.start()
        try:
            print(f"dtype {backend.facts()['dtype']}, vllm {backend.facts()['engine_version']}")
            for name, file in files_of(options.shared):
                asked = questions(file, options.questions)
                way = partial(ours, backend, is_single_token=name == "letters")
                measure(
                    name,
                    asked,
                    options.plain,
                    way,
                    partial(plain, backend),
                    "plain prompt_logprobs",
                )
                if options.many:
                    measure_many(backend, name, asked, options.many)
        finally:
            backend.close()


if __name__ == "__main__":
    main()
