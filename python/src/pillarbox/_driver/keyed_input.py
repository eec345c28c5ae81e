"""What a keyed operator needs of its input, checked on the driver before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from .._arrow.schema import (
    check_type,
    find_column,
    folded,
    is_case_sensitive,
    parse_returns,
    select_inputs,
)
from .._async.options import BLOCKED_LOOP_MS
from .._keyed.options import Backend, check_timestamp, choice, flag, has_equality, names_of
from .._keyed.output import TAG
from ..errors import error, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMES = (TimestampType, TimestampNTZType)
_WATERMARK = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class KeyedOptions:
    """Options that are valid by themselves."""

    name: str
    by: tuple[str, ...]
    timestamp: str | None
    backend: str
    timers: str
    order_by: tuple[str, ...] | None
    time_sorted: bool
    inputs: tuple[str, ...] | None

    @staticmethod
    def parse(
        *,
        name: str,
        by: str | Sequence[str],
        timestamp: str | None,
        backend: str,
        timers: str,
        order_by: str | Sequence[str] | None,
        time_sorted: bool,
        inputs: Sequence[str] | None,
    ) -> KeyedOptions:
        """Raises ``InvalidOption`` for the first option that can't work."""
        _text("name", name)
        if timestamp is not None:
            _text("timestamp", timestamp)
        choice("backend", backend, get_args(Backend))
        choice("timers", timers, get_args(Backend))
        flag("time_sorted", time_sorted)
        return KeyedOptions(
            name=name,
            by=names_of("by", by),
            timestamp=timestamp,
            backend=backend,
            timers=timers,
            order_by=None if order_by is None else names_of("order_by", order_by),
            time_sorted=time_sorted,
            inputs=None if inputs is None else names_of("inputs", inputs),
        )


@dataclass(frozen=True)
class KeyedInput:
    """The options with the names resolved as Spark resolves them.

    ``timestamp`` is None unless it was named: the JVM takes the watermark's column itself.
    """

    options: KeyedOptions
    keys: StructType
    inputs: StructType
    timestamp: str | None
    order_by: list[str]
    streaming: bool
    has_watermark: bool
    case_sensitive: bool

    def spec(self, form: str) -> dict[str, Any]:
        """The operator's spec, without what depends on the function."""
        options = self.options
        return {
            "kind": "keyed",
            "name": options.name,
            "form": form,
            "class_name": None,
            "options": {},
            "by": self.keys.names,
            "returns": None,
            "timestamp": self.timestamp,
            "backend": options.backend,
            "timers": options.timers,
            "order_by": self.order_by,
            "time_sorted": options.time_sorted,
            "inputs": [] if options.inputs is None else self.inputs.names,  # none named: all
            "tags": [],
            "streaming": self.streaming,
            "event_time": self.has_watermark or not self.streaming,
            "blocked_loop_ms": BLOCKED_LOOP_MS,
        }


def check_input(df: DataFrame, options: KeyedOptions) -> KeyedInput:
    """Raises ``InvalidOption`` and ``InvalidSchema`` for what ``df`` can't give."""
    schema = df.schema
    sensitive = is_case_sensitive(df.sparkSession)

    def found(option: str, name: str, unknown: str) -> StructField:
        return find_column(schema, name, option, unknown, sensitive)

    keys = [found("by", name, "UNKNOWN_KEY_COLUMN") for name in options.by]
    for key in keys:
        check_type(key.dataType, key.name, "by")
        if not has_equality(key.dataType):
            data_type = key.dataType.simpleString()
            raise error("KEY_WITHOUT_EQUALITY", column=key.name, data_type=data_type)
    order = [found("order_by", name, "UNKNOWN_ORDER_COLUMN") for name in options.order_by or ()]
    marked = [field for field in schema.fields if _WATERMARK in field.metadata]
    timestamp = None
    if options.timestamp is not None:
        timestamp = found("timestamp", options.timestamp, "UNKNOWN_TIMESTAMP_COLUMN")
        check_timestamp(timestamp, TIMES)
    if options.time_sorted:
        # A column of windows has a watermark too, and no time.
        event_time = next((field for field in marked if isinstance(field.dataType, TIMES)), None)
        _check_time_sorted(timestamp or event_time, df.isStreaming and not marked)
    return KeyedInput(
        options=options,
        keys=StructType(keys),
        inputs=select_inputs(schema, options.inputs, sensitive),
        timestamp=None if timestamp is None else timestamp.name,
        order_by=[column.name for column in order],
        streaming=df.isStreaming,
        has_watermark=bool(marked),
        case_sensitive=sensitive,
    )


def _check_time_sorted(timestamp: StructField | None, lacks_watermark: bool) -> None:
    if timestamp is None:
        raise error("TIME_SORTED_WITHOUT_TIMESTAMP")
    if lacks_watermark:
        raise error("TIME_SORTED_WITHOUT_WATERMARK", column=timestamp.name)


def parse_outputs(
    returns: StructType | str, side_outputs: dict[str, StructType | str], case_sensitive: bool
) -> tuple[StructType, dict[str, StructType]]:
    """The columns of the main and side outputs. Raises ``InvalidSchema``."""
    columns = parse_returns(returns)
    owners: dict[str, str] = {}
    for name in columns.names:
        if folded(name, case_sensitive) in owners:
            raise error("OUTPUT_NAME_CLASH", column=name, first="returns", second="returns")
        owners[folded(name, case_sensitive)] = "returns"
    for name in [TAG, *side_outputs] if side_outputs else []:
        _text("a tag of side_outputs", name)
        key = folded(name, case_sensitive)
        if key in owners:
            raise error("OUTPUT_NAME_CLASH", column=name, first=owners[key], second="side_outputs")
        owners[key] = "side_outputs"
    return columns, {tag: parse_returns(kind) for tag, kind in side_outputs.items()}


def _text(option: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise error(
            "INVALID_OPTION",
            option=option,
            expected="a name",
            value=shown(value),
            example='"rotations"',
        )
