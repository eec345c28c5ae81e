"""Arrow columns to lists of Python values and back, by the shortest way each type has.

``to_pylist`` makes a scalar object a value; a column goes over numpy's ``tolist`` where that gives
the very same values, at about a fifth of the cost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from ._converters import converter
from ._results import _DIRECT
from ._rows import Reader, _local_timestamps, _reader, row_type

Writer = Callable[[list[Any]], pa.Array]

_BY_NUMPY = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType)
_BY_OBJECTS = (t.StringType, t.BinaryType, t.BooleanType)


@functools.cache
def row_class(names: tuple[str, ...]) -> type[t.Row]:
    """The one ``Row`` class for columns of these names."""
    return row_type(list(names))


def list_reader(data_type: t.DataType) -> Reader:
    """A function from an Arrow array of ``data_type`` to its Python values, None for nulls."""
    if isinstance(data_type, _BY_NUMPY):
        return _numbers
    if isinstance(data_type, _BY_OBJECTS):
        return _objects
    if isinstance(data_type, t.TimestampType):
        return _timestamps
    if isinstance(data_type, t.StructType) and data_type.fields:
        return struct_reader(data_type)
    return _reader(t.StructField("value", data_type))


def struct_reader(data_type: t.StructType) -> Reader:
    """A function from a struct array to ``Row`` objects, None for nulls."""
    make, new = row_class(tuple(data_type.names)), tuple.__new__
    readers = [list_reader(field.dataType) for field in data_type.fields]

    def read(column: pa.Array) -> list[Any]:
        children = [reader(child) for reader, child in zip(readers, column.flatten(), strict=True)]
        rows: list[Any] = [new(make, values) for values in zip(*children, strict=True)]
        if column.null_count:
            for index in nulls_of(column):
                rows[index] = None
        return rows

    return read


def nulls_of(column: pa.Array) -> list[int]:
    """The positions of nulls."""
    positions: list[int] = column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist()
    return positions


def _numbers(column: pa.Array) -> list[Any]:
    if not column.null_count:
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    values = column.fill_null(0).to_numpy(zero_copy_only=False).tolist()
    for index in nulls_of(column):
        values[index] = None
    return values


def _objects(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _timestamps(column: pa.Array) -> list[Any]:
    return _local_timestamps(column) if len(column) else []


def list_writer(data_type: t.DataType, arrow_type: pa.DataType, path: str) -> Writer:
    """A function from Python values to an array of ``arrow_type``.

    Raises ``ResultTypeMismatch`` naming ``path`` if a value doesn't fit.
    """
    if isinstance(data_type, t.StructType) and data_type.fields:
        return struct_writer(data_type, arrow_type, path)
    direct = _DIRECT.get(type(data_type), frozenset())
    convert = converter(data_type, True, path)

    def write(values: list[Any]) -> pa.Array:
        if direct.issuperset(map(type, values)):
            try:
                return pa.array(values, type=arrow_type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                pass  # the strict way names the value that doesn't fit
        return pa.array([convert(value) for value in values], type=arrow_type)

    return write


def struct_writer(data_type: t.StructType, arrow_type: pa.StructType, path: str) -> Writer:
    """Like ``list_writer`` for tuples with the fields of ``data_type`` in order; None for null."""
    writers = [
        list_writer(field.dataType, arrow.type, f"{path}.{field.name}")
        for field, arrow in zip(data_type.fields, arrow_type, strict=True)
    ]
    nothing = (None,) * len(writers)

    def write(rows: list[Any]) -> pa.Array:
        mask = None
        if None in rows:
            mask = pa.array([row is None for row in rows])
            rows = [nothing if row is None else row for row in rows]
        columns: Sequence[Any] = list(zip(*rows, strict=True)) or [()] * len(writers)
        arrays = [writer(list(values)) for writer, values in zip(writers, columns, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(arrow_type), mask=mask)

    return write
