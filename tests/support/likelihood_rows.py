"""Rows of log-probabilities as documents and answers, and a metric's numbers over them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from evalrun.metrics import Metric, make_metric
from evalrun.types import Answer, Choices, Doc, Roll
from support.workspace import ROOT

CASES = ROOT / "tests" / "cases"
FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

# What a row says of its metric's parameters; all else in `params` is a fact of the metric that has
# that name.
PARAMETERS = {
    "recall_at_k": ("k",),
    "mrr": ("length_normalization",),
    "loglikelihood_f1": ("positive_class",),
    "loglikelihood_f1_single_token": ("positive_class",),
    "multi_f1_numeric": ("num_classes",),
    "normalized_mc_prob": ("aggregation",),
    "prob": ("aggregation",),
    "log_prob": ("per",),
}


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a file of cases."""
    text = (CASES / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=float) for line in text.splitlines()]


def number(value: Any) -> Any:
    """A number that JSON cannot hold is written as its name."""
    return FLOATS.get(value, value) if isinstance(value, str) else value


def numbers(values: Sequence[Any]) -> tuple[Any, ...]:
    """Each of them."""
    return tuple(number(value) for value in values)


def document(sample: Mapping[str, Any], doc_id: str = "d0") -> Doc:
    """The document of one mapping. Flags alone are those of the golds."""
    gold = sample.get("gold_index", range(len(sample.get("argmax_logits_eq_gold", ()))))
    extra = tuple((key, sample[key]) for key in ("len_mc1",) if key in sample)
    places = (gold,) if isinstance(gold, int) else tuple(gold)
    return Doc(doc_id, "t", 0, "?", places, tuple(sample.get("choices", ())), extra=extra)


def answer(sample: Mapping[str, Any], pad_id: int | None = None) -> Answer:
    """The answer of one mapping."""
    if "text" in sample:
        logprobs = numbers(sample["logprobs"])
        return Roll(sample["text"], math.fsum(logprobs), len(logprobs))
    tokens = sample.get("output_tokens", sample.get("choice_token_ids"))
    return Choices(
        logprobs=numbers(sample.get("logprobs", ())),
        unconditioned=numbers(sample["unconditioned_logprobs"])
        if "unconditioned_logprobs" in sample
        else None,
        n_tokens=None
        if tokens is None
        else tuple(sum(token != pad_id for token in row) for row in tokens),
        is_greedy=tuple(sample["argmax_logits_eq_gold"])
        if "argmax_logits_eq_gold" in sample
        else None,
    )


def matrix_of(metric: Metric, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Column name -> array."""
    return {
        column.name: np.array([row[i] for row in rows]) for i, column in enumerate(metric.columns)
    }


def numbers_over(
    metric: Metric, docs: Sequence[Doc], answers: Sequence[Answer]
) -> dict[str, float]:
    """Output name -> number, documents checked first. ValueError where one is refused."""
    for doc in docs:
        if reason := metric.check_doc(doc):
            raise ValueError(reason)
    matrix = matrix_of(metric, metric.score_batch(docs, answers, [()] * len(docs)))
    return {output.name: output.reduce(matrix) for output in metric.outputs()}


def value_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Output name -> number, for one row of cases."""
    params = {
        key: value
        for key, value in row["params"].items()
        if key in PARAMETERS.get(row["metric"], ())
    }
    samples = row["inputs"].get("samples", [row["inputs"]])
    docs = [document(sample, f"d{i}") for i, sample in enumerate(samples)]
    answers = [answer(sample, row["params"].get("pad_id")) for sample in samples]
    return numbers_over(make_metric(row["metric"], params), docs, answers)


def check_row(row: Mapping[str, Any]) -> None:
    """Assert that the row's value is what the metric gives."""
    expected = row["expected"]
    if expected == {"error": True}:
        with pytest.raises(ValueError, match="document 'd0'"):
            value_of(row)
        return
    wanted = expected if isinstance(expected, dict) else {row["metric"]: expected}
    near = {"abs": row.get("tol", 1e-9), "rel": row.get("rtol", 1e-9), "nan_ok": True}
    assert value_of(row) == pytest.approx(
        {name: float(number(value)) for name, value in wanted.items()}, **near
    )
