"""The limit of one task of engine="python"."""

from __future__ import annotations

import sys

from ..options import Limit


class TaskLimit:
    """The bounds of a task's calls in flight and of their starts; without a limit there are none.

    Times are in seconds of a monotonic clock. On the event loop only.
    """

    def __init__(self, limit: Limit | None) -> None:
        rate = limit._rate if limit else None
        self._most = (limit and limit.concurrency) or sys.maxsize
        self._interval_s = rate[1] / rate[0] / 1000 if rate else 0.0
        self._calls = 0
        self._next_s = 0.0

    def wait_s(self, now_s: float) -> float | None:
        """Return the wait until a call may begin; None if another call must end first."""
        return None if self._calls >= self._most else max(self._next_s - now_s, 0.0)

    def begin(self, now_s: float) -> None:
        self._calls += 1
        self._next_s = max(self._next_s, now_s) + self._interval_s

    def end(self) -> None:
        self._calls -= 1
