"""Strict conversion of lists of Python values to Arrow columns, in each type's fastest way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from .converters import converter, null_mismatch, struct_fields
from .fields import Place
from .pieces import array_of
from .row_class import row_class

Writer = Callable[[list[Any]], pa.Array]

# The Python types that pyarrow itself converts to this Spark type exactly, or refuses.
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


def list_writer(
    data_type: t.DataType, arrow_type: pa.DataType, place: Place, nullable: bool = True
) -> Writer:
    """Return a function from Python values to an array of ``arrow_type``.

    It raises ``ResultTypeMismatch`` naming ``place`` if a value doesn't fit.
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
    """Return True if a value of a float array is infinite, as too large values become."""
    return bool(np.isinf(array.to_numpy(zero_copy_only=False)).any())


def struct_writer(
    data_type: t.StructType, arrow_type: pa.StructType, place: Place, nullable: bool = True
) -> Writer:
    """Return a ``list_writer`` for structs as users write them; tuples are fastest."""
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
    """Return a function from structs to tuples with the fields in order."""
    in_order = struct_fields(data_type, place)
    plain, width = {tuple, row_class(tuple(data_type.names))}, len(data_type.fields)

    def ordered(rows: list[Any]) -> list[Any]:
        if set(map(type, rows)) <= plain and set(map(len, rows)) <= {width}:
            return rows
        return [in_order(row) for row in rows]

    return ordered


def _null_check(data_type: t.StructType, place: Place) -> Callable[[list[Any]], None]:
    """Return a function that raises for a null in a field that can't be null."""
    required = [(i, field) for i, field in enumerate(data_type.fields) if not field.nullable]

    def check(rows: list[Any]) -> None:
        for index, field in required:
            if any(row[index] is None for row in rows):
                raise null_mismatch(place.field(field.name), field.dataType)

    return check
