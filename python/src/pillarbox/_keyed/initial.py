"""``initial_state``: the state that a query starts with, brought into one DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from ..errors import PillarboxError, error, shown
from .stored import TIMERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENTRY = ("value", "timestamp", "map_key")
_ORDER = "index"


@dataclass(frozen=True)
class InitialState:
    """The rows as the operator wants them, and what each column after the keys holds.

    Columns are the keys, one for each of ``states``, and one that the rows are sorted by: the
    places in lists. A row has all that a key has in its states, or (``entry``) one entry of one.
    """

    rows: DataFrame
    states: list[dict[str, Any]]


def initial_state(given: object, keys: StructType) -> InitialState | None:
    """What the user handed over, checked and brought into form.

    Raises ``InvalidOption`` (INITIAL_STATE_INVALID) for what can't be such. Whether the function
    has these states, and of these types, is known only when it is opened.
    """
    from pyspark.sql import DataFrame

    if given is None:
        return None
    if isinstance(given, DataFrame):
        return _wide(given, keys)
    if isinstance(given, Mapping) and given:
        return _entries(given, keys)
    raise _invalid(given, "it is neither")


def _wide(df: DataFrame, keys: StructType) -> InitialState:
    from pyspark.sql import functions as F

    _check_static(df)
    missing = [name for name in keys.names if name not in df.columns]
    if missing:
        raise _invalid(df, f"it lacks the key column {', '.join(missing)}")
    names = [name for name in df.columns if name not in keys.names]
    if not names:
        raise _invalid(df, "it has the key columns only")
    values = [df[f"`{name}`"].alias(f"state {at}") for at, name in enumerate(names)]
    rows = df.select(*_keys(df, keys, ""), *values, F.lit(0).alias(_ORDER))
    return InitialState(rows, [{"state": name, "entry": False} for name in names])


def _entries(given: Mapping[Any, Any], keys: StructType) -> InitialState:
    from functools import reduce

    from pyspark.sql import DataFrame

    parts = []
    for at, (name, df) in enumerate(given.items()):
        if not isinstance(name, str) or not isinstance(df, DataFrame):
            raise _invalid(given, f"{shown(name)} has {shown(df)}")
        _check_static(df)
        parts.append(_part(name, df, keys, f"state {at}"))
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    columns = [f"state {at}" for at in range(len(parts))]
    arranged = rows.select(*keys.names, *[f"`{column}`" for column in columns], _ORDER)
    return InitialState(arranged, [{"state": name, "entry": True} for name in given])


def _part(name: str, df: DataFrame, keys: StructType, column: str) -> DataFrame:
    """The entries of one state, each in a struct."""
    from pyspark.sql import functions as F

    wanted = ["kind", "timestamp"] if name == TIMERS else ["value", "timestamp"]
    missing = [one for one in ("key", *wanted) if one not in df.columns]
    key = None if missing else df.schema["key"].dataType
    if missing or not isinstance(key, StructType) or len(key) != len(keys):
        reason = f"{name} has the columns {', '.join(df.columns)}, not those of pb.read_state"
        raise _invalid(df, reason)
    fields = wanted if name == TIMERS else [one for one in _ENTRY if one in df.columns]
    order = df[_ORDER] if _ORDER in df.columns else F.lit(0)
    return df.select(*_keys(df, keys, "key"), F.struct(*fields).alias(column), order.alias(_ORDER))


def _keys(df: DataFrame, keys: StructType, struct: str) -> list[Any]:
    """The key columns by the names and types of the input; those of a struct by their places."""
    if struct:
        inner = df.schema[struct].dataType
        assert isinstance(inner, StructType)
        found = [df[struct][name] for name in inner.names]
    else:
        found = [df[f"`{name}`"] for name in keys.names]
    pairs = zip(found, keys.fields, strict=True)
    return [column.cast(field.dataType).alias(field.name) for column, field in pairs]


def _check_static(df: DataFrame) -> None:
    if df.isStreaming:
        raise _invalid(df, "it is a stream")


def _invalid(value: object, reason: str) -> PillarboxError:
    return error("INITIAL_STATE_INVALID", value=shown(value), reason=reason)
