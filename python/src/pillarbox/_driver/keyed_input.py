"""The options and the input of a keyed operator, checked on the driver before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from .._arrow.schema import (
    find_column,
    find_columns,
    is_case_sensitive,
    parse_returns,
    select_inputs,
)
from .._base.checks import check_frame, needs_other
from .._keyed.input_columns import as_source, check_comparable, check_timestamp
from .._keyed.options import KeyedOptions
from .._keyed.output import LATE, check_names, wire_schema
from .._keyed.tagged import union_time
from ..errors import error
from .keys import key_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES = (TimestampType, TimestampNTZType)
WATERMARK = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class KeyedInput:
    """The options, with names resolved as Spark resolves them.

    ``timestamp`` is None unless it was named: the JVM itself finds the watermark's column, or the
    time of a tagged union.
    """

    options: KeyedOptions
    keys: StructType
    inputs: StructType
    timestamp: str | None
    order_by: list[str]
    streaming: bool
    has_event_time: bool
    case_sensitive: bool
    columns: StructType

    @property
    def late(self) -> StructType | None:
        """The columns of the tag and of late rows, if they are put out."""
        if self.options.on_late != "output":
            return None
        # With their watermark, the next stateful operator would drop all of them.
        return wire_schema(StructType(), {LATE: StructType([*map(_unmarked, self.columns)])})


def _unmarked(field: StructField) -> StructField:
    metadata = {key: value for key, value in field.metadata.items() if key != WATERMARK}
    return StructField(field.name, field.dataType, field.nullable, metadata)


def check_input(df: DataFrame, options: KeyedOptions) -> KeyedInput:
    """Resolve the options on ``df``. Raises ``InvalidOption`` and ``InvalidSchema``."""
    check_frame(df)
    schema = df.schema
    sensitive = is_case_sensitive(df.sparkSession)

    keys = key_columns(schema, options.by, sensitive)
    order = find_columns(schema, options.order_by or (), "order_by", sensitive)
    for column in order:
        check_comparable(column, "order_by")
    marked = [field for field in schema.fields if WATERMARK in field.metadata]
    timestamp = None
    if options.timestamp is not None:
        timestamp = find_column(schema, options.timestamp, "timestamp", sensitive)
        check_timestamp(timestamp, TIMES)
    if options.time_sorted:
        # A column of windows has a watermark too, but is no time.
        event_time = next((field for field in marked if isinstance(field.dataType, TIMES)), None)
        time = timestamp or event_time or union_time(schema)
        _check_time_sorted(time, marked if df.isStreaming else None)
    if options.on_late != "drop" and df.isStreaming and not marked:
        condition = "on a stream whose columns have no watermark"
        advice = "Call df.withWatermark(column, delay) before, and keep the column."
        raise needs_other("on_late", options.on_late, condition, advice)
    return KeyedInput(
        options=options,
        keys=StructType(keys),
        inputs=select_inputs(schema, options.inputs, sensitive),
        timestamp=None if timestamp is None else timestamp.name,
        order_by=[column.name for column in order],
        streaming=df.isStreaming,
        has_event_time=bool(marked) or not df.isStreaming,
        case_sensitive=sensitive,
        columns=schema,
    )


def _check_time_sorted(
    timestamp: StructField | None, watermarked: Sequence[StructField] | None
) -> None:
    """Check ``timestamp`` against the watermarked columns of a stream; None stands for a batch."""
    if timestamp is None:
        raise error("TIME_SORTED_WITHOUT_TIMESTAMP")
    if watermarked is None or timestamp in watermarked:
        return
    if not watermarked:
        raise error("TIME_SORTED_WITHOUT_WATERMARK", source=as_source(timestamp.name))
    watermark = watermarked[0].name
    name = timestamp.name
    raise error(
        "TIME_SORTED_BY_OTHER_COLUMN", column=name, source=as_source(name), watermark=watermark
    )


def parse_outputs(
    returns: StructType | str | type[Any], found: KeyedInput, spark: SparkSession
) -> tuple[StructType, dict[str, StructType]]:
    """Return the columns of the main output and of the side outputs. Raises ``InvalidSchema``."""
    columns = parse_returns(returns, spark)
    sides = found.options.side_outputs or {}
    check_names(columns, sides, found.options.on_late, found.case_sensitive)
    return columns, {
        tag: parse_returns(kind, spark, f"side_outputs[{tag!r}]") for tag, kind in sides.items()
    }
