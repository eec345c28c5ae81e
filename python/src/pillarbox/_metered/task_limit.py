"""The limit of one task of engine="python"."""

from __future__ import annotations

import math
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
        self._window_s = max((one._window_s for one in limits), default=0.0)
        self._left: list[tuple[int, float]] = []  # the begin that is the last until a time
        self._begun = 0
        self._calls = 0
        self._next_s = 0.0
        self.waiters: list[Callable[[], None]] = []  # called once, when a call has ended

    def wait_s(self, now_s: float) -> float | None:
        """Return the wait until a call may begin; None if another call must end first."""
        if self._calls >= self._most:
            return None
        if self._left:
            self._left = [one for one in self._left if one[1] > now_s]
        ends = (until_s for last, until_s in self._left if self._begun >= last)
        return max(self._next_s - now_s, max(ends, default=now_s) - now_s, 0.0)

    def is_new(self, now_s: float) -> bool:
        """Return True if a new limit would let as much begin."""
        return self.wait_s(now_s) == 0 and not self._left

    @property
    def hears(self) -> bool:
        """True if it goes by what the service says is left: it has a rate."""
        return self._window_s > 0

    def told(self, left: float, reset_s: float, now_s: float) -> None:
        """Let at most ``left`` calls begin until ``reset_s`` have passed, as the service says.

        Without a time it is that of the limit's own rates; a limit without a rate counts no starts.
        """
        if self.hears:
            until_s = now_s + (self._window_s if math.isinf(reset_s) else reset_s)
            last = self._begun + int(left)
            self._left = [one for one in self._left if one[0] < last or one[1] > until_s]
            if all(one[0] > last or one[1] < until_s for one in self._left):
                self._left.append((last, until_s))

    def begin(self, now_s: float) -> None:
        self._begun += 1
        self._calls += 1
        self._next_s = max(self._next_s, now_s) + self._interval_s

    def pause(self, until_s: float) -> None:
        self._next_s = max(self._next_s, until_s)

    def end(self) -> None:
        self._calls -= 1
