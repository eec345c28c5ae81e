"""The queue of calls that the JVM has sent: they wait for a place, or for a turn of the loop."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

SLICE_S = 0.01

Key = tuple[int, int]  # element and attempt


class CallPlaces:
    """The places of at most ``most`` elements, from their first call until they ``leave``.

    A first call without a free place waits in order; a further attempt has its element's place. So
    a free place is taken without a round trip to the JVM, which keeps the same count. Without
    ``most`` every call may start.

    Calls are started for 10 ms in each turn of the event loop, and the others in a later turn by
    ``later``, so that many slow first steps don't block the loop. On the loop only.
    """

    def __init__(
        self,
        most: int | None,
        start: Callable[[int, int, Any, str], None],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        self._most = most
        self._start = start
        self._later = later
        self._held: dict[int, int] = {}  # elements, each with its newest attempt
        self._line: OrderedDict[Key, tuple[Any, str]] = OrderedDict()
        self._paused = False

    def call(self, calls: Iterable[tuple[int, int, Any, str]]) -> None:
        """Start the calls (id, attempt, row, name), or queue them."""
        ends = time.monotonic() + SLICE_S
        for element_id, attempt, row, name in calls:
            if self._may_start(element_id):
                self._begin(element_id, attempt, row, name, ends)
            else:
                self._line[element_id, attempt] = row, name
                if attempt > 1:
                    self._line.move_to_end((element_id, attempt), last=False)

    def leave(self, keys: Iterable[Key]) -> None:
        """Free the places of elements that these attempts have decided; older ones hold none."""
        for element_id, attempt in keys:
            if self._held.get(element_id) == attempt:
                del self._held[element_id]
        self._advance()

    def give_up(self, element_id: int) -> None:
        """Free the place of an element that gets no further attempt."""
        self._held.pop(element_id, None)
        self._advance()

    def cancel(self, keys: Iterable[Key]) -> None:
        """Remove these attempts from the queue."""
        for key in keys:
            self._line.pop(key, None)

    def clear(self) -> None:
        self._line.clear()

    def _may_start(self, element_id: int) -> bool:
        """Return True if a new call of the element may start ahead of the queue."""
        if self._paused:
            return False
        if self._most is None or element_id in self._held:
            return True
        return not self._line and len(self._held) < self._most

    def _begin(self, element_id: int, attempt: int, row: Any, name: str, ends: float) -> None:
        if self._most is not None:
            self._held[element_id] = attempt
        self._start(element_id, attempt, row, name)
        if time.monotonic() >= ends:
            self._paused = True
            self._later(self._resume)

    def _resume(self) -> None:
        self._paused = False
        self._advance()

    def _advance(self) -> None:
        ends = time.monotonic() + SLICE_S
        while self._line and not self._paused:
            element_id, attempt = next(iter(self._line))
            in_place = self._most is None or element_id in self._held
            if not in_place and len(self._held) >= (self._most or 0):
                return
            self._begin(element_id, attempt, *self._line.pop((element_id, attempt)), ends)
