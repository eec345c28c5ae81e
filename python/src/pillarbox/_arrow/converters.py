"""Strict conversion of one value of a function's answer to Arrow's input, by Spark type.

Kind and magnitude never change; precision is rounded where Spark's own casts round it: an int in
a double, a double in a float, more digits of a decimal (half up), nanoseconds (cut). Any other
value is refused with its place, the expected type and the value found. numpy scalars and arrays
count as the Python values they hold.
"""

from __future__ import annotations

import array
import datetime
import decimal
import enum
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import types as t

from .._base.spark_versions import sql_type
from .._base.values import shown_value
from ..errors import EXITS, PillarboxError, error
from .fields import Getters, Place, fields_of, items_of, names_in

Converter = Callable[[Any], Any]

_SINGLE = struct.Struct("<f")
_LARGEST_INTERVAL = datetime.timedelta(microseconds=2**63 - 1)


class _Refused(Exception):
    """A value that doesn't fit; it becomes a ResultTypeMismatch with the column's path."""


def mismatch(
    place: Place, data_type: t.DataType, value: object, expected: str | None = None
) -> PillarboxError:
    """Return the error for a value that can't be at ``place``, where ``data_type`` is expected."""
    return error(
        place.error,
        column=place.path,
        expected=expected or data_type.simpleString(),
        value=shown_value(value, (*place.names, *names_in(data_type))),
        found=type(value).__name__,
    )


def converter(data_type: t.DataType, nullable: bool, place: Place) -> Converter:
    """Return a function from a Python value to the input of ``pyarrow.array`` for ``data_type``.

    It raises ``ResultTypeMismatch`` naming the place (``address.city``, ``tags[]``, ``m{key}``).
    """
    convert = _nested(data_type, place) or _leaf(data_type)

    def checked(value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise null_mismatch(place, data_type)
        try:
            if type(value).__module__ == "numpy":
                return convert(_from_numpy(value))
            return convert(value)
        except (_Refused, TypeError, ValueError, OverflowError, decimal.InvalidOperation) as no:
            if isinstance(no, PillarboxError):
                raise
            raise mismatch(place, data_type, value) from None
        except EXITS:
            raise
        except BaseException as broken:  # raised by the value's own methods
            raise mismatch(place, data_type, value) from broken

    return checked


def null_mismatch(place: Place, data_type: t.DataType) -> PillarboxError:
    """Return the error for a null where none can be."""
    return mismatch(place, data_type, None, f"{data_type.simpleString()} and not null")


def same(value: Any) -> Any:
    return value


def unless_none(convert: Converter) -> Converter:
    """Return the same function, which leaves None as it is."""
    return lambda value: None if value is None else convert(value)


def _require(fits: bool) -> None:
    if not fits:
        raise _Refused


def _from_numpy(value: Any) -> Any:
    """Return the equal Python value or list."""
    kind = value.dtype.kind if hasattr(value, "dtype") else ""
    if kind in ("m", "M"):
        # ``tolist`` returns bare numbers for finer units and for months.
        name = value.dtype.name
        if name.endswith(("[ns]", "[ps]", "[fs]", "[as]")):
            value = value.astype(f"{kind}8[us]")
        _require(kind == "M" or not name.endswith(("timedelta64", "[Y]", "[M]")))
    _require(hasattr(value, "tolist"))
    return value.tolist()


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
        return int.__index__(value)

    return convert


def _double(value: Any) -> float:
    _require(isinstance(value, (float, int)) and not isinstance(value, bool))
    return float(value)


def _float(value: Any) -> float:
    number = _double(value)
    _SINGLE.pack(number)  # OverflowError for a number that would become infinite
    return number


def _string(value: Any) -> str:
    if value.__class__ is not str:
        value = _text(value)
    value.encode()  # a lone surrogate is no text
    return str.__str__(value)  # str() of an enum would be its name


def _text(value: Any) -> str:
    """Return the text that a UUID or a member of an ``Enum`` stands for, or a subclass of str."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, enum.Enum):
        value = value.value
    _require(isinstance(value, str))
    return value  # type: ignore[no-any-return]


def _binary(value: Any) -> bytes:
    _require(isinstance(value, (bytes, bytearray, memoryview)))
    return bytes(value)


def _date(value: Any) -> datetime.date:
    _require(isinstance(value, datetime.date) and not isinstance(value, datetime.datetime))
    return datetime.date(value.year, value.month, value.day)


def _timestamp(value: Any) -> datetime.datetime:
    return _datetime(value).astimezone(datetime.timezone.utc)


def _timestamp_ntz(value: Any) -> datetime.datetime:
    moment = _datetime(value)
    _require(moment.tzinfo is None)
    return moment


def _datetime(value: Any) -> datetime.datetime:
    """Return a plain datetime; those of pandas have nanoseconds, and a NaT."""
    if value.__class__ is datetime.datetime:
        return value
    _require(isinstance(value, datetime.datetime))
    date = (value.year, value.month, value.day)
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime.datetime(*date, *clock, value.tzinfo, fold=value.fold)


def _interval(value: Any) -> datetime.timedelta:
    _require(isinstance(value, datetime.timedelta))
    _require(-_LARGEST_INTERVAL <= value <= _LARGEST_INTERVAL)
    return datetime.timedelta(value.days, value.seconds, value.microseconds)


def _time(value: Any) -> datetime.time:
    _require(isinstance(value, datetime.time) and value.tzinfo is None)
    return value  # type: ignore[no-any-return]


def _decimal(data_type: t.DecimalType) -> Converter:
    unit = decimal.Decimal(1).scaleb(-data_type.scale)
    traps = [decimal.InvalidOperation]
    context = decimal.Context(prec=data_type.precision, traps=traps, rounding=decimal.ROUND_HALF_UP)

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
    for kind, values, _ in _INTERNAL:
        if isinstance(data_type, kind):
            return _internal(data_type, values)
    raise error("UNSUPPORTED_TYPE", column="?", place="returns", data_type=str(data_type))


def _internal(data_type: Any, values: type) -> Converter:
    accepts = _only(values)

    def convert(value: Any) -> Any:
        parts = data_type.toInternal(accepts(value))
        for name, part in parts.items():  # another type would fail Spark's writer, and so the task
            _require(isinstance(part, int if name == "srid" else bytes))
        return parts

    return convert


# The values of these types are objects of PySpark, and travel as structs of their arguments.
_INTERNAL: list[tuple[type, type, tuple[str, str]]] = [
    (t.VariantType, t.VariantVal, ("value", "metadata")),
    (sql_type("GeographyType"), sql_type("Geography"), ("wkb", "srid")),
    (sql_type("GeometryType"), sql_type("Geometry"), ("wkb", "srid")),
]


def object_of_parts(data_type: t.DataType) -> Callable[[dict[str, Any]], Any] | None:
    """Return the way from what a converter made back to an object; None for other types.

    PySpark's own way back knows other names of the parts of geometries.
    """
    for kind, make, names in _INTERNAL:
        if isinstance(data_type, kind):
            return lambda parts: make(*(parts[name] for name in names))
    return None


_LEAVES: list[tuple[type, Converter]] = [
    (t.StringType, _string),
    (t.BooleanType, _only(bool)),
    (t.ByteType, _integer(8)),
    (t.ShortType, _integer(16)),
    (t.IntegerType, _integer(32)),
    (t.LongType, _integer(64)),
    (t.FloatType, _float),
    (t.DoubleType, _double),
    (t.BinaryType, _binary),
    (t.DateType, _date),
    (t.TimestampType, _timestamp),
    (t.TimestampNTZType, _timestamp_ntz),
    (t.DayTimeIntervalType, _interval),
    (sql_type("TimeType"), _time),
    (t.NullType, _only()),
]


def _nested(data_type: t.DataType, place: Place) -> Converter | None:
    if isinstance(data_type, t.ArrayType):
        return _array(data_type, place)
    if isinstance(data_type, t.MapType):
        return _map(data_type, place)
    if isinstance(data_type, t.StructType):
        return _struct(data_type, place)
    if isinstance(data_type, t.UserDefinedType):
        return _user_defined(data_type, place)
    return None


def _array(data_type: t.ArrayType, place: Place) -> Converter:
    element = converter(data_type.elementType, data_type.containsNull, place.inside("[]"))

    def convert(value: Any) -> list[Any]:
        _require(isinstance(value, (list, tuple, array.array)))
        return [element(one) for one in value]

    return convert


_ROUNDED_KEYS = (
    t.StringType,
    t.DecimalType,
    t.FloatType,
    t.DoubleType,
    t.TimestampType,
    t.TimestampNTZType,
)


def _map(data_type: t.MapType, place: Place) -> Converter:
    key = converter(data_type.keyType, False, place.inside("{key}"))
    item = converter(data_type.valueType, data_type.valueContainsNull, place.inside("{value}"))
    # Keys of a dict that differ may be one in the column: Decimals that are rounded, a UUID and
    # its text.
    may_coincide = isinstance(data_type.keyType, _ROUNDED_KEYS)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        _require(isinstance(value, dict))
        pairs = [(key(one), item(other)) for one, other in value.items()]
        if may_coincide:
            _require(len({one if one == one else None for one, _ in pairs}) == len(pairs))
        return pairs

    return convert


def _struct(data_type: t.StructType, place: Place) -> Converter:
    names = data_type.names
    in_order = struct_fields(data_type, place)
    fields = [converter(f.dataType, f.nullable, place.field(f.name)) for f in data_type.fields]

    def convert(value: Any) -> dict[str, Any]:
        values = in_order(value)
        return {n: field(one) for n, field, one in zip(names, fields, values, strict=True)}

    return convert


def struct_fields(data_type: t.StructType, place: Place) -> Callable[[Any], Sequence[Any]]:
    """Return a function from a struct as users write it (not None) to its values in order.

    It raises ``ResultTypeMismatch`` for anything but a struct of these fields.
    """
    names = data_type.names
    getters = Getters(names)

    def in_order(value: Any) -> Sequence[Any]:
        getter = getters[type(value)]
        if getter is not None:
            return getter(value)
        named = fields_of(value, names, place)
        if named is not None:
            return named
        values = items_of(value, len(names))
        if values is None:
            raise mismatch(place, data_type, value)
        return values

    return in_order


def _user_defined(data_type: t.UserDefinedType, place: Place) -> Converter:
    stored = converter(data_type.sqlType(), True, place)

    def convert(value: Any) -> Any:
        try:
            inner = data_type.serialize(value)
        except Exception:
            raise _Refused from None
        return stored(inner)

    return convert
