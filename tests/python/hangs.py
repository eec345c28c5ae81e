"""Ends a test that hangs, and shows where: the stacks of this process and of its JVMs."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO


class TestHangs(Exception):
    """The test has not ended within its time."""

    __test__ = False


@contextmanager
def ending_after(seconds: float, out: TextIO | None = None) -> Iterator[None]:
    """Raise ``TestHangs`` where the main thread stands, unless the block ends before."""

    def is_late(signum: int, frame: FrameType | None) -> None:
        told = out or sys.__stderr__ or sys.stderr
        print(f"The test hangs after {seconds} s", file=told, flush=True)
        traceback.print_stack(frame, file=told)
        told.flush()
        faulthandler.dump_traceback(told, all_threads=True)  # a hundred of them, the main one last
        with suppress(OSError, subprocess.TimeoutExpired):  # a machine without ps or jstack
            for pid in java_children():
                shown = subprocess.run(["jstack", pid], capture_output=True, text=True, timeout=60)
                print(shown.stdout, shown.stderr, file=told, flush=True)
        raise TestHangs(f"after {seconds} s; standard error has the stacks")

    before = signal.signal(signal.SIGALRM, is_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def java_children() -> list[str]:
    """The ids of the JVMs that this process, or a child of it, has started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True)
    processes = [line.split(None, 2) for line in listed.stdout.splitlines()]
    mine = {str(os.getpid())}
    for pid, parent, _ in sorted(processes, key=lambda one: int(one[0])):
        if parent in mine:
            mine.add(pid)
    return [pid for pid, _, command in processes if pid in mine and "java" in command]
