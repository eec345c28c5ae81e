"""Notices that an event loop no longer turns, and where it hangs."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable

from .._failures import called_frames
from ..errors import PillarboxError, error

_LOOKS = 5


class Watchdog:
    """Calls ``alarm`` once, from its own thread, if the loop has not turned for ``blocked_ms``.

    It looks five times in that span and counts the looks, not the clock, so that a machine that
    was suspended raises no alarm. ``loop_thread`` is the id of the thread that runs the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        loop_thread: int,
        blocked_ms: int,
        alarm: Callable[[PillarboxError], None],
    ) -> None:
        self._loop = loop
        self._loop_thread = loop_thread
        self._blocked_ms = blocked_ms
        self._alarm = alarm
        self._stopped = threading.Event()
        self._turned = True
        self._thread = threading.Thread(target=self._watch, name="pillarbox-watchdog", daemon=True)

    def start(self) -> None:
        """Begins to watch; the loop should be running or about to."""
        self._thread.start()

    def stop(self) -> None:
        """No alarm is raised once this has returned (unless called by the alarm itself)."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self) -> None:
        missed = 0
        while not self._stopped.wait(self._blocked_ms / 1000 / _LOOKS):
            missed = 0 if self._turned else missed + 1
            if missed >= _LOOKS:
                self._alarm(self._report())
                return
            if self._turned:
                self._turned = False
                self._loop.call_soon_threadsafe(self._on_turn)

    def _on_turn(self) -> None:
        self._turned = True

    def _report(self) -> PillarboxError:
        frame = sys._current_frames().get(self._loop_thread)
        stack = called_frames(traceback.extract_stack(frame)) if frame is not None else None
        text = "".join(stack.format()) if stack is not None else "(the thread has ended)"
        return error("EVENT_LOOP_BLOCKED", blocked_ms=self._blocked_ms, stack=text)
