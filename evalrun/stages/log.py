"""The log of one task in one stage: a file of plain lines, or the terminal with --debug."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from types import TracebackType
from typing import TextIO

from evalrun.errors import visible


class TaskLog:
    """Lines with a time stamp, flushed one by one. path None: they go to stderr."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None

    def line(self, text: str) -> None:
        """Write one line; control characters of foreign text are shown as escapes."""
        stamp = dt.datetime.now().astimezone().isoformat(timespec="seconds")
        print(f"{stamp} {visible(text)}", file=self._target(), flush=True)

    def _target(self) -> TextIO:
        if self._path is None:
            return sys.stderr
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8", errors="backslashreplace")
        return self._file

    def __enter__(self) -> TaskLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and str(error):
            self.line(f"{type(error).__name__}: {error}")
        if self._file is not None:
            self._file.close()
            self._file = None
