"""The table of conversions, in every form in which a function gives values out; without Spark."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

import pillarbox as pb
from conversions import CASES, REFUSED, UTC, ZONE, Case
from keyed.support import AtKeys
from pillarbox._arrow.ddl import parse_type
from pillarbox._arrow.results import ResultEncoder
from pillarbox._base.spark_versions import in_utc
from pillarbox._keyed.output import RowsEncoder
from pillarbox._keyed.whole_columns import BatchAcceptor
from pillarbox.testing import KeyedHarness

Form = Callable[[t.StructType, Any], Any]


@pytest.fixture(autouse=True, scope="module")
def _zone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", ZONE)
        time.tzset()
        yield
    time.tzset()


def arrow(schema: t.StructType) -> pa.Schema:
    return to_arrow_schema(schema, **in_utc(to_arrow_schema))


def async_row(schema: t.StructType, value: Any) -> Any:
    encoded = ResultEncoder(schema, arrow(schema), explode=False).encode([(value,)])
    if encoded.mismatches:
        raise encoded.mismatches[0]
    return encoded.batch.column(0)[0].as_py()


def async_row_among_others(schema: t.StructType, value: Any) -> Any:
    """As an answer is that came together with one that doesn't fit."""
    encoded = ResultEncoder(schema, arrow(schema), explode=False).encode([(object(),), (value,)])
    if 1 in encoded.mismatches:
        raise encoded.mismatches[1]
    return encoded.batch.column(0)[0].as_py()


def keyed_row(schema: t.StructType, value: Any) -> Any:
    return RowsEncoder(schema, {}, arrow(schema)).encode([(value,)], ()).column(0)[0].as_py()


class Emits(pb.KeyedProcessFunction):
    def __init__(self, value: Any, tag: str | None) -> None:
        self.value, self.tag = value, tag

    def process(self, row: Any, ctx: Any) -> Any:
        if self.tag is None:
            yield (self.value,)
        else:
            ctx.output(self.tag, (self.value,))


def harness(schema: t.StructType, value: Any) -> Any:
    made = KeyedHarness(Emits(value, None), by="k", schema="k string", returns=schema)
    return made.process(("a",))[0][0]


def side_output(schema: t.StructType, value: Any) -> Any:
    sides = {"side": schema}
    fn = Emits(value, "side")
    made = KeyedHarness(fn, by="k", schema="k string", returns="x int", side_outputs=sides)
    made.process(("a",))
    return made.side_output("side")[0][0]


def state(schema: t.StructType, value: Any) -> Any:
    handle = AtKeys(lambda ctx: ctx.value_state("s", schema.fields[0].dataType)).at()
    handle.update(value)
    return handle.value()


def element_of_a_list_state(schema: t.StructType, value: Any) -> Any:
    handle = AtKeys(lambda ctx: ctx.list_state("s", schema.fields[0].dataType)).at()
    handle.add(value)
    return handle.get()[0]


def inside_a_struct(schema: t.StructType, value: Any) -> Any:
    outer = t.StructType([t.StructField("s", t.StructType(schema.fields))])
    return async_row(outer, {"v": value})["v"]


def inside_an_array(schema: t.StructType, value: Any) -> Any:
    outer = t.StructType([t.StructField("s", t.ArrayType(schema.fields[0].dataType))])
    return keyed_row(outer, [value, value])[1]


def column(schema: t.StructType, values: Any) -> Any:
    """The column form, with ``values`` as what the function made."""
    batch = BatchAcceptor(schema, arrow(schema)).batch({"v": values})
    assert batch is not None
    assert batch.schema == arrow(schema)
    batch.validate(full=True)
    return batch.column(0)[0].as_py()


def column_of_a_list(schema: t.StructType, value: Any) -> Any:
    return column(schema, [value])


FORMS: list[Form] = [
    async_row,
    async_row_among_others,
    keyed_row,
    harness,
    side_output,
    state,
    element_of_a_list_state,
    inside_a_struct,
    inside_an_array,
    column_of_a_list,
]


def outcome(form: Form, case: Case) -> Any:
    schema = t.StructType([t.StructField("v", parse_type(case.type, "type"))])
    try:
        return comparable(form(schema, case.value), schema.fields[0].dataType)
    except pb.ResultTypeMismatch:
        return REFUSED


def comparable(value: Any, data_type: t.DataType) -> Any:
    """Timestamps as instants, rows as dicts, maps as their entries."""
    if isinstance(data_type, t.TimestampType) and isinstance(value, dt.datetime):
        return value.astimezone(UTC)
    if isinstance(value, Row):
        return {
            field.name: comparable(one, field.dataType)
            for field, one in zip(data_type.fields, value, strict=True)  # type: ignore[attr-defined]
        }
    if isinstance(data_type, t.ArrayType) and isinstance(value, list):
        return [comparable(one, data_type.elementType) for one in value]
    is_map = isinstance(data_type, t.MapType) and isinstance(value, dict)
    return list(value.items()) if is_map else value


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_a_value_becomes_the_same_in_every_form(form: Form, case: Case) -> None:
    found = outcome(form, case)
    assert found == case.becomes
    if case.becomes is not REFUSED:
        assert type(found) is type(case.becomes)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_column_becomes_what_its_values_become(case: Case) -> None:
    """As an Arrow and a numpy array, where there can be one of such values."""
    for made in columns_of(case.value):
        wanted = case.becomes
        if case.type == "timestamp" and lacks_zone(made):
            wanted = REFUSED
        assert outcome(lambda schema, _, made=made: column(schema, made), case) == wanted


def columns_of(value: Any) -> Iterator[Any]:
    """None where Arrow or numpy itself makes something else of the value."""
    try:
        typed = pa.array([value])
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return
    if isinstance(value, dt.time) and value.tzinfo is not None:
        return
    yield typed
    yield pa.chunked_array([typed])
    if not pa.types.is_nested(typed.type):
        yield typed.dictionary_encode()
    array = np.array([value])
    if array.dtype != object and array.ndim == 1 and array[0] == value:
        yield array


def lacks_zone(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return column.dtype.kind == "M"
    kind = column.type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def test_a_column_of_times_without_a_zone_is_refused_with_what_to_do() -> None:
    schema = t.StructType().add("v", "timestamp").add("vs", t.ArrayType(t.TimestampType()))
    accept = BatchAcceptor(schema, arrow(schema)).batch
    noon = dt.datetime(2024, 6, 1, 12)
    for columns in (
        {"v": np.array(["2024-06-01"], "datetime64[us]"), "vs": [[]]},
        {"v": [noon], "vs": pa.array([[noon]])},
    ):
        with pytest.raises(pb.ResultTypeMismatch, match=r"TIMESTAMP_WITHOUT_ZONE.*assume_timezone"):
            accept(columns)


DECIMALS = st.decimals(-(10**12), 10**12, places=8, allow_nan=False)


@given(st.lists(st.none() | DECIMALS, min_size=1), st.integers(0, 10), st.integers(1, 38))
def test_decimals_of_a_column_are_rounded_as_each_alone(
    values: list[Any], scale: int, precision: int
) -> None:
    data_type = t.DecimalType(max(precision, scale), scale)
    schema = t.StructType([t.StructField("v", data_type)])
    typed = pa.array(values, pa.decimal128(38, 8))
    try:
        alone = [keyed_row(schema, value) for value in values]
    except pb.ResultTypeMismatch:
        with pytest.raises(pb.ResultTypeMismatch):
            column(schema, typed)
        return
    assert BatchAcceptor(schema, arrow(schema)).batch({"v": typed}).column(0).to_pylist() == alone


@given(st.lists(st.none() | st.floats(), min_size=1))
def test_doubles_of_a_column_become_floats_as_each_alone(values: list[Any]) -> None:
    schema = t.StructType([t.StructField("v", t.FloatType())])
    typed = pa.array(values, pa.float64())
    try:
        alone = [keyed_row(schema, value) for value in values]
    except pb.ResultTypeMismatch:
        with pytest.raises(pb.ResultTypeMismatch):
            column(schema, typed)
        return
    found = BatchAcceptor(schema, arrow(schema)).batch({"v": typed})
    assert repr(found.column(0).to_pylist()) == repr(alone)
