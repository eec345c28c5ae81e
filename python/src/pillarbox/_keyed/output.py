"""The rows that a function emits, checked against ``returns`` and laid out as one Arrow batch.

With side outputs the batch has the column ``tag``, the columns of ``returns``, and one struct
column for each side output, which is null in all other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from .._arrow.fields import Place
from .._arrow.pieces import FrameSize, cut
from .._arrow.results import row_shape
from .._arrow.schema import claim
from .._arrow.writers import list_writer
from .._base.checks import check, check_name
from ..errors import ResultTypeMismatch
from .values import ValueType

TAG = "tag"
MAIN = "main"
LATE = "late"
RESERVED_TAGS = (MAIN, LATE, "error")
SIDE_OUTPUT = "pillarbox.side_output"


def check_tag(tag: object, option: str = "a tag of side_outputs") -> None:
    """Raise ``InvalidOption`` for a value that can't be a user's tag."""
    check_name(option, tag, "bad")
    reserved = ", ".join(RESERVED_TAGS)
    check(tag not in RESERVED_TAGS, option, f"another one than {reserved}", tag, '"bad"')


def check_names(
    columns: t.StructType, tags: Iterable[Any], on_late: str, case_sensitive: bool
) -> None:
    """Check the names of the main output's ``columns``, and the ``tags`` of side outputs.

    Raises ``InvalidSchema`` (OUTPUT_NAME_CLASH), and ``InvalidOption`` as ``check_tag``.
    """
    owners: dict[str, str] = {}
    sides, late = list(tags), (LATE,) if on_late == "output" else ()
    for name in (TAG, *late) if sides or late else ():
        claim(owners, name, "on_late" if late else "side_outputs", case_sensitive)
    for name in columns.names:
        claim(owners, name, "returns", case_sensitive)
    for tag in sides:
        check_tag(tag)
        claim(owners, tag, "side_outputs", case_sensitive)


def wire_schema(returns: t.StructType, side_outputs: dict[str, t.StructType]) -> t.StructType:
    """Return the columns of the operator's output; with side outputs all may be null."""
    if not side_outputs:
        return returns
    tag = t.StructField(TAG, t.StringType(), False)
    mark = {SIDE_OUTPUT: True}
    sides = [t.StructField(name, kind, True, mark) for name, kind in side_outputs.items()]
    return t.StructType([tag, *returns.fields, *sides])


def row_acceptor(columns: t.StructType, place: Place) -> Callable[[Any], Any]:
    """Return a function from one row as users write it to a checked ``Row`` of ``columns``."""
    shape = row_shape(columns, place)
    accept = ValueType(columns, place).accept
    return lambda row: accept(tuple(shape(row)))


class RowsEncoder:
    """Lays out rows with exactly ``arrow_schema``; made once a task."""

    def __init__(
        self, returns: t.StructType, side_outputs: dict[str, t.StructType], arrow_schema: pa.Schema
    ) -> None:
        self._schema = arrow_schema
        self._sides = list(side_outputs)
        self._shape = row_shape(returns, Place())
        self._width = len(returns.fields)
        self._names = returns.names
        first = 1 if self._sides else 0
        self._writers = [
            list_writer(
                field.dataType,
                arrow_schema.field(first + index).type,
                Place(field.name),
                field.nullable,
            )
            for index, field in enumerate(returns.fields)
        ]
        self._side_writers = [
            list_writer(kind, arrow_schema.field(tag).type, Place(tag))
            for tag, kind in side_outputs.items()
        ]

    def encode(self, rows: list[Any], side_rows: Sequence[tuple[str, int, Any]]) -> pa.RecordBatch:
        """Lay out ``rows`` and then ``side_rows``. Raises ``ResultTypeMismatch``."""
        columns = self._columns(rows)
        arrays = [writer(values) for writer, values in zip(self._writers, columns, strict=True)]
        if self._sides:
            arrays = self._with_sides(arrays, len(rows), side_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def batches(
        self, rows: list[Any], side_rows: Sequence[tuple[str, int, Any]], size: FrameSize
    ) -> list[pa.RecordBatch]:
        """Encode in batches of bounded size. Raises ``TooLarge`` for a row beyond that."""
        count = len(rows) + len(side_rows)
        return cut(count, lambda *span: self._part(rows, side_rows, *span), size)

    def _part(
        self, rows: list[Any], side_rows: Sequence[tuple[str, int, Any]], start: int, stop: int
    ) -> pa.RecordBatch:
        """Encode some of all rows, those of side outputs behind the others."""
        count = len(rows)
        sides = side_rows[max(0, start - count) : max(0, stop - count)]
        return self.encode(rows[start:stop], sides)

    def bad_row(self, rows: list[Any], side_rows: Sequence[tuple[str, int, Any]]) -> int | None:
        """Return the index of the first row that doesn't fit, those of side outputs behind all."""
        for index in range(len(rows) + len(side_rows)):
            try:
                self._part(rows, side_rows, index, index + 1)
            except ResultTypeMismatch:
                return index
        return None

    def _columns(self, rows: list[Any]) -> list[list[Any]]:
        """Return the values of each column in the fastest way.

        ``zip`` over all rows would make an iterator of each, and so many objects start the garbage
        collector, which then visits every row.
        """
        kinds = set(map(type, rows))
        is_plain = kinds in ({tuple}, {dict}) and self._width > 1
        if is_plain and set(map(len, rows)) == {self._width}:
            try:
                return _values_at(range(self._width) if kinds == {tuple} else self._names, rows)
            except KeyError:
                pass
        shaped = map(self._shape, rows)
        return [list(column) for column in zip(*shaped, strict=True)] or [[]] * self._width

    def _with_sides(
        self, main: list[pa.Array], count: int, side_rows: Sequence[tuple[str, int, Any]]
    ) -> list[pa.Array]:
        extra = len(side_rows)
        tags = [MAIN] * count + [tag for tag, _, _ in side_rows]
        arrays = [pa.array(tags, type=self._schema.field(0).type)]
        arrays += [pa.concat_arrays([column, pa.nulls(extra, column.type)]) for column in main]
        for tag, writer in zip(self._sides, self._side_writers, strict=True):
            own = [row if name == tag else None for name, _, row in side_rows]
            arrays.append(writer([None] * count + own))
        return arrays


def _values_at(places: Iterable[Any], rows: list[Any]) -> list[list[Any]]:
    return [list(map(itemgetter(place), rows)) for place in places]
