"""Metrics in three levels: a scorer judges a sample, a metric a document, an output reduces to a number."""

from evalrun.metrics import choice, classify, exact, perplexity, probability, sampling
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
    "exact",
    "make_metric",
    "make_scorer",
    "parameter_defaults",
    "perplexity",
    "probability",
    "samples_needed",
    "sampling",
    "scorer_named",
]
