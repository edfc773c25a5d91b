"""GPQA's own pass@k: the option letter of an answer, drawn k of n."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from evalrun.metrics.base import METRICS
from evalrun.metrics.samples.repeated_sampling import PassAtK


@METRICS.named("gpqa_instruct_pass_at_k", aliases=("gpqa_pass@k",))
@dataclass(frozen=True, slots=True)
class GpqaInstructPassAtK(PassAtK):
    """pass@k of the option letter that an answer gives. Range [0, 1].

    As pass_at_k with the scorer `letter`, which cannot be changed. k, n, threshold: see pass_at_k.
    """

    name: ClassVar[str] = "gpqa_instruct_pass_at_k"
    display: ClassVar[str] = "gpqa_pass@k"
    aliases: ClassVar[tuple[str, ...]] = ("gpqa_pass@k",)
    source: ClassVar[str] = "Chen et al. 2021 (arXiv 2107.03374), eq. 1; the name is LightEval's"
    scorer: str | None = field(default="letter", init=False)
    strip: bool | None = field(default=None, init=False)
    normalize: str | None = field(default=None, init=False)
