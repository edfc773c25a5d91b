"""The command line. `main` is the console script; it imports nothing heavy before it knows what is asked."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Returns the exit code: 0 good, 1 internal fault, 2 asked wrongly, 3 failed or incomplete tasks, 130 SIGINT,
    143 SIGTERM.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    from evalrun.cli.shield import on_terminate, shielded

    on_terminate()
    return shielded(lambda: _dispatch(words), "--debug" in words or "debug=true" in words)


def _dispatch(words: list[str]) -> int:
    if not words or words == ["help"] or (words[0] not in ("import", "score") and {"--help", "-h"} & set(words)):
        from evalrun.cli.help import HELP

        print(HELP)
        return 0 if words else 2
    if "--version" in words:
        from evalrun.version import __version__

        print(f"evalrun {__version__}")
        return 0
    if words[0] == "list":
        from evalrun.commands.list import main as list_names

        return list_names(words[1:])
    if words[0] == "import":
        from evalrun.commands.import_ import main as import_file

        return import_file(words[1:])
    if words[0] == "score":
        from evalrun.commands.score import main as score_file

        return score_file(words[1:])
    from evalrun.cli.arguments import read
    from evalrun.plan.secrets import refuse_in_overrides

    refuse_in_overrides(words)
    arguments = read(words)
    from evalrun.cli.compose import run

    return run(arguments)


def console() -> None:
    """Entry point of the console script."""
    sys.exit(main())
