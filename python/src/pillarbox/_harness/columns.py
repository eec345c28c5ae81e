"""The columns of a harness's input."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as t

from .._arrow.classes import is_record, mapped_type
from .._arrow.ddl import parse_columns
from .._arrow.row_class import row_class
from .._arrow.schema import find_column


def columns_of(schema: str | t.StructType | type[Any]) -> t.StructType:
    """Return the columns that ``schema`` gives as DDL, StructType or class.

    Raises ``InvalidSchema`` (INVALID_TYPE).
    """
    columns: Any = mapped_type(schema, "schema").data_type if is_record(schema) else schema
    return parse_columns(columns, "schema")


def key_reader(columns: t.StructType, by: tuple[str, ...]) -> Any:
    positions = [columns.names.index(find_column(columns, name, "by").name) for name in by]
    if len(positions) == 1:
        return lambda row: row[positions[0]]
    make, new = row_class(by), tuple.__new__
    return lambda row: new(make, [row[position] for position in positions])


def up_to_ms(micros: int | None) -> int:
    """Round the time of a time-sorted row up to ms.

    So a row within a millisecond comes after a timer or watermark at the start of that millisecond.
    """
    assert micros is not None
    return -(-micros // 1000)
