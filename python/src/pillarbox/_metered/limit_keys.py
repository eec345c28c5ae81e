"""The columns whose values have limits of their own, in engine="python"."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from .._arrow.rows import RowReader, Unreadable
from .._arrow.schema import find_column

Values = tuple[Hashable, ...]


@dataclass(frozen=True)
class LimitKeys:
    """The places of the columns among those that come in, and what they are."""

    positions: tuple[int, ...]
    columns: StructType

    @staticmethod
    def of(schema: StructType, names: Sequence[str], case_sensitive: bool) -> LimitKeys:
        """Return those of ``names``, in their order, each once."""
        found = [
            find_column(schema, name, "limit.key", case_sensitive) for name in dict.fromkeys(names)
        ]
        places = tuple(schema.fields.index(column) for column in found)
        return LimitKeys(places, StructType(found))


class KeyReader:
    """Reads the values of ``keys`` from batches."""

    def __init__(self, keys: LimitKeys) -> None:
        self._positions = keys.positions
        self._names = [str(position) for position in keys.positions]
        self._reader = RowReader(keys.columns)

    def read(self, batch: pa.RecordBatch) -> list[Values]:
        """Return the values of each row; those that can't be read have one limit together."""
        if not self._names:
            return [()] * batch.num_rows
        columns = [batch.column(position) for position in self._positions]
        rows = self._reader.read_each(pa.RecordBatch.from_arrays(columns, self._names))
        odd: Values = ("unreadable",) * len(self._names)
        return [odd if isinstance(row, Unreadable) else tuple(map(_as_value, row)) for row in rows]


def _as_value(value: Any) -> Hashable:
    """Return a value that is equal to those that are one key in Spark: all NaN are one."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_as_value, value))
    if isinstance(value, float) and value != value:
        return ("NaN",)
    return bytes(value) if isinstance(value, bytearray) else value
