"""Written forms of metrics and tasks. Each has one writer and one reader, and they are inverse.

    metric        NAME[:k=10&n=16]                     write_metric     parse_metric
    shown name    pass@k:n=16&k=10, or pass@5          shown_name       parse_shown
    signature     metric:pass_at_k|version:1|...       write_signature  read_signature
    task          NAME[:SUBSET][@k=2&n=8][|SHOTS]      write_task       parse_task

Values are Python literals, or bare words that stand for text.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from evalrun.errors import Fault, unknown, visible
from evalrun.metrics.base import METRICS, SCORERS, Metric, Output
from evalrun.metrics.create import parameter_names, parameters
from evalrun.types import Pairs

_KEY = re.compile(r"[A-Za-z_]\w*")
_BARE = re.compile(r"[A-Za-z_][\w./-]*")
_CONSTANTS = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}
# LightEval's name, read so that the planner can explain it
_FOREIGN_TASK_PARAMETERS = ("sample_scoring_function",)
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class TaskString:
    """A task as written on the command line.

    Attributes:
        shots: None where the task's own number holds.
        suite: an old form.
    """

    name: str
    subset: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    shots: int | None = None
    suite: str | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """What a number depends on.

    Attributes:
        params: in declared order, without n.
        scorer: a scorer's signature, or None.
        file: the first 12 hex digits of the SHA-256 of a user's own file behind it.
        n: None where each document has its own number of samples.
        ask_id: None where documents were scored without a run.
        docs: the number is of the first so many documents only, of a run that holds more.
    """

    metric: str
    version: int
    params: Pairs
    scorer: str | None
    n: int | None
    agg: str
    err: str
    ask_id: str | None
    evalrun: str
    file: str | None = None
    docs: int | None = None


_SIGNATURE_FIELDS = tuple(each.name for each in fields(Signature))
_IN_SCORER = ("n", "scorer", "strip", "normalize")
"""Parameters that other fields of a signature say: n its own, the others as part of the scorer."""
_ABSENT = {"params": (), "scorer": None, "file": None, "n": None, "ask_id": None, "docs": None}
"""Fields that a signature may leave out, and what they are then."""


def parse_metric(text: str, where: str = "") -> tuple[str, dict[str, Any]]:
    """(key, parameters in given order) of `NAME[:k=10&n=16]`.

    Fault for an unknown name or a broken form.

    A plain word without parameters that is no metric stays as it is: it may name a set of metrics.
    """
    name, colon, rest = text.strip().partition(":")
    is_set = not colon and name not in METRICS and re.fullmatch(r"\w[\w-]*", name) is not None
    key = name if is_set else METRICS.key(name.strip(), where)
    if colon and not rest.strip():
        raise _broken("metric", text, "NAME or NAME:k=10&n=16")
    return key, dict(_parse_pairs(_split(rest, "&"), "metric", text, "NAME:k=10&n=16"))


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


def signature(
    metric: Metric,
    output: Output,
    *,
    scorer: str | None,
    n: int | None,
    error: str,
    ask_id: str | None,
    evalrun_version: str,
    docs: int | None = None,
) -> str:
    """The signature of one number, as text.

    Args:
        error: the method of its error.
        n, ask_id, docs: see Signature.
    """
    values = {**dict(parameters(metric)), **dict(output.params)}
    params = tuple((name, value) for name, value in values.items() if name not in _IN_SCORER)
    return write_signature(
        Signature(
            metric=metric.name,
            version=metric.version,
            params=params,
            scorer=scorer,
            n=n,
            agg=aggregation(output),
            err=error,
            ask_id=ask_id,
            evalrun=evalrun_version,
            file=_file_of(metric, scorer),
            docs=docs,
        )
    )


def aggregation(output: Output) -> str:
    """How documents become the number: `mean` of their values, a formula over `sums`, or over
    all their `rows`.
    """
    if output.per_doc is not None:
        return "mean"
    return "sums" if output.of_sums is not None else "rows"


def _file_of(metric: Metric, scorer: str | None) -> str | None:
    """The digest of the user's own file that the metric comes from, else that of its scorer."""
    if metric.file_digest is not None or scorer is None:
        return metric.file_digest
    name = re.split(r"[.(]", scorer, maxsplit=1)[0]
    return SCORERS.get(name).file_digest if name in SCORERS else None


def write_signature(signature: Signature) -> str:
    """`metric:pass_at_k|version:1|params:k=10&threshold=1.0|scorer:number.v1|n:16|agg:mean|...`;
    None is left out.
    """
    parts = []
    for name in _SIGNATURE_FIELDS:
        value = getattr(signature, name)
        if name == "params":
            value = "&".join(f"{key}={_write_value(each)}" for key, each in value) or None
        if value is not None:
            parts.append(f"{name}:{_escape(str(value))}")
    return "|".join(parts)


def read_signature(text: str) -> Signature:
    """The signature that `write_signature` wrote.

    Fault where a field is missing, unknown or broken.
    """
    form = "metric:NAME|version:1|...|evalrun:VERSION"
    found: dict[str, Any] = dict(_ABSENT)
    seen = []
    for part in text.split("|"):
        name, colon, value = part.partition(":")
        if not colon or name not in _SIGNATURE_FIELDS or name in seen:
            raise _broken("signature", text, form)
        seen.append(name)
        found[name] = _unescape(value)
    if missing := [name for name in _SIGNATURE_FIELDS if name not in found]:
        raise Fault(f"Signature {visible(text)!r} lacks {', '.join(missing)}. Expected {form}.")
    n = found["n"]
    if not (found["version"].isdecimal() and (n is None or n.isdecimal())):
        raise _broken("signature", text, form)
    if "params" in seen:
        pairs = _parse_pairs(_split(found["params"], "&"), "signature", text, form)
        found["params"] = tuple((name, _tupled(value)) for name, value in pairs)
    docs = found["docs"]
    if docs is not None and not docs.isdecimal():
        raise _broken("signature", text, form)
    counts = {"n": None if n is None else int(n), "docs": None if docs is None else int(docs)}
    return Signature(**{**found, "version": int(found["version"]), **counts})


def parse_task(text: str) -> TaskString:
    """Read `NAME[:SUBSET][@k=2&n=8][|SHOTS]`; `@k=2@n=8` and the old `SUITE|NAME|SHOTS` are read
    too.

    Fault for any other form, and for a parameter that is neither k, n nor a parameter of any
    metric.
    """
    form = "NAME[:SUBSET][@k=2&n=8][|SHOTS]"
    parts = [part.strip() for part in _split(text.strip(), "|")]
    suite = parts.pop(0) if len(parts) == 3 else None
    if len(parts) > 2 or "" in parts or suite == "":
        raise _broken("task", text, form)
    if len(parts) == 2 and not (parts[1].isascii() and parts[1].isdecimal() and len(parts[1]) < 7):
        raise _broken("task", text, form, f"{visible(parts[1])!r} is no number of shots")
    head, *rest = _split(parts[0], "@")
    name, colon, subset = (part.strip() for part in head.partition(":"))
    if not name or (colon and not subset) or re.search(r"[\s&=,]", name + subset):
        raise _broken("task", text, form)
    pairs = _parse_pairs([pair for part in rest for pair in _split(part, "&")], "task", text, form)
    known = task_parameters()
    for given, _ in pairs:
        if given not in known:
            raise unknown("parameter", given, known, f"task {visible(text)!r}")
    shots = int(parts[1]) if len(parts) == 2 else None
    return TaskString(name, subset or None, dict(pairs), shots, suite)


def write_task(task: TaskString) -> str:
    """The text that `parse_task` reads as `task`. A suite needs shots: `SUITE|NAME|SHOTS`."""
    head = task.name if task.subset is None else f"{task.name}:{task.subset}"
    pairs = "&".join(f"{name}={_write_value(value)}" for name, value in task.params.items())
    text = f"{head}@{pairs}" if pairs else head
    if task.suite is not None:
        return f"{task.suite}|{text}|{task.shots or 0}"
    return text if task.shots is None else f"{text}|{task.shots}"


def task_parameters() -> tuple[str, ...]:
    """What may stand after the @ of a task: every parameter of every metric, k and n first."""
    names = {name: None for key in METRICS for name in parameter_names(METRICS.get(key))}
    return tuple(dict.fromkeys(("k", "n", *names, *_FOREIGN_TASK_PARAMETERS)))


def _with_pairs(name: str, params: Mapping[str, Any] | Pairs) -> str:
    pairs = params.items() if isinstance(params, Mapping) else params
    written = "&".join(f"{key}={_write_value(value)}" for key, value in pairs)
    return f"{name}:{written}" if written else name


def _parse_pairs(parts: Iterable[str], what: str, text: str, form: str) -> list[tuple[str, Any]]:
    parts = list(parts)
    if parts == [""]:
        if text.rstrip().endswith(("@", "&", ":")):
            raise _broken(what, text, form)
        return []
    pairs: list[tuple[str, Any]] = []
    for part in parts:
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not _KEY.fullmatch(key) or not value.strip():
            raise _broken(what, text, form, f"{visible(part)!r} is not PARAMETER=VALUE")
        if any(key == seen for seen, _ in pairs):
            raise _broken(what, text, form, f"{key!r} is given twice")
        pairs.append((key, _read_value(value.strip(), what, text, form)))
    return pairs


def _read_value(value: str, what: str, text: str, form: str) -> Any:
    if value in _CONSTANTS:
        return _CONSTANTS[value]
    if _BARE.fullmatch(value):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise _broken(
            what, text, form, f"{visible(value)!r} is neither a Python literal nor a bare word"
        ) from None


def _write_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return (
            "["
            + ",".join(
                _write_value(each) if not isinstance(each, str) else repr(each) for each in value
            )
            + "]"
        )
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value not in _CONSTANTS else repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise ValueError("NaN is no parameter value")
        return "1e999" if value > 0 else "-1e999"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    raise ValueError(
        f"a parameter value must be a number, a truth value, a text or a list, got {value!r}"
    )


def _split(text: str, mark: str) -> list[str]:
    """`text` at every `mark` that stands outside quotes and brackets."""
    parts, depth, quote, start, place = [], 0, "", 0, 0
    while place < len(text):
        char = text[place]
        if quote:
            place += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _OPEN + _CLOSE:
            depth += 1 if char in _OPEN else -1
        elif char == mark and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
        place += 1
    return [*parts, text[start:]]


def _tupled(value: Any) -> Any:
    return tuple(_tupled(each) for each in value) if isinstance(value, list | tuple) else value


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("|", "%7C").replace("\n", "%0A").replace("\r", "%0D")


def _unescape(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%7C", "|").replace("%25", "%")


def _broken(what: str, text: str, form: str, why: str = "") -> Fault:
    detail = f": {why}" if why else ""
    return Fault(f"The {what} {visible(text)!r} cannot be read{detail}. Write {form}.")
