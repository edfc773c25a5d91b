"""Metrics from names and parameters, checked while planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from evalrun.errors import Fault, unknown, visible
from evalrun.metrics.base import METRICS, Metric
from evalrun.metrics.text.exact import scorer_named
from evalrun.types import Kind, Pairs


def make_metric(key: str, params: Mapping[str, Any] | None = None, where: str = "") -> Metric:
    """The metric behind a name or alias, with these parameters; lists become tuples.

    Fault for an unknown metric, parameter or scorer, for n or k that are no positive whole numbers,
    and for k > n.

    Args:
        where: the place that is named in the error (a file, a key).
    """
    cls = METRICS.get(key, where)
    allowed = parameter_names(cls)
    given = {name: _frozen(value) for name, value in (params or {}).items()}
    for name, value in fixed_parameters(cls).items():
        if given.pop(name, value) not in (value, None):
            raise Fault(
                f"Metric {cls.name!r}: {name} is always {value!r} and cannot be set.{_at(where)}"
            )
    for name in given:
        if name not in allowed:
            raise unknown(f"parameter of metric {cls.name!r}", name, allowed, where)
    scorer = given.get("scorer")
    if scorer is not None:
        if not isinstance(scorer, str):
            raise Fault(
                f"Metric {cls.name!r}: scorer must be a name, got "
                f"{visible(repr(scorer))}.{_at(where)}"
            )
        scorer_named(scorer)
    try:
        return cls(**given)
    except Fault as fault:
        raise Fault(f"{fault}{_at(where)}") from None


def parameter_names(cls: type[Metric]) -> tuple[str, ...]:
    """The parameters that may be given, in declared order."""
    return tuple(field.name for field in fields(cls) if field.init)  # type: ignore[arg-type]


def parameters(metric: Metric) -> Pairs:
    """Every parameter with its value, in declared order."""
    return tuple((name, getattr(metric, name)) for name in parameter_names(type(metric)))


def fixed_parameters(cls: type[Metric]) -> dict[str, Any]:
    """Fields that a metric sets itself (the scorer of exact_match)."""
    return {f.name: f.default for f in fields(cls) if not f.init}  # type: ignore[arg-type]


def parameter_defaults() -> dict[str, dict[str, Any]]:
    """For every metric, its parameters with their defaults, in declared order."""
    return {
        key: {f.name: f.default for f in fields(METRICS.get(key)) if f.init}  # type: ignore[arg-type]
        for key in METRICS
    }


def samples_needed(metric: Metric) -> int:
    """How many samples of a document the metric asks for: n, where n is open the largest k, else 1.

    1 for a metric that reads no generated texts (the k of recall_at_k counts choices).
    """
    if metric.reads is not Kind.GENERATE:
        return 1
    n, k = getattr(metric, "n", None), getattr(metric, "k", None)
    if isinstance(n, int):
        return n
    return max(k) if isinstance(k, tuple) else k or 1


def check_ready(metric: Metric, where: str = "") -> None:
    """Fault where a count that must be set (k of pass@k, n of avg@n) is still open."""
    for name, is_needed in (("k", metric.needs_k), ("n", metric.needs_n)):
        if is_needed and getattr(metric, name) is None:
            raise Fault(
                f"Metric {metric.display!r} needs {name}, and nothing sets it. Write "
                f"{metric.display}:{name}=4, TASK@{name}=4, or num_return_sequences=4.{_at(where)}"
            )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list | tuple) else value


def _at(where: str) -> str:
    return f" (in {where})" if where else ""
