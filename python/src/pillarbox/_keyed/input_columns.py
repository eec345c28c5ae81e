"""The columns for the keys, the event time and the order of a keyed operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import types as t

from .._arrow.schema import find_column, find_columns
from .._base.values import shown_value
from ..errors import error
from .tagged import union_place

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_NTZ = datetime(1970, 1, 1)
_MICRO = timedelta(microseconds=1)


def _is_comparable(data_type: t.DataType) -> bool:
    """Return True if rows can be grouped and sorted by it: Spark can't by maps and variants."""
    if isinstance(data_type, t.StructType):
        return all(_is_comparable(field.dataType) for field in data_type.fields)
    if isinstance(data_type, t.ArrayType):
        return _is_comparable(data_type.elementType)
    return not isinstance(data_type, (t.MapType, t.VariantType))


def check_timestamp(column: t.StructField, kinds: tuple[type[t.DataType], ...]) -> None:
    """Raise ``InvalidSchema`` (TIMESTAMP_TYPE) for a column of another type."""
    if not isinstance(column.dataType, kinds):
        raise error("TIMESTAMP_TYPE", column=column.name, data_type=column.dataType.simpleString())


def check_comparable(column: t.StructField, option: str) -> None:
    """Raise ``InvalidSchema`` (NOT_COMPARABLE) for a column whose values can't be compared."""
    if not _is_comparable(column.dataType):
        data_type = column.dataType.simpleString()
        raise error("NOT_COMPARABLE", option=option, column=column.name, data_type=data_type)


def is_collated(data_type: t.DataType) -> bool:
    """Return True if keys of the type may be equal to Spark where their bytes differ."""
    if isinstance(data_type, t.StructType):
        return any(is_collated(field.dataType) for field in data_type.fields)
    if isinstance(data_type, t.ArrayType):
        return is_collated(data_type.elementType)
    return isinstance(data_type, t.StringType) and data_type.simpleString() != "string"


def check_binary(column: t.StructField) -> None:
    """Raise ``InvalidSchema`` (KEY_COLLATION) for a key with a collation but that of bytes.

    On Spark the JVM says so.
    """
    if is_collated(column.dataType):
        found = column.dataType.simpleString()
        raise error("KEY_COLLATION", column=column.name, data_type=found)


def timestamp_reader(
    columns: t.StructType, timestamp: str | None, is_needed: bool
) -> Callable[[Any], int | None]:
    """Return a function from a row to its event time in epoch microseconds, None without one.

    Names of columns are found in any case, as Spark does by default.
    """
    if timestamp is None:
        if is_needed:
            raise error("TIME_SORTED_WITHOUT_TIMESTAMP")
        return lambda row: None
    column = find_column(columns, timestamp, "timestamp", case_sensitive=False)
    check_timestamp(column, (t.TimestampType, t.TimestampNTZType, t.LongType))
    position, micros = columns.names.index(column.name), _micros(column.dataType)

    def read(row: Any) -> int | None:
        value = row[position]
        if value is not None:
            return micros(value)
        if is_needed:
            raise error("TIMESTAMP_MISSING", column=timestamp, row=shown_value(row))
        return None

    return read


def _micros(data_type: t.DataType) -> Callable[[Any], int]:
    if isinstance(data_type, t.LongType):
        return lambda value: value * 1000
    if isinstance(data_type, t.TimestampNTZType):
        return lambda value: (value - _EPOCH_NTZ) // _MICRO
    return lambda value: (value.astimezone(timezone.utc) - _EPOCH) // _MICRO


def order_key(
    columns: t.StructType, order_by: Sequence[str] | None, timestamp: str | None = None
) -> Callable[[Any], Any] | None:
    """Return a sort key over rows: ascending, nulls first and NaN last, as in Spark.

    Rows of a tagged union are sorted by ``timestamp`` if ``order_by`` is None, and then by input.
    """
    place = union_place(columns)
    if order_by is None and place is None:
        return None
    default = () if timestamp is None else (timestamp,)
    names = default if order_by is None else order_by
    found = find_columns(columns, names, "order_by", case_sensitive=False)
    for column in found:
        check_comparable(column, "order_by")
    positions = [columns.names.index(column.name) for column in found]

    def key(row: Any) -> tuple[Any, ...]:
        values = tuple(_comparable(row[position]) for position in positions)
        return values if place is None else (*values, place(row))

    return key


def _comparable(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, (list, tuple)):
        return (1, tuple(map(_comparable, value)))
    return (2,) if value != value else (1, value)


def as_source(column: str) -> str:
    """Return the name as methods of Spark take it, which read a dot as a field of a struct."""
    return column if column.isidentifier() else quoted(column)


def quoted(column: str) -> str:
    """Return the quoted name of a column, which may contain any character."""
    return "`" + column.replace("`", "``") + "`"
