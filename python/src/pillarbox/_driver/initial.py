"""The option ``initial_state``, brought into one DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from .._keyed.input_columns import quoted
from .._keyed.options import TIMERS, WAITING_ROWS
from ..errors import PillarboxError, error, shown
from .client import client_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .keyed_input import KeyedInput

SCAN = "scan"  # the one state of a scan

_ENTRY = ("value", "timestamp", "map_key")
_TIMER = ("time_domain", "timestamp", "epoch_ms")
_INDEX = "index"
_ORDER = "order"


@dataclass(frozen=True)
class InitialState:
    """The rows as the operator takes them, and a description of each column after the keys.

    The columns are the keys, one column for each of ``states``, and the place in a list, which the
    rows are sorted by. They count by position. A row has a key's values of all states, or
    (``entry``) one entry of one state.
    """

    rows: DataFrame
    states: list[dict[str, Any]]


def initial_state(
    spark: SparkSession, found: KeyedInput, scanned: Sequence[str] = ()
) -> InitialState | None:
    """Check the option and bring it into form. Raises ``InvalidOption``.

    An empty dict is no state, as None is, and says that it is meant in a ``foreachBatch``.
    ``spark`` is the input's session. A scan has one state of the columns ``scanned``. The names and
    types of states are compared with those of the function only when it is opened.
    """
    from pyspark.sql import DataFrame

    keys, given = found.keys, found.options.initial_state
    if given is None and not found.streaming and client_of(spark).in_foreach_batch():
        raise error("KEYED_IN_FOREACH_BATCH", operator=found.options.name)
    if given is None or (isinstance(given, Mapping) and not given):
        return None
    if isinstance(given, DataFrame):
        _check_frame(given, spark)
        return _wide(given, keys, scanned)
    if isinstance(given, Mapping):
        for name, df in given.items():
            if not isinstance(name, str) or not isinstance(df, DataFrame):
                raise _invalid(given, f"{shown(name)} has {shown(df)}")
            _check_frame(df, spark)
        if WAITING_ROWS in given:
            _check_waiting(given, found)
        return _entries(given, keys)
    raise _invalid(given, "it is neither")


def _wide(df: DataFrame, keys: StructType, scanned: Sequence[str]) -> InitialState:
    from pyspark.sql import functions as F

    missing = [name for name in keys.names if name not in df.columns]
    if missing:
        raise _invalid(df, f"it lacks the key column {', '.join(missing)}")
    names = [name for name in df.columns if name not in keys.names]
    if not names:
        raise _invalid(df, "it has the key columns only")
    states = {name: df[quoted(name)] for name in names}
    if scanned and set(scanned) <= set(names):
        parts = [states.pop(name) for name in scanned]
        # read_state shows a struct with the only column "value" as that value.
        states[SCAN] = parts[0] if list(scanned) == ["value"] else F.struct(*parts)
    values = [column.alias(f"state {at}") for at, column in enumerate(states.values())]
    rows = df.select(*_keys([df[quoted(name)] for name in keys.names]), *values, _order(F.lit(0)))
    return InitialState(rows, [{"state": name, "entry": False} for name in states])


def _entries(given: Mapping[str, DataFrame], keys: StructType) -> InitialState:
    from functools import reduce

    parts = [_part(name, df, keys, f"state {at}") for at, (name, df) in enumerate(given.items())]
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    columns = [f"key {at}" for at in range(len(keys))] + [f"state {at}" for at in range(len(parts))]
    arranged = rows.select(*columns, _ORDER)
    return InitialState(arranged, [{"state": name, "entry": True} for name in given])


def _part(name: str, df: DataFrame, keys: StructType, column: str) -> DataFrame:
    """Return the entries of one state, each in a struct."""
    from pyspark.sql import functions as F

    wanted = ["time_domain", "timestamp"] if name == TIMERS else ["value", "timestamp"]
    missing = [one for one in ("key", *wanted) if one not in df.columns]
    key = None if missing else df.schema["key"].dataType
    if missing or not isinstance(key, StructType) or len(key) != len(keys):
        reason = f"{name} has the columns {', '.join(df.columns)}, not those of pb.read_state"
        raise _invalid(df, reason)
    known = _TIMER if name == TIMERS else _ENTRY
    fields = [df[one] for one in known if one in df.columns]
    order = df[_INDEX] if _INDEX in df.columns else F.lit(0)
    own_keys = _keys([df["key"].getField(field) for field in key.names])
    return df.select(*own_keys, F.struct(*fields).alias(column), _order(order))


def _check_waiting(given: object, found: KeyedInput) -> None:
    if not found.options.time_sorted:
        raise _invalid(given, "only rows of time_sorted=True wait for the watermark")
    if not found.streaming:
        raise _invalid(given, "in a batch no row waits; union their values with the input")


def _keys(columns: list[Any]) -> list[Any]:
    return [column.alias(f"key {at}") for at, column in enumerate(columns)]


def _order(column: Any) -> Any:
    return column.cast("bigint").alias(_ORDER)


def _check_frame(df: DataFrame, spark: SparkSession) -> None:
    if not client_of(spark).owns(df):
        raise error("OTHER_SESSION", option="initial_state")
    if df.isStreaming:
        raise _invalid(df, "it is a stream")


def _invalid(value: object, reason: str) -> PillarboxError:
    return error("INITIAL_STATE_INVALID", value=shown(value), reason=reason)
