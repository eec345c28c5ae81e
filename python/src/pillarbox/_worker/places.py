"""Rows that came ahead of their turn: who may be called now, and who waits for a place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any


class Places:
    """At most ``most`` elements have a place, from their first call until they ``leave``.

    A first call without a free place waits in line, in order; a further attempt starts in its
    element's place. So a place that becomes free is taken without asking the JVM, which counts
    along. On the event loop only.
    """

    def __init__(self, most: int, start: Callable[[int, int, Any], None]) -> None:
        self._most = most
        self._start = start
        self._held: set[int] = set()
        self._line: OrderedDict[int, tuple[int, Any]] = OrderedDict()

    def call(self, element_id: int, attempt: int, row: Any) -> None:
        """Starts the call, or keeps it until its turn."""
        if attempt > 1 or len(self._held) < self._most:
            self._held.add(element_id)
            self._start(element_id, attempt, row)
        else:
            self._line[element_id] = attempt, row

    def leave(self, element_ids: Iterable[int]) -> None:
        """These elements are decided. Ones that have no place any more are ignored."""
        self._held.difference_update(element_ids)
        while self._line and len(self._held) < self._most:
            element_id, (attempt, row) = self._line.popitem(last=False)
            self.call(element_id, attempt, row)

    def cancel(self, element_ids: Iterable[int]) -> None:
        """Those of them that wait in line are never called."""
        for element_id in element_ids:
            self._line.pop(element_id, None)

    def clear(self) -> None:
        """Nothing that waits in line is called."""
        self._line.clear()
