"""The marks that ``tagged_union`` leaves on columns, by which its rows are put in order.

They are read by ``TaggedUnion`` in the JVM, and here for the harness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as t

TAGS = "pillarbox.tags"  # on the column of the tag: all tags, in their order
TIME = "pillarbox.time"


def union_time(columns: t.StructType) -> t.StructField | None:
    """Return the column of the time; None if ``columns`` are no tagged union, or have lost it."""
    if _tag(columns) is None:
        return None
    return next((field for field in columns if TIME in field.metadata), None)


def union_place(columns: t.StructType) -> Callable[[Any], int] | None:
    """Return a function from a row to the place of its input, or None for no tagged union."""
    tag = _tag(columns)
    if tag is None:
        return None
    position = columns.names.index(tag.name)
    places = {name: place for place, name in enumerate(tag.metadata[TAGS], 1)}
    return lambda row: places.get(row[position], 0)


def _tag(columns: t.StructType) -> t.StructField | None:
    return next((field for field in columns if TAGS in field.metadata), None)
