"""Metrics in three levels: a scorer judges a sample, a metric a document, an output reduces to a
number.
"""

from evalrun.metrics import perplexity
from evalrun.metrics.base import METRICS, SCORERS, Metric, Output, Scorer
from evalrun.metrics.choices import choice, classify, probability
from evalrun.metrics.create import (
    check_ready,
    make_metric,
    make_scorer,
    parameter_defaults,
    samples_needed,
    scorer_named,
)
from evalrun.metrics.generation import rouge, sentence_bleu, summaries, translation
from evalrun.metrics.math import equality
from evalrun.metrics.samples import gpqa, group_pass, repeated_sampling, vote
from evalrun.metrics.text import distance, exact, match_metrics, overlap_f1

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
    "equality",
    "exact",
    "gpqa",
    "group_pass",
    "make_metric",
    "make_scorer",
    "match_metrics",
    "overlap_f1",
    "parameter_defaults",
    "perplexity",
    "probability",
    "repeated_sampling",
    "rouge",
    "samples_needed",
    "scorer_named",
    "sentence_bleu",
    "summaries",
    "translation",
    "vote",
]
