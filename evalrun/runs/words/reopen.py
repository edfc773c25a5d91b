"""A run that is named is asked for by its own settings: what the command leaves out is as it was
typed then.
"""

from __future__ import annotations

from pathlib import Path

from evalrun import grammar
from evalrun.console import say
from evalrun.runs.words.arguments import Arguments, load_own_metrics

OF_ONE_START = {"mode", "reuse", "resume", "dry_run", "debug", "output_dir"}
EXTENT = {"limit", "num_return_sequences"}  # the stored plan knows them as the run has grown since
WHOLE = ("task_params.", "summary")


def with_stored_settings(arguments: Arguments) -> Arguments:
    """The command with the settings that the run of --reuse was started with, where it says nothing
    of them.

    Only for the modes that ask: in eval and viz the stored plan decides. A run that recorded none
    changes nothing.
    """
    reuse = arguments.value("reuse")
    if reuse in (None, "null") or (arguments.value("mode") or "all") not in ("all", "infer"):
        return arguments
    from evalrun.runs import find

    stored = find.by_name(str(reuse), Path(arguments.value("output_dir") or "outputs"))
    kept = [o for o in stored.plan.overrides or () if _is_kept(_key(o), arguments)]
    if kept:
        say(f"Settings of {stored.run.path}: {' '.join(kept)}.")
    load_own_metrics(kept)
    arguments.stored = kept
    arguments.overrides = sorted(
        [*kept, *arguments.overrides], key=lambda o: 0 if o.startswith("model=") else 1
    )
    return arguments


def _is_kept(key: str, arguments: Arguments) -> bool:
    typed = set(arguments.typed)
    if key in typed | OF_ONE_START | EXTENT or key.startswith(WHOLE):
        return False
    group, _, rest = key.partition(".")
    if group in ("metric", "metrics") and "metric" in typed:
        return False
    if key in ("task", "suite") and typed & {"task", "suite"}:
        return False
    if group != "tasks":
        return True
    name, _, inner = rest.partition(".")
    return inner != "limit" and name in _asked(arguments, name)


def _asked(arguments: Arguments, name: str) -> list[str]:
    """The tasks that the command names; where it names none, or a suite, any."""
    task = arguments.value("task")
    return [name] if task is None else grammar.elements(task, "task")[0]


def _key(override: str) -> str:
    return override.lstrip("+").partition("=")[0]
