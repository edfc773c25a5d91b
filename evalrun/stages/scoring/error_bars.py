"""The number of an output with its error: analytic for a mean, by bootstrap for any other
formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault
from evalrun.metrics.base import Matrix, Output
from evalrun.stats import bootstrap
from evalrun.stats.errorbars import mean_error
from evalrun.stats.rerun import rerun_stderr


@dataclass(frozen=True, slots=True)
class OutputError:
    """A number with its error; absent is None.

    Attributes:
        method: how the error was found (`none` where there is none).
        rerun_stderr: the part of stderr that comes from drawing the answers.
        is_rerun_open: the output has such a part, and these samples are too few to estimate it.
        n_nan: documents whose own value is NaN.
        n_open_draws: bootstrap draws without a finite value.
        is_overflow: the formula left the range of floats, so the value is NaN.
    """

    value: float | None
    stderr: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    method: str = "none"
    rerun_stderr: float | None = None
    is_rerun_open: bool = False
    n_nan: int = 0
    n_open_draws: int = 0
    is_overflow: bool = False


def error_of(
    output: Output,
    matrix: Mapping[str, NDArray[Any]],
    codes: NDArray[np.int64] | None = None,
    *,
    draws: int = bootstrap.DRAWS,
    seed: int = 0,
    interval: str = "percentile",
) -> OutputError:
    """The number over all documents of `matrix` (one at least), its stderr and 95 % interval.

    Args:
        codes: cluster of each document, None where all are independent. draws, seed, interval
            (percentile or bca): of the bootstrap. OverflowError and infinities give NaN.

    Fault where a value leaves the range that it declares.
    """
    with np.errstate(all="ignore"):  # what leaves the range of floats is looked for below
        if output.per_doc is not None:
            return _averaged(output, output.per_doc, matrix, codes)
        columns = {name: matrix[name] for name in output.columns}
        return _resampled(output, columns, codes, draws, seed, interval)


def _averaged(
    output: Output,
    per_doc: Callable[[Matrix], NDArray[np.float64]],
    matrix: Mapping[str, NDArray[Any]],
    codes: NDArray[np.int64] | None,
) -> OutputError:
    """The mean over documents, with its analytic error."""
    try:
        values = np.asarray(per_doc(matrix), dtype=np.float64)
    except OverflowError:
        return _overflow()
    n_nan = int(np.count_nonzero(np.isnan(values)))
    if not n_nan and not math.isfinite(float(values.mean())):
        return _overflow()
    try:
        found = mean_error(values, output.is_bounded, codes=codes)
    except ValueError as cause:
        raise Fault(
            f"Metric {output.name!r}: {cause}. An output whose values may do so is not bounded."
        ) from cause
    again = None if output.rerun is None else rerun_stderr(output.rerun(matrix))
    return OutputError(
        found.value,
        found.stderr,
        found.ci_low,
        found.ci_high,
        found.method,
        rerun_stderr=again,
        is_rerun_open=output.rerun is not None and again is None,
        n_nan=n_nan,
    )


def _overflow() -> OutputError:
    return OutputError(math.nan, math.nan, math.nan, math.nan, is_overflow=True)


def _resampled(
    output: Output,
    matrix: Mapping[str, NDArray[Any]],
    codes: NDArray[np.int64] | None,
    draws: int,
    seed: int,
    interval: str,
) -> OutputError:
    size = len(next(iter(matrix.values())))
    units = size if codes is None else int(codes.max()) + 1
    n_nan = _count_nan(matrix)
    try:
        value = output.reduce(matrix)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        return OutputError(
            math.nan, math.nan, math.nan, math.nan, n_nan=n_nan, is_overflow=not n_nan
        )
    if units < 2:
        return OutputError(value, n_nan=n_nan)
    if output.of_sums is not None:
        rows = output.stacked(matrix)
        replicates = bootstrap.replicates_of_sums(rows, output.of_sums, draws, seed, codes)
    else:
        assert output.of_rows is not None
        replicates = bootstrap.replicates_of_rows(matrix, output.of_rows, draws, seed, codes)
    if interval == "bca":
        low, high = bootstrap.bca_interval(value, replicates, _left_out(output, matrix, codes))
    else:
        low, high = bootstrap.percentile_interval(replicates)
    return OutputError(
        value,
        bootstrap.bootstrap_stderr(replicates),
        low,
        high,
        f"{'bootstrap' if codes is None else 'clustered-bootstrap'}+{interval}",
        n_nan=n_nan,
        n_open_draws=int(np.count_nonzero(~np.isfinite(replicates))),
    )


def _left_out(
    output: Output, matrix: Mapping[str, NDArray[Any]], codes: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    if output.of_sums is not None:
        return bootstrap.left_out_of_sums(output.stacked(matrix), output.of_sums, codes)
    assert output.of_rows is not None
    return bootstrap.left_out_of_rows(matrix, output.of_rows, codes)


def _count_nan(matrix: Mapping[str, NDArray[Any]]) -> int:
    """Documents with a NaN among the columns."""
    open_rows = [np.isnan(column) for column in matrix.values() if column.dtype.kind == "f"]
    return int(np.count_nonzero(np.logical_or.reduce(open_rows))) if open_rows else 0
