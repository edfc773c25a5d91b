"""Signatures: what a number depends on, as one line of text. One writer, one reader, inverse.

metric:pass_at_k|version:1|params:k=10&threshold=1.0|scorer:number.v1|n:16|agg:mean|...
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from evalrun.errors import Fault, visible
from evalrun.grammar import WrittenForm, name_of_call, read_pairs, split, write_pairs
from evalrun.metrics.base import SCORERS, Metric, Output
from evalrun.metrics.create import parameters
from evalrun.types import Pairs


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
    name = name_of_call(scorer)
    return SCORERS.get(name).file_digest if name in SCORERS else None


def write_signature(signature: Signature) -> str:
    """`metric:pass_at_k|version:1|params:k=10&threshold=1.0|scorer:number.v1|n:16|agg:mean|...`;
    None is left out.
    """
    parts = []
    for name in _SIGNATURE_FIELDS:
        value = getattr(signature, name)
        if name == "params":
            value = write_pairs(value) or None
        if value is not None:
            parts.append(f"{name}:{_escape(str(value))}")
    return "|".join(parts)


def read_signature(text: str) -> Signature:
    """The signature that `write_signature` wrote.

    Fault where a field is missing, unknown or broken.
    """
    form = WrittenForm("signature", text, "metric:NAME|version:1|...|evalrun:VERSION")
    found = _signature_fields(form)
    if missing := [name for name in _SIGNATURE_FIELDS if name not in found]:
        raise Fault(
            f"Signature {visible(text)!r} lacks {', '.join(missing)}. Expected {form.form}."
        )
    for name in ("version", "n", "docs"):
        value = found[name]
        if value is not None and not value.isdecimal():
            raise form.broken()
        found[name] = None if value is None else int(value)
    pairs = read_pairs(split(found["params"], "&") if found["params"] else (), form)
    found["params"] = tuple((name, _tupled(value)) for name, value in pairs)
    return Signature(**found)


def _signature_fields(form: WrittenForm) -> dict[str, Any]:
    """Field -> text; a field that may be left out and is has its value for that."""
    found: dict[str, Any] = dict(_ABSENT)
    seen = []
    for part in form.text.split("|"):
        name, colon, value = part.partition(":")
        if not colon or name not in _SIGNATURE_FIELDS or name in seen:
            raise form.broken()
        seen.append(name)
        found[name] = _unescape(value)
    return found


def _tupled(value: Any) -> Any:
    return tuple(_tupled(each) for each in value) if isinstance(value, list | tuple) else value


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("|", "%7C").replace("\n", "%0A").replace("\r", "%0D")


def _unescape(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%7C", "|").replace("%25", "%")
