"""Type strings are read as Spark reads them, without Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

import pillarbox as pb
from pillarbox._arrow.ddl import parse_columns, parse_type

COLUMNS = [
    "k string",
    "dest string, arr timestamp",
    "a: int, b: array<struct<x: double, `y z`: decimal(10,2)>>",
    "A INT NOT NULL COMMENT 'it is an A', b BIGINT",
    "`a``b` map<string, array<int>> not null",
    "x decimal, y dec(5), z numeric(7, 3)",
    "d date, n timestamp_ntz, l timestamp_ltz, b binary, f float, g real, t tinyint, s smallint",
    "i interval day to second, j interval hour, k interval minute to second",
    "v void, o boolean, e struct<>",
    "timestamp timestamp, string string, map map<int,int>, struct struct<a:int>",
    "interval int, decimal decimal(3,1)",
    "c char(3), w varchar(9)",
    "u string collate UNICODE",
    "q variant",
]


@pytest.mark.parametrize("ddl", COLUMNS)
def test_columns_are_those_of_sparks_own_parser(spark, ddl):
    assert parse_columns(ddl, "columns") == t.StructType.fromDDL(ddl)


ATOMIC = st.sampled_from(
    [t.LongType(), t.StringType(), t.DoubleType(), t.DecimalType(12, 3), t.TimestampType(),
     t.DayTimeIntervalType(0, 3), t.BinaryType(), t.DateType()]
)  # fmt: skip
NAMES = st.text("abcXYZ_09", min_size=1, max_size=6).map(lambda name: "c" + name)


def nested(inner):
    fields = st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda f: f[0])
    return (
        st.builds(t.ArrayType, inner)
        | st.builds(t.MapType, ATOMIC, inner)
        | fields.map(lambda pairs: t.StructType([t.StructField(*pair) for pair in pairs]))
    )


@pytest.mark.parametrize("ddl", ["string collate UNICODE", "array<string collate UNICODE>"])
def test_a_type_alone_may_have_a_collation(spark, ddl):
    (field,) = t.StructType.fromDDL(f"s {ddl}")
    assert parse_type(ddl, "type") == field.dataType


@given(st.recursive(ATOMIC, nested, max_leaves=8))
def test_a_type_is_read_from_how_it_is_written(kind):
    assert parse_type(kind.simpleString(), "type") == kind


@pytest.mark.parametrize(
    "ddl",
    ["", "  ", "integr", "a", "a int,", "a int b int", "array", "array<int", "map<int>", "a int)",
     "decimal(x)", "struct<int>", "a int not", "a int comment 5", "interval month", ", a int",
     "array<int>>", 5, None],
)  # fmt: skip
def test_what_is_no_type_is_refused_with_the_option_and_the_text(ddl):
    with pytest.raises(pb.InvalidSchema) as problem:
        parse_type(ddl, "the state n")
    assert "the state n must be a type" in str(problem.value)
    assert repr(ddl) in str(problem.value)


def test_columns_need_names():
    with pytest.raises(pb.InvalidSchema, match="without column names"):
        parse_columns("bigint", "input")
