"""The lines in which calls of one task wait for limits, in engine="python"."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from .._metered.limit_keys import Values
from .._metered.task_limit import TaskLimit
from ..limits import Limit

_LEAST_SWEPT = 64


class Waiting(Protocol):
    """An element that a call is for. ``outside`` is True while it waits without a place."""

    values: Values
    outside: bool
    done: bool


E = TypeVar("E", bound=Waiting)
_E = TypeVar("_E", contravariant=True)


class Owner(Protocol[_E]):
    """What starts the calls."""

    def has_place(self) -> bool:
        """Return True if another call may be under way."""

    def start_call(self, elements: Sequence[_E]) -> None:
        """Start a call that has passed its limits, for elements that are not done."""


class _Lane(Generic[E]):
    """The calls of rows with certain values of the limits' keys."""

    def __init__(self, limits: Sequence[TaskLimit]) -> None:
        self.limits = limits
        self.line: deque[list[E]] = deque()
        self.running = 0
        self.asks = False  # its first call waits for a limit, or for its turn


class Lanes(Generic[E]):
    """Starts calls as their limits allow: all in one line, or, where limits have keys, in one for
    the rows with certain values of these. Lanes take turns at what they share.

    A call is a list of elements. One that waits in a lane of a key has no place among the calls
    under way; ``outside`` is the number of these. On the event loop only.
    """

    def __init__(
        self, limits: Sequence[Limit], owner: Owner[E], later: Callable[..., asyncio.TimerHandle]
    ) -> None:
        self._keyed: dict[str, list[Limit]] = {}
        for limit in limits:
            if limit.key is not None:
                self._keyed.setdefault(limit.key, []).append(limit)
        self._common = TaskLimit([limit for limit in limits if limit.key is None])
        self._owner, self._later = owner, later
        self._now = asyncio.get_running_loop().time
        self._values: dict[Hashable, TaskLimit] = {}
        self._swept = 0
        self._lanes: dict[Values, _Lane[E]] = {}
        self._ready: deque[_Lane[E]] = deque()
        self._turn: asyncio.TimerHandle | None = None
        self._starting = False
        self.outside = 0

    def add(self, call: list[E]) -> None:
        """Let a call wait for its limits."""
        values = call[0].values
        lane = self._lanes.get(values)
        if lane is None:
            lane = self._lanes[values] = _Lane[E](self._limits_of(values))
        lane.line.append(call)
        if self._keyed:
            call[0].outside = True
            self.outside += 1
        self._ask(lane)
        self.serve()

    def leave(self, element: E) -> None:
        """Take note that an element does not wait any more."""
        if element.outside:
            element.outside = False
            self.outside -= 1

    def end(self, values: Values) -> None:
        """Take note that a call has ended, of rows with these values."""
        lane = self._lanes[values]
        lane.running -= 1
        self._forget_idle(values, lane)
        self._common.end()
        for limit in lane.limits:
            limit.end()
            waiters, limit.waiters = limit.waiters, []
            for waiter in waiters:
                waiter()
        self.serve()

    def pause(self, values: Values, delay_s: float) -> None:
        """Let no call with these values begin for so long; without keys no call at all."""
        for limit in self._limits_of(values) or [self._common]:
            limit.pause(self._now() + delay_s)

    def told(self, values: Values, left: float, reset_s: float) -> None:
        """Go by what the service says is left of calls with these values; of all, where none of
        the values' limits hears it."""
        own = [limit for limit in self._limits_of(values) if limit.hears]
        for limit in own or [self._common]:
            limit.told(left, reset_s, self._now())

    def serve(self) -> None:
        """Start the calls that may begin."""
        if self._starting:
            return  # called by an element that ended while the while loop below started it
        self._starting = True
        while self._ready and self._turn is None and self._owner.has_place():
            wait_s = self._common.wait_s(self._now())
            if wait_s is None:
                break
            if wait_s > 0:
                self._turn = self._later(wait_s, self._on_turn)
            else:
                self._start_first(self._ready.popleft())
        self._starting = False

    def _on_turn(self) -> None:
        self._turn = None
        self.serve()

    def _start_first(self, lane: _Lane[E]) -> None:
        lane.asks = False
        now = self._now()
        # Other lanes may have the same value of one key, and so have used its limit.
        if all(limit.wait_s(now) == 0 for limit in lane.limits):
            call = lane.line.popleft()
            values = call[0].values
            self.leave(call[0])
            elements = [element for element in call if not element.done]
            if elements:
                lane.running += 1
                for limit in (self._common, *lane.limits):
                    limit.begin(now)
                self._owner.start_call(elements)
            self._forget_idle(values, lane)
        self._ask(lane)

    def _ask(self, lane: _Lane[E]) -> None:
        """Let the first call of a lane wait for the limits of its values, or for its turn."""
        if lane.asks or not lane.line:
            return
        lane.asks = True

        def again() -> None:
            lane.asks = False
            self._ask(lane)
            self.serve()

        now = self._now()
        for limit in lane.limits:
            wait_s = limit.wait_s(now)
            if wait_s is None:
                limit.waiters.append(again)
                return
            if wait_s > 0:
                self._later(wait_s, again)
                return
        self._ready.append(lane)

    def _limits_of(self, values: Values) -> list[TaskLimit]:
        return [self._limit_of(place) for place in zip(self._keyed, values, strict=True)]

    def _limit_of(self, place: tuple[str, Hashable]) -> TaskLimit:
        limit = self._values.get(place)
        if limit is None:
            if len(self._values) >= 2 * max(self._swept, _LEAST_SWEPT):
                self._sweep()
            limit = self._values[place] = TaskLimit(self._keyed[place[0]])
        return limit

    def _sweep(self) -> None:
        """Forget the limits of values that have no calls and are as good as new."""
        now = self._now()
        used = {id(limit) for lane in self._lanes.values() for limit in lane.limits}
        self._values = {
            place: limit
            for place, limit in self._values.items()
            if id(limit) in used or not limit.is_new(now)
        }
        self._swept = len(self._values)

    def _forget_idle(self, values: Values, lane: _Lane[E]) -> None:
        # A call that ends as it starts forgets the lane, and the next one may have another by now.
        if not lane.running and not lane.line and self._lanes.get(values) is lane:
            del self._lanes[values]
