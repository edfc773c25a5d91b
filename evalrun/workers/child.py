"""The worker's side: reads batches from its pipe, answers item by item, and ends with its parent.

A batch is (sys.path, head, items): head the pickled (function, prepare, cpu_s), items each pickled
apart, so that one that cannot be read fails alone. The answers are b"" once the head is ready, then
one pickled (is_done, value or note) per item, in order.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

MAX_NOTE = 500


def serve(task_fd: int, lifeline_fd: int, memory_bytes: int) -> None:
    """Answer batches until the pipe is closed.

    Args:
        memory_bytes: more address space than this is refused; 0: no limit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    _end_with_parent(lifeline_fd)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    with Connection(task_fd) as tasks:
        while True:
            try:
                sys.path[:], head, items = pickle.loads(tasks.recv_bytes())
                _answer(tasks, head, items)
            except (EOFError, OSError):  # the parent closed the pipe
                return


def _end_with_parent(lifeline_fd: int) -> None:
    """Nothing is ever written into the lifeline; that it ends says that the parent is gone, however
    it went.

    The kernel's signal ends a worker that is deep in one long operation of C; the thread serves
    systems that ignore that signal.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline_fd, fcntl.F_GETFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, flags | os.O_ASYNC)
    threading.Thread(target=_watch, args=(lifeline_fd,), daemon=True).start()


def _watch(lifeline_fd: int) -> None:
    poll = select.poll()
    poll.register(lifeline_fd, select.POLLIN)
    poll.poll()
    os._exit(1)


def _answer(tasks: Connection, head: bytes, items: list[bytes]) -> None:
    cpu_s, function, fault = 0.0, None, None
    try:
        function, prepare, cpu_s = pickle.loads(head)
        if prepare is not None:
            prepare()
    except (Exception, SystemExit) as error:  # noqa: BLE001
        fault = _note(error)
    tasks.send_bytes(b"")
    for item in items:
        _limit_cpu(cpu_s)
        tasks.send_bytes(
            pickle.dumps((False, fault)) if fault is not None else _call(function, item)
        )


def _call(function: Any, item: bytes) -> bytes:
    try:
        return pickle.dumps((True, function(*pickle.loads(item))))
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return pickle.dumps((False, _note(error)))


def _limit_cpu(cpu_s: float) -> None:
    """The kernel ends a call that goes on after everybody else has lost sight of it."""
    if cpu_s <= 0:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(used.ru_utime + used.ru_stime + cpu_s) + 1
    resource.setrlimit(
        resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
    )


def _note(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_NOTE]
