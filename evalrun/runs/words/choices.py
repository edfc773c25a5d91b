"""task= and metric=: strings with parameters, taken apart into plain settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalrun import grammar
from evalrun.errors import Fault, unknown, visible
from evalrun.metrics import METRICS
from evalrun.metrics.create import parameter_names
from evalrun.metrics.naming import numbered, parse_metric
from evalrun.metrics.task_strings import TaskString, parse_task


def ambiguous(key: str, value: str) -> Fault:
    """The Fault for several values where one is wanted."""
    listed = f"{key}=[{value}] asks for them in one run, or " if key == "task" else ""
    return Fault(
        f"{key}={value} is ambiguous: {listed}`evalrun -m {key}={value}` makes a sweep of one run "
        "each."
    )


def task_overrides(value: str, is_sweep: bool) -> list[str]:
    """`task=VALUE` as plain overrides: the names, then what each name's parameters set.

    Fault for what the grammar of task strings does not know.
    """
    if is_sweep:
        return [f"task={','.join(_choice('task', choice) for choice in grammar.split(value))}"]
    names, is_list = grammar.elements(value, "task")
    if len(names) > 1 and not is_list:
        raise ambiguous("task", value)
    plain, more = [], []
    for task, subsets in _together([parse_task(element) for element in names]):
        plain.append(task.name)
        more += [
            f"+task_params.{task.name}.{k}={grammar.hydra_value(v)}" for k, v in task.params.items()
        ]
        if task.shots is not None:
            more.append(f"tasks.{task.name}.fewshot.n={task.shots}")
        if subsets:
            more.append(f"tasks.{task.name}.subsets={grammar.hydra_value(subsets)}")
    _refuse_twice("task", plain)
    return [_listed("task", plain, is_list), *more]


def _together(tasks: list[TaskString]) -> list[tuple[TaskString, list[str]]]:
    """Each task with its subsets: `a:x,a:y` with equal parameters is one task of two subsets."""
    found: dict[object, tuple[TaskString, list[str]]] = {}
    for place, task in enumerate(tasks):
        is_part = task.subset is not None
        key = (task.name, repr(task.params), task.shots) if is_part else place
        subsets = found.setdefault(key, (task, []))[1]
        if is_part and task.subset in subsets:
            _refuse_twice("task", [f"{task.name}:{task.subset}"] * 2)
        subsets += [task.subset] if task.subset is not None else []
    return list(found.values())


def subsets_of(value: str) -> list[tuple[str, str]]:
    """(task, subset) of every task:subset in the value of `task=`."""
    named = [parse_task(element) for element in grammar.elements(value, "task")[0]]
    return [(task.name, task.subset) for task in named if task.subset is not None]


def metric_overrides(value: str, is_sweep: bool) -> list[str]:
    """`metric=VALUE` as plain overrides. Fault for a metric or parameter that does not exist."""
    if is_sweep:
        return [f"metric={','.join(_choice('metric', choice) for choice in grammar.split(value))}"]
    names, is_list = grammar.elements(value, "metric")
    if len(names) > 1 and not is_list:
        raise Fault(
            f"metric={value} is ambiguous: write 'metric=[{value}]' to score all of them in one "
            "run."
        )
    asked: dict[str, list[dict[str, Any]]] = {}
    for element in names:
        key, params = parse_metric(element)
        _check_parameters(key, params, element)
        asked.setdefault(key, []).append(params)
    more = [o for key, several in asked.items() for o in _parameter_overrides(key, several)]
    return [_listed("metric", list(asked), is_list), *more]


def _check_parameters(key: str, params: Mapping[str, Any], element: str) -> None:
    for name in params:
        if name not in parameter_names(METRICS.get(key)):
            raise unknown(
                "parameter", name, parameter_names(METRICS.get(key)), f"metric {visible(element)}"
            )


def _parameter_overrides(key: str, several: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the parameters of one metric set. Asked for again with others, it is KEY-2, KEY-3, ...

    Fault where two are alike but for k, which can be a list.
    """
    for place, params in enumerate(several, 1):
        rest = {name: value for name, value in params.items() if name != "k"}
        for other in several[: place - 1]:
            if rest == {name: value for name, value in other.items() if name != "k"}:
                _refuse_twice("metric", [key, key])
        if place == 1:
            yield from (f"metrics.{key}.{k}={grammar.hydra_value(v)}" for k, v in params.items())
            continue
        at = f"++metrics.{numbered(key, place)}"
        yield from (f"{at}.{k}={grammar.hydra_value(v)}" for k, v in params.items())
        if not params:
            yield f"{at}={{}}"


def _listed(key: str, names: list[str], is_list: bool) -> str:
    return f"{key}=[{','.join(names)}]" if is_list else f"{key}={names[0]}"


def _choice(key: str, choice: str) -> str:
    """One choice of a sweep, a name or a list of names. Fault for parameters."""
    names, is_list = grammar.elements(choice, key)
    plain = [parse_metric(n)[0] if key == "metric" else parse_task(n).name for n in names]
    for name, element in zip(plain, names, strict=True):
        if (key == "task" and name != element) or (key == "metric" and ":" in element):
            raise Fault(
                f"{key}={element} has parameters, which a sweep (-m) cannot carry. Give them as "
                "settings of their own (num_return_sequences=8, tasks.NAME.fewshot.n=5), or run "
                "without -m."
            )
    _refuse_twice(key, plain)
    return _listed(key, plain, is_list).partition("=")[2]


def _refuse_twice(key: str, names: list[str]) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if not twice:
        return
    way = f"Name it once: {key}={twice[0]}."
    if key == "metric" and twice[0] in METRICS and "k" in parameter_names(METRICS.get(twice[0])):
        way = f"Name it once, with a list: 'metric={METRICS.get(twice[0]).display}:k=[1,2,4]&n=16'."
    raise Fault(f"{key} {', '.join(twice)} was asked for more than once. {way}")
