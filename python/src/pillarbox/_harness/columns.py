"""The columns of a harness's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import types as t

from .._arrow.classes import is_record, mapped_type
from .._arrow.ddl import parse_columns
from .._arrow.fields import Place
from .._arrow.row_class import row_class
from .._arrow.schema import check_type, find_columns
from .._keyed.input_columns import check_binary, check_comparable
from .._keyed.output import row_acceptor


def columns_of(schema: str | t.StructType | type[Any]) -> t.StructType:
    """Return the columns that ``schema`` gives as DDL, StructType or class.

    Raises ``InvalidSchema`` (INVALID_TYPE, UNSUPPORTED_TYPE).
    """
    columns: Any = mapped_type(schema, "schema").data_type if is_record(schema) else schema
    parsed = parse_columns(columns, "schema")
    for column in parsed.fields:
        check_type(column.dataType, column.name, "the input")
    return parsed


def keys_of(columns: t.StructType, by: Sequence[str]) -> t.StructType:
    """Return the columns of the key. Raises ``InvalidSchema``."""
    keys = find_columns(columns, by, "by", case_sensitive=False)
    for key in keys:
        check_comparable(key, "by")
        check_binary(key)
    return t.StructType(keys)


def key_reader(columns: t.StructType, keys: t.StructType) -> Any:
    """Return a function from a row to its key, as ``ctx.key`` gives it."""
    positions = list(map(columns.names.index, keys.names))
    if len(positions) == 1:
        one, place = _without_minus_zero(keys[0].dataType), positions[0]
        return lambda row: one(row[place])
    every = _without_minus_zero(keys)
    return lambda row: every([row[position] for position in positions])


def _without_minus_zero(kind: t.DataType) -> Callable[[Any], Any]:
    """Return what Spark makes of a key: of two zeros, which are one key, the positive one."""
    if isinstance(kind, (t.FloatType, t.DoubleType)):
        return lambda value: None if value is None else value + 0.0
    if isinstance(kind, t.ArrayType):
        of_element = _without_minus_zero(kind.elementType)
        return lambda value: None if value is None else list(map(of_element, value))
    if isinstance(kind, t.StructType):
        of_fields = [_without_minus_zero(field.dataType) for field in kind]
        make, new = row_class(tuple(kind.names)), tuple.__new__
        return lambda value: (
            None
            if value is None
            else new(make, [of_field(one) for of_field, one in zip(of_fields, value, strict=True)])
        )
    return lambda value: value


def key_acceptor(keys: t.StructType) -> Callable[[Any], Any]:
    """Return a function from a key as users write it to the key as ``ctx.key`` gives it."""
    accept = row_acceptor(keys, Place(error="INPUT_TYPE_MISMATCH"))
    return accept if len(keys) > 1 else lambda key: accept((key,))[0]


def up_to_ms(micros: int | None) -> int:
    """Round the time of a time-sorted row up to ms.

    So a row within a millisecond comes after a timer or watermark at the start of that millisecond.
    """
    assert micros is not None
    return -(-micros // 1000)
