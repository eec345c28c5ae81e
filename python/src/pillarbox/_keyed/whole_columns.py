"""The columns that a function of the column form returns, converted by the rules for single values.

The rules are those of ``_arrow.converters``. Where one cast of Arrow follows them it is used, as it
is a hundred times as fast. A column that the cast refuses is converted value by value, which
rounds, or names the value that doesn't fit.
"""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from .._arrow.converters import mismatch, null_mismatch
from .._arrow.fields import Place, fields_of, names_in
from .._arrow.results import wrong_shape
from .._arrow.writers import has_infinity, list_writer
from .._base.spark_versions import sql_type
from ..errors import error

_Cast = Callable[[pa.Array, pa.DataType], pa.Array]
_Pairs = list[tuple[pa.DataType, t.DataType]]

_FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError)


class ColumnConverter:
    """Makes arrays of exactly ``arrow_type``; made once a task."""

    def __init__(self, field: t.StructField, arrow_type: pa.DataType, place: Place) -> None:
        self._data_type = field.dataType
        self._nullable = field.nullable
        self._type = arrow_type
        self._place = place
        self._write = list_writer(field.dataType, arrow_type, place, field.nullable)
        self._has_required = _has_required(field.dataType)

    def array(self, values: Any) -> pa.Array:
        """Convert ``values`` (an Arrow or numpy array, a Series or a list) to one array.

        Raises ``ResultTypeMismatch`` for a value that doesn't fit.
        """
        made = _array_or_list(values)
        if made is None:
            expected = f"an array or list of {self._data_type.simpleString()}"
            raise mismatch(self._place, self._data_type, values, expected)
        return self._write(made) if isinstance(made, list) else self._converted(made)

    def _converted(self, column: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if _lacks_zone(column.type, self._data_type):
            raise error("TIMESTAMP_WITHOUT_ZONE", column=self._place.path, found=str(column.type))
        exact = column if column.type == self._type else self._cast(column)
        if exact is None or (self._has_required and _has_nulls_inside(exact, self._data_type)):
            return self._one_by_one(column)
        if exact.null_count and not self._nullable:
            raise null_mismatch(self._place, self._data_type)
        return exact

    def _cast(self, column: pa.Array) -> pa.Array | None:
        cast = _cast_of(column.type, self._data_type)
        try:
            return cast and cast(column, self._type)
        except pa.ArrowException:
            return None

    def _one_by_one(self, column: pa.Array) -> pa.Array:
        try:
            values = column.to_pylist(maps_as_pydicts="strict")
        except _FAILURES:  # a value that Python can't represent
            raise mismatch(self._place, self._data_type, column) from None
        return self._write(values)


class BatchAcceptor:
    """Converts the answers of ``process`` of the column form; made once a task."""

    def __init__(self, returns: t.StructType, schema: pa.Schema) -> None:
        self._returns = returns
        self._schema = schema
        self._converters = [
            ColumnConverter(field, arrow.type, Place(field.name))
            for field, arrow in zip(returns.fields, schema, strict=True)
        ]

    def batch(self, answer: Any) -> pa.RecordBatch | None:
        """Return a batch with exactly the schema; None for no rows.

        Raises ``ResultTypeMismatch`` for a name that is no column, a column that is missing, a
        value that doesn't fit, or unequal lengths.
        """
        if answer is None:
            return None
        given = fields_of(self._named(answer), self._returns.names, Place())
        assert given is not None
        pairs = zip(given, self._converters, strict=True)
        arrays = [converter.array(values) for values, converter in pairs]
        lengths = list(map(len, arrays))
        if len(set(lengths)) > 1:
            raise error(
                "RESULT_TYPE_MISMATCH",
                column=", ".join(self._returns.names),
                expected="columns of one length",
                value=str(lengths),
                found="list",
            )
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _named(self, answer: Any) -> dict[str, Any]:
        if isinstance(answer, dict):
            return answer
        if not isinstance(answer, (pa.RecordBatch, pa.Table)):
            expected = "a RecordBatch, a Table or a dict of columns"
            advice = "Return None for no rows."
            raise wrong_shape(expected, answer, advice, names_in(self._returns))
        columns = dict(zip(answer.schema.names, answer.columns, strict=True))
        if len(columns) < answer.num_columns:
            expected, advice = "columns of different names", "Rename or drop one of each two."
            raise wrong_shape(expected, answer, advice, names_in(self._returns))
        return columns


def _array_or_list(values: Any) -> pa.Array | list[Any] | None:
    """Return an array, a list for Python objects (whose rules need their classes), or None."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, (pa.Array, list)):
        return values
    if isinstance(values, (tuple, array.array)):
        return list(values)
    if isinstance(values, (str, bytes, dict, set)):
        return None
    if str(getattr(values, "dtype", "")) == "object":
        missing = values.isna() if hasattr(values, "isna") else [one is None for one in values]
        return [None if gone else one for one, gone in zip(values, missing, strict=True)]
    try:
        return pa.array(values)
    except _FAILURES:
        return None


def _lacks_zone(found: pa.DataType, wanted: t.DataType) -> bool:
    """Return True if times without a zone stand where instants are wanted."""
    if isinstance(wanted, t.TimestampType):
        return bool(pa.types.is_timestamp(found) and found.tz is None)
    return any(_lacks_zone(*pair) for pair in _children(found, wanted) or ())


def _children(found: pa.DataType, wanted: t.DataType) -> _Pairs | None:
    """Return pairs of the types inside; None where no cast is possible."""
    if isinstance(wanted, t.ArrayType) and _is_list(found):
        return [(found.value_type, wanted.elementType)]
    if isinstance(wanted, t.MapType) and pa.types.is_map(found):
        return [(found.key_type, wanted.keyType), (found.item_type, wanted.valueType)]
    if isinstance(wanted, t.StructType) and pa.types.is_struct(found):
        fields = [found.field(index) for index in range(found.num_fields)]
        if [field.name for field in fields] == wanted.names:
            return [(f.type, w.dataType) for f, w in zip(fields, wanted.fields, strict=True)]
    return None


def _is_list(found: pa.DataType) -> bool:
    is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
    return bool(is_list or pa.types.is_fixed_size_list(found))


def _cast_of(found: pa.DataType, wanted: t.DataType) -> _Cast | None:
    """Return a cast that fails or equals the conversion of single values; None without one."""
    if isinstance(wanted, t.FloatType) and pa.types.is_float64(found):
        return _to_floats
    if isinstance(wanted, t.DecimalType):
        is_number = pa.types.is_decimal(found) or pa.types.is_integer(found)
        return _to_decimals if is_number else None
    return pa.Array.cast if _is_safe(found, wanted) else None


def _is_safe(found: pa.DataType, wanted: t.DataType) -> bool:
    if pa.types.is_null(found):
        return True
    if isinstance(wanted, t.UserDefinedType):
        return _is_safe(found, wanted.sqlType())
    for kind, fits in _SAFE:
        if isinstance(wanted, kind):
            return fits(found)
    children = _children(found, wanted)
    return children is not None and all(_is_safe(*pair) for pair in children)


_SAFE: list[tuple[type[t.DataType], Callable[[pa.DataType], bool]]] = [
    (t.IntegralType, pa.types.is_integer),
    (t.FloatType, lambda found: pa.types.is_float16(found) or pa.types.is_float32(found)),
    (t.DoubleType, lambda found: pa.types.is_floating(found) or pa.types.is_integer(found)),
    (t.BooleanType, pa.types.is_boolean),
    (t.StringType, lambda found: found in (pa.string(), pa.large_string(), pa.string_view())),
    (t.BinaryType, lambda found: found in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (t.DateType, pa.types.is_date),
    (t.TimestampType, lambda found: pa.types.is_timestamp(found) and found.tz is not None),
    (t.TimestampNTZType, lambda found: pa.types.is_timestamp(found) and found.tz is None),
    (t.DayTimeIntervalType, pa.types.is_duration),
    (sql_type("TimeType"), pa.types.is_time),
]


def _to_floats(column: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    floats = column.cast(arrow_type)
    return None if has_infinity(floats) else floats


def _to_decimals(column: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Round half up, by way of the widest type, in which rounding can't overflow."""
    scale = 0 if pa.types.is_integer(column.type) else column.type.scale
    wide = column.cast(pa.decimal256(76, scale))
    if scale > arrow_type.scale:
        wide = pc.round(wide, arrow_type.scale, "half_towards_infinity")
    return wide.cast(arrow_type)


def _has_required(data_type: t.DataType) -> bool:
    """Return True if some part inside the type can't be null."""
    if isinstance(data_type, t.UserDefinedType):
        return _has_required(data_type.sqlType())
    if isinstance(data_type, t.ArrayType):
        return not data_type.containsNull or _has_required(data_type.elementType)
    if isinstance(data_type, t.MapType):
        return not data_type.valueContainsNull or _has_required(data_type.valueType)
    if isinstance(data_type, t.StructType):
        return any(not f.nullable or _has_required(f.dataType) for f in data_type.fields)
    return False


def _has_nulls_inside(column: pa.Array, data_type: t.DataType) -> bool:
    """Return True if a part that can't be null has one; maps are checked beyond their slice too."""
    if isinstance(data_type, t.UserDefinedType):
        return _has_nulls_inside(column, data_type.sqlType())
    if isinstance(data_type, t.ArrayType):
        parts = [(column.flatten(), data_type.elementType, data_type.containsNull)]
    elif isinstance(data_type, t.MapType):
        parts = [(column.items, data_type.valueType, data_type.valueContainsNull)]
    elif isinstance(data_type, t.StructType):
        children = column.drop_null().flatten()
        fields = [(field.dataType, field.nullable) for field in data_type.fields]
        parts = [(child, *field) for child, field in zip(children, fields, strict=True)]
    else:
        return False
    return any(
        (part.null_count and not nullable) or _has_nulls_inside(part, inner)
        for part, inner, nullable in parts
    )
