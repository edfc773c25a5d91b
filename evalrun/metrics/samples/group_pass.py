"""How steadily a model is right: G-Pass@k with mG-Pass@k, and pass^k, from n samples of which c
are correct.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault, visible
from evalrun.metrics.base import Matrix, Output
from evalrun.metrics.register import metric
from evalrun.metrics.samples.repeated_sampling import (
    CountMetric,
    DrawMetric,
    check_parameters,
    one_gold,
)
from evalrun.stats import rerun, sampling
from evalrun.types import Doc


@metric("pass_hat_k", display="pass^k", source="Yao et al. 2024 (tau-bench, arXiv 2406.12045)")
class PassHatK(DrawMetric):
    """C(c, k) / C(n, k): chance that all of k samples are correct.

    Range [0, 1]. Parameters as pass_at_k.
    """

    @staticmethod
    def law(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        return sampling.pass_hat_k(n, c, k)

    @staticmethod
    def variance(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
        return rerun.pass_hat_k_variance(n, c, k)


@metric(
    "g_pass_at_k",
    aliases=("mg-pass@k",),
    display="g-pass@k",
    source="Liu et al. 2024 (arXiv 2412.13147)",
)
class GPassAtK(CountMetric):
    """P(J >= max(1, ceil(t k))), J the correct ones of k samples drawn from n, for each share t:
    `g-pass@4_0.5`.

    With it mg-pass@k = 2/k * sum over i = ceil(k/2)+1 .. k of P(J >= i), the mean over shares above
    one half. Range [0, 1].

    Attributes:
        k: draw size or several.
        n: samples (open: k).
        thresholds: the shares t, in [0, 1].
        threshold: a sample is correct from this verdict on. A document with several golds is
            refused.
    """

    needs_k: ClassVar[bool] = True
    k: int | tuple[int, ...] | None = None
    n: int | None = None
    scorer: str | None = None
    thresholds: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    threshold: float = 1.0

    def __post_init__(self) -> None:
        check_parameters(self)
        shares = self.thresholds
        if not isinstance(shares, tuple) or not all(_is_share(share) for share in shares):
            raise Fault(
                f"Metric {self.name!r}: thresholds must be a list of shares in [0, 1], as in "
                f"thresholds=[0.5,1.0], got {visible(repr(shares))}."
            )
        if len({float(share) for share in shares}) < len(shares):
            raise Fault(
                f"Metric {self.name!r}: thresholds={list(shares)} holds a share twice. Give each "
                "once."
            )

    def check_doc(self, doc: Doc) -> str | None:
        return one_gold(self, doc)

    def outputs(self) -> tuple[Output, ...]:
        """For each k one output per share, then mg-pass@k. ValueError while k is open."""
        if self.k is None:
            raise ValueError(f"{self.name}: k is open")
        draws = self.k if isinstance(self.k, tuple) else (self.k,)
        return tuple(
            output
            for k in draws
            for output in (*(self._at(k, t) for t in self.thresholds), self._mean(k))
        )

    def _at(self, k: int, share: float) -> Output:
        params = self._params(k, (float(share),))
        law, variance = partial(_at_share, k, share), partial(_at_share_variance, k, share)
        return Output(f"g-pass@{k}_{float(share)}", ("n", "c"), law, params, rerun=variance)

    def _mean(self, k: int) -> Output:
        params = self._params(k, ())
        return Output(
            f"mg-pass@{k}", ("n", "c"), partial(_mean, k), params, rerun=partial(_mean_variance, k)
        )

    def _params(self, k: int, shares: tuple[float, ...]) -> tuple[tuple[str, Any], ...]:
        counts = (("k", k),) if self.n is None else (("k", k), ("n", self.n))
        return (*counts, ("thresholds", shares))


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _at_share(k: int, share: float, matrix: Matrix) -> NDArray[np.float64]:
    return sampling.g_pass_at_k(matrix["n"], matrix["c"], k, share)


def _at_share_variance(k: int, share: float, matrix: Matrix) -> NDArray[np.float64]:
    return rerun.g_pass_at_k_variance(matrix["n"], matrix["c"], k, share)


def _mean(k: int, matrix: Matrix) -> NDArray[np.float64]:
    return sampling.mg_pass_at_k(matrix["n"], matrix["c"], k)


def _mean_variance(k: int, matrix: Matrix) -> NDArray[np.float64]:
    return rerun.mg_pass_at_k_variance(matrix["n"], matrix["c"], k)
