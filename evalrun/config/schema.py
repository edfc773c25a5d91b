"""The Hydra-facing types.

Mutable on purpose: OmegaConf cannot merge into nested frozen dataclasses.

`plan` turns a RunConfig into the frozen Plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from omegaconf import MISSING

from evalrun.config.fields import asked, partly_asked, unasked

# OmegaConf reads these annotations at run time, hence Optional[...] and not `X | None`.
# ruff: noqa: UP045


class Mode(Enum):
    """What one command does: infer asks the model, eval scores saved rows, viz writes the
    summary again.
    """

    all = "all"
    infer = "infer"
    eval = "eval"
    viz = "viz"


class Chat(Enum):
    """auto: the model's chat template where it has one; template: it must; raw: the text as it
    is.
    """

    auto = "auto"
    template = "template"
    raw = "raw"


ENGINE_ASKED = frozenset(
    {
        "quantization",
        "kv_cache_dtype",
        "hf_overrides",
        "rope_scaling",
        "speculative_config",
        "chat_template",
        "tokenizer_mode",
        "load_format",
    }
)
"""Engine settings that change answers; all others (memory, parallelism) do not count."""


@dataclass
class ModelConfig:
    """conf/model/NAME.yaml. See types.planning.ModelPlan for the meaning of each key.

    Every key says whether it is asked, that is, whether it can change an answer. A new key has to
    choose; a new asked key needs a default that counts as absent, so that old runs are still found.
    """

    name: str = asked(MISSING)
    backend: str = asked(MISSING)
    path: Optional[str] = asked(is_place=True)
    revision: Optional[str] = asked()
    tokenizer: Optional[str] = asked(is_place=True)
    dtype: str = asked("auto")
    chat: Chat = asked(Chat.auto)
    system: Optional[str] = asked()
    reasoning: Optional[bool] = asked()
    max_model_len: Optional[int] = asked()
    trust_remote_code: bool = unasked(False)
    max_tokens: Optional[int] = asked()
    temperature: Optional[float] = asked()
    top_p: Optional[float] = asked()
    top_k: Optional[int] = asked()
    min_p: Optional[float] = asked()
    repetition_penalty: Optional[float] = asked()
    stop: Optional[list[str]] = asked()
    batch_size: Optional[int] = unasked()
    device: str = unasked("auto")
    engine: dict[str, Any] = partly_asked(ENGINE_ASKED)
    base_url: Optional[str] = unasked()
    api_key_env: Optional[str] = unasked()
    concurrency: int = unasked(32)
    retries: int = unasked(4)
    connect_timeout_s: float = unasked(10.0)
    first_token_timeout_s: float = unasked(600.0)
    idle_timeout_s: float = unasked(300.0)
    total_timeout_s: float = unasked(1800.0)
    extra_body: dict[str, Any] = asked(factory=dict)
    token_boundary: Optional[str] = asked(as_absent="joint")
    replicas: list[str] = unasked(factory=list)
    n_per_request: Any = asked(as_absent="1")
    request_rate: Optional[float] = unasked()
    request_burst: Optional[int] = unasked()
    use_proxy: bool = unasked(False)
    repo: Optional[str] = asked(is_place=True)
    weights: Optional[str] = asked(is_place=True)
    reasoning_tags: list[str] = asked(factory=list)


@dataclass
class DeployConfig:
    """How the server under test (model=deploy) is installed, started and stopped.

    See types.planning.DeployPlan.
    """

    python: Optional[str] = None
    venv: Optional[str] = None
    env: dict[str, str] = field(default_factory=dict)
    port: int = 8000
    max_weights_gb: float = 100.0
    install_timeout_s: float = 3600.0
    ready_timeout_s: float = 1800.0
    stop_timeout_s: float = 30.0


@dataclass
class DatasetConfig:
    """conf/dataset/NAME.yaml.

    At the root all keys are absent: an override layer for the only task.
    """

    path: Optional[str] = None
    name: Optional[str] = None
    split: Optional[str] = None
    revision: Optional[str] = None
    columns: dict[str, Any] = field(default_factory=dict)
    filter: dict[str, Any] = field(default_factory=dict)
    cluster: Optional[str] = None
    gold_form: Optional[str] = None
    index_base: Optional[int] = None


@dataclass
class PromptConfig:
    """Jinja2 templates of a task."""

    template: str = "{{ query }}"
    answer: str = " {{ gold }}"
    system: Optional[str] = None
    separator: str = "\n\n"
    continuation: Optional[str] = None
    context: Optional[str] = None
    unconditioned: Optional[str] = None


@dataclass
class FewshotConfig:
    """Examples before the question."""

    n: int = 0
    rule: str = "first"
    split: Optional[str] = None
    path: Optional[str] = None
    seed: int = 0


@dataclass
class SamplingConfig:
    """What the task's protocol says about drawing. A key of the model's wins over it."""

    max_tokens: int = 512
    temperature: Optional[float] = None
    top_p: Optional[float] = None
    stop: list[str] = field(default_factory=list)


@dataclass
class TaskConfig:
    """tasks_yaml/task/NAME.yaml: one benchmark."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    fewshot: FewshotConfig = field(default_factory=FewshotConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    extract: Optional[str] = None
    metrics: dict[str, Any] = field(default_factory=dict)
    subsets: list[str] = field(default_factory=list)
    limit: Optional[int] = None
    metric_files: list[str] = field(default_factory=list)
    generative: Optional[str] = None  # the task that asks the same by generating
    description: str = ""
    source: str = ""


@dataclass
class SummaryConfig:
    """conf/summary/NAME.yaml: how tables look."""

    name: str = "table"
    percent: bool = True
    digits: int = 2
    show_ci: bool = False
    weighted: bool = False
    reading: bool = True


@dataclass
class JudgeConfig:
    """conf/judge/NAME.yaml. none: no judge."""

    name: Optional[str] = None


@dataclass
class RunConfig:
    """The whole configuration of a run."""

    mode: Mode = Mode.all
    model: ModelConfig = field(default_factory=ModelConfig)
    tasks: dict[str, TaskConfig] = field(default_factory=dict)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    metrics: dict[str, Any] = field(default_factory=dict)
    task_params: dict[str, Any] = field(default_factory=dict)
    metric_files: list[str] = field(default_factory=list)
    allow_code: bool = False
    deploy: DeployConfig = field(default_factory=DeployConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    summary: SummaryConfig = field(default_factory=SummaryConfig)
    suite_name: Optional[str] = None
    num_return_sequences: Any = None
    limit: Any = None
    seed: int = 0
    max_error_rate: float = 0.0
    allow_equal_samples: bool = False
    first_n: bool = False
    reuse: Optional[str] = None
    resume: bool = False
    dry_run: bool = False
    debug: bool = False
    output_dir: str = "outputs"
