"""Arrow batches to ``pyspark.sql.Row`` objects, a column at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark.sql.types import NumericType as _NumericType

from .._base.failures import Failure, final_failure, kind_of, message_of
from .._base.names import nearest
from .._base.spark_versions import sql_type
from ..errors import EXITS, error, shown

Reader = Callable[[Any], list[Any]]

_MINUTE = 60_000_000  # microseconds
# From 1973 to 2100 offsets are whole minutes in every zone, and change at whole minutes.
_FIRST, _LAST = 94_694_400_000_000, 4_102_444_800_000_000

try:  # what named tuples read their fields with, in C
    from _collections import _tuplegetter as _field  # type: ignore[import-not-found]
except ImportError:

    def _field(index: int, doc: str) -> property:
        return property(lambda row: tuple.__getitem__(row, index), doc=doc)


_AS_ARROW_GIVES_IT = (
    _NumericType,
    BooleanType,
    StringType,
    BinaryType,
    DateType,
    DecimalType,
    TimestampNTZType,
    DayTimeIntervalType,
    sql_type("TimeType"),
)


def row_type(names: list[str]) -> type[Row]:
    """A ``Row`` class for one schema: its names sit on the class, so a row costs one tuple.

    A column can be read as an attribute at the speed of a named tuple. Its rows pickle, compare
    and print as plain ``Row`` objects. Names that a tuple uses itself (``count``, ``index``) stay
    methods, as in pyspark.
    """
    positions = {name: index for index, name in reversed(list(enumerate(names)))}

    def missing(name: object) -> Exception:
        columns = ", ".join(names) or "none"
        near = nearest(str(name), names) or "none"
        return error("UNKNOWN_ROW_COLUMN", column=shown(name), nearest=near, columns=columns)

    def get_item(row: Row, item: Any) -> Any:
        if isinstance(item, (int, slice)):
            return tuple.__getitem__(row, item)
        if item not in positions:
            raise missing(item)
        return tuple.__getitem__(row, positions[item])

    def get_attribute(row: Row, name: str) -> Any:
        if name in positions:
            return tuple.__getitem__(row, positions[name])
        raise AttributeError(name) if name.startswith("__") else missing(name)

    body: dict[str, Any] = {
        "__fields__": list(names),
        "__getitem__": get_item,
        "__getattr__": get_attribute,
    }
    for index, name in enumerate(names):
        if name not in body and not name.startswith("__") and not hasattr(Row, name):
            body[name] = _field(index, f"The column {name}.")
    return type("Row", (Row,), body)


class Unreadable:
    """Stands for a row with a value that Python can't represent; shows what can be read of it."""

    __slots__ = ("_text", "failure")

    def __init__(self, failure: Failure, text: str) -> None:
        self.failure = failure
        self._text = text

    def __repr__(self) -> str:
        return self._text


class RowReader:
    """Reads record batches with the columns of ``schema``, in this order, as lists of rows.

    Timestamps come as naive datetimes in the local zone of the worker, as in every PySpark UDF.
    PySpark's converter makes a call for each value, and fails all rows for one that Python can't
    represent.
    """

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        self._make = row_type(schema.names)
        self._readers = [column_reader(column) for column in schema.fields]

    def read(self, batch: pa.RecordBatch) -> list[Row]:
        """All rows of ``batch``."""
        new, make = tuple.__new__, self._make
        if not self._readers:
            return [new(make) for _ in range(batch.num_rows)]
        columns = [
            reader(column) for reader, column in zip(self._readers, batch.columns, strict=True)
        ]
        return [new(make, values) for values in zip(*columns, strict=True)]

    def read_each(self, batch: pa.RecordBatch) -> list[Row | Unreadable]:
        """All rows of ``batch``, each apart from the others: one that fails is ``Unreadable``."""
        try:
            return self.read(batch)  # type: ignore[return-value]
        except EXITS:
            raise
        except BaseException:
            if batch.num_rows <= 1:
                return [self._unreadable(batch)] if batch.num_rows else []
        middle = batch.num_rows // 2
        return self.read_each(batch.slice(0, middle)) + self.read_each(batch.slice(middle))

    def _unreadable(self, row: pa.RecordBatch) -> Unreadable:
        texts = []
        failure = None
        for column, reader, values in zip(self._schema, self._readers, row.columns, strict=True):
            try:
                text = shown(reader(values)[0])
            except EXITS:
                raise
            except BaseException as problem:
                text = "<unreadable>"
                failure = failure or final_failure(_not_readable(column, problem))
            texts.append(f"{column.name}={text}")
        assert failure is not None
        return Unreadable(failure, f"Row({', '.join(texts)})")


def _not_readable(column: StructField, problem: BaseException) -> BaseException:
    return error(
        "INPUT_NOT_READABLE",
        column=column.name,
        data_type=column.dataType.simpleString(),
        kind=kind_of(problem),
        reason=message_of(problem),
    )


def column_reader(column: StructField) -> Reader:
    if isinstance(column.dataType, _AS_ARROW_GIVES_IT):
        return _plain
    if isinstance(column.dataType, TimestampType):
        return local_timestamps
    return _by_pyspark(column.dataType)


def _plain(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def local_timestamps(column: pa.Array) -> list[Any]:
    """Naive datetimes in the local zone. ``to_pylist`` would make an aware one of each value; here
    the zone is asked once for each minute that occurs, the grid of all its changes."""
    micros = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64())
    values = micros.fill_null(_FIRST).to_numpy(zero_copy_only=False)
    if len(values) and not _FIRST <= values.min() <= values.max() < _LAST:
        return _one_by_one(micros)
    minutes, places = np.unique(values // _MINUTE, return_inverse=True)
    starts = [local_datetime(minute * _MINUTE) for minute in minutes.tolist()]
    if any(start.fold for start in starts):  # an hour that comes twice: numpy can't tell which
        return _one_by_one(micros)
    offsets = np.array(starts, "datetime64[us]").astype(np.int64) - minutes * _MINUTE
    local = (values + offsets[places]).view("datetime64[us]").tolist()
    for index in micros.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
        local[index] = None
    return local  # type: ignore[no-any-return]


def _one_by_one(micros: pa.Array) -> list[Any]:
    return [None if value is None else local_datetime(value) for value in micros.to_pylist()]


def local_datetime(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds).replace(microsecond=rest)


def _by_pyspark(data_type: DataType) -> Reader:
    schema = StructType([StructField("value", data_type)])

    def read(column: pa.Array) -> list[Any]:
        table = pa.table([column], names=["value"])
        rows = ArrowTableToRowsConversion.convert(table, schema)
        return [value for (value,) in rows]

    return read
