"""The frames of the column form, without Python objects for single rows or keys."""

from __future__ import annotations

from collections.abc import Callable
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
from .._keyed.context import UNKNOWN
from .._keyed.runtime import KeyedRuntime
from .._keyed.state import Declaration
from .._keyed.whole_columns import BatchAcceptor, ColumnConverter
from ..errors import EXITS, PillarboxError, error
from .frames import Init
from .keyed_frames import KeyedFrame, KeyedUpdate, decode_batch, decode_batches
from .keyed_state import state_too_large


class ArrowRunner:
    """Runs frames through an ``ArrowKeyedProcessFunction``, which has no timers."""

    def __init__(
        self, runtime: KeyedRuntime, command: KeyedCommand, init: Init, schemas: list[pa.Schema]
    ) -> None:
        self._name = init.spec["name"]
        self._size = FrameSize.of(init.spec)
        self._function = runtime.function
        self._key_schema, self._row_schema = schemas[:2]
        self._accept = BatchAcceptor(command.returns, init.result_schema)
        states = runtime.registry.states.values()
        self._columns = [
            _ColumnWire(state.declaration, schema)
            for state, schema in zip(states, schemas[2:], strict=True)
        ]

    def run(self, frame: KeyedFrame) -> KeyedUpdate:
        """Run ``frame``. Raises ``CallFailed`` (KEYED_CALL_FAILED) for errors of the function."""
        if any(frame.kinds):
            raise error("PROTOCOL_ERROR", reason="a timer for the column form")
        try:
            rows, states = self._process(frame)
        except EXITS:
            raise
        except BaseException as problem:
            raise self._failed(frame, problem) from problem
        return KeyedUpdate(frame.id, rows, states, ())

    def _process(
        self, frame: KeyedFrame
    ) -> tuple[list[pa.RecordBatch], list[list[pa.RecordBatch]]]:
        index = np.array(frame.key_indexes, np.int32)
        index.flags.writeable = False
        times = np.array(frame.times, np.int64)
        timestamps = pa.array(times, mask=times == UNKNOWN)
        context = ArrowContext(self._name, frame.watermark, frame.processing_time, timestamps)
        count = frame.key_count

        def latest() -> Any:
            by_key = np.full(count, UNKNOWN, np.int64)
            np.maximum.at(by_key, index, times)
            return by_key

        keys = self._keys(frame)
        columns = {
            wire.name: wire.column([*frame.parts.of(1 + i), blob], keys, context, latest)
            for i, (wire, blob) in enumerate(zip(self._columns, frame.states, strict=True))
        }
        rows = []
        if len(index):
            state = ArrowState(keys, index, columns)
            batch = _one_batch(frame.row_blobs, self._row_schema)
            told = self._accept.batch(self._function.process(batch, state, context))
            state._end(self._name)
            rows = [] if told is None else self._cut(told)
        for column in columns.values():
            column.changed[: frame.ended] = False
        return rows, [wire.changes(columns[wire.name], self._size) for wire in self._columns]

    def _cut(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        try:
            return cut(batch.num_rows, lambda *span: _part(batch, *span), self._size)
        except TooLarge as problem:
            raise too_large(problem.size, self._size) from None

    def _keys(self, frame: KeyedFrame) -> pa.Array:
        keys = decode_batch(frame.keys, self._key_schema)
        if keys.num_columns == 1:
            return keys.column(0)
        return pa.StructArray.from_arrays(keys.columns, keys.schema.names)

    def _failed(self, frame: KeyedFrame, problem: BaseException) -> PillarboxError:
        return error(
            "KEYED_CALL_FAILED",
            operator=self._name,
            key=f"(any of {frame.key_count})",
            event=f"process(batch of {len(frame.kinds)} rows)",
            kind=type(problem).__name__,
            reason=message_of(problem).rstrip("."),
            hint="",
        )


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
            cells = _one_batch(blobs, self._schema)
            if not cells.num_rows:
                return pa.nulls(len(keys), self._type), np.full(len(keys), UNKNOWN, np.int64)
            structs = cells.column(0)
            values = structs.flatten()[0] if self._plain else structs
            return values, cells.column(1).to_numpy(zero_copy_only=False)

        return StateColumn(self._declaration, self._converter, load, context, latest, keys)

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


def _one_batch(blobs: list[memoryview], schema: pa.Schema) -> pa.RecordBatch:
    batches = list(decode_batches(blobs, schema))
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _part(batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    return batch.slice(start, stop - start)
