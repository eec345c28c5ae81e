"""Arrow columns to lists of Python values and back, by the shortest way each type has.

``to_pylist`` makes a scalar object a value; a column goes over numpy's ``tolist`` where that gives
the very same values, at about a fifth of the cost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from .converters import converter, null_mismatch, struct_fields
from .fields import Place
from .pieces import array_of
from .rows import Reader, column_reader, local_timestamps, row_type

Writer = Callable[[list[Any]], pa.Array]

_BY_NUMPY = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType)
# Python types that pyarrow itself turns to this Spark type exactly, or refuses.
_DIRECT: dict[type[t.DataType], frozenset[type]] = {
    t.LongType: frozenset({int}),
    t.IntegerType: frozenset({int}),
    t.ShortType: frozenset({int}),
    t.ByteType: frozenset({int}),
    t.DoubleType: frozenset({float, int}),
    t.FloatType: frozenset({float, int}),
    t.StringType: frozenset({str}),
    t.BooleanType: frozenset({bool}),
    t.BinaryType: frozenset({bytes}),
}
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
    return column_reader(t.StructField("value", data_type))


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
    return local_timestamps(column) if len(column) else []


def list_writer(
    data_type: t.DataType, arrow_type: pa.DataType, place: Place, nullable: bool = True
) -> Writer:
    """A function from Python values to an array of ``arrow_type``.

    Raises ``ResultTypeMismatch`` naming ``place`` if a value doesn't fit.
    """
    if isinstance(data_type, t.StructType) and data_type.fields:
        return struct_writer(data_type, arrow_type, place, nullable)
    direct = _DIRECT.get(type(data_type), frozenset())
    if direct and nullable:
        direct |= {type(None)}
    convert = converter(data_type, nullable, place)
    overflows = isinstance(data_type, t.FloatType)

    def write(values: list[Any]) -> pa.Array:
        if direct.issuperset(map(type, values)):
            try:
                array = array_of(values, arrow_type)
                if not (overflows and has_infinity(array)):
                    return array
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                pass  # the strict way names the value that doesn't fit
        return array_of([convert(value) for value in values], arrow_type)

    return write


def has_infinity(array: pa.Array) -> bool:
    """Whether a value of a float array is infinite, as those become that are too large."""
    return bool(np.isinf(array.to_numpy(zero_copy_only=False)).any())


def struct_writer(
    data_type: t.StructType, arrow_type: pa.StructType, place: Place, nullable: bool = True
) -> Writer:
    """Like ``list_writer``, for structs as users write them; tuples are fastest."""
    writers = [
        list_writer(field.dataType, arrow.type, place.field(field.name))
        for field, arrow in zip(data_type.fields, arrow_type, strict=True)
    ]
    in_order = _tuples(data_type, place)
    check_nulls = _null_check(data_type, place)
    nothing = (None,) * len(writers)

    def write(rows: list[Any]) -> pa.Array:
        mask = None
        present = rows
        if type(None) in set(map(type, rows)):
            if not nullable:
                raise null_mismatch(place, data_type)
            mask = pa.array([row is None for row in rows])
            present = [row for row in rows if row is not None]
        ordered = in_order(present)
        check_nulls(ordered)
        if mask is not None:
            following = iter(ordered)
            ordered = [nothing if row is None else next(following) for row in rows]
        columns: Sequence[Any] = list(zip(*ordered, strict=True)) or [()] * len(writers)
        arrays = [writer(list(values)) for writer, values in zip(writers, columns, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(arrow_type), mask=mask)

    return write


def _tuples(data_type: t.StructType, place: Place) -> Callable[[list[Any]], list[Any]]:
    """A function from structs to tuples with the fields in order; most are such already."""
    in_order = struct_fields(data_type, place)
    plain, width = {tuple, row_class(tuple(data_type.names))}, len(data_type.fields)

    def ordered(rows: list[Any]) -> list[Any]:
        if set(map(type, rows)) <= plain and set(map(len, rows)) <= {width}:
            return rows
        return [in_order(row) for row in rows]

    return ordered


def _null_check(data_type: t.StructType, place: Place) -> Callable[[list[Any]], None]:
    """Raises for a null in a field that can't be null."""
    required = [(i, field) for i, field in enumerate(data_type.fields) if not field.nullable]

    def check(rows: list[Any]) -> None:
        for index, field in required:
            if any(row[index] is None for row in rows):
                raise null_mismatch(place.field(field.name), field.dataType)

    return check
