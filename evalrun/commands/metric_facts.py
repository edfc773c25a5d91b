"""What is known of a metric, read off its class: names, request kind, parameters, range,
direction, source.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from evalrun.metrics import METRICS, foreign, make_metric, parameter_defaults
from evalrun.metrics.base import Metric, Output
from evalrun.metrics.create import fixed_parameters
from evalrun.metrics.signatures import aggregation

_SHAPES: tuple[dict[str, Any], ...] = ({}, {"k": 1}, {"n": 1}, {"k": 1, "n": 1})
"""Parameters that must be set before a metric can say what its outputs are."""


def one_line(key: str) -> str:
    """Aliases, request kind, parameters, range, direction and source of a metric, in one line."""
    cls = METRICS.get(key)
    also = ", ".join(METRICS.aliases(key)) or "-"
    ranges = " or ".join(dict.fromkeys(_range(cls, output) for output in _outputs(cls)))
    return (
        f"also: {also}; reads {cls.reads.value}; {_parameters(key) or 'no parameters'}; {ranges}; "
        f"{_direction(cls)}; source: {cls.source}"
    )


def described(name: str) -> str:
    """The docstring of a metric and its facts, a few lines.

    Fault for a name that does not exist.
    """
    foreign.register_entry_point(name)
    key = METRICS.key(name, "evalrun list metrics")
    cls = METRICS.get(key)
    outputs = _outputs(cls)
    lines = [f"{key} (version {cls.version})", "", inspect.cleandoc(cls.__doc__ or ""), ""]
    facts = {
        "also called": ", ".join(METRICS.aliases(key)) or "-",
        "reads": cls.reads.value,
        "scorer": _scorer(cls),
        "parameters": _parameters(key) or "-",
        "outputs": ", ".join(_output(cls, output) for output in outputs),
        "range": ", ".join(dict.fromkeys(_range(cls, output) for output in outputs)),
        "direction": _direction(cls),
        "number": ", ".join(dict.fromkeys(_reduction(output) for output in outputs)),
        "needs": ", ".join(cls.packages) or "-",
        "source": cls.source,
    }
    width = max(map(len, facts))
    return "\n".join(
        [*lines, *(f"{what:<{width}}  {text}" for what, text in facts.items() if text != "-")]
    )


def _outputs(cls: type[Metric]) -> tuple[Output, ...]:
    names = {*parameter_defaults()[cls.name]}
    for shape in _SHAPES:
        if (shape.keys() <= names) and all(
            not needs or name in shape for name, needs in _needs(cls).items()
        ):
            return make_metric(cls.name, shape).outputs()
    raise ValueError(f"metric {cls.name} does not say its outputs")


def _needs(cls: type[Metric]) -> dict[str, bool]:
    return {"k": cls.needs_k, "n": cls.needs_n}


def _parameters(key: str) -> str:
    """`k (must be set), n, scorer, threshold=1.0`: a parameter without a value is open."""
    parts = []
    needs = _needs(METRICS.get(key))
    for name, value in parameter_defaults()[key].items():
        text = name if value is None else f"{name}={_value(value)}"
        parts.append(f"{text} (must be set)" if needs.get(name) else text)
    return ", ".join(parts)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return value if isinstance(value, str) and re.fullmatch(r"[\w.+-]+", value) else repr(value)


def _scorer(cls: type[Metric]) -> str:
    if not cls.has_scorer:
        return "-"
    return str(fixed_parameters(cls).get("scorer") or "the task's own, or scorer=NAME")


def _output(cls: type[Metric], output: Output) -> str:
    return output.name if len(_outputs(cls)) > 1 else output.name.partition(":")[0]


def _range(cls: type[Metric], output: Output) -> str:
    """The interval of an output's values: as declared, else as the docstring says, else what its
    unit allows.
    """
    if output.is_bounded:
        return "[0, 1]"
    unit = "" if output.unit == "fraction" else f" {output.unit}"
    stated = stated_range(cls) if len(_outputs(cls)) == 1 else None
    return (
        stated or {"percent": "[0, 100]", "count": "[0, inf)"}.get(output.unit, "(-inf, inf)")
    ) + unit


def _direction(cls: type[Metric]) -> str:
    """Which way is better; outputs that go the other way are named."""
    outputs = _outputs(cls)
    lower = [output.name for output in outputs if not output.is_higher_better]
    if not lower:
        return "higher is better"
    return (
        "lower is better"
        if len(lower) == len(outputs)
        else f"higher is better, lower for {', '.join(lower)}"
    )


def _reduction(output: Output) -> str:
    kinds = {
        "mean": "mean over documents, analytic error",
        "sums": "a formula over sums",
        "rows": "a formula over rows",
    }
    text = kinds[aggregation(output)]
    return text if output.per_doc is not None else f"{text} of all documents, bootstrap error"


def stated_range(cls: type[Metric]) -> str | None:
    """The range that a docstring states (`Range [-1, 1]`), or None."""
    match = re.search(
        r"Range (\[[^\])]*[\])]|\{[^}]*\})", inspect.cleandoc(cls.__doc__ or "").replace("\n", " ")
    )
    return match[1] if match else None
