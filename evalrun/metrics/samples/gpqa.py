"""GPQA's own pass@k: the option letter of an answer, drawn k of n."""

from __future__ import annotations

from dataclasses import field

from evalrun.metrics.register import metric
from evalrun.metrics.samples.repeated_sampling import PassAtK


@metric(
    "gpqa_instruct_pass_at_k",
    display="gpqa_pass@k",
    source="Chen et al. 2021 (arXiv 2107.03374), eq. 1; the name is LightEval's",
)
class GpqaInstructPassAtK(PassAtK):
    """pass@k of the option letter that an answer gives. Range [0, 1].

    As pass_at_k with the scorer `letter`, which cannot be changed. k, n, threshold: see pass_at_k.
    """

    scorer: str | None = field(default="letter", init=False)
    strip: bool | None = field(default=None, init=False)
    normalize: str | None = field(default=None, init=False)
