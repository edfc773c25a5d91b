"""RunConfig -> Plan. Every user fault that needs no data is raised here, before a token is made."""

from __future__ import annotations

import datetime as dt
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalrun.backends.limits import check_limits, positive_int
from evalrun.backends.reasoning import tags_of
from evalrun.config import DatasetConfig, ModelConfig, RunConfig, TaskConfig
from evalrun.errors import Fault, unknown
from evalrun.metrics.naming import without_number
from evalrun.planning import own_metrics, secrets
from evalrun.planning.address import ask_id, asked_of, task_version
from evalrun.planning.json_form import FORMAT_VERSION
from evalrun.planning.samples import (  # fmt: skip
    MOST_SAMPLES,
    MetricRequest,
    SampleCounts,
    kinds_of,
    refuse_bad_sampling,
    resolve,
    warm,
)
from evalrun.tasks.fewshot import RULES
from evalrun.tasks.gold import GOLD_FORMS
from evalrun.types import (
    Cell,
    DatasetPlan,
    DeployPlan,
    FewshotPlan,
    Kind,
    MetricPlan,
    ModelPlan,
    Pairs,
    Plan,
    PromptPlan,
    Sampling,
)  # fmt: skip
from evalrun.version import __version__

LATER_DEFAULTS = {"token_boundary", "n_per_request", "request_burst"}  # absent: as ModelPlan says


def build(
    config: RunConfig,
    typed: Sequence[str] = (),
    inherited: Mapping[str, SampleCounts] | None = None,
) -> Plan:
    """The frozen plan of one job, its run folder not yet named.

    Args:
        typed: the overrides of the command line, in order (they give display names their order of
            parameters).
        inherited: task -> counts of the stored run, used in eval where the command line says
            nothing of n and k.

    Faults: see the functions called.
    """
    secrets.refuse_in_config(config)
    check_limits(config.model)
    nrs = _samples_asked(config.num_return_sequences)
    limit = positive_or_none(config.limit, "limit")
    tasks = _layered(config)
    for name in config.task_params:
        if name not in tasks:
            raise unknown("task", name, tasks, "task_params")
    cells: list[Cell] = []
    for name, task in tasks.items():
        counts = SampleCounts(config.task_params.get(name) or {}, nrs, name)
        if inherited and name in inherited and not counts.task_params and nrs is None:
            counts = inherited[name]
        cells += _cells(config, name, task, counts, limit, typed)
    _refuse_twice([cell.name for cell in cells])
    return Plan(
        format_version=FORMAT_VERSION,
        created=dt.datetime.now().astimezone().isoformat(timespec="microseconds"),
        mode=config.mode.value,
        run_dir="",
        model=_model_plan(config.model),
        cells=tuple(cells),
        seed=config.seed,
        num_return_sequences=nrs,
        suite=config.suite_name,
        summary=_pairs(vars(config.summary)),
        max_error_rate=_error_rate(config.max_error_rate),
        metric_files=own_metrics.recorded(config),
        deploy=_deploy_plan(config),
        versions=(("evalrun", __version__), ("python", platform.python_version())),
    )


def _samples_asked(value: Any) -> int | None:
    """num_return_sequences, checked."""
    if value is None:
        return None
    if positive_int(value, "num_return_sequences") > MOST_SAMPLES:
        raise Fault(
            f"num_return_sequences={value} is more than the {MOST_SAMPLES:,} samples per document "
            "that a run can hold."
        )
    return int(value)


def _layered(config: RunConfig) -> dict[str, TaskConfig]:
    """The tasks with the root `dataset` layer put on the only one."""
    if not config.tasks:
        raise Fault(
            "No task was asked for. Say task=NAME or suite=NAME; `evalrun list tasks` shows the "
            "names."
        )
    asked = {k: v for k, v in vars(config.dataset).items() if v not in (None, {})}
    if not asked:
        return dict(config.tasks)
    if len(config.tasks) > 1:
        key, value = next(iter(asked.items()))
        names = ", ".join(config.tasks)
        raise Fault(
            f"dataset.{key}={value} is for the only task, but {len(config.tasks)} were asked for "
            f"({names}). Say which: tasks.{next(iter(config.tasks))}.dataset.{key}={value}."
        )
    name, task = next(iter(config.tasks.items()))
    dataset = DatasetConfig(**{**vars(task.dataset), **asked})
    dataset.columns = {**task.dataset.columns, **config.dataset.columns}
    dataset.filter = {**task.dataset.filter, **config.dataset.filter}
    return {name: TaskConfig(**{**vars(task), "dataset": dataset})}


def _cells(
    config: RunConfig,
    name: str,
    task: TaskConfig,
    counts: SampleCounts,
    limit: int | None,
    typed: Sequence[str],
) -> Iterable[Cell]:
    _check_task(name, task)
    is_own = not config.metrics
    requests = metric_requests(config.metrics or task.metrics, typed)
    if not requests:
        raise Fault(
            f"Task {name} has no metric. Say metric=accuracy, or give the task's file a `metrics:` "
            "entry."
        )
    metrics = resolve(requests, counts, task.extract, is_own, config.model.backend, task.generative)
    kinds = kinds_of(metrics)
    asked_n = (
        [counts.num_return_sequences]
        if counts.num_return_sequences and Kind.GENERATE.value in kinds
        else []
    )
    n = max([m.n for m in metrics] + asked_n)
    sampling, origins = _sampling(config, name, task, n)
    own_limit = positive_or_none(task.limit, f"tasks.{name}.limit")
    subsets: list[str | None] = [*task.subsets] or [None]
    for subset in subsets:
        asked = asked_of(config.model, task, subset, config.seed)
        full_name = name if subset is None else f"{name}:{subset}"
        yield Cell(
            task=name,
            subset=subset,
            ask_id=ask_id(full_name, asked),
            asked=asked,
            version=task_version(task),
            dataset=_dataset_plan(task.dataset, subset),
            prompt=PromptPlan(**vars(task.prompt)),
            fewshot=FewshotPlan(**vars(task.fewshot)),
            extract=task.extract,
            sampling=sampling,
            n=n,
            limit=limit if limit is not None else own_limit,
            metrics=metrics,
            origins=(*origins, ("n", _n_origin(metrics, n, counts))),
            task_params=_pairs(counts.task_params),
            kinds=kinds,
            generative=task.generative,
        )


def _n_origin(metrics: Sequence[MetricPlan], n: int, counts: SampleCounts) -> str:
    if counts.num_return_sequences == n:
        return "num_return_sequences"
    return next(
        (f"{m.key}: {dict(m.origins).get('n', 'default')}" for m in metrics if m.n == n), "default"
    )


def positive_or_none(value: Any, name: str) -> int | None:
    """None, or a positive integer. Fault for anything else."""
    return None if value is None else positive_int(value, name)


def metric_requests(metrics: Mapping[str, Any], typed: Sequence[str]) -> list[MetricRequest]:
    """The metrics of a configuration as requests, their parameters in the order in which they were
    typed.
    """
    return [_metric_request(key, params, typed) for key, params in metrics.items()]


def _metric_request(key: str, params: Any, typed: Sequence[str]) -> MetricRequest:
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        raise Fault(
            f"metrics.{key} must be a mapping of parameters, such as {{}} or {{n: 4}}; got "
            f"{params!r}."
        )
    prefix = f"metrics.{key}."
    order = [
        o.lstrip("+").split("=", 1)[0].removeprefix(prefix)
        for o in typed
        if o.lstrip("+").startswith(prefix)
    ]
    return MetricRequest(
        without_number(key),
        {str(k): _frozen(v) for k, v in params.items()},
        tuple(dict.fromkeys(order)),
    )


def _sampling(
    config: RunConfig, name: str, task: TaskConfig, n: int
) -> tuple[Sampling, tuple[tuple[str, str], ...]]:
    model, protocol = config.model, task.sampling
    temperature, why = warm(
        n, model.temperature, protocol.temperature, config.allow_equal_samples, name
    )
    sampling = Sampling(
        max_tokens=protocol.max_tokens if model.max_tokens is None else model.max_tokens,
        temperature=temperature,
        top_p=next(v for v in (model.top_p, protocol.top_p, 1.0) if v is not None),
        top_k=model.top_k,
        min_p=model.min_p,
        repetition_penalty=model.repetition_penalty,
        stop=tuple(protocol.stop if model.stop is None else model.stop),
        seed=config.seed,
    )
    refuse_bad_sampling(sampling)
    limit_origin = "task" if model.max_tokens is None else "model.max_tokens"
    return sampling, (("max_tokens", limit_origin), ("temperature", why))


def _check_task(name: str, task: TaskConfig) -> None:
    if not task.dataset.path:
        raise Fault(
            f"Task {name} has no dataset.path. Give a hub name or a local file: "
            "dataset.path=FILE.jsonl."
        )
    if isinstance(task.fewshot.n, bool) or task.fewshot.n < 0:
        raise Fault(f"tasks.{name}.fewshot.n must be 0 or more; got {task.fewshot.n}.")
    if task.fewshot.rule not in RULES:
        raise Fault(
            f"tasks.{name}.fewshot.rule must be first or random; got {task.fewshot.rule!r}."
        )
    where = [
        task.dataset.path,
        task.dataset.name,
        task.dataset.split,
        *task.dataset.filter.values(),
    ]
    if task.subsets and not any("{subset}" in str(value) for value in where):
        asked = (
            f"{len(task.subsets)} subsets"
            if len(task.subsets) > 1
            else f"the subset {task.subsets[0]}"
        )
        raise Fault(
            f"Task {name} has {asked}, but its dataset ({task.dataset.path}) is the same for all. "
            "Write {subset} into dataset.path, dataset.name, dataset.split or a dataset.filter "
            "value."
        )
    form = task.dataset.gold_form
    if form is not None and form not in GOLD_FORMS:
        raise Fault(
            f"tasks.{name}.dataset.gold_form must be one of {', '.join(GOLD_FORMS)}; got {form!r}."
        )


def _dataset_plan(dataset: DatasetConfig, subset: str | None) -> DatasetPlan:
    """`{subset}` in path, name, split and filter values stands for the subset's name."""
    values = {k: _named(v, subset) for k, v in vars(dataset).items() if v is not None}
    wanted = {k: _named(v, subset) for k, v in dataset.filter.items()}
    return DatasetPlan(**{**values, "columns": _pairs(dataset.columns), "filter": _pairs(wanted)})


def _named(value: Any, subset: str | None) -> Any:
    return (
        value.replace("{subset}", subset)
        if subset is not None and isinstance(value, str)
        else value
    )


def _model_plan(model: ModelConfig) -> ModelPlan:
    drawn = {"max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop"}
    values = {
        k: v
        for k, v in vars(model).items()
        if k not in drawn and not (v is None and k in LATER_DEFAULTS)
    }
    if "n_per_request" in values:
        values["n_per_request"] = str(values["n_per_request"])
    tags_of(model.reasoning_tags)  # a tag that cannot be read is a fault now
    values["replicas"] = tuple(model.replicas)
    values["reasoning_tags"] = tuple(model.reasoning_tags)
    return ModelPlan(
        **{
            **values,
            "chat": model.chat.value,
            "engine": _pairs(model.engine, "model.engine"),
            "extra_body": _pairs(model.extra_body, "model.extra_body"),
        }
    )


def _deploy_plan(config: RunConfig) -> DeployPlan | None:
    """Only where the run starts the server (model.repo is set)."""
    if config.model.repo is None:
        return None
    deploy = config.deploy
    for key in ("max_weights_gb", "install_timeout_s", "ready_timeout_s", "stop_timeout_s"):
        if not 0 < getattr(deploy, key) < math.inf:
            raise Fault(f"deploy.{key} must be above 0, and finite; got {getattr(deploy, key)}.")
    if not 0 < deploy.port < 65536:
        raise Fault(f"deploy.port must be a port, 1 to 65535; got {deploy.port}.")
    return DeployPlan(**{**vars(deploy), "env": _pairs(deploy.env, "deploy.env")})


def _error_rate(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise Fault(f"max_error_rate is a share of the rows, 0 to 1; got {rate}.")
    return float(rate)


def _refuse_twice(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Fault(f"Task {', '.join(twice)} was asked for more than once. Name each task once.")


def _pairs(mapping: Mapping[str, Any], where: str = "") -> Pairs:
    return tuple(
        (str(k), _frozen(v, f"{where}.{k}" if where else str(k))) for k, v in mapping.items()
    )


def _frozen(value: Any, where: str = "") -> Any:
    if isinstance(value, Mapping):
        return _pairs(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise Fault(
            f"{where}: {value} is no finite number, which the plan cannot hold. Leave it out, or "
            "write a number."
        )
    return tuple(_frozen(v, where) for v in value) if isinstance(value, list | tuple) else value
