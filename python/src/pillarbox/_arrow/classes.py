"""Classes as columns: dataclasses, named tuples, ``TypedDict`` classes and models of pydantic 2.

One reading of the annotations gives both the columns and the function that makes an object of a
stored row. Values out of objects are the matter of ``fields``. pydantic is never imported.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union

from pyspark.sql import types as t

from ..errors import PillarboxError
from .converters import same, unless_none
from .copies import copier
from .ddl import Refusal, invalid_type, parse_type
from .fields import is_model

Make = Callable[[Any], Any]

_REMEDY = 'Annotated[..., "decimal(10,2)"] gives such a field the type that it is to have'
_SIMPLE: dict[Any, Callable[[], t.DataType]] = {
    int: t.LongType,
    float: t.DoubleType,
    bool: t.BooleanType,
    str: t.StringType,
    bytes: t.BinaryType,
    datetime.date: t.DateType,
    datetime.datetime: t.TimestampType,
    datetime.timedelta: t.DayTimeIntervalType,
    decimal.Decimal: lambda: t.DecimalType(38, 18),
}


class _NoColumn(Exception):
    """The reason why a class can't be columns, which names the field."""


class Mapped(NamedTuple):
    """The column of an annotation.

    All columns, fields, elements and values may be null, so that None says "no match", as under
    DDL. ``or_none`` is True for ``T | None``. ``make`` turns a stored value (not None) into what
    the annotation says, in a copy that the caller may change; it is None where the stored value
    is that itself.
    """

    data_type: t.DataType
    or_none: bool = False
    make: Make | None = None


def is_record(kind: object) -> bool:
    """Return True for a class that can be columns."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or is_model(kind) or _is_named(kind) or _is_typed_dict(kind)
    )


def mapped_type(given: Any, option: str) -> Mapped:
    """Return the type that a DDL string, a ``DataType`` or a class gives.

    Raises ``InvalidSchema`` (INVALID_TYPE) naming ``option``.
    """
    if is_record(given):
        return mapped_annotation(given, option)
    return Mapped(parse_type(given, option))


def mapped_annotation(annotation: Any, option: str, refusal: Refusal = invalid_type) -> Mapped:
    """Return the type of a value with this annotation, such as ``float | None`` or a class.

    Raises the error of ``refusal`` naming ``option``.
    """
    try:
        return _mapped(annotation, "", ())
    except _NoColumn as problem:
        raise refusal(option, annotation, str(problem)) from None


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_typed_dict(kind: type) -> bool:
    return issubclass(kind, dict) and hasattr(kind, "__optional_keys__")


def _struct(kind: type, path: str, around: tuple[type, ...]) -> Mapped:
    if kind in around:
        raise _NoColumn(f"its field {path} contains {kind.__name__} again, without an end")
    found = _annotations(kind)
    if not found:
        raise _NoColumn(f"{kind.__name__} has no fields")
    fields: dict[str, Mapped] = {}
    for name, annotation in found.items():
        place = f"{path}.{name}" if path else name
        fields[name] = _mapped(annotation, place, (*around, kind))
    absent = _may_be_absent(kind, found)
    columns = [t.StructField(name, one.data_type) for name, one in fields.items()]
    return Mapped(t.StructType(columns), make=_maker(kind, fields, absent))


def _annotations(kind: type) -> dict[str, Any]:
    """Return the annotations of the fields in their order."""
    if is_model(kind):
        models: Any = kind
        return {
            name: _with_metadata(field.annotation, field.metadata)
            for name, field in models.model_fields.items()
        }
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception as problem:
        raise _NoColumn(
            f"the annotations of {kind.__name__} can't be read ({problem}); "
            "what they name must be defined or imported in its module"
        ) from None
    if dataclasses.is_dataclass(kind):
        return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    names = getattr(kind, "_fields", hints)
    for name in names:
        if name not in hints:
            raise _NoColumn(f"its field {name} has no annotation")
    return {name: hints[name] for name in names}


def _with_metadata(annotation: Any, metadata: Sequence[Any]) -> Any:
    return Annotated.__class_getitem__((annotation, *metadata)) if metadata else annotation  # type: ignore[attr-defined]


def _may_be_absent(kind: type, annotations: dict[str, Any]) -> set[str]:
    """Return the keys of a ``TypedDict`` that objects of it may lack."""
    if not _is_typed_dict(kind):
        return set()
    marks = {name: _mark(annotation) for name, annotation in annotations.items()}
    total: frozenset[str] = kind.__optional_keys__  # type: ignore[attr-defined]
    return {
        name
        for name, mark in marks.items()
        if mark == "NotRequired" or (name in total and mark != "Required")
    }


def _mark(annotation: Any) -> str | None:
    """Return the name of ``NotRequired`` and its kin, also of those of typing_extensions."""
    name = getattr(typing.get_origin(annotation), "_name", None)
    return name if name in ("NotRequired", "Required", "ReadOnly") else None


def _mapped(annotation: Any, path: str, around: tuple[type, ...]) -> Mapped:
    if _mark(annotation):
        return _mapped(typing.get_args(annotation)[0], path, around)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _annotated(parts, path, around)
    if origin in (Union, types.UnionType):
        return _optional(annotation, parts, path, around)
    if origin is list:
        return _list(_mapped(parts[0], f"{path}[]", around))
    if origin is dict:
        return _dict(parts, path, around)
    if origin is Literal and all(type(part) is str for part in parts):
        return Mapped(t.StringType())
    if annotation in _SIMPLE:
        return Mapped(_SIMPLE[annotation]())
    if annotation is uuid.UUID or _is_enum_of_texts(annotation):
        return Mapped(t.StringType(), make=annotation)
    if is_record(annotation):
        return _struct(annotation, path, around)
    raise _no_column(annotation, path)


def _no_column(annotation: Any, path: str) -> _NoColumn:
    text = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
    if not path:
        return _NoColumn(f"no column has the type {text}; {_REMEDY.replace('such a field', 'it')}")
    return _NoColumn(f"its field {path} is of type {text}, which no column has; {_REMEDY}")


def _annotated(parts: Sequence[Any], path: str, around: tuple[type, ...]) -> Mapped:
    """Return the type that is written in ``Annotated``, as DDL or a ``DataType``, if there is."""
    annotation, *metadata = parts
    given = next((one for one in metadata if isinstance(one, (str, t.DataType))), None)
    if given is None:
        return _mapped(annotation, path, around)
    try:
        data_type = parse_type(given, path)
    except PillarboxError as problem:
        raise _NoColumn(f"in its field {path}, {problem.parameters['reason']}") from None
    or_none = type(None) in typing.get_args(annotation)
    return Mapped(data_type, or_none, copier(data_type))


def _optional(annotation: Any, parts: Sequence[Any], path: str, around: Any) -> Mapped:
    others = [part for part in parts if part is not type(None)]
    if len(others) != 1:
        raise _no_column(annotation, path)
    return _mapped(others[0], path, around)._replace(or_none=True)


def _list(element: Mapped) -> Mapped:
    make = element.make and unless_none(element.make)
    return Mapped(
        t.ArrayType(element.data_type),
        make=(lambda values: [make(one) for one in values]) if make else list,
    )


def _dict(parts: Sequence[Any], path: str, around: tuple[type, ...]) -> Mapped:
    key = _mapped(parts[0], f"{path}{{key}}", around)
    item = _mapped(parts[1], f"{path}{{value}}", around)
    if key.or_none:
        raise _NoColumn(f"its field {path} has keys that may be None, which a map can't have")
    make_key, make_item = key.make or same, unless_none(item.make) if item.make else same
    is_same = key.make is None and item.make is None
    return Mapped(
        t.MapType(key.data_type, item.data_type),
        make=dict
        if is_same
        else lambda pairs: {make_key(one): make_item(other) for one, other in pairs.items()},
    )


def _is_enum_of_texts(annotation: Any) -> bool:
    return (
        isinstance(annotation, type)
        and issubclass(annotation, enum.Enum)
        and len(annotation) > 0
        and all(isinstance(one.value, str) for one in annotation)
    )


def _maker(kind: type, fields: dict[str, Mapped], absent: set[str]) -> Make:
    """Return the function from a row with the values in order to an object of ``kind``."""
    build = _builder(kind, list(fields), absent)
    makes = [one.make and unless_none(one.make) for one in fields.values()]
    if not any(makes):
        return build
    return lambda row: build(
        [value if make is None else make(value) for make, value in zip(makes, row, strict=True)]
    )


def _builder(kind: Any, names: list[str], absent: set[str]) -> Make:
    if _is_named(kind):
        return kind._make  # type: ignore[no-any-return]
    if _is_typed_dict(kind):
        return lambda values: {
            name: value
            for name, value in zip(names, values, strict=True)
            if value is not None or name not in absent
        }
    if is_model(kind):  # what is stored was checked when the object was made
        return lambda values: kind.model_construct(**dict(zip(names, values, strict=True)))
    taken = [(at, field) for at, field in enumerate(dataclasses.fields(kind)) if field.init]
    if len(taken) == len(names) and not any(field.kw_only for _, field in taken):
        return lambda values: kind(*values)
    return lambda values: kind(**{field.name: values[at] for at, field in taken})
