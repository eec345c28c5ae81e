"""The fields of rows and structs as users write them, by name.

A name that is no field is an error, since its value would be lost, and a misspelt one would leave
the intended field null. Answers of ``async_io`` may be a service's JSON with further keys: there
only a key that is nearly the name of a missing field is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as t

from .._base.names import is_nearly, nearest
from .._base.values import shown_value
from ..errors import PillarboxError, error, shown


@dataclass(frozen=True)
class Place:
    """The place of a value: its path in messages, and the error for a value that doesn't fit.

    In a ``lenient`` place keys that are no fields are left out. ``within`` are the names on the
    path, where it has more than one.
    """

    path: str = ""
    error: str = "RESULT_TYPE_MISMATCH"
    lenient: bool = False
    within: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns and fields on the path."""
        return self.within or ((self.path,) if self.path else ())

    @property
    def is_of_answer(self) -> bool:
        """True for what a function answers; False for what it is given."""
        return self.error == "RESULT_TYPE_MISMATCH"

    def inside(self, step: str) -> Place:
        """Return the place of a part of a value here, such as ``[]``."""
        return dataclasses.replace(self, path=self.path + step, within=self.names)

    def field(self, name: str) -> Place:
        """Return the place of a field of a struct here."""
        path = f"{self.path}.{name}" if self.path else name
        return dataclasses.replace(self, path=path, within=(*self.names, name))


def names_in(data_type: t.DataType) -> list[str]:
    """Return the names of all fields in a type, at any depth."""
    if isinstance(data_type, t.StructType):
        inner = [names_in(field.dataType) for field in data_type.fields]
        return [*data_type.names, *chain.from_iterable(inner)]
    if isinstance(data_type, t.ArrayType):
        return names_in(data_type.elementType)
    if isinstance(data_type, t.MapType):
        return names_in(data_type.keyType) + names_in(data_type.valueType)
    return names_in(data_type.sqlType()) if isinstance(data_type, t.UserDefinedType) else []


def is_model(kind: type) -> bool:
    """Return True for a model of pydantic 2, which is not imported."""
    fields = getattr(kind, "model_fields", None)
    return isinstance(fields, dict) and hasattr(kind, "__pydantic_validator__")


def attributes_of(kind: type) -> list[str] | None:
    """Return the fields of a dataclass or a model of pydantic; None for other classes."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    models: Any = kind
    return list(models.model_fields) if is_model(kind) else None


class Getters(dict[type, "Callable[[Any], tuple[Any, ...]] | None"]):
    """By class, the function from its objects to the values of ``names``, made once.

    It is None for classes whose objects don't have exactly these attributes as fields. At most
    ``MOST`` classes are held: a function may make a class in each call.
    """

    MOST = 100

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
        held, names = attributes_of(kind), self._names
        getter = None
        if names and held is not None and sorted(held) == sorted(names):
            get = attrgetter(*names)
            getter = get if len(names) > 1 else lambda value: (get(value),)
        if len(self) >= self.MOST:
            self.clear()
        self[kind] = getter
        return getter


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a dict, a ``Row`` with names, a dataclass, a model or a record.

    A model is one of pydantic, a record what a database's driver gives for a row. The result is
    None for other values.
    """
    if isinstance(value, dict):
        return value
    if isinstance(value, Row) and hasattr(value, "__fields__"):
        return dict(zip(value.__fields__, value, strict=False))
    held = attributes_of(type(value))
    if held is None and _is_record(type(value)):
        return dict(value)
    return None if held is None else {name: getattr(value, name) for name in held}


def _is_record(kind: type) -> bool:
    """Return True where ``dict(value)`` works by names; columns of pandas are no rows."""
    return hasattr(kind, "keys") and hasattr(kind, "__getitem__") and not hasattr(kind, "__array__")


def fields_of(value: Any, names: Sequence[str], place: Place) -> list[Any] | None:
    """Return the values of ``names`` in ``value``, None for those it lacks.

    The result is None if ``value`` has no names, or, in a lenient place, no name of a field. Raises
    ``ResultTypeMismatch`` (UNKNOWN_FIELD, FIELD_TWICE).
    """
    named = as_mapping(value)
    if named is None:
        return None
    if isinstance(value, Row) and len(named) < len(value.__fields__):
        names_of_row = value.__fields__
        key = next(name for at, name in enumerate(names_of_row) if name in names_of_row[:at])
        raise error("FIELD_TWICE", key=key, value=shown_value(value, (*place.names, *names)))
    missing = [name for name in names if name not in named]
    unknown = [key for key in named if key not in names]
    for key in unknown:
        if not place.lenient or _is_meant(key, missing):
            raise _unknown(key, names, missing, place, value)
    if unknown and len(missing) == len(names):
        return None
    return [named.get(name) for name in names]


def items_of(value: Any, count: int) -> tuple[Any, ...] | None:
    """Return the items of a tuple of ``count`` items; None for other values.

    The result is a plain tuple, since a subclass may give fewer items than it counts.
    """
    items = tuple(value) if isinstance(value, tuple) else None
    return items if items is not None and len(items) == count else None


def _is_meant(key: object, missing: Sequence[str]) -> bool:
    return isinstance(key, str) and any(is_nearly(key, name) for name in missing)


def _named(place: Place) -> str:
    if not place.path:
        return ""
    return f" of state {place.path}" if place.error.startswith("STATE") else f" of {place.path}"


def _unknown(
    key: object, names: Sequence[str], missing: Sequence[str], place: Place, value: object
) -> PillarboxError:
    return error(
        "UNKNOWN_FIELD",
        key=shown(key),
        place=_named(place),
        nearest=nearest(str(key), missing or names) or "none",
        columns=", ".join(names),
        value=shown_value(value, (*place.names, *names)),
        found=type(value).__name__,
    )
