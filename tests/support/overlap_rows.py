"""Rows of texts and golds as documents, and a metric's numbers over them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from evalrun.metrics import Metric, make_metric, make_scorer
from evalrun.types import Doc, Samples
from support.workspace import ROOT

ROWS = [
    json.loads(line)
    for line in (ROOT / "tests" / "cases" / "oracle_overlap.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
PARAMETERS = (
    "stemmer",
    "tokenizer",
    "weights",
    "tokenize",
    "language",
    "normalized",
    "asian_support",
)  # what rows set; all else is a fact
FACTS = {"extractiveness": ("tokenizer",), "copyright": ("tokenizer",)}


def of(*metrics: str) -> list[Any]:
    """The rows of some metrics, as parameters of a test."""
    return [
        pytest.param(row, id=f"{row['metric']}-{row['case_id']}")
        for row in ROWS
        if row["metric"] in metrics
    ]


def metric_of(row: Mapping[str, Any]) -> Metric:
    """The metric of a row, with the row's parameters."""
    known = set(PARAMETERS) - set(FACTS.get(row["metric"], ()))
    return make_metric(
        row["metric"], {name: value for name, value in row["params"].items() if name in known}
    )


def document(sample: Mapping[str, Any], doc_id: str = "d") -> Doc:
    """The document of one mapping of golds, preds and, for what is copied, text."""
    extra = (("specific", sample["text"]),) if "text" in sample else ()
    return Doc(doc_id, "t", 0, "?", tuple(sample.get("golds", ())), extra=extra)


def statistics(metric: Metric, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Column -> array, through verdicts where the metric reads them."""
    docs = [document(sample, f"d{i}") for i, sample in enumerate(samples)]
    answers = [Samples(tuple(s["preds"]), (False,) * len(s["preds"])) for s in samples]
    verdicts: list[Any] = [()] * len(docs)
    if metric.has_scorer:
        scorer = make_scorer(metric.scorer, None)
        verdicts = [
            scorer.judge_batch([(doc, text) for text in s["preds"]])
            for doc, s in zip(docs, samples, strict=True)
        ]
    rows = metric.score_batch(docs, answers, verdicts)
    return {
        column.name: np.array([row[i] for row in rows]) for i, column in enumerate(metric.columns)
    }


def numbers(metric: Metric, samples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Output name -> number over these documents."""
    matrix = statistics(metric, samples)
    return {output.name: output.reduce(matrix) for output in metric.outputs()}


def check(row: Mapping[str, Any]) -> None:
    """The row's numbers hold."""
    found = numbers(metric_of(row), row["inputs"].get("samples", [row["inputs"]]))
    wanted = row["expected"]
    if not isinstance(wanted, dict):
        assert len(found) == 1
        wanted = {next(iter(found)): wanted}
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)
