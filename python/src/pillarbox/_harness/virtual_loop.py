"""An event loop with a virtual clock: hours of waiting take no time."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Any

from ..errors import error

_POLL_S = 0.02  # between two looks at whether a thread still runs


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time()`` begins at 0, and jumps to the next timer when nothing is left to run.

    While something outside of the loop may wake it (a thread that it waits for, an open socket),
    time passes as it does outside. ``run_forever`` raises ``WorkerFailed`` (NOTHING_CAN_HAPPEN)
    where everything waits, and nothing will ever wake it.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._in_executors = 0
        self.runs_threads: Callable[[], bool] = lambda: False
        super().__init__(_Jumping(self))
        # asyncio's nanosecond is lost in a clock of a hundred days, and a timer would never be due.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._now_s

    def pass_time(self, seconds: float) -> None:
        """Move the clock forward."""
        self._now_s += seconds

    def waits_for_threads(self) -> bool:
        """Return True while a thread runs that wakes the loop at its end."""
        return self._in_executors > 0 or self.runs_threads()

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Run ``func`` in a thread, during which the clock doesn't jump."""
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self._in_executors += 1
        future.add_done_callback(self._left_executor)
        return future

    def _left_executor(self, _: asyncio.Future[Any]) -> None:
        self._in_executors -= 1


class _Jumping(selectors.DefaultSelector):
    """The selector of a loop, which asks it to wait until its next timer."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        # A thread wakes the loop before it counts as ended, so it is looked for first.
        is_awaited = self._loop.waits_for_threads() or len(self.get_map()) > 1
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if is_awaited:
            # A thread that has woken the loop counts for a moment more, and nothing would wake it.
            begun = time.monotonic()
            ready = super().select(_POLL_S if timeout is None else min(timeout, _POLL_S))
            self._loop.pass_time(time.monotonic() - begun)
            return ready
        if timeout is None:
            raise error("NOTHING_CAN_HAPPEN")
        self._loop.pass_time(timeout)
        return ready
