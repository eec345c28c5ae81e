"""The changes of a state's type that a restart accepts, and the conversion of its values.

The rules are those of ``RowEvolution`` and ``LosslessTypes`` on Spark; tests/golden drives both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as t

from .._arrow.converters import same, unless_none
from ..errors import PillarboxError, error

# The bits, without sign, of the integers that a type holds without a gap; the digits of decimals.
_BITS: dict[type[t.DataType], int] = {
    t.ByteType: 7,
    t.ShortType: 15,
    t.FloatType: 24,
    t.IntegerType: 31,
    t.DoubleType: 53,
    t.LongType: 63,
}
_DIGITS: dict[type[t.DataType], int] = {
    t.ByteType: 3,
    t.ShortType: 5,
    t.IntegerType: 10,
    t.LongType: 20,
}

Carry = Callable[[Any], Any]


def carry_over(state: str, old: t.StructType, new: t.StructType) -> Carry:
    """Return a function from structs of the old type to values that the new type accepts.

    New nullable fields, and a wider type that holds every number of the old one, are accepted.
    Other changes raise ``StateError`` (STATE_TYPE_CHANGED) with both types, before a value is
    converted.
    """
    carry = _carry_struct(old, new)
    if carry is None:
        raise type_changed(state, old.simpleString(), new.simpleString())
    return carry


def type_changed(state: str, old: str, new: str) -> PillarboxError:
    return error("STATE_TYPE_CHANGED", state=state, old=old, new=new)


def _carry_struct(old: t.StructType, new: t.StructType) -> Carry | None:
    """Convert fields by name; they may change places."""
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
        inner = _carry(known.dataType, field.dataType)
        if inner is None or (known.nullable and not field.nullable):
            return None
        carries[field.name] = unless_none(inner)
    return lambda row: {name: inner(row[name]) for name, inner in carries.items()}


def _carry(old: t.DataType, new: t.DataType) -> Carry | None:
    if isinstance(old, t.StructType) and isinstance(new, t.StructType):
        return _carry_struct(old, new)
    if _is_wider(old, new):
        return same
    if isinstance(old, t.NumericType) and isinstance(new, t.NumericType) and _holds(new, old):
        return int if isinstance(new, t.IntegralType) else same
    return None


def _is_wider(old: t.DataType, new: t.DataType) -> bool:
    """Return True if the types are equal, or the new one only allows nulls in more places."""
    if isinstance(old, t.StructType) and isinstance(new, t.StructType):
        return old.names == new.names and all(
            one.nullable <= other.nullable and _is_wider(one.dataType, other.dataType)
            for one, other in zip(old.fields, new.fields, strict=True)
        )
    if isinstance(old, t.ArrayType) and isinstance(new, t.ArrayType):
        wider = old.containsNull <= new.containsNull
        return wider and _is_wider(old.elementType, new.elementType)
    if isinstance(old, t.MapType) and isinstance(new, t.MapType):
        wider = old.valueContainsNull <= new.valueContainsNull
        entries = (old.keyType, new.keyType), (old.valueType, new.valueType)
        return wider and all(_is_wider(*pair) for pair in entries)
    return old == new


def _holds(wide: t.DataType, number: t.DataType) -> bool:
    """Return True if every value of ``number`` is a value of ``wide``."""
    old, new = type(number), type(wide)
    if isinstance(wide, t.DecimalType):
        whole = wide.precision - wide.scale
        if isinstance(number, t.DecimalType):
            return whole >= number.precision - number.scale and wide.scale >= number.scale
        return old in _DIGITS and whole >= _DIGITS[old]
    if isinstance(number, t.DecimalType):
        return number.scale == 0 and new in _DIGITS and 10**number.precision <= 2 ** _BITS[new]
    # A float is no integer, whatever its bits.
    return _BITS[old] <= _BITS[new] and (old in _DIGITS or new is t.DoubleType)
