"""The keys of a function in memory, for the test harness."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .._keyed.context import UNKNOWN
from .._keyed.list_state import ListCell, ListCells
from .._keyed.local_times import distinct
from .._keyed.map_state import MapCell, MapCells
from .._keyed.runtime import KeyedRuntime
from .._keyed.state import State


class KeySpace:
    """The keys that were seen, each with one index in all states."""

    def __init__(self, runtime: KeyedRuntime) -> None:
        self._runtime = runtime
        self._key_indexes: dict[Any, int] = {}
        self.keys: list[Any] = []
        for state in runtime.registry.states.values():
            state.bind(0, lambda: ([], []))

    def key_index(self, key: Any) -> int:
        """Return the index of a key, a new one if need be."""
        name = hashable(key)
        key_index = self._key_indexes.get(name)
        if key_index is None:
            key_index = self._key_indexes[name] = len(self.keys)
            self.keys.append(key)
            for state in self._runtime.registry.states.values():
                state.grow()
        return key_index

    def find(self, key: Any) -> int | None:
        """Return the index of a key that was seen, else None."""
        return self._key_indexes.get(hashable(key))

    def drop(self, key_index: int) -> None:
        for state in self._runtime.registry.states.values():
            state.drop(key_index)


def hashable(key: Any) -> Any:
    """Return a value that is equal for keys that Spark takes as equal.

    All NaNs are one key, and so are 0.0 and -0.0; arrays are compared by their elements.
    """
    if isinstance(key, float):
        return key + 0.0 if key == key else "NaN"
    if isinstance(key, datetime):
        return distinct(key)
    if isinstance(key, (list, tuple)):
        return tuple(map(hashable, key))
    return key


def visible(state: State, key_index: int | None) -> Any:
    """Return a state's cell as a function would see it, without renewing or removing anything.

    A key that was not seen has no index.
    """
    policy, copy = state._policy, state.declaration.type.copy
    entries = [] if key_index is None else dump(state, key_index)
    alive = [
        (map_key, value if copy is None else copy(value))
        for map_key, value, stamp in entries
        if policy is None or not policy.is_expired(stamp)
    ]
    if isinstance(state, ListCells):
        return [value for _, value in alive]
    if isinstance(state, MapCells):
        return dict(alive)
    if not alive:
        return None
    ((_, value),) = alive
    declaration = state.declaration
    return declaration.fold.get_result(value) if declaration.kind == "aggregating" else value


def dump(state: State, key_index: int) -> list[tuple[Any, Any, int]]:
    """Return a cell as ``(map key or None, value, stamp)`` in order; UNKNOWN without TTL."""
    cells, stamps = state.cells()
    cell = cells[key_index]
    if cell is None:
        return []
    if isinstance(state, ListCells):
        return [(None, *pair) for pair in zip(cell.values, cell.stamps, strict=True)]
    if isinstance(state, MapCells):
        return [(k, v, cell.stamps.get(k, UNKNOWN)) for k, v in cell.values.items()]
    return [(None, cell, stamps[key_index])]


def load(state: State, key_index: int, entries: list[tuple[Any, Any, int]]) -> None:
    """Restore a cell from ``dump``."""
    cells, stamps = state.cells()
    if not entries:
        return
    if isinstance(state, ListCells):
        cells[key_index] = ListCell()
        cells[key_index].values = [value for _, value, _ in entries]
        cells[key_index].stamps = [stamp for _, _, stamp in entries]
    elif isinstance(state, MapCells):
        cells[key_index] = MapCell()
        cells[key_index].values = {key: value for key, value, _ in entries}
        cells[key_index].stamps = {key: stamp for key, _, stamp in entries}
    else:
        ((_, cells[key_index], stamps[key_index]),) = entries
