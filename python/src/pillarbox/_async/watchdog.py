"""Notices that one callback holds an event loop, and where it hangs."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from types import CodeType, FrameType

from .._base.failures import called_frames
from ..errors import PillarboxError, error

_LOOKS = 5
_RUN_ONCE = getattr(getattr(asyncio.BaseEventLoop, "_run_once", None), "__code__", None)


class Watchdog:
    """Calls ``alarm`` once, from its own thread, if one callback holds the loop for ``blocked_ms``.

    A turn of the loop may take longer than that: it is the sum of many callbacks, such as the steps
    of all calls that one event has woken. So it must be the same callback at a look and at the five
    after it, which span that time. Looks are counted, not the clock, so that a machine that was
    suspended raises no alarm. ``loop_thread`` is the id of the thread that runs the loop, by a call
    in the function of ``loop_runner``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        loop_thread: int,
        loop_runner: CodeType,
        blocked_ms: int,
        alarm: Callable[[PillarboxError], None],
    ) -> None:
        self._loop = loop
        self._loop_thread = loop_thread
        # Callbacks are above these in the stack. A loop in C, such as uvloop's, has no frame.
        self._below = {_RUN_ONCE, loop_runner}
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
        # Kept between looks: the frame of another callback must not get the same address.
        seen: FrameType | None = None
        while not self._stopped.wait(self._blocked_ms / 1000 / _LOOKS):
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
        """The frame with which the present callback begins; None in one without Python frames."""
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
