"""What Hydra prints and runs nothing for: the composed configuration, its search path, a
completion.
"""

from __future__ import annotations

import contextlib
from typing import Any

from evalrun.cli.completion import completed
from evalrun.errors import Fault
from evalrun.runs.compose import call_hydra, checked
from evalrun.runs.words.arguments import Arguments


def show(arguments: Arguments) -> int:
    """Let Hydra print what is asked for. Returns the exit code."""
    arguments = checked(arguments)
    words = [*arguments.hydra_flags, *arguments.overrides]
    if any(word.startswith("query=") for word in arguments.hydra_flags):
        if not completed(arguments.config_dir):
            return 0
        # half a command line: nothing to offer, and no noise at the prompt
        with contextlib.suppress(Fault):
            call_hydra(words, _no_job, arguments)
        return 0
    try:
        call_hydra(words, _no_job, arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _no_job(cfg: Any) -> None:
    """Hydra calls no job for the flags with which it prints."""
    raise AssertionError("a flag that prints has run a job")
