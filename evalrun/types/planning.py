"""The frozen plan: pure data, decided once, written to plan.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from evalrun.types.asking import Sampling

Json: TypeAlias = Any
"""None, bool, int, float, str, or tuples and pair tuples of them: what survives the JSON round
trip.
"""

Pairs: TypeAlias = tuple[tuple[str, Json], ...]
"""An ordered, hashable mapping with text keys."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Which model answers, and how it is reached.

    Everything from `batch_size` on never changes an answer's key.

    Attributes:
        token_boundary: joint or separate, how a token that spans context and continuation is
            scored.
        replicas: further base URLs of the same model.
        n_per_request: "1", or "all" samples of a document in one request.
        repo, weights: folders of the server under test, which `deploy` starts.
        reasoning_tags: further tags of thoughts, '<NAME>' or 'OPENING CLOSING' each.
    """

    name: str
    backend: str
    path: str | None = None
    revision: str | None = None
    tokenizer: str | None = None
    dtype: str = "auto"
    chat: str = "auto"
    system: str | None = None
    reasoning: bool | None = None
    max_model_len: int | None = None
    trust_remote_code: bool = False
    batch_size: int | None = None
    device: str = "auto"
    engine: Pairs = ()
    base_url: str | None = None
    api_key_env: str | None = None
    concurrency: int = 32
    retries: int = 4
    connect_timeout_s: float = 10.0
    first_token_timeout_s: float = 600.0
    idle_timeout_s: float = 300.0
    total_timeout_s: float = 1800.0
    extra_body: Pairs = ()
    token_boundary: str = "joint"
    replicas: tuple[str, ...] = ()
    n_per_request: str = "1"
    request_rate: float | None = None
    request_burst: int = 1
    use_proxy: bool = False
    repo: str | None = None
    weights: str | None = None
    reasoning_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeployPlan:
    """How the server under test is installed, started and stopped.

    Attributes:
        python: None is the first python3 on PATH.
        venv: an existing environment for the server; None: one is made beside the run.
        env: more variables for it.
    """

    python: str | None = None
    venv: str | None = None
    env: Pairs = ()
    port: int = 8000
    max_weights_gb: float = 100.0
    install_timeout_s: float = 3600.0
    ready_timeout_s: float = 1800.0
    stop_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """Where the rows come from.

    Attributes:
        path: a hub name or a local file.
        columns: our field -> their column.
        gold_form: how a gold answer names an option: auto, index (counted from index_base), letter
            or text.
        index_base: 0 or 1; None: found from the data, refused where both fit.
    """

    path: str
    name: str | None = None
    split: str = "test"
    revision: str | None = None
    columns: Pairs = ()
    filter: Pairs = ()
    cluster: str | None = None
    gold_form: str = "auto"
    index_base: int | None = None


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """Jinja2 templates. template renders the question; answer renders a few-shot answer.

    For log-likelihoods: continuation renders what is scored of a choice (None: " {{ choice }}");
    context, where it is set, renders the question for one choice in place of template;
    unconditioned is the context of PMI.
    """

    template: str
    answer: str
    system: str | None = None
    separator: str = "\n\n"
    continuation: str | None = None
    context: str | None = None
    unconditioned: str | None = None


@dataclass(frozen=True, slots=True)
class FewshotPlan:
    """n examples before the question.

    Attributes:
        rule: first or random. path/split: the pool (None: the dataset's own rows).
    """

    n: int = 0
    rule: str = "first"
    split: str | None = None
    path: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """One metric with every parameter decided. origins says where n and k came from.

    Attributes:
        given: names in given order.
    """

    key: str
    params: Pairs
    scorer: str | None
    n: int
    origins: tuple[tuple[str, str], ...] = ()
    given: tuple[str, ...] = ()
    is_service: bool = False  # n = k = num_return_sequences: shown as pass@5
    # not asked for by name: it judges by the task's scorer, several golds or one
    is_added: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Model x task: what is asked (address), how much of it (extent: n and limit), and how it is
    scored.
    """

    task: str
    subset: str | None
    ask_id: str
    asked: Pairs
    version: str
    dataset: DatasetPlan
    prompt: PromptPlan
    fewshot: FewshotPlan
    extract: str | None
    sampling: Sampling
    n: int
    limit: int | None
    metrics: tuple[MetricPlan, ...]
    origins: tuple[tuple[str, str], ...] = ()
    task_params: Pairs = ()  # k and n as the task string gave them
    # what the metrics read: the request kinds that are asked
    kinds: tuple[str, ...] = ("generate",)
    generative: str | None = None  # the task that asks the same by generating

    @property
    def name(self) -> str:
        """task, or task:subset."""
        return self.task if self.subset is None else f"{self.task}:{self.subset}"


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """One run: one model, its cells. Nothing is decided after it. `repr` is a few lines."""

    format_version: int
    created: str
    mode: str
    run_dir: str
    model: ModelPlan
    cells: tuple[Cell, ...]
    seed: int
    num_return_sequences: int | None
    suite: str | None
    summary: Pairs
    max_error_rate: float
    versions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    deploy: DeployPlan | None = None  # only where a server is started by the run
    # the settings as typed, ready to be composed again; None: not recorded
    overrides: tuple[str, ...] | None = None
    # a user's own metrics: name, file, SHA-256 of the file
    metric_files: tuple[tuple[str, str, str], ...] = ()

    def __repr__(self) -> str:
        model = self.model
        lines = [f"Plan: mode {self.mode}, model {model.name} ({model.backend}, {model.path})"]
        for cell in self.cells:
            limit = "all documents" if cell.limit is None else f"the first {cell.limit} documents"
            metrics = ", ".join(metric.key for metric in cell.metrics)
            lines.append(
                f"  {cell.name}: {', '.join(cell.kinds)}, n={cell.n}, temperature "
                f"{cell.sampling.temperature:g}, {limit}; {metrics}; address {cell.ask_id}"
            )
        return "\n".join(lines)
