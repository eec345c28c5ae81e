"""A list a key; every element has its own timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from .._arrow.converters import mismatch
from .context import UNKNOWN
from .state import State
from .surface import ListState

ADD, CLEAR, DROP, RENEW, START = range(5)


class ListCell:
    """The list of one key. Until it is ``loaded`` it holds only elements added to a stored list.

    ``ops`` are the changes in their order, as ``(op, value, stamp)``: CLEAR removes all elements,
    DROP those stamped at or below ``stamp``; RENEW raises all stamps to ``stamp``, START sets the
    missing ones.
    """

    __slots__ = ("loaded", "ops", "stamps", "values")

    def __init__(self, loaded: bool = True) -> None:
        self.loaded = loaded
        self.values: list[Any] = []
        self.stamps: list[int] = []
        self.ops: list[tuple[int, Any, int]] = []


class ListCells(State, ListState[Any]):
    """The lists of a list state.

    ``pages(key_index)`` yields the values and stamps of a list that is too large for a frame, and
    if they are the last ones.
    """

    __slots__ = ("pages",)

    pages: Callable[[int], Iterator[tuple[tuple[list[Any], list[int]], bool]]]

    def get(self) -> list[Any]:
        key_index = self._key_index()
        cell = self._loaded(key_index)
        if cell is None or not cell.values:
            return []
        values = cell.values if self._policy is None else self._alive(key_index, cell)
        copy = self.declaration.type.copy
        return list(values) if copy is None else [copy(value) for value in values]

    def __iter__(self) -> Iterator[Any]:
        key_index = self._key_index()
        cell = self._cells[key_index]
        # Under TTL a read renews the list, or removes from it, by an entry for the whole of it.
        if cell is None or cell.loaded or self._policy is not None:
            return iter(self.get())
        pages = self.pages(key_index)
        (values, stamps), is_last = next(pages)
        if is_last:
            self._take(cell, values, stamps)
            return iter(self.get())
        copy = self.declaration.type.copy
        added = list(cell.values) if copy is None else [copy(value) for value in cell.values]
        rest = (page[0] for page, _ in self.guarded(pages, key_index, self._cells))
        stored: Iterator[Any] = chain(values, chain.from_iterable(rest))
        make = self.declaration.type.make
        return chain(stored if make is None else map(make, stored), added)

    def add(self, value: Any) -> None:
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        self._append(self._key_index(), self._accepted(values))

    def update(self, values: Iterable[Any]) -> None:
        accepted = self._accepted(values)
        self.clear()
        self._append(self._key_index(), accepted)

    def clear(self) -> None:
        key_index = self._key_index()
        cell = self._cells[key_index]
        if cell is not None and (cell.values or not cell.loaded):
            cell.values, cell.stamps, cell.loaded = [], [], True
            self._log(key_index, cell, CLEAR, None, UNKNOWN)

    def mark(self, key_index: int) -> Any:
        cell: ListCell | None = self.cells()[0][key_index]
        if cell is None:
            return None, self.changed[key_index]
        # Lists are replaced or grow, so their lengths suffice to undo changes.
        lists = cell.values, cell.stamps, cell.ops
        return cell, self.changed[key_index], cell.loaded, lists, tuple(map(len, lists))

    def go_back(self, key_index: int, mark: Any) -> None:
        cell, self.changed[key_index], *before = mark
        self._cells[key_index] = cell
        if cell is not None:
            cell.loaded, lists, lengths = before
            cell.values, cell.stamps, cell.ops = lists
            for one, length in zip(lists, lengths, strict=True):
                del one[length:]

    def _accepted(self, values: Iterable[Any]) -> list[Any]:
        accept, accepted = self.declaration.type.accept, []
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            kept = self.declaration.type
            raise mismatch(kept.place, kept.data_type, values, "elements in a list")
        for value in values:
            if value is None:
                self._refuse_none("an element")
            accepted.append(accept(value))
        return accepted

    def _append(self, key_index: int, values: list[Any]) -> None:
        cell = self._cells[key_index]
        if cell is None:
            cell = self._cells[key_index] = ListCell()
        stamp = UNKNOWN if self._policy is None else self._policy.stamp()
        for value in values:
            cell.values.append(value)
            cell.stamps.append(stamp)
            self._log(key_index, cell, ADD, value, stamp)

    def _log(self, key_index: int, cell: ListCell, op: int, value: Any, stamp: int) -> None:
        cell.ops.append((op, value, stamp))
        self.changed[key_index] = 1

    def _loaded(self, key_index: int) -> ListCell | None:
        cell: ListCell | None = self._cells[key_index]
        if cell is not None and not cell.loaded:
            values: list[Any] = []
            stamps: list[int] = []
            for (some, their_stamps), _ in self.pages(key_index):
                values += some
                stamps += their_stamps
            self._take(cell, values, stamps)
        return cell

    @staticmethod
    def _take(cell: ListCell, values: list[Any], stamps: list[int]) -> None:
        """Put the stored elements before those that were added."""
        cell.values, cell.stamps = values + cell.values, stamps + cell.stamps
        cell.loaded = True

    def _alive(self, key_index: int, cell: ListCell) -> list[Any]:
        """Return the visible elements, remove expired ones, and renew the others if TTL says so."""
        policy = self._policy
        assert policy is not None
        shown = before = cell.values
        # A first watermark can only make a stamp newer.
        old = cell.stamps and min(cell.stamps) <= policy.limit()
        expired = [policy.is_expired(stamp) for stamp in cell.stamps] if old else ()
        if any(expired):
            kept = [index for index, gone in enumerate(expired) if not gone]
            cell.values = [before[index] for index in kept]
            cell.stamps = [cell.stamps[index] for index in kept]
            self._log(key_index, cell, DROP, None, policy.limit())
            for value, gone in zip(before, expired, strict=True):
                if gone:
                    policy.tell(value)
            shown = before if policy.returns_expired else cell.values
        self._renew(key_index, cell)
        return shown

    def _renew(self, key_index: int, cell: ListCell) -> None:
        policy, stamps = self._policy, cell.stamps
        assert policy is not None
        start = policy.known(UNKNOWN) if policy.renews else policy.first_stamp()
        if start != UNKNOWN and UNKNOWN in stamps:
            stamps = cell.stamps = [start if one == UNKNOWN else one for one in stamps]
            self._log(key_index, cell, START, None, start)
        stamp = policy.stamp() if policy.renews else UNKNOWN
        if stamps and min(stamps) < stamp:
            cell.stamps = [max(one, stamp) for one in stamps]
            self._log(key_index, cell, RENEW, None, stamp)
