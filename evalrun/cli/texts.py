"""Which keys hold text, read off the configuration's own types without importing Hydra."""

from __future__ import annotations

import re

# Keys whose type is text, as patterns over the dotted key; a test holds this list against evalrun.config.
_TEXT = re.compile(
    r"""
    (?: model\.(?:name|backend|path|revision|tokenizer|dtype|system|device|base_url|api_key_env)
      | (?:tasks\.[^.]+\.)?dataset\.(?:path|name|split|revision|cluster|gold_form)
      | (?:tasks\.[^.]+\.)?dataset\.columns\..+
      | tasks\.[^.]+\.prompt\.(?:template|answer|system|separator)
      | tasks\.[^.]+\.fewshot\.(?:rule|split|path)
      | tasks\.[^.]+\.(?:extract|description|source)
      | judge\.name | summary\.name | suite_name | reuse | output_dir
    )""",
    re.X,
)

ROOT_KEYS = (
    "mode", "model", "dataset", "judge", "summary", "suite", "num_return_sequences", "seed", "max_error_rate",
    "allow_equal_samples", "first_n", "reuse", "resume", "dry_run", "debug", "output_dir",
)  # fmt: skip


def is_text(key: str) -> bool:
    """True where the configuration's type of `key` is text (or optional text)."""
    return _TEXT.fullmatch(key) is not None
