"""What a coroutine of a keyed function sees: the row and the key of the attempt that it runs in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from .._keyed.context import KeyedContext
from .._keyed.state import State
from .._keyed.surface import AsyncContext
from ..errors import error, shown


class Attempt:
    """One attempt of one row, from its beginning until it is kept or taken back.

    Of a key there is one at a time, so its writes stand in the key's own cells, and marks of what
    these had before take them back.
    """

    __slots__ = (
        "_marks",
        "context",
        "is_open",
        "key",
        "side_rows",
        "slot",
        "timestamp",
        "watermark",
    )

    def __init__(
        self,
        context: AsyncKeyedContext,
        slot: int,
        timestamp: int | None,
        watermark: int,
        states: Iterable[State],
    ) -> None:
        self.context = context
        self.slot = slot
        self.key = context._keys[slot]
        self.timestamp = timestamp
        self.watermark = watermark
        self.side_rows: list[tuple[str, int, Any]] = []
        self._marks = [(state, state.mark(slot)) for state in states]
        self.is_open = True

    def enter(self) -> None:
        """The present coroutine, and what it starts, is that of this attempt."""
        _CURRENT.set(self)

    def keep(self) -> None:
        """The attempt has succeeded; nothing more can be written."""
        self.is_open = False
        self.context.side_rows.extend(self.side_rows)

    def take_back(self) -> None:
        """Whatever it wrote is undone; nothing more can be written."""
        self.is_open = False
        for state, mark in self._marks:
            state.go_back(self.slot, mark)


_CURRENT: ContextVar[Attempt] = ContextVar("pillarbox_keyed_attempt")


class AsyncKeyedContext(KeyedContext, AsyncContext[Any]):
    """One for all coroutines, each of which sees its own row.

    ``_slot``, ``_row_time`` and ``_reached`` hold where none of them runs: for messages.
    """

    __slots__ = ("_loop_thread", "_reached", "_row_time", "resource")

    def __init__(self, name: str, tags: dict[str, Callable[[Any], Any]]) -> None:
        super().__init__(name, tags)
        self._loop_thread = threading.get_ident()
        self.resource: Any = None

    def begin_calls(self) -> None:
        """The present thread is that of the calls to come."""
        self._loop_thread = threading.get_ident()

    @property
    def key(self) -> Any:
        attempt = self._started_by()
        return self._keys[self.slot()] if attempt is None else attempt.key

    def slot(self) -> int:
        attempt = self._attempt()
        return super().slot() if attempt is None else attempt.slot

    def output(self, tag: str, row: Any) -> None:
        accept = self._tags.get(tag)
        if accept is None:
            declared = ", ".join(map(repr, self._tags)) or "none"
            raise error("UNKNOWN_SIDE_OUTPUT", tag=shown(tag), declared=declared)
        slot, attempt = self.slot(), self._attempt()
        assert attempt is not None
        attempt.side_rows.append((tag, slot, accept(row)))

    @property
    def timestamp(self) -> int | None:
        attempt = self._started_by()
        return self._row_time if attempt is None else attempt.timestamp

    @timestamp.setter
    def timestamp(self, time: int | None) -> None:
        self._row_time = time

    @property
    def _watermark(self) -> int:
        attempt = self._started_by()
        return self._reached if attempt is None else attempt.watermark

    @_watermark.setter
    def _watermark(self, watermark: int) -> None:
        self._reached = watermark

    def _started_by(self) -> Attempt | None:
        """The one that has started the caller, in any thread, though it may be over."""
        attempt = _CURRENT.get(None)
        return None if attempt is None or attempt.context is not self else attempt

    def _attempt(self) -> Attempt | None:
        """The one that the caller runs in, while it may read and write."""
        attempt = self._started_by()
        if attempt is None or not attempt.is_open:
            return None
        return attempt if threading.get_ident() == self._loop_thread else None
