"""Metrics in three levels: a scorer judges a sample, a metric a document, an output reduces to a number."""

from evalrun.metrics import (
    choice,
    classify,
    distance,
    exact,
    gpqa,
    group_pass,
    matching,
    math,
    overlap_f1,
    perplexity,
    probability,
    rouge,
    sampling,
    sentence_bleu,
    summaries,
    translation,
    vote,
)
from evalrun.metrics.base import METRICS, SCORERS, Metric, Output, Scorer
from evalrun.metrics.exact import make_scorer, scorer_named
from evalrun.metrics.making import check_ready, make_metric, parameter_defaults, samples_needed

__all__ = [
    "METRICS",
    "SCORERS",
    "Metric",
    "Output",
    "Scorer",
    "check_ready",
    "choice",
    "classify",
    "distance",
    "exact",
    "gpqa",
    "group_pass",
    "make_metric",
    "make_scorer",
    "matching",
    "overlap_f1",
    "parameter_defaults",
    "perplexity",
    "probability",
    "rouge",
    "samples_needed",
    "sampling",
    "scorer_named",
    "sentence_bleu",
    "summaries",
    "translation",
    "vote",
]
