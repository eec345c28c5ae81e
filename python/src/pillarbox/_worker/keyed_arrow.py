"""The frames of the column form, without Python objects for single rows or keys."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from .._arrow.pieces import FrameSize, TooLarge, cut
from .._arrow.results import too_large
from .._base.failures import message_of
from .._keyed.arrow import ArrowContext, ArrowState
from .._keyed.columnar import StateColumn
from .._keyed.command import KeyedCommand
from .._keyed.context import EVENT_TIMER, PROCESSING_TIMER, UNKNOWN
from .._keyed.runtime import KeyedRuntime
from .._keyed.state import Declaration
from .._keyed.timer_column import TimerColumn
from .._keyed.timers import NO_CHANGES, TimerChanges
from .._keyed.whole_columns import BatchAcceptor, ColumnConverter
from ..errors import EXITS, PillarboxError, error
from .keyed_frames import BATCH, KeyedFrame, KeyedUpdate, decode_batch, decode_batches
from .keyed_rows import Query
from .keyed_state import state_too_large


class ArrowRunner:
    """Runs the frames of tasks with the same schemas through an ``ArrowKeyedProcessFunction``."""

    def __init__(
        self,
        runtime: KeyedRuntime,
        command: KeyedCommand,
        schemas: list[pa.Schema],
        result_schema: pa.Schema,
        size: FrameSize,
    ) -> None:
        self.name = runtime.context._name
        self._size = size
        self.function = runtime.function
        self._key_schema, self.row_schema = schemas[:2]
        self.key_names = command.key_schema.names
        self._accept = BatchAcceptor(command.returns, result_schema)
        states = runtime.registry.states.values()
        self._columns = [
            _ColumnWire(state.declaration, schema)
            for state, schema in zip(states, schemas[2:], strict=True)
        ]

    def begin_task(self, query: Query) -> None:
        """Do nothing: columns come whole, and nothing is kept from frame to frame."""

    def run(self, frame: KeyedFrame) -> KeyedUpdate:
        """Run ``frame``. Raises ``CallFailed`` (KEYED_CALL_FAILED) for errors of the function."""
        run = FrameRun(self, frame)
        try:
            run.run()
            rows = self._cut(run.answers)
            states = [wire.changes(run.columns[wire.name], self._size) for wire in self._columns]
        except EXITS:
            raise
        except BaseException as problem:
            raise self._failed(run, problem) from problem
        return KeyedUpdate(frame.id, rows, states, run.timer_changes(), run.fired)

    def keys(self, frame: KeyedFrame) -> pa.RecordBatch:
        """Return the key columns of a frame's keys."""
        return decode_batch(frame.keys, self._key_schema)

    def columns(
        self, frame: KeyedFrame, keys: pa.Array, context: ArrowContext, latest: Callable[[], Any]
    ) -> dict[str, StateColumn]:
        """Return the states and timers of a frame's keys."""
        return {
            wire.name: wire.column([*frame.parts.of(1 + i), blob], keys, context, latest)
            for i, (wire, blob) in enumerate(zip(self._columns, frame.states, strict=True))
        }

    def rows_of(self, answer: Any) -> pa.RecordBatch | None:
        """Return the rows of a method's answer, if there are any."""
        return self._accept.batch(answer)

    def _cut(self, answers: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return all rows of a frame, in batches that fit into frames."""
        if not answers:
            return []
        batch = answers[0] if len(answers) == 1 else pa.concat_batches(answers)
        try:
            return cut(batch.num_rows, lambda *span: _part(batch, *span), self._size)
        except TooLarge as problem:
            raise too_large(problem.size, self._size) from None

    def _failed(self, run: FrameRun, problem: BaseException) -> PillarboxError:
        return error(
            "KEYED_CALL_FAILED",
            operator=self.name,
            key=f"(any of {run.called_keys})",
            event=run.event,
            kind=type(problem).__name__,
            reason=message_of(problem).rstrip("."),
            hint="",
        )


class FrameRun:
    """One frame: the batch of its rows, or the timers that are due; in a batch what ends keys.

    ``answers`` collects what the function emits, ``fired`` how many event-time and processing-time
    timers it was told of. ``event`` and ``called_keys`` tell of the last call, for messages.
    """

    def __init__(self, runner: ArrowRunner, frame: KeyedFrame) -> None:
        self._runner, self._frame = runner, frame
        self.event, self.called_keys = f"process(batch of {len(frame.kinds)} rows)", frame.key_count
        self.answers: list[pa.RecordBatch] = []
        self._fired = {EVENT_TIMER: 0, PROCESSING_TIMER: 0}
        self._index = _fixed(np.array(frame.key_indexes, np.int32))
        self._times = np.array(frame.times, np.int64)
        self._key_columns = runner.keys(frame)
        self._keys = _one_array(self._key_columns)
        # How far event time has come for each key; in a batch the first may go on.
        self._reached = np.full(frame.key_count, frame.watermark, np.int64)
        if frame.flags & BATCH:
            self._reached[1:] = UNKNOWN
        self._context = self._clocks(pa.array(self._times, mask=self._times == UNKNOWN))
        self.columns = runner.columns(frame, self._keys, self._context, self._latest)
        self._timers = [one for one in self.columns.values() if isinstance(one, TimerColumn)]
        self._timers.sort(key=lambda column: column.kind)

    @property
    def fired(self) -> tuple[int, int]:
        return self._fired[EVENT_TIMER], self._fired[PROCESSING_TIMER]

    def run(self) -> None:
        if any(self._frame.kinds):
            self._fire_due()
        elif len(self._index):
            self._process()
        if self._frame.ended:
            self._end_keys(self._frame.ended)

    def timer_changes(self) -> TimerChanges:
        found = [one.timer_changes(self._frame.ended) for one in self._timers]
        if len(found) == 1:
            return found[0]
        parts = zip(NO_CHANGES, *found, strict=True)
        key_indexes, kinds, ops, times = ([*chain(*part)] for part in parts)
        return key_indexes, kinds, ops, times

    def _process(self) -> None:
        batch = one_batch(self._frame.row_blobs, self._runner.row_schema)
        process, index = self._runner.function.process, self._index
        counts = np.bincount(index, minlength=self._frame.key_count)
        if counts.all():
            self._call(process, batch, ArrowState(self._keys, index, self.columns), self._context)
        else:  # a key of a batch that ends, and had its rows in the frames before
            positions = counts.nonzero()[0]
            places = _fixed(np.searchsorted(positions, index).astype(np.int32))
            latest = self._latest()[positions]
            self._call_part(process, positions, batch, places, self._context, latest)

    def _fire_due(self) -> None:
        """Fire the frame's timers, one of each key, then those that are set up to its horizon."""
        kind = PROCESSING_TIMER if PROCESSING_TIMER in self._frame.kinds else EVENT_TIMER
        column = next((one for one in self._timers if one.kind == kind), None)
        if column is None:
            return  # an earlier version of the function has set them
        due = np.full(self._frame.key_count, UNKNOWN, np.int64)
        due[self._index] = self._times
        column.hand_over(due)
        limit = np.maximum(due, self._frame.horizon)
        while (which := _is_due(column, limit)).any():
            self._fire(column, which)

    def _end_keys(self, ended: int) -> None:
        """Fire all timers of keys that get no more rows, event time first, each once.

        What is set meanwhile is dropped, as in the row form; a timer may be deleted by the other.
        """
        armed = [column.times() for column in self._timers]
        for column, (times, had) in zip(self._timers, armed, strict=True):
            now, has = column.times()
            which = had & has & (now == times)
            which[ended:] = False
            self._fire(column, which)
        for other in self.columns.values():
            other.changed[:ended] = False

    def _fire(self, column: TimerColumn, which: Any) -> None:
        """Call ``on_timers`` for the keys where ``which`` is True, unless there is none."""
        positions = which.nonzero()[0]
        if not len(positions):
            return
        times = column.take(positions)
        is_event = column.kind == EVENT_TIMER
        if is_event:
            self._reached[positions] = np.maximum(self._reached[positions], times)
        self._fired[column.kind] += len(positions)
        context = self._clocks(pa.array(times), column.name)
        context._watermark = self._reached[positions]
        # The time of a processing-time timer is of another clock than event time.
        latest = times if is_event else np.full(len(times), UNKNOWN, np.int64)
        columns = [one.take(pa.array(positions)) for one in self._key_columns.columns]
        batch = pa.RecordBatch.from_arrays(columns, names=self._runner.key_names)
        self.event = f"on_timers(batch of {len(positions)} timers)"
        index = _fixed(np.arange(len(positions), dtype=np.int32))
        self._call_part(self._runner.function.on_timers, positions, batch, index, context, latest)

    def _call_part(
        self, method: Any, positions: Any, batch: Any, index: Any, context: Any, latest: Any
    ) -> None:
        """Call a method for some of the keys. ``index`` and ``latest`` are of these."""
        keys = self._keys.take(pa.array(positions))
        parts = {
            name: one.part(positions, context, lambda: latest, keys)
            for name, one in self.columns.items()
        }
        self.called_keys = len(keys)
        self._call(method, batch, ArrowState(keys, index, parts), context)
        for name, part in parts.items():
            self.columns[name].merge(positions, part)

    def _call(self, method: Any, batch: pa.RecordBatch, state: ArrowState, context: Any) -> None:
        rows = self._runner.rows_of(method(batch, state, context))
        state._end(self._runner.name)
        if rows is not None:
            self.answers.append(rows)

    def _clocks(self, timestamps: pa.Array, timer: str | None = None) -> ArrowContext:
        frame = self._frame
        name = self._runner.name
        return ArrowContext(name, frame.watermark, frame.processing_time, timestamps, timer)

    def _latest(self) -> Any:
        by_key = np.full(self._frame.key_count, UNKNOWN, np.int64)
        np.maximum.at(by_key, self._index, self._times)
        return by_key


def _is_due(column: TimerColumn, limit: Any) -> Any:
    times, has = column.times()
    return has & (times <= limit)


def _fixed(numbers: Any) -> Any:
    numbers.flags.writeable = False
    return numbers


def _one_array(keys: pa.RecordBatch) -> pa.Array:
    if keys.num_columns == 1:
        return keys.column(0)
    return pa.StructArray.from_arrays(keys.columns, keys.schema.names)


class _ColumnWire:
    """One value state's blobs as columns."""

    def __init__(self, declaration: Declaration, schema: pa.Schema) -> None:
        self.name = declaration.name
        self._declaration = declaration
        self._schema = schema
        self._struct = schema.field(0).type
        self._plain = declaration.type.is_plain
        self._type = self._struct.field(0).type if self._plain else self._struct
        value = declaration.type
        field = t.StructField(self.name, value.data_type)
        self._converter = ColumnConverter(field, self._type, value.place)

    def column(
        self,
        blobs: list[memoryview],
        keys: pa.Array,
        context: ArrowContext,
        latest: Callable[[], Any],
    ) -> StateColumn:
        def load() -> tuple[pa.Array, Any]:
            cells = one_batch(blobs, self._schema)
            if not cells.num_rows:
                return pa.nulls(len(keys), self._type), np.full(len(keys), UNKNOWN, np.int64)
            structs = cells.column(0)
            values = structs.flatten()[0] if self._plain else structs
            return values, cells.column(1).to_numpy(zero_copy_only=False)

        kind = TimerColumn if self._declaration.kind == "timer" else StateColumn
        return kind(self._declaration, self._converter, load, context, latest, keys)

    def changes(self, column: StateColumn, size: FrameSize) -> list[pa.RecordBatch]:
        changed = column.changes()
        if changed is None:
            return []
        positions, values, stamps = changed
        if self._plain:
            mask = values.is_null() if values.null_count else None
            values = pa.StructArray.from_arrays([values], fields=list(self._struct), mask=mask)
        batch = pa.RecordBatch.from_arrays(
            [pa.array(positions, pa.int32()), values, pa.array(stamps, pa.int64())],
            names=["key", "value", "ts"],
        )
        try:
            return cut(batch.num_rows, lambda *span: _part(batch, *span), size)
        except TooLarge as problem:
            raise state_too_large(self.name, problem, size) from None


def one_batch(blobs: list[memoryview], schema: pa.Schema) -> pa.RecordBatch:
    """Decode Arrow blobs of one kind as one batch."""
    batches = list(decode_batches(blobs, schema))
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _part(batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    return batch.slice(start, stop - start)
