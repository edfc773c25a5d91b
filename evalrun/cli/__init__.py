"""The command line: words in, an exit code out.

`main` is the console script; it imports nothing heavy before it knows what is asked.
"""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Returns the exit code: 0 good, 1 internal fault, 2 asked wrongly, 3 failed or incomplete tasks,
    130 SIGINT, 143 SIGTERM.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    from evalrun.runs.border import on_terminate, shielded

    on_terminate()
    return shielded(lambda: _dispatch(words), "--debug" in words or "debug=true" in words)


def _dispatch(words: list[str]) -> int:
    from evalrun.commands import COMMANDS, load

    command = COMMANDS.get(words[0]) if words else None
    has_own_help = command is not None and command.has_own_help
    if not words or words == ["help"] or (not has_own_help and {"--help", "-h"} & set(words)):
        from evalrun.cli.help import HELP

        print(HELP)
        return 0 if words else 2
    if "--version" in words:
        from evalrun.version import __version__

        print(f"evalrun {__version__}")
        return 0
    if command is not None:
        try:
            return load(words[0])(words[1:])
        except SystemExit as end:  # argparse, when it has printed its --help
            return int(end.code or 0)
    return _evaluate(words)


def _evaluate(words: list[str]) -> int:
    """The words of an evaluation: read, then shown or run."""
    from evalrun.commands import COMMANDS
    from evalrun.planning.secrets import refuse_in_overrides
    from evalrun.runs.words.arguments import read
    from evalrun.runs.words.flags import SHOWN

    refuse_in_overrides(words)
    arguments = read(words, tuple(COMMANDS))
    if SHOWN & set(arguments.hydra_flags):
        from evalrun.cli.show import show

        return show(arguments)
    if arguments.is_sweep:
        from evalrun.runs import sweep

        return sweep.run(arguments)
    from evalrun.runs import jobs

    return jobs.evaluate(arguments).code


def console() -> None:
    """Entry point of the console script."""
    sys.exit(main())
