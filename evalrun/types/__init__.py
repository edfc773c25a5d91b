"""Core types. All frozen, with slots; sequences are tuples; log-probabilities in nats; scores as fractions."""

from evalrun.types.asking import Doc, Generate, Key, Kind, Message, Reply, Request, Sampling, Status
from evalrun.types.judging import Answer, Choices, Counts, Estimate, Record, Roll, Samples, State, Verdict
from evalrun.types.planning import (
    Cell,
    DatasetPlan,
    FewshotPlan,
    Json,
    MetricPlan,
    ModelPlan,
    Pairs,
    Plan,
    PromptPlan,
)

__all__ = [
    "Answer",
    "Cell",
    "Choices",
    "Counts",
    "DatasetPlan",
    "Doc",
    "Estimate",
    "FewshotPlan",
    "Generate",
    "Json",
    "Key",
    "Kind",
    "Message",
    "MetricPlan",
    "ModelPlan",
    "Pairs",
    "Plan",
    "PromptPlan",
    "Record",
    "Reply",
    "Request",
    "Roll",
    "Samples",
    "Sampling",
    "State",
    "Status",
    "Verdict",
]
