"""Conversion of Arrow batches to ``pyspark.sql.Row`` objects, a column at a time."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import Row, StructField, StructType

from .._base.failures import Failure, final_failure, kind_of, message_of
from .._base.values import Masked, Names, row_text, shown_cause, shown_reason, shown_value
from ..errors import EXITS, PillarboxError, error
from .fields import names_in
from .readers import column_reader
from .row_class import row_class


class Unreadable(Masked):
    """A row with a value that Python can't represent. Its repr shows the other values."""

    __slots__ = ("_parameters", "_text")

    def __init__(self, parameters: dict[str, str], text: str) -> None:
        self._parameters = parameters
        self._text = text

    def error(
        self, condition: str = "INPUT_NOT_READABLE", names: Names = (), **more: str
    ) -> PillarboxError:
        """Return the error that names the column; ``names`` are those of what holds the row."""
        told = {**self._parameters, **more}
        told["reason"] = shown_reason(told["reason"], names)
        return error(condition, row=row_text(self), **told)

    @property
    def failure(self) -> Failure:
        return final_failure(self.error())

    def __repr__(self) -> str:
        return self._text


class RowReader:
    """Reads record batches with the columns of ``schema``, in this order, as lists of rows."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        self._make = row_class(tuple(schema.names))
        self._readers = [column_reader(column.dataType) for column in schema.fields]

    def read(self, batch: pa.RecordBatch) -> list[Row]:
        new, make = tuple.__new__, self._make
        if not self._readers:
            return [new(make) for _ in range(batch.num_rows)]
        columns = [
            reader(column) for reader, column in zip(self._readers, batch.columns, strict=True)
        ]
        return [new(make, values) for values in zip(*columns, strict=True)]

    def read_strictly(self, batch: pa.RecordBatch) -> list[Row]:
        """Return all rows. Raises ``CallFailed`` (INPUT_NOT_READABLE) with the first bad row."""
        try:
            return self.read(batch)
        except EXITS:
            raise
        except BaseException as problem:
            for row in self.read_each(batch):
                if isinstance(row, Unreadable):
                    raise row.error() from shown_cause(problem, names_in(self._schema))
            raise

    def read_each(self, batch: pa.RecordBatch) -> list[Row | Unreadable]:
        """Return all rows of ``batch``; a row that can't be read is ``Unreadable``."""
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
        parameters = None
        for column, reader, values in zip(self._schema, self._readers, row.columns, strict=True):
            try:
                text = shown_value(reader(values)[0], [column.name])
            except EXITS:
                raise
            except BaseException as problem:
                text = "<unreadable>"
                parameters = parameters or _not_readable(column, problem)
            texts.append(f"{column.name}={text}")
        assert parameters is not None
        return Unreadable(parameters, f"Row({', '.join(texts)})")


def _not_readable(column: StructField, problem: BaseException) -> dict[str, str]:
    names = [column.name, *names_in(column.dataType)]
    return {
        "column": column.name,
        "data_type": column.dataType.simpleString(),
        "kind": kind_of(problem),
        "reason": shown_reason(message_of(problem), names),
    }
