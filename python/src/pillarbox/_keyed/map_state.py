"""A map a key; every entry has its own timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from threading import get_ident
from typing import Any

from .._arrow.converters import mismatch
from .context import UNKNOWN, KeyedContext
from .state import Declaration, State
from .surface import MapState

Entries = Iterable[tuple[Any, Any, int]]


class MapCell:
    """The map of one key. Until it is ``loaded``, ``values`` holds some entries of a stored map.

    ``missing`` then has the keys known not to be in it, and ``dirty`` the keys whose entry is to be
    written back. If it is ``cleared``, all earlier entries are removed first.
    """

    __slots__ = ("cleared", "dirty", "loaded", "missing", "stamps", "values")

    def __init__(self, loaded: bool = True) -> None:
        self.loaded = loaded
        self.values: dict[Any, Any] = {}
        self.stamps: dict[Any, int] = {}
        self.missing: dict[Any, None] = {}
        self.dirty: dict[Any, None] = {}
        self.cleared = False


_ABSENT = object()


class Recorded(dict[Any, Any]):
    """A dict that logs the earlier values of changed keys."""

    __slots__ = ("log",)

    log: list[tuple[Recorded, Any, Any]]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.log.append((self, key, self.get(key, _ABSENT)))
        dict.__setitem__(self, key, value)

    def pop(self, key: Any, *default: Any) -> Any:
        self.log.append((self, key, self.get(key, _ABSENT)))
        return dict.pop(self, key, *default)

    def clear(self) -> None:
        self.log.extend((self, key, value) for key, value in self.items())
        dict.clear(self)


def _undo(log: list[tuple[Recorded, Any, Any]]) -> None:
    for entries, key, before in reversed(log):
        if before is _ABSENT:
            dict.pop(entries, key, None)
        else:
            dict.__setitem__(entries, key, before)


class MapCells(State, MapState[Any, Any]):
    """The maps of a map state.

    For a map that is too large for a frame, ``fetch(key_index, key)`` returns one of its
    entries, ``some(key_index)`` a few if there are any, as ``(key, value, stamp)``, and
    ``pages(key_index)`` yields all of them, some at a time, each time with True for the last ones.

    ``get`` and ``put`` run once a row or more. They inline ``_key`` and ``_key_index``, which makes
    them take 0.4 us together instead of 0.6.
    """

    __slots__ = ("_accept", "_accept_key", "_copy", "_plain_class", "fetch", "pages", "some")

    fetch: Callable[[int, Any], Entries]
    some: Callable[[int], Entries]
    pages: Callable[[int], Iterator[tuple[Entries, bool]]]

    def __init__(self, declaration: Declaration, at: KeyedContext) -> None:
        super().__init__(declaration, at)
        assert declaration.key_type is not None
        self._accept_key = declaration.key_type.accept
        self._plain_class = declaration.key_type.plain_class
        self._accept = declaration.type.accept
        self._copy = declaration.type.copy

    def get(self, key: Any) -> Any:
        plain = key.__class__ is self._plain_class
        if not plain:
            key = self._key(key)
        at, cells = self._at, self._cells
        key_index = at._key_index
        if at._thread != get_ident() or cells is None:
            key_index = self._key_index()
            cells = self._cells
        cell = cells[key_index]
        value = None if cell is None else cell.values.get(key)
        if value is None:
            if plain:
                key = self._accept_key(key)  # an invalid key is never found, and raises here
            if cell is None or cell.loaded or key in cell.missing:
                return None
            value = self._ask(key_index, cell, key)
            if value is None:
                return None
        if self._policy is not None:
            value = self._alive(key_index, cell, key, value)
        copy = self._copy
        return value if copy is None or value is None else copy(value)

    def put(self, key: Any, value: Any) -> None:
        if key is None:
            self._refuse_none("a map key")
        key = self._accept_key(key)
        if value is None:
            self._refuse_none("a map value")
        value = self._accept(value)
        at = self._at
        key_index = at._key_index
        if at._thread != get_ident() or self._cells is None:
            key_index = self._key_index()
        cell = self._cells[key_index]
        if cell is None:
            cell = self._cells[key_index] = MapCell()
        if self._policy is not None:
            self._stamp(key_index, cell, key)
        cell.values[key] = value
        cell.dirty[key] = None
        self.changed[key_index] = 1

    def put_all(self, entries: Mapping[Any, Any]) -> None:
        if not isinstance(entries, Mapping):
            kept = self.declaration.type
            raise mismatch(kept.place, kept.data_type, entries, "entries in a dict")
        # All of them are checked before the first is put.
        accepted = [(self._key(key), self._value(value)) for key, value in entries.items()]
        for key, value in accepted:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        key = self._key(key)
        key_index = self._key_index()
        cell = self._cells[key_index]
        if cell is not None and (key in cell.values or not cell.loaded):
            self._drop(key_index, cell, key)

    def contains(self, key: Any) -> bool:
        return self.get(key) is not None

    def is_empty(self) -> bool:
        key_index = self._key_index()
        cell = self._cells[key_index]
        if cell is None:
            return True
        if not cell.loaded and not self._has_living(cell):
            for key, value, stamp in self.some(key_index):
                self._take(cell, key, value, stamp)
            if not self._has_living(cell):
                self._complete(key_index, cell)
        return not self._has_living(cell)

    def items(self) -> Iterator[tuple[Any, Any]]:
        key_index = self._key_index()
        cell = self._cells[key_index]
        if cell is None:
            return iter(())
        if not cell.loaded:
            pages = self.pages(key_index)
            first, is_last = next(pages)
            if not is_last:
                return self._paged(key_index, cell, first, pages)
            self._take_all(cell, first)
        return iter(self._pairs(key_index, cell))

    def _pairs(self, key_index: int, cell: MapCell) -> list[tuple[Any, Any]]:
        """Return the entries that the cell has, those that are alive."""
        if self._policy is None:
            pairs = list(cell.values.items())
        else:
            pairs = list(self._living(key_index, cell))
        copy = self._copy
        return pairs if copy is None else [(key, copy(value)) for key, value in pairs]

    def _paged(
        self, key_index: int, cell: MapCell, first: Entries, pages: Iterator[tuple[Entries, bool]]
    ) -> Iterator[tuple[Any, Any]]:
        """Return the entries of a map that is read page by page, as they are now."""
        known = {*cell.values, *cell.missing}
        rest = (page for page, _ in self.guarded(pages, key_index, self._cells))
        stored = (
            (key, value, stamp)
            for page in chain((first,), rest)
            for key, value, stamp in page
            if key not in known
        )
        own = self._pairs(key_index, cell)
        if self._policy is None:
            make = self.declaration.type.make
            pairs = ((key, value if make is None else make(value)) for key, value, _ in stored)
            return chain(own, pairs)
        return chain(own, self._living_of(key_index, cell, stored))

    def _living_of(
        self, key_index: int, cell: MapCell, stored: Entries
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the stored entries that are alive; the cell keeps what is renewed or removed."""
        policy, make = self._policy, self.declaration.type.make
        assert policy is not None
        for key, value, stamp in stored:
            is_changed = key in cell.values or key in cell.missing
            if not is_changed and (policy.renews or stamp == UNKNOWN or policy.is_expired(stamp)):
                self._take(cell, key, value, stamp)
                alive = self._alive(key_index, cell, key, value)
                if alive is not None:
                    yield key, alive if self._copy is None else self._copy(alive)
            elif not policy.is_expired(stamp):
                yield key, value if make is None else make(value)

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def clear(self) -> None:
        key_index = self._key_index()
        cell = self._cells[key_index]
        if cell is not None and (cell.values or not cell.loaded):
            fresh = self._cells[key_index] = MapCell()
            fresh.cleared = True
            self.changed[key_index] = 1

    def mark(self, key_index: int) -> Any:
        cell: MapCell | None = self.cells()[0][key_index]
        if cell is None:
            return None, self.changed[key_index]
        log: list[tuple[Recorded, Any, Any]] = []
        for name in ("values", "stamps", "missing", "dirty"):
            entries = getattr(cell, name)
            if type(entries) is not Recorded:
                entries = Recorded(entries)
                setattr(cell, name, entries)
            entries.log = log
        return cell, self.changed[key_index], cell.loaded, log

    def go_back(self, key_index: int, mark: Any) -> None:
        cell, self.changed[key_index], *before = mark
        self._cells[key_index] = cell
        if cell is not None:
            cell.loaded, log = before
            _undo(log)

    def _key(self, key: Any) -> Any:
        if key is None:
            self._refuse_none("a map key")
        return self._accept_key(key)

    def _value(self, value: Any) -> Any:
        if value is None:
            self._refuse_none("a map value")
        return self._accept(value)

    def _has_living(self, cell: MapCell) -> bool:
        policy = self._policy
        if policy is None:
            return bool(cell.values)
        return any(not policy.is_expired(cell.stamps[key]) for key in cell.values)

    def _living(self, key_index: int, cell: MapCell) -> Iterator[tuple[Any, Any]]:
        for key in list(cell.values):
            # on_expire may have removed or changed this entry when it was called for another one.
            value = cell.values.get(key)
            if value is not None:
                value = self._alive(key_index, cell, key, value)
            if value is not None:
                yield key, value

    def _ask(self, key_index: int, cell: MapCell, key: Any) -> Any:
        for known, value, stamp in self.fetch(key_index, key):
            self._take(cell, known, value, stamp)
        if key not in cell.values:
            cell.missing[key] = None
        return cell.values.get(key)

    def _complete(self, key_index: int, cell: MapCell) -> None:
        self._take_all(cell, (entry for page, _ in self.pages(key_index) for entry in page))

    def _take_all(self, cell: MapCell, entries: Entries) -> None:
        """Add all stored entries."""
        for key, value, stamp in entries:
            self._take(cell, key, value, stamp)
        cell.loaded = True
        cell.missing.clear()

    @staticmethod
    def _take(cell: MapCell, key: Any, value: Any, stamp: int) -> None:
        """Add a stored entry, unless a newer one is known here."""
        if key not in cell.values and key not in cell.missing:
            cell.values[key] = value
            cell.stamps[key] = stamp

    def _drop(self, key_index: int, cell: MapCell, key: Any) -> None:
        cell.values.pop(key, None)
        cell.stamps.pop(key, None)
        if not cell.loaded:
            cell.missing[key] = None
        cell.dirty[key] = None
        self.changed[key_index] = 1

    def _alive(self, key_index: int, cell: MapCell, key: Any, value: Any) -> Any:
        policy = self._policy
        assert policy is not None
        stamp = cell.stamps[key]
        if policy.is_expired(stamp):
            self._drop(key_index, cell, key)
            policy.tell(value, key)
            return value if policy.returns_expired else None
        if policy.renews or stamp == UNKNOWN:
            renewed = policy.after_read(stamp)
            if renewed != stamp:
                cell.stamps[key] = renewed
                cell.dirty[key] = None
                self.changed[key_index] = 1
        return value

    def _stamp(self, key_index: int, cell: MapCell, key: Any) -> None:
        """Stamp an entry. In event time the stored timestamp counts, and is fetched if unknown."""
        assert self._policy is not None
        unknown = key not in cell.values and not cell.loaded and key not in cell.missing
        if unknown and self._policy.event:
            self._ask(key_index, cell, key)
        cell.stamps[key] = self._policy.stamp(cell.stamps.get(key))
