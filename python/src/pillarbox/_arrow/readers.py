"""Conversion of Arrow columns to lists of Python values, in the fastest way for each type.

Timestamps become naive datetimes in the local zone of the worker, as in every PySpark UDF. A value
that Python can't represent raises the error of ``to_pylist``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.loose_version import LooseVersion
from pyspark.sql import types as t
from pyspark.sql.conversion import ArrowTableToRowsConversion

from .._base.spark_versions import sql_type
from .row_class import row_class

Reader = Callable[[Any], list[Any]]

_NUMBERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType)
_OBJECTS = (t.StringType, t.BinaryType, t.BooleanType)
_SLOW_OBJECTS = (t.DecimalType, sql_type("TimeType"))
_MOMENTS = (t.DateType, t.TimestampNTZType, t.DayTimeIntervalType)
# Since this release ``to_pylist`` makes no scalar object for numbers, booleans, texts and bytes.
_PYLIST_IS_FAST = LooseVersion(pa.__version__) >= LooseVersion("25.0.1")
# Up to these lengths single values are no slower than a column: of plain values, and of values for
# which nulls or the zone are looked up first.
_FEW, _SOME = 3, 48

_MINUTE = 60_000_000  # microseconds
# Offsets are whole minutes in every zone from 1973 to 2100, and change at whole minutes.
_FIRST, _LAST = 94_694_400_000_000, 4_102_444_800_000_000


def column_reader(data_type: t.DataType) -> Reader:
    """Return a function from an Arrow array of ``data_type`` to its values, None for nulls."""
    for kinds, reader in _LEAVES:
        if isinstance(data_type, kinds):
            return reader
    if isinstance(data_type, t.StructType) and data_type.fields:
        return struct_reader(data_type)
    if isinstance(data_type, t.ArrayType):
        return _array_reader(data_type)
    if isinstance(data_type, t.MapType):
        return _map_reader(data_type)
    return _by_pyspark(data_type)


def struct_reader(data_type: t.StructType) -> Reader:
    """Return a function from a struct array to ``Row`` objects, None for nulls."""
    make, new = row_class(tuple(data_type.names)), tuple.__new__
    readers = [column_reader(field.dataType) for field in data_type.fields]

    def read(column: pa.Array) -> list[Any]:
        children = [reader(child) for reader, child in zip(readers, column.flatten(), strict=True)]
        rows = [new(make, values) for values in zip(*children, strict=True)]
        return _without_nulls(column, rows)

    return read


def _array_reader(data_type: t.ArrayType) -> Reader:
    read_elements = column_reader(data_type.elementType)
    if read_elements is _plain:
        return _plain

    def read(column: pa.Array) -> list[Any]:
        if not len(column):
            return []
        start, count, bounds = _bounds(column)
        elements = read_elements(column.values.slice(start, count))
        return _without_nulls(column, [elements[a:b] for a, b in pairwise(bounds)])

    return read


def _map_reader(data_type: t.MapType) -> Reader:
    read_keys, read_values = column_reader(data_type.keyType), column_reader(data_type.valueType)

    def read(column: pa.Array) -> list[Any]:
        if not len(column):
            return []
        start, count, bounds = _bounds(column)
        keys = read_keys(column.keys.slice(start, count))
        values = read_values(column.items.slice(start, count))
        maps = [dict(zip(keys[a:b], values[a:b], strict=True)) for a, b in pairwise(bounds)]
        return _without_nulls(column, maps)

    return read


def _bounds(column: pa.Array) -> tuple[int, int, list[int]]:
    """Return the start and number of all entries in the child, and each list's bounds in them."""
    offsets = column.offsets.to_numpy()
    bounds = (offsets - offsets[0]).tolist()
    return int(offsets[0]), bounds[-1], bounds


def _without_nulls(column: pa.Array, values: list[Any]) -> list[Any]:
    """Put None into ``values`` where ``column`` is null."""
    if column.null_count:
        for index in column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
            values[index] = None
    return values


def _plain(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _numbers(column: pa.Array) -> list[Any]:
    if len(column) <= (_SOME if column.null_count else _FEW):
        return _plain(column)
    if not column.null_count:
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return _without_nulls(column, column.fill_null(0).to_numpy(zero_copy_only=False).tolist())


def _objects(column: pa.Array) -> list[Any]:
    if len(column) <= _FEW:
        return _plain(column)
    try:
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    except pa.ArrowException:  # a text that isn't UTF-8
        return _plain(column)


def _moments(column: pa.Array) -> list[Any]:
    if len(column) <= _FEW:
        return _plain(column)
    values = column.to_numpy(zero_copy_only=False)
    ends = np.fmin.reduce(values).item(), np.fmax.reduce(values).item()
    # numpy returns an int for a moment outside of Python's range, None for the least int64.
    if int in map(type, ends) or np.isnat(values).sum() != column.null_count:
        return _plain(column)
    return values.tolist()  # type: ignore[no-any-return]


def local_timestamps(column: pa.Array) -> list[Any]:
    """Return naive datetimes in the local zone, which is looked up once for each minute.

    Its offset changes at whole minutes only.
    """
    if column.type.unit != "us":
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    micros = column.view(pa.int64())
    if len(micros) <= _SOME:
        return _one_by_one(micros)
    values = micros.fill_null(_FIRST).to_numpy(zero_copy_only=False)
    if not _FIRST <= values.min() <= values.max() < _LAST:
        return _one_by_one(micros)
    minutes, places = np.unique(values // _MINUTE, return_inverse=True)
    starts = [local_datetime(minute * _MINUTE) for minute in minutes.tolist()]
    if any(start.fold for start in starts):  # an hour that comes twice, and numpy has no fold
        return _one_by_one(micros)
    offsets = np.array(starts, "datetime64[us]").astype(np.int64) - minutes * _MINUTE
    return _without_nulls(column, (values + offsets[places]).view("datetime64[us]").tolist())


def _one_by_one(micros: pa.Array) -> list[Any]:
    return [None if value is None else local_datetime(value) for value in micros.to_pylist()]


def local_datetime(micros: int) -> datetime:
    """Return the naive datetime, in the local zone, of microseconds since 1970 in UTC."""
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds).replace(microsecond=rest)


def _by_pyspark(data_type: t.DataType) -> Reader:
    """Return a reader for types whose values are objects of PySpark or of users."""
    schema = t.StructType([t.StructField("value", data_type)])

    def read(column: pa.Array) -> list[Any]:
        table = pa.table([column], names=["value"])
        rows = ArrowTableToRowsConversion.convert(table, schema)
        return [value for (value,) in rows]

    return read


_LEAVES: tuple[tuple[Any, Reader], ...] = (
    (_NUMBERS, _plain if _PYLIST_IS_FAST else _numbers),
    (_OBJECTS, _plain if _PYLIST_IS_FAST else _objects),
    (_SLOW_OBJECTS, _objects),
    (_MOMENTS, _moments),
    (t.TimestampType, local_timestamps),
    (t.NullType, _plain),
)
