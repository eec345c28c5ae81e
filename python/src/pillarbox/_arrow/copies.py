"""Copies of stored values, which the caller may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as t

from .converters import same, struct_fields, unless_none
from .fields import Place
from .row_class import row_class

Function = Callable[[Any], Any]


def copier(data_type: t.DataType) -> Function | None:
    """Return a function that copies values of a type; None if they are immutable.

    Objects of a user-defined type are copied by its serialisation: what ``copy.deepcopy`` makes of
    them is their own matter, and need not be one of them.
    """
    if isinstance(data_type, t.ArrayType):
        element = _nullable(copier(data_type.elementType))
        return (lambda values: [element(one) for one in values]) if element else list
    if isinstance(data_type, t.MapType):
        item = _nullable(copier(data_type.valueType))
        return (lambda pairs: {k: item(v) for k, v in pairs.items()}) if item else dict
    if isinstance(data_type, t.StructType):
        return by_field(data_type, copier)
    if isinstance(data_type, t.UserDefinedType):
        stored = _as_stored(data_type.sqlType())
        return lambda value: data_type.deserialize(stored(data_type.serialize(value)))
    return None


def by_field(
    data_type: t.StructType, made: Callable[[t.DataType], Function | None]
) -> Function | None:
    """Return a function over the fields of a struct; None if ``made`` returns None for all."""
    fields = [_nullable(made(field.dataType)) for field in data_type.fields]
    if not any(fields):
        return None
    new = tuple.__new__
    return lambda row: new(type(row), [f(v) if f else v for f, v in zip(fields, row, strict=True)])


def _as_stored(data_type: t.DataType) -> Function:
    """Return a copier of what a serialisation returns, in the form in which storage returns it."""
    if isinstance(data_type, t.ArrayType):
        element = unless_none(_as_stored(data_type.elementType))
        return lambda values: [element(one) for one in values]
    if isinstance(data_type, t.MapType):
        key, item = _as_stored(data_type.keyType), unless_none(_as_stored(data_type.valueType))
        return lambda pairs: {key(one): item(other) for one, other in pairs.items()}
    if isinstance(data_type, t.StructType):
        return _struct_as_stored(data_type)
    return copier(data_type) or same


def _struct_as_stored(data_type: t.StructType) -> Function:
    in_order, make = struct_fields(data_type, Place()), row_class(tuple(data_type.names))
    fields = [unless_none(_as_stored(field.dataType)) for field in data_type.fields]
    new = tuple.__new__
    return lambda value: new(make, [f(v) for f, v in zip(fields, in_order(value), strict=True)])


def _nullable(function: Function | None) -> Function | None:
    return function and unless_none(function)
