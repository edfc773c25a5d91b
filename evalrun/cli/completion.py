"""Shell completion: Hydra completes settings; flags are ours, and its parser must not see them."""

from __future__ import annotations

import os

from evalrun.config import places
from evalrun.runs.words.arguments import MODES
from evalrun.runs.words.flags import FLAGS, HYDRA_VALUE_FLAGS, VALUE_FLAGS


def completed(config_dir: str | None) -> bool:
    """Print our own candidates and return False; or rewrite COMP_LINE and COMP_POINT for Hydra
    and return True.
    """
    line = os.environ.get("COMP_LINE", "evalrun ")
    head, *words = line[: int(os.environ.get("COMP_POINT") or len(line))].split(" ")
    *before, word = words or [""]
    before = [w.strip("'\"") for w in before if w]
    word = word.lstrip("'\"")
    previous = before[-1] if before else ""
    candidates = _ours(previous, word, config_dir)
    if candidates is not None:
        for each in sorted(c for c in candidates if c.startswith(word)):
            print(each)
        return False
    # Hydra strips the program's name by its form, so the line keeps it; every flag goes.
    os.environ["COMP_LINE"] = " ".join([head, *_settings(before), word])
    os.environ["COMP_POINT"] = str(len(os.environ["COMP_LINE"]))
    return True


def _ours(previous: str, word: str, config_dir: str | None) -> list[str] | None:
    """What may stand here where Hydra does not know it; None where it does."""
    if previous in ("--mode", "-M"):
        return list(MODES)
    if previous in VALUE_FLAGS or previous in HYDRA_VALUE_FLAGS:
        return list(
            HYDRA_VALUE_FLAGS.get(previous) or (["latest"] if previous == "--reuse" else [])
        )
    if word.startswith("-"):
        return [flag for flag in FLAGS if flag.startswith("--")]
    key, sign, value = word.partition("=")
    if sign and key in ("task", "metric", "model", "suite"):
        if key == "metric":
            from evalrun.metrics import METRICS

            known = [*METRICS, *places.names("metric", config_dir)]
        else:
            known = list(places.names(key, config_dir))
        begun, comma, _ = value.rpartition(",")
        stem = (
            f"{key}={begun}{comma}" if comma else f"{key}=[" if value.startswith("[") else f"{key}="
        )
        return [stem + name for name in known]
    return None


def _settings(words: list[str]) -> list[str]:
    """The settings among the words before the cursor, as plain ones: no flags, no values of
    flags, no parameters.
    """
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in VALUE_FLAGS or word in HYDRA_VALUE_FLAGS
        elif "=" in word and not (
            word.startswith("metric=") or (word.startswith("task=") and set("@|:,[") & set(word))
        ):
            kept.append(word)
    return kept
