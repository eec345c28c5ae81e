"""The limit of one task of engine="python"."""

from __future__ import annotations

import sys

from ..options import Limit


class TaskLimit:
    """How many calls a task has in flight, and how fast they start; without a limit, any.

    Times are in seconds of one clock that never goes back. On the event loop only.
    """

    def __init__(self, limit: Limit | None) -> None:
        rate = limit._rate if limit else None
        self._most = (limit and limit.concurrency) or sys.maxsize
        self._interval_s = rate[1] / rate[0] / 1000 if rate else 0.0
        self._calls = 0
        self._next_s = 0.0

    def wait_s(self, now_s: float) -> float | None:
        """After how long a call may begin; None where the end of another must come first."""
        return None if self._calls >= self._most else max(self._next_s - now_s, 0.0)

    def begin(self, now_s: float) -> None:
        """A call begins."""
        self._calls += 1
        self._next_s = max(self._next_s, now_s) + self._interval_s

    def end(self) -> None:
        """A call has ended."""
        self._calls -= 1
