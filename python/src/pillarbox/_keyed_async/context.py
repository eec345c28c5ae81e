"""The context of a keyed function's coroutine: the row and the key of its attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from .._keyed.context import KeyedContext
from .._keyed.state import State
from .._keyed.surface import AsyncContext


class Attempt:
    """One attempt of one row, which may read and write while it ``is_open``.

    A key has one attempt at a time, so it writes into the key's own cells, and undoes this by marks
    of their earlier contents, until the key's next attempt begins.
    """

    __slots__ = (
        "_marks",
        "context",
        "is_late",
        "is_open",
        "key",
        "key_index",
        "side_rows",
        "timestamp",
        "watermark",
    )  # fmt: skip

    def __init__(
        self,
        context: AsyncKeyedContext,
        key_index: int,
        timestamp: int | None,
        watermark: int,
        is_late: bool,
        states: Iterable[State],
    ) -> None:
        self.context = context
        self.key_index = key_index
        self.key = context._keys[key_index]
        self.timestamp = timestamp
        self.watermark = watermark
        self.is_late = is_late
        self.side_rows: list[tuple[str, int, Any]] = []
        self._marks = [(state, state.mark(key_index)) for state in states]
        self.is_open = True

    def enter(self) -> None:
        """Make this the attempt of the current coroutine and of the tasks that it starts."""
        _CURRENT.set(self)

    def take_back(self) -> None:
        """End the attempt and undo its writes; it can write nothing more."""
        self.is_open = False
        for state, mark in self._marks:
            state.go_back(self.key_index, mark)


_CURRENT: ContextVar[Attempt] = ContextVar("pillarbox_keyed_attempt")


class AsyncKeyedContext(KeyedContext, AsyncContext[Any]):
    """The one context of all coroutines, each of which sees its own row.

    ``_key_index``, ``_row_time`` and ``_reached`` are the values outside of coroutines, for
    messages.
    """

    __slots__ = ("_loop_thread", "_reached", "_row_time", "resource")

    def __init__(self, name: str, tags: dict[str, Callable[[Any], Any]]) -> None:
        super().__init__(name, tags)
        self._loop_thread = threading.get_ident()
        self.resource: Any = None

    def begin_calls(self) -> None:
        """Make the current thread that of the next calls."""
        self._loop_thread = threading.get_ident()

    @property
    def key(self) -> Any:
        attempt = self._started_by()
        return self._keys[self.key_index()] if attempt is None else attempt.key

    def key_index(self) -> int:
        attempt = self._attempt()
        return super().key_index() if attempt is None else attempt.key_index

    def output(self, tag: str, row: Any) -> None:
        accept, key_index, attempt = self._acceptor(tag), self.key_index(), self._attempt()
        assert attempt is not None
        attempt.side_rows.append((tag, key_index, accept(row)))

    @property
    def timestamp(self) -> int | None:
        attempt = self._started_by()
        return self._row_time if attempt is None else attempt.timestamp

    @timestamp.setter
    def timestamp(self, time: int | None) -> None:
        self._row_time = time

    @property
    def is_late(self) -> bool:
        attempt = self._started_by()
        return attempt is not None and attempt.is_late

    @is_late.setter
    def is_late(self, late: bool) -> None:
        """Does nothing: only rows are late, and each has its attempt."""

    @property
    def _watermark(self) -> int:
        attempt = self._started_by()
        return self._reached if attempt is None else attempt.watermark

    @_watermark.setter
    def _watermark(self, watermark: int) -> None:
        self._reached = watermark

    def _started_by(self) -> Attempt | None:
        """Return the attempt that has started the caller, in any thread, also if it is over."""
        attempt = _CURRENT.get(None)
        return None if attempt is None or attempt.context is not self else attempt

    def _attempt(self) -> Attempt | None:
        """Return the attempt that the caller runs in, as long as it may read and write."""
        attempt = self._started_by()
        if attempt is None or not attempt.is_open:
            return None
        return attempt if threading.get_ident() == self._loop_thread else None
