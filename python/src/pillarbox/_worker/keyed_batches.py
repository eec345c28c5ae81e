"""Frames of the column form: Arrow in, Arrow out, no Python object a row or key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from .._failures import message_of
from .._keyed.batch import BatchContext, BatchState
from .._keyed.columnar import StateColumn
from .._keyed.command import KeyedCommand
from .._keyed.context import UNKNOWN
from .._keyed.runtime import KeyedRuntime
from .._keyed.state import Declaration
from .._keyed.whole_columns import BatchAcceptor, ColumnConverter
from ..errors import PillarboxError, error
from .frames import Init
from .keyed_frames import KeyedFrame, KeyedUpdate, decode_batch, encode_update


class BatchRunner:
    """Runs frames through a ``BatchProcessFunction``. Timers are not known here."""

    def __init__(
        self,
        runtime: KeyedRuntime,
        command: KeyedCommand,
        init: Init,
        schemas: list[pa.Schema],
    ) -> None:
        self._name = init.spec["name"]
        self._function = runtime.function
        self._key_schema, self._row_schema = schemas[:2]
        self._accept = BatchAcceptor(command.returns, init.result_schema)
        states = runtime.registry.states.values()
        self._columns = [
            _ColumnWire(state.declaration, schema)
            for state, schema in zip(states, schemas[2:], strict=True)
        ]

    def run(self, frame: KeyedFrame) -> bytes:
        """UPDATE for ``frame``. Raises ``CallFailed`` (KEYED_CALL_FAILED) for the user's errors."""
        if any(frame.kinds):
            raise error("PROTOCOL_ERROR", reason="a timer for the column form")
        try:
            rows, states = self._process(frame)
        except Exception as problem:
            raise self._failed(frame, problem) from problem
        return encode_update(KeyedUpdate(frame.id, rows, states, ()))

    def _process(
        self, frame: KeyedFrame
    ) -> tuple[pa.RecordBatch | None, list[pa.RecordBatch | None]]:
        index = np.array(frame.slots, np.int32)
        index.flags.writeable = False
        times = np.array(frame.times, np.int64)
        timestamps = pa.array(times, mask=times == UNKNOWN)
        context = BatchContext(self._name, frame.watermark, frame.processing_time, timestamps)
        count = frame.key_count

        def latest() -> Any:
            by_key = np.full(count, UNKNOWN, np.int64)
            np.maximum.at(by_key, index, times)
            return by_key

        keys = self._keys(frame)
        columns = {
            wire.name: wire.column(blob, keys, context, latest)
            for wire, blob in zip(self._columns, frame.states, strict=True)
        }
        rows = None
        if len(index):
            state = BatchState(keys, index, columns)
            batch = decode_batch(frame.rows, self._row_schema)
            rows = self._accept.batch(self._function.process(batch, state, context))
        for column in columns.values():
            column.changed[: frame.ended] = False
        return rows, [wire.changes(columns[wire.name]) for wire in self._columns]

    def _keys(self, frame: KeyedFrame) -> pa.Array:
        keys = decode_batch(frame.keys, self._key_schema)
        if keys.num_columns == 1:
            return keys.column(0)
        return pa.StructArray.from_arrays(keys.columns, keys.schema.names)

    def _failed(self, frame: KeyedFrame, problem: Exception) -> PillarboxError:
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
        self, blob: memoryview, keys: pa.Array, context: BatchContext, latest: Callable[[], Any]
    ) -> StateColumn:
        def load() -> tuple[pa.Array, Any]:
            cells = decode_batch(blob, self._schema)
            if not cells.num_rows:
                return pa.nulls(len(keys), self._type), np.full(len(keys), UNKNOWN, np.int64)
            structs = cells.column(0)
            values = structs.flatten()[0] if self._plain else structs
            return values, cells.column(1).to_numpy(zero_copy_only=False)

        return StateColumn(self._declaration, self._converter, load, context, latest, keys)

    def changes(self, column: StateColumn) -> pa.RecordBatch | None:
        changed = column.changes()
        if changed is None:
            return None
        positions, values, stamps = changed
        if self._plain:
            mask = values.is_null() if values.null_count else None
            values = pa.StructArray.from_arrays([values], fields=list(self._struct), mask=mask)
        return pa.RecordBatch.from_arrays(
            [pa.array(positions, pa.int32()), values, pa.array(stamps, pa.int64())],
            names=["key", "value", "ts"],
        )
