"""Values of a Python call arrive as they are: through words, Hydra's grammar and the schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.config import RunConfig
from evalrun.config.composing import composed
from evalrun.runs.words.from_python import arguments_of, words_of


def config_of(*words: str, **settings: Any) -> RunConfig:
    return composed(arguments_of(words, {"model": "replay", **settings}, "f").overrides)


WORDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"model": "smollm2", "limit": 3}, ["model=smollm2", "limit=3"]),
    ({"task": ["gsm8k", "mmlu:anatomy"]}, ["task=['gsm8k','mmlu:anatomy']"]),
    ({"task": "gsm8k@k=2&n=8"}, ["task=gsm8k@k=2&n=8"]),
    ({"resume": True, "dry_run": False}, ["resume=true", "dry_run=false"]),
    ({"model": None, "mode": None, "suite": None}, []),
    ({"limit": None}, ["limit=null"]),
    ({"config_dir": Path("a b")}, ["--config-dir", "a b"]),
    ({"model.temperature": 1e-7}, ["model.temperature=1e-07"]),
    ({"model.stop": ["a,b", "'"]}, ["model.stop=['a,b','\\'']"]),
    ({"model.engine": {"a": {"b": [1, None]}}}, ["model.engine={a: {b: [1,null]}}"]),
    ({"seed": np.int64(3), "max_error_rate": np.float32(0.5)}, ["seed=3", "max_error_rate=0.5"]),
    ({"output_dir": Path("/x y")}, ["output_dir='/x y'"]),
    ({"model.path": "null"}, ["model.path='null'"]),
]


@pytest.mark.parametrize(("settings", "words"), WORDS)
def test_words(settings: dict[str, Any], words: list[str]) -> None:
    assert words_of((), settings) == words


VALUES: list[tuple[str, Any, Callable[[RunConfig], Any]]] = [
    ("model.system", "null", lambda c: c.model.system),
    ("model.system", "It's 'so', \\\" {a: [b}", lambda c: c.model.system),
    ("model.system", "two\nlines\tand = , | ; # é 你", lambda c: c.model.system),
    ("model.system", "'quoted'", lambda c: c.model.system),
    ("model.system", "", lambda c: c.model.system),
    ("model.revision", "1.10", lambda c: c.model.revision),
    ("model.stop", ["\n\n", "Question:", "1.10", "null"], lambda c: c.model.stop),
    ("model.temperature", 0.2, lambda c: c.model.temperature),
    ("model.temperature", None, lambda c: c.model.temperature),
    ("model.reasoning", True, lambda c: c.model.reasoning),
    ("model.extra_body", {"a": {"b c": "1.10"}, "x": [1, 2.5, None]}, lambda c: c.model.extra_body),
    ("dataset.filter", {"year": "2020", "n": [1, 2]}, lambda c: c.dataset.filter),
    ("dataset.columns", {"query": "the question"}, lambda c: c.dataset.columns),
    ("num_return_sequences", 5, lambda c: c.num_return_sequences),
    ("num_return_sequences", "5", lambda c: c.num_return_sequences),
    ("reuse", "a,b", lambda c: c.reuse),
]


@pytest.mark.parametrize(("key", "value", "read"), VALUES)
def test_values_arrive_as_they_are(key: str, value: Any, read: Callable[[RunConfig], Any]) -> None:
    assert read(config_of(**{key: value})) == value
    assert type(read(config_of(**{key: value}))) is type(value)


@given(st.text(alphabet=st.characters(blacklist_categories=("Cs",)), max_size=20))
def test_any_text_stays_text(text: str) -> None:
    """But for ${, which names another setting, as on the command line."""
    plain = text.replace("${", "$")
    (override,) = arguments_of((), {"model.system": plain}, "f").overrides
    assert override.startswith("model.system=")
    assert _parsed(override) == plain


def _parsed(override: str) -> object:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    value = OverridesParser.create().parse_override(override).value()
    return value if value is None or isinstance(value, str) else str(value)
