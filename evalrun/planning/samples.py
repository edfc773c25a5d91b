"""How many samples (n) are asked, how many are drawn (k), and how warm: decided here, with the
origin of each.

The order for n and k: the metric's own parameter, the task string, num_return_sequences, then k = n
(where num_return_sequences was given), then n = k, then n = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalrun import backends
from evalrun.backends.limits import positive_int
from evalrun.errors import Fault, unknown
from evalrun.grammar import name_of_call
from evalrun.metrics import METRICS, SCORERS, Metric, check_ready, make_metric, make_scorer
from evalrun.metrics.create import parameter_defaults, parameter_names, parameters
from evalrun.metrics.repeated import reads_one
from evalrun.types import Kind, MetricPlan, Sampling

TRIO = ("pass_at_k", "cons_at_k", "avg_at_n")
DEFAULT_WARM = 0.7
MOST_SAMPLES = 100_000  # per document
_READS = {
    Kind.GENERATE: "generated texts",
    Kind.LOGLIKELIHOOD: "log-likelihoods of choices",
    Kind.UNCONDITIONED: "log-likelihoods of choices without the context",
    Kind.ROLLING: "log-likelihoods of whole texts",
}


@dataclass(frozen=True)
class MetricRequest:
    """One metric as asked for: its key, the parameters that were set (in given order), and
    whether it was added.
    """

    key: str
    given: Mapping[str, Any]
    order: tuple[str, ...] = ()
    is_added: bool = False


@dataclass(frozen=True)
class SampleCounts:
    """What the task string and num_return_sequences say of n and k. Each may be absent."""

    task_params: Mapping[str, Any]
    num_return_sequences: int | None
    where: str  # the task, for errors
    is_stored: bool = False  # counts by the command of the stored run, not by this one


def resolve(
    requests: Sequence[MetricRequest],
    counts: SampleCounts,
    extract: str | None,
    is_own: bool,
    backend: str,
    generative: str | None = None,
) -> tuple[MetricPlan, ...]:
    """Every metric of a task with n, k and all other parameters decided.

    Args:
        is_own: the metrics are the task's own, so that pass@k, cons@k and avg@n are added where
            more than one sample is asked for (num_return_sequences > 1, or k or n in the task
            string). Faults: an unknown metric or parameter, an open k, k > n, the same metric
            twice, num_return_sequences below what a metric needs, a metric that reads what the
            backend does not answer.
        generative: the task that asks the same by generating, named in that error.
    """
    wanted = list(requests)
    for request in wanted:
        _refuse_unanswered(request.key, counts.where, backend, generative)
    if is_own and _asks_for_samples(counts):
        wanted += _trio(wanted, counts, extract)
    _refuse_unknown_task_params(wanted, counts)
    plans = _distinct([_decide(request, counts, extract) for request in wanted])
    asked = counts.num_return_sequences
    for plan in plans:
        if asked is not None and plan.n > asked and not counts.is_stored:
            raise Fault(
                f"num_return_sequences={asked} is below the n={plan.n} that metric {plan.key} of "
                f"task {counts.where} needs ({dict(plan.origins).get('n', 'n = k')}). Raise "
                f"num_return_sequences to {plan.n}, or lower n."
            )
    return plans


def _distinct(plans: Sequence[MetricPlan]) -> tuple[MetricPlan, ...]:
    """Each number once: `accuracy` and `accuracy:scorer=math` are one where math is the task's own
    scorer.
    """
    found: dict[object, MetricPlan] = {}
    for plan in plans:
        params = tuple(pair for pair in plan.params if pair[0] != "scorer")
        found.setdefault((plan.key, params, plan.scorer, plan.n), plan)
    return tuple(found.values())


def gives_verdicts(scorer: str | None) -> bool:
    """Whether a scorer, by its signature, says right or wrong of each sample; a graded one
    (rouge1) does not.
    """
    return scorer is not None and not SCORERS.get(name_of_call(scorer)).is_graded


def _trio(
    wanted: Sequence[MetricRequest], counts: SampleCounts, extract: str | None
) -> list[MetricRequest]:
    """pass@k, cons@k and avg@n as far as they are not there, judged as the task's first metric
    with verdicts judges.
    """
    scorers = [_decide(w, counts, extract).scorer for w in wanted if METRICS.get(w.key).has_scorer]
    judges = [scorer for scorer in scorers if gives_verdicts(scorer)]
    if not judges:
        return []
    own = make_scorer(None, extract, where=f"task {counts.where}").signature
    given = {} if own in judges else {"scorer": judges[0]}
    have = {w.key for w in wanted}
    return [MetricRequest(key, given, is_added=True) for key in TRIO if key not in have]


def kinds_of(metrics: Sequence[MetricPlan]) -> tuple[str, ...]:
    """The request kinds that these metrics read, in the order of Kind."""
    types = [METRICS.get(plan.key) for plan in metrics]
    wanted = {each.reads for each in types}
    if any(each.needs_unconditioned for each in types):
        wanted.add(Kind.UNCONDITIONED)
    return tuple(kind.value for kind in Kind if kind in wanted)


def _refuse_unanswered(key: str, task: str, backend: str, generative: str | None) -> None:
    metric = METRICS.get(key)
    reads = (metric.reads, *((Kind.UNCONDITIONED,) if metric.needs_unconditioned else ()))
    refused = [
        kind
        for kind in reads
        # all generate
        if kind is not Kind.GENERATE and not backends.answers(backend, kind, metric.is_single_token)
    ]
    if not refused:
        return
    answered = backends.kinds(backend)
    variant = f"Ask the same questions by generating: task={generative}. " if generative else ""
    others = ", ".join(backends.answering(refused[0]))
    raise Fault(
        f"Metric {METRICS.key(key)} of task {task} reads {_READS[refused[0]]} (request kind "
        f"{refused[0]}), but backend {backend} answers only "
        f"{' and '.join(_READS[kind] for kind in answered)} ({', '.join(answered)}). {variant}Or "
        f"take a backend that answers it: {others}; or compute the metric from "
        f"log-probabilities that you have: evalrun score {METRICS.key(key)} FILE.jsonl."
    )


def _asks_for_samples(counts: SampleCounts) -> bool:
    if "k" in counts.task_params or "n" in counts.task_params:
        return True
    return counts.num_return_sequences is not None and counts.num_return_sequences > 1


def _refuse_unknown_task_params(requests: Sequence[MetricRequest], counts: SampleCounts) -> None:
    allowed = {"k", "n", *(name for w in requests for name in parameter_names(METRICS.get(w.key)))}
    for name in counts.task_params:
        if name not in allowed:
            raise unknown("parameter", name, allowed, f"the task string of {counts.where}")


def _decide(request: MetricRequest, counts: SampleCounts, extract: str | None) -> MetricPlan:
    metric_type = METRICS.get(request.key)
    draws = metric_type.reads is Kind.GENERATE  # the k of recall@k counts choices, not samples
    params = _given(request)
    origins: dict[str, str] = {n: "metric parameter" for n in ("k", "n") if n in params}
    _take_from_task_string(params, origins, metric_type, counts, draws)
    named = tuple(params)
    is_service = request.is_added or not named
    if draws:
        _decide_counts(request.key, parameter_names(metric_type), params, origins, counts)
    metric = make_metric(request.key, params)
    n = getattr(metric, "n", None)
    if reads_one(metric):
        n, origins["n"] = _n_of_one(counts)
    scorer = None
    if metric.has_scorer:
        scorer = make_scorer(metric.scorer, extract, where=f"task {counts.where}").signature
    check_ready(metric, f"task {counts.where}")
    return MetricPlan(
        key=METRICS.key(request.key),
        params=parameters(metric),
        scorer=scorer,
        n=_checked_n(n, counts.where),
        origins=tuple(sorted(origins.items())),
        given=request.order or named,
        is_service=draws and is_service and (counts.num_return_sequences or 1) > 1,
        is_added=request.is_added,
    )


def _given(request: MetricRequest) -> dict[str, Any]:
    """The parameters that were set.

    The composed configuration holds every parameter; one that stands at its default was not given,
    unless it was typed.
    """
    defaults = parameter_defaults()[METRICS.key(request.key)]
    return {
        k: v
        for k, v in request.given.items()
        if v is not None and (k in request.order or v != defaults.get(k))
    }


def _take_from_task_string(
    params: dict[str, Any],
    origins: dict[str, str],
    metric_type: type[Metric],
    counts: SampleCounts,
    is_drawn: bool,
) -> None:
    """Add what the task string says of parameters that the metric has and nobody set."""
    names = parameter_names(metric_type)
    for name, value in counts.task_params.items():
        if name in names and name not in params and (is_drawn or name not in ("k", "n")):
            params[name] = value
            origins[name] = "task string"


def _checked_n(n: Any, task: str) -> int:
    """Samples per document of a metric; 1 where it has no such number."""
    if not isinstance(n, int):
        return 1
    if n > MOST_SAMPLES:
        raise Fault(
            f"n={n} samples per document (task {task}) is more than the {MOST_SAMPLES:,} that a "
            "run can hold."
        )
    return n


def _n_of_one(counts: SampleCounts) -> tuple[int, str]:
    """(n, its origin) of a metric that knows no n: its number is averaged over all samples that
    are asked for.
    """
    if "n" in counts.task_params:
        return positive_int(counts.task_params["n"], "n"), "task string"
    return (
        (counts.num_return_sequences, "num_return_sequences")
        if counts.num_return_sequences
        else (1, "default")
    )


def _decide_counts(
    key: str,
    names: Sequence[str],
    params: dict[str, Any],
    origins: dict[str, str],
    counts: SampleCounts,
) -> None:
    """Set n and k where they are open, in the order that the module's docstring gives."""
    asked = counts.num_return_sequences
    if "n" in names and "n" not in params and asked is not None:
        params["n"], origins["n"] = asked, "num_return_sequences"
    if "k" in names and "k" not in params:
        if asked is None:
            raise _needs_k(key, counts.where)
        params["k"], origins["k"] = params["n"], "k = n"
    _check_k(key, params.get("k", 1))
    if "n" in names and "n" not in params:
        params["n"], origins["n"] = _open_n(
            key, params.get("k", counts.task_params.get("k")), counts
        )


def _check_k(key: str, k: Any) -> None:
    for draw in k if isinstance(k, list | tuple) else [k]:
        if isinstance(draw, bool) or not isinstance(draw, int) or draw < 1:
            raise Fault(
                f"Metric {METRICS.key(key)!r}: k must be a positive whole number, got {draw!r}."
            )


def _open_n(key: str, k: Any, counts: SampleCounts) -> tuple[Any, str]:
    """(n, its origin) where nothing sets n: the largest k, else 1. Fault where n is needed."""
    if k is not None:
        return (max(k) if isinstance(k, list | tuple) and k else k), "n = k"
    if METRICS.get(key).needs_n:
        display = METRICS.get(key).display
        raise Fault(
            f"Metric {display} of task {counts.where} needs n: how many answers are averaged. "
            f"Write metric='{display}:n=4', or num_return_sequences=4."
        )
    return 1, "default"


def _needs_k(key: str, task: str) -> Fault:
    display = METRICS.get(key).display
    return Fault(
        f"Metric {display} of task {task} needs k: how many answers are drawn. Write "
        f"metric='{display}:k=1&n=4', task='{task}@k=1&n=4', or num_return_sequences=N for "
        "n = k = N."
    )


def warm(
    n: int, asked: float | None, protocol: float | None, may_be_equal: bool, where: str
) -> tuple[float, str]:
    """(temperature, its origin): what was asked; else 0 for one sample; else the task's protocol
    value, else 0.7.

    Fault for a temperature that is negative or not finite, and for 0 with n > 1 unless
    `may_be_equal`.
    """
    if asked is not None:
        if not math.isfinite(asked) or asked < 0:
            raise Fault(f"model.temperature must be a finite number >= 0; got {asked!r}.")
        if asked == 0 and n > 1 and not may_be_equal:
            raise Fault(
                f"model.temperature=0 with n={n} gives {n} equal samples for every document of "
                f"task {where}. Set model.temperature above 0, ask for one sample, or say "
                "allow_equal_samples=true."
            )
        return float(asked), "model.temperature"
    if n == 1:
        return 0.0, "one sample: greedy"
    return (protocol, "task") if protocol is not None else (DEFAULT_WARM, "default for n > 1")


def refuse_bad_sampling(sampling: Sampling) -> None:
    """Fault for values that no engine can draw with."""
    positive_int(sampling.max_tokens, "max_tokens")
    if not 0 < sampling.top_p <= 1:
        raise Fault(f"top_p must be above 0 and at most 1; got {sampling.top_p!r}.")
    if sampling.top_k is not None:
        positive_int(sampling.top_k, "model.top_k")
    if sampling.min_p is not None and not 0 <= sampling.min_p <= 1:
        raise Fault(f"model.min_p must lie in 0..1; got {sampling.min_p!r}.")
    if sampling.repetition_penalty is not None and not 0 < sampling.repetition_penalty < math.inf:
        raise Fault(
            "model.repetition_penalty must be a finite number above 0; got "
            f"{sampling.repetition_penalty!r}."
        )
