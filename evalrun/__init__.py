"""evalrun: the evaluation runner for language models.

    run(...)        run one evaluation; a RunResult with its table and samples
    plan(...)       what a run would do, without doing it
    score(...)      the numbers of a metric over documents, without a run
    results(RUN)    the table of a stored run, as a DataFrame
    samples(RUN)    its answers with their verdicts, as a DataFrame
    read(text, kind)  the answer that a text states: a letter, a number, a formula, ...
    Fault           what all of them raise where something cannot be done as it was asked

These names are the public API. Every module below evalrun is private: it may change with any
version. Importing evalrun loads nothing but its version.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evalrun.version import __version__

if TYPE_CHECKING:
    from evalrun.api import RunResult, plan, read, results, run, samples, score
    from evalrun.errors import Fault

_FUNCTIONS = ("RunResult", "plan", "read", "results", "run", "samples", "score")
__all__ = [
    "Fault",
    "RunResult",
    "__version__",
    "plan",
    "read",
    "results",
    "run",
    "samples",
    "score",
]

_HOMES = {
    "Fault": "evalrun.errors",
    **dict.fromkeys(_FUNCTIONS, "evalrun.api"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evalrun' has no attribute {name!r}")
    # Loaded at the first use, and by name: everything imports this package for its version, and
    # none of it may depend on the stages.
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
