"""``tagged_union``: several inputs as one DataFrame, for functions that see one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from .._base.checks import check
from .._base.unknown_options import answers_unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@answers_unknown
def tagged_union(
    inputs: Mapping[str, DataFrame],
    *,
    by: str | Sequence[str] | Mapping[str, str | Sequence[str]],
    timestamp: str | Mapping[str, str],
) -> DataFrame:
    """Return the rows of all ``inputs`` as one DataFrame, for a keyed function that sees them all.

    It has the columns ``tag`` (the name of a row's input), the keys, the time, and for each input a
    struct column with all its columns, null in rows of the others. A function reads ``row.tag`` and
    ``row.orders.amount``. All inputs are batches, or all are streams: then call ``withWatermark``
    on the time of each, not on the result. Their watermark is the lowest of the inputs', or what
    ``spark.sql.streaming.multipleWatermarkPolicy`` says.

    Keyed functions and scans take its time if no other is named, and get the rows of a key in a
    micro-batch, or in a batch, by ``order_by``, or else by time. Rows that this does not tell
    apart come in the order of ``inputs``; with ``time_sorted`` those of one time do.

    Parameters
    ----------
    inputs: the DataFrames by their tags. "main", "late" and "error" are no tags, as in
        ``side_outputs``.
    by: the key column, or several. A dict gives those of each input where they differ; the result
        has the names of the first input.
    timestamp: the column of the time, a timestamp; or a dict, likewise.

    Raises :class:`InvalidOption` and :class:`InvalidSchema`, before any work: the types of keys and
    times must agree.
    """
    from .union_parts import Parts  # what loads PyArrow is loaded at the first use

    expected = "a dict of DataFrames by tag"
    check(isinstance(inputs, Mapping) and bool(inputs), "inputs", expected, inputs, _EXAMPLE)
    parts = Parts(inputs, by, timestamp)
    rows = reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True),
        [parts.of(tag) for tag in inputs],
    )
    return rows.select(*parts.marked(rows.schema.fields))


_EXAMPLE = '{"orders": orders, "payments": payments}'
