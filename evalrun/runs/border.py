"""The border of one command: every fault becomes one paragraph on stderr and an exit code."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType

from evalrun.console import say
from evalrun.errors import EvalrunError, Stopped


def shielded(command: Callable[[], int], is_debug: bool) -> int:
    """The exit code of `command`, whatever it raises.

    Args:
        is_debug: with stack traces and the engines' own messages.
    """
    logging.getLogger("evalrun").setLevel(logging.DEBUG if is_debug else logging.WARNING)
    try:
        return command()
    except KeyboardInterrupt:
        return _stopped(signal.SIGINT)
    except Stopped as stop:
        return _stopped(stop.signal_number)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`). Python would complain again while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001
        if is_debug:
            traceback.print_exc()
        say(_paragraph(error))
        return error.exit_code if isinstance(error, EvalrunError) else 1


def _paragraph(error: Exception) -> str:
    if isinstance(error, EvalrunError):
        return str(error)
    if isinstance(error, OSError):
        return (
            f"The system refused: {error}. Check that the disk has room and that the folder may be "
            "written."
        )
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return (
        f"Internal fault{where}: {type(error).__name__}: {error}. Run again with --debug for the "
        "whole trace."
    )


def on_terminate() -> None:
    """From now on SIGTERM stops the run in order, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _stopped(number: int) -> int:
    say(
        f"Stopped by {signal.Signals(number).name}. Rows that were finished are saved and nothing "
        "was scored as if whole; where a run had begun, --resume with the same settings goes on "
        "from there."
    )
    return 128 + number
