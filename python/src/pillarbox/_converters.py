"""One value of a function's answer to what Arrow takes, strictly, by Spark type.

A widening that loses nothing is done (int to double, int to decimal); anything else is refused
with the column, the expected type and the value found. numpy scalars and arrays count as the
Python values they hold.
"""

from __future__ import annotations

import array
import dataclasses
import datetime
import decimal
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as t

from .errors import EXITS, PillarboxError, error, shown

Converter = Callable[[Any], Any]


class _Refused(Exception):
    """A value that doesn't fit; turned to a ResultTypeMismatch that knows the column's path."""


def mismatch(path: str, expected: str, value: object) -> PillarboxError:
    """RESULT_TYPE_MISMATCH for the value at ``path``."""
    return error(
        "RESULT_TYPE_MISMATCH",
        column=path,
        expected=expected,
        value=shown(value),
        found=type(value).__name__,
    )


def converter(data_type: t.DataType, nullable: bool, path: str) -> Converter:
    """A function from a Python value to what ``pyarrow.array`` takes for ``data_type``.

    It raises ``ResultTypeMismatch`` naming ``path`` (``address.city``, ``tags[]``, ``m{key}``).
    """
    convert = _nested(data_type, path) or _leaf(data_type)
    expected = data_type.simpleString() + ("" if nullable else " and not null")

    def checked(value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise mismatch(path, expected, value)
        try:
            return convert(value.tolist() if type(value).__module__ == "numpy" else value)
        except (_Refused, TypeError, ValueError, OverflowError, decimal.InvalidOperation) as no:
            if isinstance(no, PillarboxError):
                raise
            raise mismatch(path, expected, value) from None
        except EXITS:
            raise
        except BaseException as broken:  # of the value's own methods
            raise mismatch(path, expected, value) from broken

    return checked


def _require(fits: bool) -> None:
    if not fits:
        raise _Refused


def _only(*kinds: type) -> Converter:
    def convert(value: Any) -> Any:
        _require(isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds))
        return value

    return convert


def _integer(bits: int) -> Converter:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        _require(isinstance(value, int) and not isinstance(value, bool))
        _require(-limit <= value < limit)
        return int(value)

    return convert


def _floating(value: Any) -> float:
    _require(isinstance(value, (float, int)) and not isinstance(value, bool))
    return float(value)


def _string(value: Any) -> str:
    _require(isinstance(value, str))
    value.encode()  # a lone surrogate is no text
    return str(value)


def _binary(value: Any) -> bytes:
    _require(isinstance(value, (bytes, bytearray, memoryview)))
    return bytes(value)


def _date(value: Any) -> datetime.date:
    _require(isinstance(value, datetime.date) and not isinstance(value, datetime.datetime))
    return value  # type: ignore[no-any-return]


def _timestamp(value: Any) -> datetime.datetime:
    _require(isinstance(value, datetime.datetime))
    return value.astimezone(datetime.timezone.utc)  # type: ignore[no-any-return]


def _timestamp_ntz(value: Any) -> datetime.datetime:
    _require(isinstance(value, datetime.datetime) and value.tzinfo is None)
    return value  # type: ignore[no-any-return]


def _decimal(data_type: t.DecimalType) -> Converter:
    unit = decimal.Decimal(1).scaleb(-data_type.scale)
    context = decimal.Context(prec=data_type.precision, rounding=decimal.ROUND_HALF_EVEN)

    def convert(value: Any) -> decimal.Decimal:
        _require(isinstance(value, (decimal.Decimal, int)) and not isinstance(value, bool))
        number = decimal.Decimal(value)
        _require(number.is_finite())
        return number.quantize(unit, context=context)

    return convert


def _leaf(data_type: t.DataType) -> Converter:
    for kind, convert in _LEAVES:
        if isinstance(data_type, kind):
            return convert
    if isinstance(data_type, t.DecimalType):
        return _decimal(data_type)
    if isinstance(data_type, (t.VariantType, t.GeographyType, t.GeometryType)):
        return _internal(data_type)
    raise error("UNSUPPORTED_TYPE", column="?", place="returns", data_type=str(data_type))


def _internal(data_type: Any) -> Converter:
    kinds = {t.VariantType: t.VariantVal, t.GeographyType: t.Geography, t.GeometryType: t.Geometry}
    accepts = _only(kinds[type(data_type)])

    def convert(value: Any) -> Any:
        parts = data_type.toInternal(accepts(value))
        for name, part in parts.items():  # what Spark would fail on, and with it the task
            _require(isinstance(part, int if name == "srid" else bytes))
        return parts

    return convert


_LEAVES: list[tuple[type, Converter]] = [
    (t.StringType, _string),
    (t.BooleanType, _only(bool)),
    (t.ByteType, _integer(8)),
    (t.ShortType, _integer(16)),
    (t.IntegerType, _integer(32)),
    (t.LongType, _integer(64)),
    (t.FloatType, _floating),
    (t.DoubleType, _floating),
    (t.BinaryType, _binary),
    (t.DateType, _date),
    (t.TimestampType, _timestamp),
    (t.TimestampNTZType, _timestamp_ntz),
    (t.DayTimeIntervalType, _only(datetime.timedelta)),
    (t.TimeType, _only(datetime.time)),
    (t.NullType, _only()),
]


def _nested(data_type: t.DataType, path: str) -> Converter | None:
    if isinstance(data_type, t.ArrayType):
        return _array(data_type, path)
    if isinstance(data_type, t.MapType):
        return _map(data_type, path)
    if isinstance(data_type, t.StructType):
        return _struct(data_type, path)
    if isinstance(data_type, t.UserDefinedType):
        return _user_defined(data_type, path)
    return None


def _array(data_type: t.ArrayType, path: str) -> Converter:
    element = converter(data_type.elementType, data_type.containsNull, path + "[]")

    def convert(value: Any) -> list[Any]:
        _require(isinstance(value, (list, tuple, array.array)))
        return [element(one) for one in value]

    return convert


def _map(data_type: t.MapType, path: str) -> Converter:
    key = converter(data_type.keyType, False, path + "{key}")
    item = converter(data_type.valueType, data_type.valueContainsNull, path + "{value}")

    def convert(value: Any) -> list[tuple[Any, Any]]:
        _require(isinstance(value, dict))
        return [(key(one), item(other)) for one, other in value.items()]

    return convert


def _struct(data_type: t.StructType, path: str) -> Converter:
    names = data_type.names
    fields = [converter(f.dataType, f.nullable, f"{path}.{f.name}") for f in data_type.fields]

    def convert(value: Any) -> dict[str, Any]:
        named = as_mapping(value)
        if named is not None:
            _require(not named or any(name in named for name in names))
            values = [named.get(name) for name in names]
        else:
            _require(isinstance(value, tuple) and len(value) == len(names))
            values = value
        return {n: field(one) for n, field, one in zip(names, fields, values, strict=True)}

    return convert


def _user_defined(data_type: t.UserDefinedType, path: str) -> Converter:
    stored = converter(data_type.sqlType(), True, path)

    def convert(value: Any) -> Any:
        try:
            inner = data_type.serialize(value)
        except Exception:
            raise _Refused from None
        return stored(inner)

    return convert


def as_mapping(value: Any) -> dict[str, Any] | None:
    """A dict, a ``Row`` with names or a dataclass as a dict of its fields; None for the rest."""
    if isinstance(value, dict):
        return value
    if isinstance(value, t.Row) and hasattr(value, "__fields__"):
        return dict(zip(value.__fields__, value, strict=False))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None
