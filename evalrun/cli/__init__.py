"""The command line: words in, an exit code out.

`main` is the console script; it imports nothing heavy before it knows what is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


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
    from evalrun.cli.help import COMMANDS, HELP, WITH_OWN_HELP

    if (
        not words
        or words == ["help"]
        or (words[0] not in WITH_OWN_HELP and {"--help", "-h"} & set(words))
    ):
        print(HELP)
        return 0 if words else 2
    if "--version" in words:
        from evalrun.version import __version__

        print(f"evalrun {__version__}")
        return 0
    command = _command(words[0])
    if command is not None:
        return command(words[1:])
    from evalrun.planning.secrets import refuse_in_overrides
    from evalrun.runs.arguments import SHOWN, read

    refuse_in_overrides(words)
    arguments = read(words, COMMANDS)
    if SHOWN & set(arguments.hydra_flags):
        from evalrun.cli.show import show

        return show(arguments)
    from evalrun.runs.compose import run

    return run(arguments)


def _command(word: str) -> Callable[[list[str]], int] | None:
    """What the first word asks for; None where it is no command.

    Each is loaded only when it is asked for.
    """
    match word:
        case "list":
            from evalrun.commands.list import main as command
        case "import":
            from evalrun.commands.import_ import main as command
        case "score":
            from evalrun.commands.score import main as command
        case "status":
            from evalrun.commands.status import main as command
        case "stop":
            from evalrun.commands.stop import main as command
        case "pack":
            from evalrun.commands.pack import main as command
        case _:
            return None
    return command


def console() -> None:
    """Entry point of the console script."""
    sys.exit(main())
