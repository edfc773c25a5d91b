"""Metrics and scorers from names and parameters, checked while planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from evalrun.errors import Fault, unknown, visible
from evalrun.grammar import WrittenForm, read_call
from evalrun.metrics.base import METRICS, SCORERS, Metric, Scorer
from evalrun.metrics.text.exact import ExactMatchScorer
from evalrun.strict_json import frozen
from evalrun.text.extract import EXTRACTORS
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
    given = {name: frozen(value) for name, value in (params or {}).items()}
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


def make_scorer(name: str | None, extract: str | None, where: str = "") -> Scorer:
    """The scorer that a metric names, on a task that extracts by `extract`.

    None: the task's own, which is the scorer called `extract`, else exact_match on what that
    extractor reads. exact_match compares what the task extracts, and is the task's own scorer where
    only that can read it (letter). `exact_match(extract=number)` says it in full. Fault where the
    name does not exist.

    Args:
        where: the place that is named in the error.
    """
    is_own = extract is not None and extract in SCORERS
    if is_own and (name is None or (name == ExactMatchScorer.name and extract not in EXTRACTORS)):
        return scorer_named(str(extract), where)
    if name is not None and name != ExactMatchScorer.name:
        return scorer_named(name, where)
    if extract is not None:
        EXTRACTORS.key(extract, where)
    return ExactMatchScorer(extract)


def scorer_named(spec: str, where: str = "") -> Scorer:
    """The scorer of a name or a signature: `number`, `exact_match(extract=number)`,
    `exact_match.v1`.

    Fault for an unknown name or parameter, or a version that is not this one.

    Args:
        where: the place that is named in the error.
    """
    call = read_call(spec, WrittenForm("scorer", spec, "NAME or exact_match(extract=number)"))
    cls = SCORERS.get(call.name, where)
    if call.version not in (None, cls.version):
        raise Fault(
            f"Scorer {visible(spec)!r} is not here: evalrun has version {cls.version} of "
            f"{call.name!r}."
        )
    allowed = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    for key in call.params:
        if key not in allowed:
            raise unknown(f"parameter of scorer {call.name!r}", key, allowed, where)
    return cls(**{name: frozen(value) for name, value in call.params.items()})


def _at(where: str) -> str:
    return f" (in {where})" if where else ""
