"""The values of a state: their checks, their canonical form, and their types as Arrow.

A value is kept in the form in which storage returns it: a ``Row`` for a struct, a float for a
double that was given as an int, a decimal in its scale. So a function sees the same value whether
it was written a row ago or in another micro-batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pyspark.sql import types as t

from .._arrow.converters import converter, mismatch, object_of_parts, same, unless_none
from .._arrow.copies import by_field, copier
from .._arrow.fields import Getters, Place
from .._arrow.row_class import row_class
from .local_times import distinct, local_time

Function = Callable[[Any], Any]

_NAN = float("nan")
_SINGLE = struct.Struct("<f")

# Values of these Python classes are kept unchanged; the range of integers is checked separately.
_EXACT: dict[type[t.DataType], type] = {
    t.DoubleType: float,
    t.BooleanType: bool,
    t.BinaryType: bytes,
}
_LIMITS: dict[type[t.DataType], int] = {
    t.LongType: 1 << 63,
    t.IntegerType: 1 << 31,
    t.ShortType: 1 << 15,
    t.ByteType: 1 << 7,
}


class ValueType:
    """One type of state value. ``place`` names the state in errors.

    ``accept(value)`` returns the canonical value or raises ``ResultTypeMismatch``. ``copy(value)``
    returns a copy that the caller may change; it is None where values are immutable. Where the type
    is a class, ``make`` makes its objects of stored values, and is the copy.
    """

    def __init__(self, data_type: t.DataType, place: Place, make: Function | None = None) -> None:
        self.data_type = data_type
        self.place = place
        self.is_plain = not isinstance(data_type, t.StructType)
        self.accept = _accept(data_type, place)
        self.make = make
        self.copy = make or copier(data_type)

    @property
    def wire_type(self) -> t.StructType:
        """The struct that carries a value: the type itself, or ``struct<value: type>``."""
        if isinstance(self.data_type, t.StructType):
            return self.data_type
        return t.StructType([t.StructField("value", self.data_type)])


class KeyType(ValueType):
    """The type of a map state's keys: values are hashable, NaN is one key, and so is zero."""

    def __init__(self, data_type: t.DataType, place: Place) -> None:
        super().__init__(data_type, place)
        self.normalise = _key_normaliser(data_type)
        if self.normalise is not None:
            inner, normalise = self.accept, self.normalise
            self.accept = lambda value: normalise(inner(value))

    @property
    def plain_class(self) -> type | None:
        """The class of objects that are keys without a conversion if they are equal to a key."""
        return None if self.normalise is not None else _class_of(self.data_type)


def is_hashable(data_type: t.DataType) -> bool:
    """Return True if values of the type can be keys: they contain no maps, arrays, opaque types."""
    if isinstance(data_type, t.StructType):
        return all(is_hashable(field.dataType) for field in data_type.fields)
    opaque = isinstance(data_type, t.UserDefinedType) or object_of_parts(data_type) is not None
    return not opaque and not isinstance(data_type, (t.ArrayType, t.MapType, t.NullType))


def _accept(data_type: t.DataType, place: Place) -> Function:
    convert = converter(data_type, False, place)
    canonical = _canonical(data_type, place)
    strict = convert if canonical is None else lambda value: canonical(convert(value))
    limit = _LIMITS.get(type(data_type))
    if limit is not None:
        return _integers(limit, strict)
    if isinstance(data_type, t.StructType):
        return _flat_structs(data_type, strict)
    if type(data_type) is t.StringType:
        return lambda value: value if value.__class__ is str and value.isascii() else strict(value)
    exact = _EXACT.get(type(data_type))
    if exact is None:
        return strict
    return lambda value: value if value.__class__ is exact else strict(value)


def _integers(limit: int, strict: Function) -> Function:
    lowest = -limit

    def accept(value: Any) -> Any:
        if value.__class__ is int and lowest <= value < limit:
            return value
        return strict(value)

    return accept


def _flat_structs(data_type: t.StructType, strict: Function) -> Function:
    """Accept tuples and objects of unchanged fields without a conversion of each field."""
    kinds = [_class_of(field.dataType) for field in data_type.fields]
    if None in kinds:
        return strict
    limits = [
        (index, -_LIMITS[type(field.dataType)], _LIMITS[type(field.dataType)])
        for index, field in enumerate(data_type.fields)
        if type(field.dataType) in _LIMITS
    ]
    texts = [index for index, kind in enumerate(kinds) if kind is str]
    make, new = row_class(tuple(data_type.names)), tuple.__new__
    getters = Getters(data_type.names)

    def accept(given: Any) -> Any:
        value = given
        if value.__class__ is not tuple and value.__class__ is not make:
            getter = getters[type(value)]
            if getter is None:
                return strict(given)
            try:
                value = getter(value)
            except Exception:  # a field was deleted: the strict way tells the object
                return strict(given)
        if list(map(type, value)) != kinds:
            return strict(given)
        for index, lowest, limit in limits:
            if not lowest <= value[index] < limit:
                return strict(given)
        for index in texts:
            if not value[index].isascii():  # a lone surrogate is no text
                return strict(given)
        return new(make, value)

    return accept


def _class_of(data_type: t.DataType) -> type | None:
    """Return the Python class whose values are kept unchanged if range and encoding are valid."""
    if type(data_type) is t.StringType:
        return str
    return int if type(data_type) in _LIMITS else _EXACT.get(type(data_type))


def _canonical(data_type: t.DataType, place: Place) -> Function | None:
    """Return a function from Arrow's input to the value it returns; None if they are the same."""
    if isinstance(data_type, t.TimestampType):
        return _local_time(data_type, place)
    if isinstance(data_type, t.TimestampNTZType):
        return lambda value: value.replace(fold=0)
    if isinstance(data_type, t.FloatType):
        return lambda value: _SINGLE.unpack(_SINGLE.pack(value))[0]
    if isinstance(data_type, t.StructType):
        return _canonical_struct(data_type, place)
    if isinstance(data_type, t.ArrayType):
        element = _nullable(_canonical(data_type.elementType, place.inside("[]")))
        return element and (lambda values: [element(value) for value in values])
    if isinstance(data_type, t.MapType):
        key = _canonical_key(data_type.keyType, place.inside("{key}"))
        item = _nullable(_canonical(data_type.valueType, place.inside("{value}"))) or same
        return lambda pairs: {key(one): item(other) for one, other in pairs}
    if isinstance(data_type, t.UserDefinedType):
        inner = _canonical(data_type.sqlType(), place) or same
        return lambda value: data_type.deserialize(inner(value))
    return object_of_parts(data_type)


def _local_time(data_type: t.DataType, place: Place) -> Function:
    def local(instant: datetime) -> datetime:
        try:
            return local_time(instant)
        except (ValueError, OverflowError):  # the local zone has no such year
            raise mismatch(place, data_type, instant) from None

    return local


def _canonical_key(data_type: t.DataType, place: Place) -> Function:
    canonical, normalise = _canonical(data_type, place), _key_normaliser(data_type)
    if normalise is None:
        return canonical or same
    return lambda value: normalise(value if canonical is None else canonical(value))


def _nullable(function: Function | None) -> Function | None:
    return function and unless_none(function)


def _canonical_struct(data_type: t.StructType, place: Place) -> Function:
    make, new = row_class(tuple(data_type.names)), tuple.__new__
    names = data_type.names
    fields = [
        _nullable(_canonical(field.dataType, place.field(field.name))) or same
        for field in data_type.fields
    ]

    def canonical(value: Any) -> Any:
        return new(make, [field(value[name]) for field, name in zip(fields, names, strict=True)])

    return canonical


def _key_normaliser(data_type: t.DataType) -> Function | None:
    """Return a function that makes Python's dict compare keys as Spark does; None if it does.

    To Spark all NaNs are one key, -0.0 is 0.0, and different instants are different keys.
    """
    if isinstance(data_type, (t.FloatType, t.DoubleType)):
        return lambda value: value + 0.0 if value == value else _NAN
    if isinstance(data_type, t.TimestampType):
        return distinct
    return by_field(data_type, _key_normaliser) if isinstance(data_type, t.StructType) else None
