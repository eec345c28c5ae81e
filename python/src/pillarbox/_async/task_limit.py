"""The limit of one task of engine="python"."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..limits import CALLS, Limit


class TaskLimit:
    """The bounds of a task's calls in flight and of their starts; without limits there are none.

    Limits of what calls use are not kept: a harness alone has some. Times are in seconds of a
    monotonic clock. On the event loop only.
    """

    def __init__(self, limits: Sequence[Limit]) -> None:
        limits = [one for one in limits if one.unit == CALLS]
        self._most = min((one.concurrency or sys.maxsize for one in limits), default=sys.maxsize)
        self._interval_s = max((one._interval_s for one in limits), default=0.0)
        self._calls = 0
        self._next_s = 0.0
        self.waiters: list[Callable[[], None]] = []  # called once, when a call has ended

    def wait_s(self, now_s: float) -> float | None:
        """Return the wait until a call may begin; None if another call must end first."""
        return None if self._calls >= self._most else max(self._next_s - now_s, 0.0)

    def begin(self, now_s: float) -> None:
        self._calls += 1
        self._next_s = max(self._next_s, now_s) + self._interval_s

    def pause(self, until_s: float) -> None:
        self._next_s = max(self._next_s, until_s)

    def end(self) -> None:
        self._calls -= 1
