"""The options and the input of a keyed operator, checked on the driver before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .._base.checks import check_flag, check_frame, check_name, column_names, needs_other
from .._keyed.input_columns import as_source, check_comparable, check_timestamp
from .._keyed.output import LATE, OnLate, check_names, check_on_late, wire_schema
from .._keyed.tagged import union_time
from ..errors import error
from ..options import Backend, StateBackend, as_backend, check_parts
from .keys import key_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES = (TimestampType, TimestampNTZType)
WATERMARK = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class KeyedOptions:
    """The options as the user gave them. Raises ``InvalidOption`` for the first invalid one."""

    name: str
    by: str | Sequence[str]
    inputs: str | Sequence[str] | None
    timestamp: str | None
    order_by: str | Sequence[str] | None
    time_sorted: bool = False
    on_late: OnLate = "drop"
    backend: StateBackend | Backend = "rocksdb"
    partitions: int | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name, "rotations")
        if self.timestamp is not None:
            check_name("timestamp", self.timestamp, "rotations")
        _ = self.storage
        check_flag("time_sorted", self.time_sorted)
        check_on_late(self.on_late, self.time_sorted)
        column_names("by", self.by)
        if self.order_by is not None:
            column_names("order_by", self.order_by)
        if self.inputs is not None:
            column_names("inputs", self.inputs)
        if self.partitions is not None:
            check_parts("partitions", self.partitions)

    @property
    def storage(self) -> Backend:
        return as_backend(self.backend)


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

    keys = key_columns(schema, column_names("by", options.by), sensitive)
    order_by = () if options.order_by is None else column_names("order_by", options.order_by)
    order = find_columns(schema, order_by, "order_by", sensitive)
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
    inputs = None if options.inputs is None else column_names("inputs", options.inputs)
    return KeyedInput(
        options=options,
        keys=StructType(keys),
        inputs=select_inputs(schema, inputs, sensitive),
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
    returns: StructType | str | type[Any],
    side_outputs: Mapping[str, StructType | str | type[Any]] | None,
    found: KeyedInput,
    spark: SparkSession,
) -> tuple[StructType, dict[str, StructType]]:
    """Return the columns of the main output and of the side outputs. Raises ``InvalidSchema``."""
    columns = parse_returns(returns, spark)
    sides = side_outputs or {}
    check_names(columns, sides, found.options.on_late, found.case_sensitive)
    return columns, {
        tag: parse_returns(kind, spark, f"side_outputs[{tag!r}]") for tag, kind in sides.items()
    }
