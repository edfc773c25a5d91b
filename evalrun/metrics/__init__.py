"""Metrics in three levels: a scorer judges a sample, a metric a document, an output reduces to a number."""

from evalrun.metrics import exact, sampling
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
    "exact",
    "make_metric",
    "make_scorer",
    "parameter_defaults",
    "samples_needed",
    "sampling",
    "scorer_named",
]
