"""States of one object a key: value, reducing and aggregating states."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from .context import UNKNOWN, KeyedContext
from .state import Declaration, State
from .surface import AggregatingState, ReducingState, ValueState


class CellState(State):
    """One object a key, with its timestamp beside it; None means absent."""

    __slots__ = ("_accept", "_copy")

    def __init__(self, declaration: Declaration, at: KeyedContext) -> None:
        super().__init__(declaration, at)
        self._accept = declaration.type.accept
        self._copy = declaration.type.copy

    def clear(self) -> None:
        key_index = self._key_index()
        if self._cells[key_index] is not None:
            self._cells[key_index] = None
            self.changed[key_index] = 1

    def _read(self) -> Any:
        at, cells = self._at, self._cells
        key_index = at._key_index
        if at._thread != get_ident() or cells is None:
            key_index = self._key_index()
            cells = self._cells
        value = cells[key_index]
        if value is None:
            return None
        if self._policy is not None:
            value = self._alive(key_index, value)
        copy = self._copy
        return value if copy is None or value is None else copy(value)

    def _update(self, value: Any) -> None:
        """Set the value of the current key; None clears it."""
        if value is None:
            self.clear()
            return
        value = self._accept(value)
        at = self._at
        key_index = at._key_index
        if at._thread != get_ident() or self._cells is None:
            key_index = self._key_index()
        if self._policy is not None:
            self._stamp(key_index)
        self._cells[key_index] = value
        self.changed[key_index] = 1

    def _write(self, value: Any) -> None:
        """Update with the result of a fold, which can't be None."""
        self._update(self._accept(value) if value is None else value)

    def _alive(self, key_index: int, value: Any) -> Any:
        policy, stamp = self._policy, self._stamps[key_index]
        assert policy is not None
        if stamp == UNKNOWN or policy.renews:
            if not policy.is_expired(stamp):
                self._restamp(key_index, policy.after_read(stamp))
                return value
        elif stamp + policy.ttl > (
            self._at._watermark if policy.event else self._at.processing_time
        ):
            return value  # the hot path, without a call
        self._cells[key_index] = None
        self.changed[key_index] = 1
        policy.tell(value)
        return value if policy.returns_expired else None

    def _stamp(self, key_index: int) -> None:
        policy = self._policy
        assert policy is not None
        if policy.event:
            stored = self._stamps[key_index] if self._cells[key_index] is not None else None
            self._stamps[key_index] = policy.stamp(stored)
        else:
            self._stamps[key_index] = self._at.processing_time

    def _restamp(self, key_index: int, stamp: int) -> None:
        if stamp != self._stamps[key_index]:
            self._stamps[key_index] = stamp
            self.changed[key_index] = 1


class ValueCells(CellState, ValueState[Any]):
    """The values of a value state."""

    __slots__ = ()

    value = CellState._read

    update = CellState._update


class ReducingCells(CellState, ReducingState[Any]):
    """The aggregates of a reducing state."""

    __slots__ = ()

    get = CellState._read

    def add(self, value: Any) -> None:
        if value is None:
            self._refuse_none("an element")
        value = self._accept(value)
        current = self._read()
        if current is None:
            self._write(value)
            return
        copy = self._copy
        self._write(self.declaration.fold(current, value if copy is None else copy(value)))


class AggregatingCells(CellState, AggregatingState[Any, Any]):
    """The accumulators of an aggregating state."""

    __slots__ = ()

    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else self.declaration.fold.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self._refuse_none("an element")
        function = self.declaration.fold
        accumulator = self._read()
        if accumulator is None:
            accumulator = function.create_accumulator()
        self._write(function.add(value, accumulator))
