"""The frames of the row form: a ``KeyedRuntime`` runs events and returns rows and changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from .._arrow.pieces import FrameSize, TooLarge
from .._arrow.results import too_large
from .._arrow.rows import RowReader
from .._keyed.command import KeyedCommand
from .._keyed.context import UNKNOWN
from .._keyed.output import RowsEncoder
from .._keyed.runtime import KeyedRuntime
from .._keyed.timers import as_columns
from ..errors import EXITS, PillarboxError, ResultTypeMismatch, error
from . import keyed_frames
from .keyed_frames import KeyedFrame, KeyedUpdate
from .keyed_state import StateWire, key_reader, wire_for

Query = Callable[[int, int, int, int, Any], keyed_frames.Answer]


class RowRunner:
    """Runs the frames of tasks with the same schemas through a ``KeyedRuntime``."""

    def __init__(
        self,
        runtime: KeyedRuntime,
        command: KeyedCommand,
        schemas: list[pa.Schema],
        result_schema: pa.Schema,
        size: FrameSize,
    ) -> None:
        self._runtime = runtime
        self._query: Query
        self._key_schema, self._row_schema = schemas[:2]
        self._read_keys = key_reader(command.key_schema)
        runtime.context._key_names = command.key_schema.names
        self._read_rows = RowReader(command.input_schema).read_strictly
        self._columns = len(command.input_schema)
        self._marks_late = len(self._row_schema) > self._columns
        states = runtime.registry.states.values()
        self._wires = [wire_for(*pair) for pair in zip(states, schemas[2:], strict=True)]
        self._keys = _HeldKeys(self._load_keys)
        self._held = 0
        self._encoder = RowsEncoder(command.returns, command.side_outputs, result_schema)
        self._size = size

    def begin_task(self, query: Query) -> None:
        """Ask by ``query`` until the task ends. Keys that an earlier one has left are dropped."""
        self._query = query
        self._held = 0
        self._keys.clear()

    def run(self, frame: KeyedFrame) -> KeyedUpdate:
        """Run ``frame``. Raises ``CallFailed`` (KEYED_CALL_FAILED) for errors of the function."""
        runtime = self._runtime
        self._bind(frame)
        try:
            self._process(frame)
            update = self._update(frame)
        except EXITS:
            raise
        except BaseException as problem:
            if isinstance(problem, PillarboxError) and problem.condition == "INPUT_NOT_READABLE":
                raise  # no function has been called
            raise runtime.failed(problem) from problem
        finally:
            runtime.end()
        runtime.release()
        self._held = frame.key_count if frame.keeps else 0
        if not frame.keeps:
            self._release()
        return update

    def _bind(self, frame: KeyedFrame) -> None:
        runtime = self._runtime
        if frame.held != self._held:
            raise error("PROTOCOL_ERROR", reason=f"{frame.held} held keys instead of {self._held}")
        is_batch = bool(frame.flags & keyed_frames.BATCH)
        runtime.set_clocks(frame.watermark, frame.processing_time, of_first=is_batch)
        self._keys.add(frame)
        runtime.begin(self._keys)
        on_demand = frame.flags & keyed_frames.TIMERS_ON_DEMAND
        runtime.timers.start(frame.timers, self._timer_asker(frame.id) if on_demand else None)
        for index, (wire, blob) in enumerate(zip(self._wires, frame.states, strict=True)):
            # Cells that later frames may need are copied, to free the memory of this frame.
            cells = bytes(blob) if frame.keeps else blob
            asker = self._asker(frame.id, index)
            wire.bind(frame.parts.of(1 + index), cells, frame.held, frame.new_keys, asker)

    def _asker(self, frame_id: int, state: int) -> Callable[[int, int, Any], keyed_frames.Answer]:
        return lambda key_index, op, asked: self._query(frame_id, state, key_index, op, asked)

    def _timer_asker(self, frame_id: int) -> Callable[[int], Any]:
        return lambda key_index: keyed_frames.decode_timers(
            self._query(frame_id, keyed_frames.TIMERS, key_index, keyed_frames.PAGE, b"").blobs[-1]
        )

    def _load_keys(self, blob: bytes | memoryview) -> list[Any]:
        return self._read_keys(keyed_frames.decode_batch(blob, self._key_schema))

    def _process(self, frame: KeyedFrame) -> None:
        runtime, rows = self._runtime, self._rows(frame)
        if any(frame.kinds) or runtime.sorted_input:
            horizon = UNKNOWN if frame.flags & keyed_frames.BATCH else frame.horizon
            runtime.run_events(frame.kinds, frame.key_indexes, frame.times, rows, horizon)
        else:
            runtime.run_rows(frame.key_indexes, _timestamps(frame.times), rows)
        runtime.finish_keys(range(frame.ended))

    def _rows(self, frame: KeyedFrame) -> list[Any]:
        rows: list[Any] = []
        late: list[bool] = []
        for batch in keyed_frames.decode_batches(frame.row_blobs, self._row_schema):
            if self._marks_late:
                late += batch.column(self._columns).to_pylist()
                batch = batch.select(range(self._columns))
            if batch.num_rows:
                read = self._read_rows(batch)
                rows = rows + read if rows else read
        if self._marks_late:
            self._runtime.mark_late(late)
        return rows or [()] * frame.kinds.count(0)

    def _update(self, frame: KeyedFrame) -> KeyedUpdate:
        runtime = self._runtime
        batches = self._encoded()
        if frame.ended:
            for state in runtime.registry.states.values():
                state.changed[: frame.ended] = bytes(frame.ended)
        states = [[] if frame.keeps else self._changes(wire) for wire in self._wires]
        changes = [change for change in runtime.timers.changes() if change.key_index >= frame.ended]
        fired = runtime.timers.fired
        return KeyedUpdate(frame.id, batches, states, as_columns(changes), fired)

    def _encoded(self) -> list[pa.RecordBatch]:
        """Return the rows. An error names the key and the event of the row that it is about."""
        rows, ends = self._runtime.rows, self._runtime.ends
        side_rows = self._runtime.context.side_rows
        try:
            return self._encoder.batches(rows, side_rows, self._size)
        except ResultTypeMismatch:
            self._blame(self._encoder.bad_row(rows, side_rows), len(rows), ends)
            raise
        except TooLarge as problem:
            self._blame(problem.index, len(rows), ends)
            raise too_large(problem.size, self._size) from None

    def _blame(self, row: int | None, count: int, ends: list[int]) -> None:
        """Make current what gave a row; from ``count`` on they are those of side outputs."""
        if row is None:
            return
        if row < count:
            self._runtime.blame(row, ends)
        else:
            tag, key_index, _ = self._runtime.context.side_rows[row - count]
            self._runtime.blame_key(key_index, f"ctx.output({tag!r})")

    def _changes(self, wire: StateWire) -> list[pa.RecordBatch]:
        place = f"the state {wire.state.name!r}"
        return wire.changes(self._size, lambda key: self._runtime.blame_key(key, place))

    def _release(self) -> None:
        """Free the keys and cells, since the next task may come much later."""
        for state in self._runtime.registry.states.values():
            state.bind(0, lambda: ([], []))
        self._keys.clear()


class _HeldKeys:
    """The keys that the worker holds, which are decoded when one is first read."""

    __slots__ = ("_blobs", "_keys", "_load")

    def __init__(self, load: Callable[[bytes | memoryview], list[Any]]) -> None:
        self._load = load
        self._keys: list[Any] = []
        self._blobs: list[bytes | memoryview] = []

    def add(self, frame: KeyedFrame) -> None:
        if frame.new_keys:
            self._blobs.append(bytes(frame.keys) if frame.keeps else frame.keys)

    def clear(self) -> None:
        self._keys, self._blobs = [], []

    def __getitem__(self, key_index: int) -> Any:
        if self._blobs:
            for blob in self._blobs:
                self._keys.extend(self._load(blob))
            self._blobs.clear()
        return self._keys[key_index]


def _timestamps(times: Any) -> list[int | None]:
    if UNKNOWN not in times:
        return times  # type: ignore[no-any-return]
    return [None if time == UNKNOWN else time for time in times]
