"""``failed`` and ``succeeded``: the rows of a result whose calls failed, and the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._base.checks import check_frame
from .._base.unknown_options import answers_unknown
from .._keyed.input_columns import quoted
from ..errors import error, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField


@answers_unknown
def failed(df: DataFrame, *, column: str | None = None) -> DataFrame:
    """Return the rows of ``df`` whose calls failed for good, with the columns that
    :func:`async_io` was given, so that they can be fed in again::

        triaged = tickets.transform(pb.async_io, triage, returns=..., on_error="column")
        triaged.write.parquet(path)
        again = pb.failed(spark.read.parquet(path)).transform(pb.async_io, triage, ...)

    Write the result first, or cache it: each action on an ``async_io`` makes its calls. The input's
    columns and the error column are known by metadata of the latter, which ``select``,
    ``withColumn``, ``withColumnRenamed``, Parquet and tables keep; files of ORC, CSV and JSON,
    and an expression over the column don't.

    Parameters
    ----------
    column: the error column; needed where several operators have one.

    Raises :class:`InvalidOption` (NO_ERROR_COLUMN, SEVERAL_ERROR_COLUMNS, UNKNOWN_COLUMN,
    AMBIGUOUS_COLUMN).
    """
    from .._arrow.schema import INPUTS

    place, found = _error_column(df, column)
    inputs, columns = list(found.metadata[INPUTS]), df.columns
    option = f"the metadata of {shown(found.name)}"
    for name in inputs:
        count = columns.count(name)
        if count < inputs.count(name):
            raise error("UNKNOWN_COLUMN", option=option, column=name, available=", ".join(columns))
        if count > inputs.count(name):
            there = ", ".join([name] * count)
            raise error("AMBIGUOUS_COLUMN", option=option, column=name, count=count, found=there)
    if _are_names_twice(columns):
        places: dict[str, list[int]] = {}
        for at, name in enumerate(columns):
            places.setdefault(name, []).append(at)
        taken = {name: iter(all_of_it) for name, all_of_it in places.items()}
        numbered = _numbered(df)
        rows = numbered.where(numbered[str(place)].isNotNull())
        return rows.select(*[numbered[str(next(taken[name]))].alias(name) for name in inputs])
    rows = df.where(df[quoted(found.name)].isNotNull())
    return rows.select(*[df[quoted(name)] for name in inputs])


def _are_names_twice(columns: Sequence[str]) -> bool:
    return len({name.lower() for name in columns}) < len(columns)


def _numbered(df: DataFrame) -> DataFrame:
    """Return the columns under their numbers, for a frame in which a name may not tell one."""
    return df.toDF(*map(str, range(len(df.columns))))


@answers_unknown
def succeeded(df: DataFrame, *, column: str | None = None) -> DataFrame:
    """Return the rows of ``df`` whose calls did not fail, without the error column.

    The same holds as for :func:`failed`, which has the other rows.
    """
    place, field = _error_column(df, column)
    if _are_names_twice(df.columns):
        numbered = _numbered(df)
        rows = numbered.where(numbered[str(place)].isNull())
        others = [(at, name) for at, name in enumerate(df.columns) if at != place]
        return rows.select(*[numbered[str(at)].alias(name) for at, name in others])
    name = quoted(field.name)
    return df.where(df[name].isNull()).drop(df[name])


def _error_column(df: DataFrame, column: str | None) -> tuple[int, StructField]:
    """Return the error column and its place."""
    from .._arrow.schema import INPUTS

    check_frame(df)
    known = [
        (at, field) for at, field in enumerate(df.schema.fields) if INPUTS in (field.metadata or {})
    ]
    found = [(at, field) for at, field in known if column in (None, field.name)]
    if not found:
        named = "" if column is None else f" {shown(column)}"
        raise error("NO_ERROR_COLUMN", named=named, columns=", ".join(df.columns))
    if len(found) > 1:
        names = ", ".join(shown(field.name) for _, field in found)
        raise error("SEVERAL_ERROR_COLUMNS", columns=names, first=found[0][1].name)
    return found[0]
