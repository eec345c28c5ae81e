"""Which changes of a state's type go through at a restart, and how its values are carried over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as t

from ..errors import PillarboxError, error

_WIDER: dict[type[t.DataType], tuple[type[t.DataType], ...]] = {
    t.ByteType: (t.ShortType, t.IntegerType, t.LongType),
    t.ShortType: (t.IntegerType, t.LongType),
    t.IntegerType: (t.LongType, t.DoubleType),
    t.FloatType: (t.DoubleType,),
}

Carry = Callable[[Any], Any]


def carry_over(state: str, old: t.DataType, new: t.DataType) -> Carry:
    """A function from values of the old type to what the new type accepts.

    Added nullable fields and widening go through. Anything else raises ``StateError``
    (STATE_TYPE_CHANGED) with both types, before a value is touched.
    """
    carry = _carry(old, new)
    if carry is None:
        raise type_changed(state, old.simpleString(), new.simpleString())
    return carry


def type_changed(state: str, old: str, new: str) -> PillarboxError:
    """STATE_TYPE_CHANGED for two descriptions."""
    return error("STATE_TYPE_CHANGED", state=state, old=old, new=new)


def _carry(old: t.DataType, new: t.DataType) -> Carry | None:
    if isinstance(old, t.StructType) and isinstance(new, t.StructType):
        return _carry_struct(old, new)
    if isinstance(old, t.ArrayType) and isinstance(new, t.ArrayType):
        inner = _nullable(_carry(old.elementType, new.elementType))
        if inner is None or new.containsNull < old.containsNull:
            return None
        return _each_element(inner)
    if isinstance(old, t.MapType) and isinstance(new, t.MapType):
        inner = _nullable(_carry(old.valueType, new.valueType))
        if inner is None or old.keyType != new.keyType:
            return None
        if new.valueContainsNull < old.valueContainsNull:
            return None
        return _each_entry(inner)
    return _same if old == new or _widens(old, new) else None


def _each_element(carry: Carry) -> Carry:
    return lambda values: [carry(value) for value in values]


def _each_entry(carry: Carry) -> Carry:
    return lambda pairs: {key: carry(value) for key, value in pairs.items()}


def _widens(old: t.DataType, new: t.DataType) -> bool:
    if isinstance(old, t.DecimalType) and isinstance(new, t.DecimalType):
        whole = new.precision - new.scale >= old.precision - old.scale
        return whole and new.scale >= old.scale
    return isinstance(new, _WIDER.get(type(old), ()))


def _carry_struct(old: t.StructType, new: t.StructType) -> Carry | None:
    """By name; fields may change places."""
    before = {field.name: field for field in old.fields}
    if not before.keys() <= set(new.names):
        return None
    carries: dict[str, Carry] = {}
    for field in new.fields:
        known = before.get(field.name)
        if known is None:
            if not field.nullable:
                return None
            continue
        inner = _nullable(_carry(known.dataType, field.dataType))
        if inner is None or (known.nullable and not field.nullable):
            return None
        carries[field.name] = inner
    return lambda row: {name: inner(row[name]) for name, inner in carries.items()}


def _nullable(carry: Carry | None) -> Carry | None:
    return carry and (lambda value: None if value is None else carry(value))


def _same(value: Any) -> Any:
    return value
