"""AISBench 3.1 as a side of bench_service.py, and its numbers where every third question is always
right.

    python3 -m venv VENV && VENV/bin/pip install ais-bench-benchmark 'pyarrow<21' 'setuptools<81'
    python tests/bench/bench_service.py --only "zero latency" --aisbench VENV
    python tests/bench/aisbench_side.py VENV

Its whole command is measured: one streaming chat model, mode `all` (ask, score, table), without
warm-up requests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

N_QUESTIONS, N_SAMPLES = 12, 3  # of the grouping table
EVERY_THIRD = 3

CONFIG = """
from ais_bench.benchmark import datasets as d, models as m
from ais_bench.benchmark.openicl import icl_inferencer, icl_prompt_template, icl_retriever

models = [dict(
    abbr="server", attr="service", type=m.VLLMCustomAPIChat, url={url!r},
    model="mock-model", path="", stream=True,
    batch_size={concurrency}, max_out_len=2048, request_rate=0, retry=2,
    generation_kwargs=dict(temperature=0.7, top_p=1.0, num_return_sequences={n}),
)]
datasets = [dict(
    abbr="questions", type=d.GSM8KDataset, path={folder!r},
    reader_cfg=dict(input_columns=["question"], output_column="answer"),
    infer_cfg=dict(
        prompt_template=dict(type=icl_prompt_template.PromptTemplate,
                             template="Question: {{question}}"),
        retriever=dict(type=icl_retriever.ZeroRetriever),
        inferencer=dict(type=icl_inferencer.GenInferencer),
    ),
    eval_cfg=dict(
        evaluator=dict(type=d.Gsm8kEvaluator), pred_role="BOT",
                       pred_postprocessor=dict(type=d.gsm8k_postprocess),
        dataset_postprocessor=dict(type=d.gsm8k_dataset_postprocess),
    ),
)]
summarizer = dict(attr="accuracy", summary_groups=[])
"""


def command(venv: str | Path, url: str, folder: Path, n: int, concurrency: int) -> list[str]:
    """The command that asks n samples of every question in folder/questions.jsonl of the server,
    and scores them.
    """
    data = folder / "aisbench_data"
    data.mkdir(exist_ok=True)
    for split in ("train", "test"):
        (data / f"{split}.jsonl").write_bytes((folder / "questions.jsonl").read_bytes())
    config = folder / "aisbench_config.py"
    config.write_text(CONFIG.format(url=url, folder=str(data), n=n, concurrency=concurrency))
    program = Path(venv).resolve() / "bin" / "ais_bench"
    words = ["--mode", "all", "--num-warmups", "0", "--work-dir", str(folder / "aisbench_out")]
    # its tasks are started as `python`, which must be the one of its venv
    return [
        "env",
        f"PATH={program.parent}:{os.environ['PATH']}",
        "PYTHONPATH=",
        str(program),
        str(config),
        *words,
    ]


def command_of(venv: str) -> Callable[[Any, str, Path], list[str]]:
    """As a side of bench_service: (scenario, server, folder) -> command."""
    return lambda scenario, url, folder: command(
        venv, url, folder, scenario.n, scenario.concurrency
    )


def numbers(folder: Path) -> dict[str, float]:
    """Display name -> percent, of the newest results of its runs in `folder`."""
    newest = max(
        (folder / "aisbench_out").glob("*/results/*/*.json"), key=lambda path: path.stat().st_mtime
    )
    return {
        name: value
        for name, value in json.loads(newest.read_text()).items()
        if isinstance(value, float)
    }


def our_numbers(folder: Path) -> dict[str, float]:
    """Display name -> percent, of our newest results in `folder`."""
    newest = max(
        folder.glob("outputs/*/results/*/gsm8k.json"), key=lambda path: path.stat().st_mtime
    )
    return {e["display"]: 100 * e["value"] for e in json.loads(newest.read_text())["estimates"]}


def grouping(venv: str) -> dict[str, dict[str, float]]:
    """Who -> its avg@3, pass@3, cons@3 where questions 1, 4, 7, 10 are always right and the
    others always wrong.
    """
    from bench_service import Scenario, evalrun, serving  # beside this file

    scenario = Scenario("grouping", n_docs=N_QUESTIONS, n=N_SAMPLES)
    found = {}
    with tempfile.TemporaryDirectory() as made, serving(scenario) as url:
        folder = Path(made)
        with (folder / "questions.jsonl").open("w") as file:
            for i in range(N_QUESTIONS):
                is_right = i % EVERY_THIRD == 0
                text = f"What is {i} + {i + 5}? [[pattern={int(is_right)}]]"
                file.write(json.dumps({"question": text, "answer": f"#### {2 * i + 5}"}) + "\n")
        sides = {"evalrun": (evalrun, our_numbers), "aisbench": (command_of(venv), numbers)}
        for name, (side, read) in sides.items():
            subprocess.run(side(scenario, url, folder), cwd=folder, check=True, capture_output=True)
            found[name] = {key: round(value, 2) for key, value in read(folder).items()}
    return found


if __name__ == "__main__":
    for who, shown in grouping(sys.argv[1]).items():
        print(f"{who:<9} {shown}")
