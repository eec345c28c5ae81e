"""The base of all state handles: their declaration, the current key and its cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import error
from .context import UNKNOWN, KeyedContext
from .ttl import StateTtl, TtlPolicy
from .values import KeyType, ValueType


@dataclass(frozen=True)
class Declaration:
    """A state as a function declared it. ``fold`` is the function of appending states.

    ``time_domain`` is that of a timer, which is kept like a value state.
    """

    name: str
    kind: str
    type: ValueType
    key_type: KeyType | None = None
    ttl: StateTtl | None = None
    fold: Any = None
    time_domain: str | None = None

    def to_spec(self) -> dict[str, Any]:
        """Return JSON-able values for the operator in the JVM."""
        return {
            "name": self.name,
            "kind": self.kind,
            "time_domain": self.time_domain,
            "type": self.type.wire_type.json(),
            "key_type": None if self.key_type is None else self.key_type.wire_type.json(),
            "ttl": None if self.ttl is None else self.ttl._to_spec(),
        }

    def described(self) -> dict[str, Any]:
        """Return the same, and what the JVM need not know."""
        expires = self.ttl is not None and self.ttl.on_expire is not None
        return {**self.to_spec(), "plain": self.type.is_plain, "on_expire": expires}


T = TypeVar("T")

# Returns the cells of some keys and a list of their stamps (empty if cells have their own).
Load = Callable[[], tuple[Any, Any]]


class State:
    """One state of the function, which is always that of the current key.

    A runtime binds it to the cells of some keys: with ``bind`` for a frame and ``extend`` for a
    frame that continues it (cells are loaded when first touched), or with one ``bind`` and a
    ``grow`` for every new key. ``changed[key_index]`` marks cells to write back.
    """

    __slots__ = ("_at", "_cells", "_loads", "_policy", "_stamps", "changed", "declaration")

    def __init__(self, declaration: Declaration, at: KeyedContext) -> None:
        self.declaration = declaration
        self._at = at
        ttl, make = declaration.ttl, declaration.type.make
        self._policy = None if ttl is None else TtlPolicy(ttl, at, make)
        self._cells: Any = None
        self._stamps: Any = None
        self._loads: list[Load] = []
        self.changed = bytearray()

    @property
    def name(self) -> str:
        """The name that the state was declared under."""
        return self.declaration.name

    def bind(self, count: int, load: Load) -> None:
        """Replace the cells by those of ``count`` keys; ``load`` returns cells and stamps."""
        self._cells = self._stamps = None
        self._loads = [load]
        self.changed = bytearray(count)

    def extend(self, count: int, load: Load) -> None:
        """Append ``count`` keys; ``load`` returns their cells and stamps."""
        self._loads.append(load)
        self.changed.extend(bytes(count))
        if self._cells is not None:
            self._load()

    def grow(self) -> None:
        """Append one key without state."""
        cells, stamps = self.cells()
        cells.append(None)
        stamps.append(UNKNOWN)
        self.changed.append(0)

    def cells(self) -> tuple[Any, Any]:
        """Return all cells and their stamps, and load them first if need be."""
        if self._cells is None:
            self._load()
        return self._cells, self._stamps

    def drop(self, key_index: int) -> None:
        """Drop the state of a key without recording a change."""
        cells, stamps = self.cells()
        cells[key_index], stamps[key_index] = None, UNKNOWN

    def mark(self, key_index: int) -> Any:
        """Return a mark, with which ``go_back`` undoes all later writes for a key.

        The cost does not depend on the size of the state. A mark is valid until the key's next one.
        """
        cells, stamps = self.cells()
        return cells[key_index], stamps[key_index], self.changed[key_index]

    def go_back(self, key_index: int, mark: Any) -> None:
        """Restore the key's state as it was at ``mark``."""
        self._cells[key_index], self._stamps[key_index], self.changed[key_index] = mark

    def _key_index(self) -> int:
        """Return the current key's index; the cells are loaded. Raises NO_CURRENT_KEY."""
        key_index = self._at.key_index()
        if self._cells is None:
            self._load()
        return key_index

    def _load(self) -> None:
        for load in self._loads:
            cells, stamps = load()
            if self._cells is None:
                self._cells, self._stamps = cells, stamps
            else:
                self._cells.extend(cells)
                self._stamps.extend(stamps)
        self._loads = []

    def guarded(self, pages: Iterator[T], key_index: int, cells: Any) -> Iterator[T]:
        """Yield ``pages`` of a key as long as it is the current one and among these cells.

        Raises ``StateError`` afterwards (ITERATION_TOO_LATE, NO_CURRENT_KEY).
        """
        while True:
            if self._at.key_index() != key_index or self._cells is not cells:
                raise error("ITERATION_TOO_LATE", state=self.name)
            page = next(pages, None)
            if page is None:
                return
            yield page

    def _refuse_none(self, what: str) -> None:
        raise error("NULL_STATE_VALUE", state=self.name, what=what)
