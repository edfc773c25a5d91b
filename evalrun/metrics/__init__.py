"""Metrics in three levels: a scorer judges a sample, a metric a document, an output reduces to a
number.
"""

import importlib
import pkgutil

from evalrun.metrics.base import METRICS, SCORERS, Metric, Output, Scorer
from evalrun.metrics.create import (
    check_ready,
    make_metric,
    make_scorer,
    parameter_defaults,
    samples_needed,
    scorer_named,
)
from evalrun.metrics.register import metric, scorer

# Every module of this package registers what it defines, so that a metric needs its own file only.
for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = [
    "METRICS",
    "SCORERS",
    "Metric",
    "Output",
    "Scorer",
    "check_ready",
    "make_metric",
    "make_scorer",
    "metric",
    "parameter_defaults",
    "samples_needed",
    "scorer",
    "scorer_named",
]
