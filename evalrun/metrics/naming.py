"""Names of metrics as they are typed and shown. Each form has one writer and one reader, and they
are inverse.

    metric        NAME[:k=10&n=16]                 write_metric  parse_metric
    shown name    pass@k:n=16&k=10, or pass@5      shown_name    parse_shown

Values: see evalrun.grammar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from evalrun.errors import unknown
from evalrun.grammar import WrittenForm, read_pairs, split, write_pairs
from evalrun.metrics.base import METRICS, Metric, Output
from evalrun.metrics.create import parameter_names, parameters
from evalrun.types import Pairs


def parse_metric(text: str, where: str = "") -> tuple[str, dict[str, Any]]:
    """(key, parameters in given order) of `NAME[:k=10&n=16]`.

    Fault for an unknown name or a broken form.

    A plain word without parameters that names no metric is returned unchanged: it may name a set
    of metrics.
    """
    name, colon, rest = text.strip().partition(":")
    is_set = not colon and name not in METRICS and re.fullmatch(r"\w[\w-]*", name) is not None
    key = name if is_set else METRICS.key(name.strip(), where)
    form = WrittenForm("metric", text, "NAME or NAME:k=10&n=16")
    if colon and not rest.strip():
        raise form.broken()
    return key, dict(read_pairs(split(rest, "&") if colon else (), form))


def numbered(key: str, place: int) -> str:
    """The key of a configuration under which a metric is asked for again: `accuracy-2`."""
    return key if place == 1 else f"{key}-{place}"


def without_number(key: str) -> str:
    """The metric behind a key of a configuration: `accuracy` of `accuracy-2`."""
    match = re.fullmatch(r"(\w+)-[1-9][0-9]?", key)
    return match[1] if match is not None else key


def write_metric(key: str, params: Mapping[str, Any] | Pairs = ()) -> str:
    """The text that `parse_metric` reads as (key, params)."""
    return _with_pairs(METRICS.key(key), params)


def shown_name(key: str, params: Mapping[str, Any] | Pairs = (), is_service: bool = False) -> str:
    """The shown name: `pass@k:n=16&k=10` in the order of `params`.

    is_service (n = k = num_return_sequences): `pass@5`, the number in place of the letter.
    """
    display = METRICS.get(key).display
    values = dict(params)
    if is_service and display[-2:-1] in ("@", "^"):
        number = values.get(display[-1])
        if isinstance(number, int):
            return f"{display[:-1]}{number}"
    return display if is_service else _with_pairs(display, params)


def display_name(
    metric: Metric, output: Output, given: Sequence[str] = (), is_service: bool = False
) -> str:
    """The shown name of one number: the parameters `given`, in that order, with the values of this
    output.

    Where several outputs differ in k, k is shown even if it was not given. An output with a name of
    its own is shown by it: `drop_em`, `g-pass@4_0.5` (which says its k); as `rouge_t5/rouge1` where
    that is another metric's name.
    """
    values = {**dict(parameters(metric)), **dict(output.params)}
    names = [name for name in dict.fromkeys(given) if name in values]
    if isinstance(getattr(metric, "k", None), tuple) and "k" not in names:
        names.insert(0, "k")
    pairs = tuple((name, values[name]) for name in (values if is_service else names))
    own = output.name.partition(":")[0]
    if own == metric.display:
        return shown_name(metric.name, pairs, is_service)
    if own in METRICS and METRICS.key(own) != metric.name:
        own = f"{metric.display}/{own}"
    return own if is_service or "@" in own else _with_pairs(own, pairs)


def parse_shown(text: str) -> tuple[str, dict[str, Any], bool]:
    """(key, parameters, is_service) of a shown name; `pass@5` gives k = n = 5."""
    match = re.fullmatch(r"([\w-]+[@^])([1-9][0-9]{0,8})", text.strip())
    if match is None:
        return (*parse_metric(text), False)
    shown = {METRICS.get(key).display: key for key in METRICS}
    for letter in "kn":
        if key := shown.get(f"{match[1]}{letter}"):
            number = int(match[2])
            return (
                key,
                {name: number for name in "kn" if name in parameter_names(METRICS.get(key))},
                True,
            )
    raise unknown("metric", text, [*shown, *METRICS])


def _with_pairs(name: str, params: Mapping[str, Any] | Pairs) -> str:
    written = write_pairs(params.items() if isinstance(params, Mapping) else params)
    return f"{name}:{written}" if written else name
