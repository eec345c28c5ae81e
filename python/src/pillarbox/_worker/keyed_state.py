"""The cells of one state, from FRAME's blobs to Python objects and back to UPDATE's blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from .._arrow.fields import names_in
from .._arrow.pieces import FrameSize, TooLarge, cut
from .._arrow.readers import column_reader
from .._arrow.rows import RowReader, Unreadable
from .._arrow.writers import list_writer
from .._base.values import shown_cause
from .._keyed.list_state import ListCell, ListCells
from .._keyed.map_state import MapCell, MapCells
from .._keyed.state import State
from .._keyed.values import ValueType
from ..errors import EXITS, PillarboxError, error
from .keyed_frames import ONE, PAGE, SOME, Answer, decode_batches

T = TypeVar("T")

_PUT, _REMOVE, _CLEAR = 0, 1, 2

Blob = bytes | memoryview
# A function that lays out the rows of changes from one index to another.
Build = Callable[[int, int], "pa.RecordBatch"]

# A function that sends a query for a key index and op, with a map key or a page's place.
Ask = Callable[[int, int, Blob], Answer]
# A function that makes the error for a value, by its position among those that are read.
NotReadable = Callable[[int, Unreadable], PillarboxError]


class _Structs:
    """Values of one type in their wire struct."""

    def __init__(self, type: ValueType, arrow: pa.StructType) -> None:
        self._rows = RowReader(type.wire_type)
        self._names = [*type.place.names, *names_in(type.data_type)]
        self._arrow = arrow
        self._plain = type.is_plain
        data_type: Any = type.data_type
        self._read = column_reader(data_type)
        inner = arrow.field(0).type if self._plain else arrow
        self._write = list_writer(data_type, inner, type.place)

    def read(self, column: pa.Array, not_readable: NotReadable) -> list[Any]:
        """Return the values. Raises the ``not_readable`` of the first that Python can't hold."""
        try:
            return self._read(column.flatten()[0] if self._plain else column)
        except EXITS:
            raise
        except BaseException as problem:
            rows = self._rows.read_each(pa.RecordBatch.from_struct_array(column))
            for index, row in enumerate(rows):
                if isinstance(row, Unreadable):
                    cause = shown_cause(problem, self._names)
                    raise not_readable(index, row) from cause
            raise

    def write(self, values: list[Any]) -> pa.Array:
        if not self._plain:
            return self._write(values)
        child = self._write(values)
        mask = child.is_null() if child.null_count else None
        return pa.StructArray.from_arrays([child], fields=list(self._arrow), mask=mask)


class StateWire:
    """The blobs of one state. It is made once a task, from the schema of the state's cells."""

    def __init__(self, state: State, schema: pa.Schema) -> None:
        declaration = state.declaration
        self.state = state
        self._schema = schema
        self._has_ttl = declaration.ttl is not None
        self._values = _Structs(declaration.type, schema.field(schema.names[-2]).type)

    def bind(self, parts: Sequence[Blob], last: Blob, held: int, count: int, ask: Ask) -> None:
        """Put cells of ``parts`` and ``last`` behind ``held`` ones; they are decoded on touch."""
        if not held:
            self.state.bind(count, lambda: self._load(parts, last, count, 0))
        elif count:
            self.state.extend(count, lambda: self._load(parts, last, count, held))

    def changes(self, size: FrameSize, blame: Callable[[int], None]) -> list[pa.RecordBatch]:
        """Encode the function's changes.

        Raises ``StateError`` (STATE_TOO_LARGE), and before calls ``blame`` with the key's index.
        """
        if 1 not in self.state.changed:
            return []
        key_indexes, build = self._changes()
        try:
            return cut(len(key_indexes), build, size)
        except TooLarge as problem:
            blame(key_indexes[problem.index])
            raise state_too_large(self.state.declaration.name, problem, size) from None

    def _changes(self) -> tuple[list[int], Build]:
        """Return the key of each change, and a function that lays out a range of them."""
        key_indexes = np.frombuffer(self.state.changed, np.uint8).nonzero()[0]
        cells, stamps = self.state.cells()
        positions = key_indexes.tolist()
        values = [cells[key_index] for key_index in positions]
        if self._has_ttl:
            times: Any = [
                0 if value is None else stamps[key_index]
                for key_index, value in zip(positions, values, strict=True)
            ]
        else:
            times = np.zeros(len(positions), np.int64)
        return positions, lambda start, stop: _batch(
            key=pa.array(key_indexes[start:stop].astype(np.int32)),
            value=self._values.write(values[start:stop]),
            ts=pa.array(times[start:stop], pa.int64()),
        )

    def _load(self, parts: Sequence[Blob], last: Blob, count: int, held: int) -> tuple[Any, Any]:
        values: list[Any] = []
        stamps: list[int] = []
        for batch in decode_batches([*parts, last], self._schema):
            bad = self._not_readable("value", (held + len(values)).__add__)
            values += self._values.read(batch.column(0), bad) if batch.num_rows else []
            stamps += _longs(batch.column(1)) if self._has_ttl and batch.num_rows else []
        if not values:
            return [None] * count, [0] * count
        return values, stamps if self._has_ttl else [0] * count

    def _not_readable(self, what: str, key_index: Callable[[int], int]) -> NotReadable:
        """Return the maker of STATE_NOT_READABLE for the key of ``key_index(position)``."""

        def made(index: int, row: Unreadable) -> PillarboxError:
            key = self.state._at._shown_key(key_index(index))
            name = self.state.declaration.name
            return row.error("STATE_NOT_READABLE", [name], state=name, key=key, what=what)

        return made


class ListWire(StateWire):
    """The blobs of a list state."""

    state: ListCells

    def bind(self, parts: Sequence[Blob], last: Blob, held: int, count: int, ask: Ask) -> None:
        super().bind(parts, last, held, count, ask)
        self.state.pages = lambda key_index: _pages(key_index, ask, self._fetched)

    def _changes(self) -> tuple[list[int], Build]:
        cells, _ = self.state.cells()
        key_indexes, ops, values, stamps = [], [], [], []
        for key_index in _positions(self.state.changed):
            for op, value, stamp in cells[key_index].ops:
                key_indexes.append(key_index)
                ops.append(op)
                values.append(value)
                stamps.append(stamp if self._has_ttl else 0)
        return key_indexes, lambda start, stop: _batch(
            key=pa.array(key_indexes[start:stop], pa.int32()),
            op=pa.array(ops[start:stop], pa.int8()),
            value=self._values.write(values[start:stop]),
            ts=pa.array(stamps[start:stop], pa.int64()),
        )

    def _load(self, parts: Sequence[Blob], last: Blob, count: int, held: int) -> tuple[Any, Any]:
        cells = _cells(ListCell, last, count)
        for batch in decode_batches([*parts, last[count:]], self._schema):
            key_indexes = _longs(batch.column(0))
            values, stamps = self._entries(batch, _among(key_indexes, held))
            for key_index, value, stamp in zip(key_indexes, values, stamps, strict=True):
                cell = cells[key_index]
                if cell is None:
                    cell = cells[key_index] = ListCell()
                cell.values.append(value)
                cell.stamps.append(stamp)
        return cells, []

    def _fetched(self, key_index: int, blobs: list[memoryview]) -> tuple[list[Any], list[int]]:
        values: list[Any] = []
        stamps: list[int] = []
        for batch in decode_batches(blobs, self._schema):
            entries = self._entries(batch, lambda _: key_index)
            for known, new in zip((values, stamps), entries, strict=True):
                known += new
        return values, stamps

    def _entries(
        self, batch: pa.RecordBatch, key_index: Callable[[int], int]
    ) -> tuple[list[Any], list[int]]:
        bad = self._not_readable("element", key_index)
        return self._values.read(batch.column(1), bad), _longs(batch.column(2))


class MapWire(StateWire):
    """The blobs of a map state."""

    state: MapCells

    def __init__(self, state: MapCells, schema: pa.Schema) -> None:
        super().__init__(state, schema)
        key_type = state.declaration.key_type
        assert key_type is not None
        self._normalise = key_type.normalise
        self._keys = _Structs(key_type, schema.field(1).type)

    def bind(self, parts: Sequence[Blob], last: Blob, held: int, count: int, ask: Ask) -> None:
        super().bind(parts, last, held, count, ask)
        self.state.pages = lambda key_index: _pages(key_index, ask, self._fetched)
        self.state.fetch = lambda key_index, key: self._fetched(
            key_index, ask(key_index, ONE, self._serialized(key)).blobs
        )
        self.state.some = lambda key_index: self._fetched(
            key_index, ask(key_index, SOME, b"").blobs
        )

    def _changes(self) -> tuple[list[int], Build]:
        cells, _ = self.state.cells()
        key_indexes, ops, keys, values, stamps = [], [], [], [], []
        for key_index in _positions(self.state.changed):
            for op, key, value, stamp in _map_ops(cells[key_index]):
                key_indexes.append(key_index)
                ops.append(op)
                keys.append(key)
                values.append(value)
                stamps.append(stamp if self._has_ttl else 0)
        return key_indexes, lambda start, stop: _batch(
            key=pa.array(key_indexes[start:stop], pa.int32()),
            op=pa.array(ops[start:stop], pa.int8()),
            map_key=self._keys.write(keys[start:stop]),
            value=self._values.write(values[start:stop]),
            ts=pa.array(stamps[start:stop], pa.int64()),
        )

    def _load(self, parts: Sequence[Blob], last: Blob, count: int, held: int) -> tuple[Any, Any]:
        cells = _cells(MapCell, last, count)
        for batch in decode_batches([*parts, last[count:]], self._schema):
            key_indexes = _longs(batch.column(0))
            entries = self._entries(batch, _among(key_indexes, held))
            for key_index, (key, value, stamp) in zip(key_indexes, entries, strict=True):
                cell = cells[key_index]
                if cell is None:
                    cell = cells[key_index] = MapCell()
                cell.values[key] = value
                cell.stamps[key] = stamp
        return cells, []

    def _fetched(self, key_index: int, blobs: list[memoryview]) -> list[tuple[Any, Any, int]]:
        batches = decode_batches(blobs, self._schema)
        return [entry for batch in batches for entry in self._entries(batch, lambda _: key_index)]

    def _entries(
        self, batch: pa.RecordBatch, key_index: Callable[[int], int]
    ) -> Iterable[tuple[Any, Any, int]]:
        keys = self._keys.read(batch.column(1), self._not_readable("map key", key_index))
        if self._normalise is not None:
            keys = list(map(self._normalise, keys))
        values = self._values.read(batch.column(2), self._not_readable("map value", key_index))
        return zip(keys, values, _longs(batch.column(3)), strict=True)

    def _serialized(self, key: Any) -> memoryview:
        return memoryview(_batch(key=self._keys.write([key])).serialize())


def _pages(
    key_index: int, ask: Ask, fetched: Callable[[int, list[memoryview]], T]
) -> Iterator[tuple[T, bool]]:
    """Yield the content of each page of a key's list or map, and if it is the last one."""
    place = b""
    while True:
        blobs, place = ask(key_index, PAGE, place)
        yield fetched(key_index, blobs), not place
        if not place:
            return


def state_too_large(name: str, problem: TooLarge, size: FrameSize) -> PillarboxError:
    sizes = {"size": f"{problem.size:,} bytes", "limit": f"{size.most:,} bytes"}
    return error("STATE_TOO_LARGE", state=name, **sizes)


def wire_for(state: State, schema: pa.Schema) -> StateWire:
    """Return the codec for a state of any kind."""
    if isinstance(state, ListCells):
        return ListWire(state, schema)
    if isinstance(state, MapCells):
        return MapWire(state, schema)
    return StateWire(state, schema)


def key_reader(keys: t.StructType) -> Callable[[pa.RecordBatch], list[Any]]:
    """Return a function from a batch to its keys: bare values for one column, Rows for more."""
    rows = RowReader(keys)
    if len(keys.fields) > 1:
        return rows.read_strictly
    read = column_reader(keys.fields[0].dataType)

    def read_one(batch: pa.RecordBatch) -> list[Any]:
        try:
            return read(batch.column(0))
        except (ValueError, OverflowError):
            return [key for (key,) in rows.read_strictly(batch)]  # raises what names the key

    return read_one


def _map_ops(cell: MapCell) -> Iterable[tuple[int, Any, Any, int]]:
    if cell.cleared:
        yield _CLEAR, None, None, 0
    for key in cell.dirty:
        value = cell.values.get(key)
        if value is not None:
            yield _PUT, key, value, cell.stamps.get(key, 0)
        elif not cell.cleared:
            yield _REMOVE, key, None, 0


def _cells(make: Any, blob: Blob, count: int) -> list[Any]:
    flags = bytes(blob[:count])
    cells: list[Any] = [None] * count
    if 1 in flags:
        for key_index in _positions(flags):
            cells[key_index] = make(loaded=False)
    return cells


def _positions(flags: bytes | bytearray) -> list[int]:
    positions: list[int] = np.frombuffer(flags, np.uint8).nonzero()[0].tolist()
    return positions


def _among(key_indexes: list[int], held: int) -> Callable[[int], int]:
    """Return a function from an entry's position to its key's index, behind ``held`` keys."""
    return lambda at: held + key_indexes[at]


def _longs(column: pa.Array) -> list[int]:
    numbers: list[int] = column.to_numpy(zero_copy_only=False).tolist()
    return numbers


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
