"""A watchdog for callbacks that block an event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from types import CodeType, FrameType

from .._base.failures import called_frames
from ..errors import PillarboxError, error

_LOOKS = 20
_RUN_ONCE = getattr(getattr(asyncio.BaseEventLoop, "_run_once", None), "__code__", None)


class Watchdog:
    """Calls ``alarm`` once, from its own thread, if one callback holds the loop for ``blocked_ms``.

    A turn of the loop, as the sum of many callbacks, may take longer. So the watchdog looks twenty
    times in that time, and raises the alarm if it finds the same callback each time: at most two
    looks late. It counts its looks and not the clock, so that a suspended machine raises no alarm.
    ``loop_thread`` is the id of the thread that runs the loop in the function of ``loop_runner``.
    ``wait`` waits for so many seconds and returns True if the watchdog is to end.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        loop_thread: int,
        loop_runner: CodeType,
        blocked_ms: int,
        alarm: Callable[[PillarboxError], None],
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._loop = loop
        self._loop_thread = loop_thread
        # Callbacks are above these frames in the stack. A loop in C, such as uvloop's, has none.
        self._below = {_RUN_ONCE, loop_runner}
        self._blocked_ms = blocked_ms
        self._alarm = alarm
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._turned = True
        self._thread = threading.Thread(target=self._watch, name="pillarbox-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch a loop that runs, or is about to."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. After this no alarm is raised (unless the alarm itself called it)."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self) -> None:
        missed = 0
        seen: FrameType | None = None  # kept, so that no other callback's frame gets its address
        while not self._wait(self._blocked_ms / 1000 / _LOOKS):
            if self._turned:
                missed, seen = 0, None
                self._turned = False
                self._loop.call_soon_threadsafe(self._on_turn)
                continue
            held_by = self._callback()
            missed = missed + 1 if missed and held_by is seen else 1
            seen = held_by
            if missed > _LOOKS:
                self._alarm(self._report())
                return

    def _on_turn(self) -> None:
        self._turned = True

    def _callback(self) -> FrameType | None:
        """Return the first frame of the current callback; None if it has no Python frame."""
        frame = sys._current_frames().get(self._loop_thread)
        callback = None
        while frame is not None and frame.f_code not in self._below:
            callback, frame = frame, frame.f_back
        return callback

    def _report(self) -> PillarboxError:
        frame = sys._current_frames().get(self._loop_thread)
        stack = called_frames(traceback.extract_stack(frame)) if frame is not None else None
        text = "".join(stack.format()) if stack is not None else "(the thread has ended)"
        return error("EVENT_LOOP_BLOCKED", blocked_ms=self._blocked_ms, stack=text)
