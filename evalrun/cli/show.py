"""What Hydra prints and runs nothing for: the composed configuration, its search path, a
completion.
"""

from __future__ import annotations

import contextlib

from evalrun.cli.completion import completed
from evalrun.errors import Fault
from evalrun.runs.arguments import Arguments
from evalrun.runs.compose import call_hydra, checked
from evalrun.runs.sweep import Jobs


def show(arguments: Arguments) -> int:
    """Let Hydra print what is asked for. Returns the exit code."""
    arguments = checked(arguments)
    words = [*arguments.hydra_flags, *arguments.overrides]
    if any(word.startswith("query=") for word in arguments.hydra_flags):
        if not completed(arguments.config_dir):
            return 0
        # half a command line: nothing to offer, and no noise at the prompt
        with contextlib.suppress(Fault):
            call_hydra(words, Jobs(arguments), arguments)
        return 0
    try:
        call_hydra(words, Jobs(arguments), arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0
