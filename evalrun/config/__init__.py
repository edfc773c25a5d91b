"""The configuration: its types, its files, and how Hydra composes them.

Hydra and OmegaConf live here and in `cli`.
"""

from evalrun.config.schema import (
    Chat,
    DatasetConfig,
    DeployConfig,
    FewshotConfig,
    Mode,
    ModelConfig,
    PromptConfig,
    RunConfig,
    SamplingConfig,
    SummaryConfig,
    TaskConfig,
)

__all__ = [
    "Chat",
    "DatasetConfig",
    "DeployConfig",
    "FewshotConfig",
    "Mode",
    "ModelConfig",
    "PromptConfig",
    "RunConfig",
    "SamplingConfig",
    "SummaryConfig",
    "TaskConfig",
]
