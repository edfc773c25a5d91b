"""The address of a run: what changes it, what never does, and that every machine finds the same
one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from evalrun.config import ModelConfig, TaskConfig
from evalrun.config.composing import composed, to_run_config
from evalrun.config.schema import DatasetConfig, FewshotConfig, PromptConfig, SamplingConfig
from evalrun.planning import build
from evalrun.planning.address import ask_id, asked_of, differing, task_version
from evalrun.runs.words.arguments import read
from evalrun.tasks.sources.forms import COMPRESSED, FORMS, TEXT_FORMS

ADDRESS = "a437a4a5333b9ad6"
BASE = [
    "model=hf",
    "model.path=/models/tiny",
    "task=gsm8k",
    "dataset.path=/data/x.jsonl",
    "num_return_sequences=2",
]
ASKED = [
    "model.name=b",
    "model.path=/models/big",
    "model.path=org/tiny",
    "model.revision=1.10",
    "model.tokenizer=t",
    "model.dtype=bfloat16",
    "model.chat=raw",
    "model.system=Be kind.",
    "model.reasoning=true",
    "model.max_model_len=99",
    "model.max_tokens=5",
    "model.temperature=0.5",
    "model.top_p=0.5",
    "model.top_k=5",
    "model.min_p=0.1",
    "model.repetition_penalty=1.1",
    "model.stop=[x]",
    "model.backend=vllm",
    "model.engine.quantization=fp8",
    "model.extra_body.x=1",
    "dataset.path=/data/y.jsonl",
    "dataset.name=n",
    "dataset.split=train",
    "dataset.revision=r",
    "dataset.columns.query=q",
    "dataset.filter.level=5",
    "seed=1",
    "tasks.gsm8k.prompt.template=t {{ query }}",
    "tasks.gsm8k.prompt.answer=a",
    "tasks.gsm8k.prompt.system=s",
    "tasks.gsm8k.fewshot.n=1",
    "tasks.gsm8k.fewshot.rule=random",
    "tasks.gsm8k.fewshot.seed=1",
    "tasks.gsm8k.sampling.max_tokens=5",
    "tasks.gsm8k.sampling.stop=[y]",
    "model.token_boundary=separate",
    "model.n_per_request=all",
    "model.repo=r",
    "model.weights=w",
    "model.reasoning_tags=[<plan>]",
    "tasks.gsm8k.prompt.continuation=c",
    "tasks.gsm8k.prompt.context=c",
    "tasks.gsm8k.prompt.unconditioned=u",
]
NOT_ASKED = [
    "model.trust_remote_code=true",
    "model.path=/other/place/tiny",
    "model.path=./tiny",
    "dataset.path=x.jsonl",
    "dataset.path=~/x.jsonl",
    "model.base_url=http://h/v1",
    "model.api_key_env=KEY",
    "model.batch_size=3",
    "model.device=cpu",
    "model.concurrency=3",
    "model.retries=0",
    "model.connect_timeout_s=1",
    "model.first_token_timeout_s=1",
    "model.idle_timeout_s=1",
    "model.total_timeout_s=1",
    "model.engine.gpu_memory_utilization=0.5",
    "model.engine.tensor_parallel_size=2",
    "metric=em",
    "metric=pass@k:k=1",
    "tasks.gsm8k.metrics.exact_match.n=2",
    "tasks.gsm8k.extract=null",
    "limit=3",
    "tasks.gsm8k.limit=3",
    "num_return_sequences=5",
    "output_dir=o",
    "max_error_rate=0.5",
    "allow_equal_samples=true",
    "debug=true",
    "summary.digits=4",
    "mode=infer",
    "tasks.gsm8k.description=d",
    "tasks.gsm8k.source=s",
    "model.system=null",
    "dataset.split=test",
    "model.token_boundary=joint",
    "model.n_per_request=1",
    "model.replicas=[http://b/v1]",
    "model.request_rate=5",
    "model.request_burst=2",
    "model.use_proxy=true",
    "tasks.gsm8k.generative=g",
    "deploy.port=8001",
]


def addresses(words: list[str]) -> list[str]:
    """One address per word, each set on top of BASE."""
    base = composed(read(BASE).overrides)
    parser = OverridesParser.create()
    found = []
    for word in words:
        if word.startswith("metric="):
            found.append(build(composed(read([*BASE, word]).overrides)).cells[0].ask_id)
            continue
        cfg = OmegaConf.structured(base)
        for override in parser.parse_overrides(read([word]).overrides):
            OmegaConf.update(cfg, override.key_or_group, override.value(), force_add=True)
        found.append(build(to_run_config(cfg)).cells[0].ask_id)
    return found


def test_what_changes_the_address_and_what_does_not() -> None:
    base, *others = addresses(["seed=0", *ASKED])
    assert [word for word, found in zip(ASKED, others, strict=True) if found == base] == []
    assert len(set(others)) == len(others)
    assert [
        w for w, found in zip(NOT_ASKED, addresses(NOT_ASKED), strict=True) if found != base
    ] == []


def test_a_subset_changes_the_address() -> None:
    words = [*BASE, "dataset.name={subset}", "tasks.gsm8k.subsets=[s]"]
    cells = [
        build(composed(read([*words[:-1], f"tasks.gsm8k.subsets=[{name}]"]).overrides)).cells[0]
        for name in "st"
    ]
    assert [cell.name for cell in cells] == ["gsm8k:s", "gsm8k:t"]
    assert len({cell.ask_id for cell in cells}) == 2


def test_every_field_of_the_schema_is_judged() -> None:
    """A new key must be put on one of the two lists."""
    judged = {word.partition("=")[0] for word in [*ASKED, *NOT_ASKED]}
    wanted = {f"model.{f.name}" for f in dataclasses.fields(ModelConfig)}
    wanted |= {f"dataset.{f.name}" for f in dataclasses.fields(DatasetConfig)}
    for part, cls in (
        ("prompt", PromptConfig),
        ("fewshot", FewshotConfig),
        ("sampling", SamplingConfig),
    ):
        wanted |= {f"tasks.gsm8k.{part}.{f.name}" for f in dataclasses.fields(cls)}
    elsewhere = {
        "model.engine",
        "model.extra_body",
        "dataset.columns",
        "dataset.filter",
        "dataset.cluster",
        "dataset.gold_form",
        "dataset.index_base",
        "tasks.gsm8k.prompt.separator",
        "tasks.gsm8k.fewshot.split",
        "tasks.gsm8k.fewshot.path",
        "tasks.gsm8k.sampling.temperature",
        "tasks.gsm8k.sampling.top_p",
    }
    assert wanted - judged == elsewhere


def test_the_address_is_the_same_on_every_machine() -> None:
    """A fixed value: no clock, no path of this machine, no file, no hash seed goes into it."""
    task = TaskConfig(dataset=DatasetConfig(path="/not/there/x.jsonl"), metrics={"accuracy": {}})
    asked = asked_of(ModelConfig(name="m", backend="hf", path="/not/there/tiny"), task, None, 0)
    assert dict(asked)["dataset.path"] == "x.jsonl"
    assert dict(asked)["model.path"] == "tiny"
    assert all(value not in (None, "", [], {}) for value in dict(asked).values())
    assert ask_id("t", asked) == ADDRESS
    assert ask_id("u", asked) != ADDRESS
    assert task_version(task) == task_version(
        replace(task, dataset=DatasetConfig(path="/else/x.jsonl"))
    )
    assert task_version(task) != task_version(replace(task, extract="number"))


def test_differing_names_every_key() -> None:
    assert differing((("a", 1), ("b", "x")), (("b", "y"), ("c", 0.5))) == [
        "a: stored nothing, asked 1",
        'b: stored "y", asked "x"',
        "c: stored 0.5, asked nothing",
    ]


@pytest.mark.parametrize(
    "suffix", [*FORMS, *(s + z for s, f in FORMS.items() if f in TEXT_FORMS for z in COMPRESSED)]
)
def test_a_data_file_counts_by_its_name_whatever_its_suffix(suffix: str) -> None:
    """Whatever the reader of rows can read, --mode eval finds with the file in another folder."""
    here, there = (
        asked_of(ModelConfig("m", "hf"), TaskConfig(DatasetConfig(f"{folder}/x{suffix}")), None, 0)
        for folder in ("data", "elsewhere/sets")
    )
    assert here == there
    assert dict(here)["dataset.path"] == f"x{suffix}"


def test_every_model_key_says_whether_it_is_asked() -> None:
    """A key without the mark would silently count, or silently not count."""
    unmarked = [f.name for f in dataclasses.fields(ModelConfig) if "is_asked" not in f.metadata]
    assert unmarked == []
