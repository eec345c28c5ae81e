"""Every type of Spark goes into a function and comes back as it was, on each engine."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql import types as t

import pillarbox as pb
from pillarbox._base.spark_versions import installed
from spark_support import by_value, created

by_value(__name__)

# Around the change of clocks in New York, the session's zone.
SPRING = [dt.datetime(2024, 3, 10, hour, 30, 0, 123456) for hour in (0, 1, 3, 4)]
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
ANCIENT = dt.datetime(1900, 1, 1, 12)

DEEP = Row(a=Row(b=[Row(c=Decimal("1.5")), None]))

CASES: list[tuple[str, list[object]]] = [
    ("boolean", [True, False]),
    ("tinyint", [-128, 127]),
    ("smallint", [-(2**15), 2**15 - 1]),
    ("int", [-(2**31), 2**31 - 1]),
    ("bigint", [-(2**63), 2**63 - 1, 2**53 + 1]),
    ("float", [1.5, float("inf"), -0.0]),
    ("double", [0.1, float("-inf"), 1e308]),
    ("decimal(5,2)", [Decimal("-999.99"), Decimal("0.01")]),
    ("decimal(38,0)", [Decimal(10**38 - 1)]),
    ("decimal(38,38)", [Decimal(1).scaleb(-38)]),
    ("string", ["", "żółw 🐢", "a\0b", "x" * 10_000]),
    ("binary", [bytearray(b""), bytearray(bytes(range(256)))]),
    ("date", [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    ("timestamp", [*SPRING, ANCIENT, dt.datetime(2100, 1, 1)]),
    ("timestamp_ntz", [*SPRING, dt.datetime(1, 1, 1), LAST]),
    ("interval day to second", [dt.timedelta(days=-5, microseconds=1), dt.timedelta(0)]),
    ("time", [dt.time(0, 0), dt.time(23, 59, 59, 999999)]),
    ("array<int>", [[], [1, None, 3]]),
    ("array<array<string>>", [[["a"], None, [None]]]),
    ("array<timestamp>", [[SPRING[1], None]]),
    ("map<string,int>", [{}, {"a": 1, "b": None}]),
    ("map<int,array<double>>", [{1: [0.5], 2: None}]),
    ("struct<a:int,b:string>", [Row(a=1, b=None)]),
    ("struct<a:struct<b:array<struct<c:decimal(4,1)>>>>", [DEEP]),
    ("void", []),
]  # fmt: skip
if installed() == "4.0":  # Spark 4.1 brought the type
    CASES = [case for case in CASES if case[0] != "time"]


async def echo(row):
    return (row.value,)


@pytest.mark.parametrize(("ddl", "values"), CASES, ids=[ddl for ddl, _ in CASES])
def test_a_value_comes_back_as_it_was_and_null_as_null(spark, engine, ddl, values):
    values = [*values, None]
    schema = t.StructType.fromDDL(f"n long, value {ddl}")
    df = created(spark, list(enumerate(values)), schema).coalesce(1)
    returns = t.StructType([t.StructField("back", schema["value"].dataType)])
    out = df.transform(pb.async_io, echo, returns=returns, inputs=["value"], engine=engine)
    assert out.schema["back"].dataType == schema["value"].dataType
    for row in out.orderBy("n").collect():
        assert row.back == row.value
    if not ddl.startswith("map"):  # which Spark can't compare
        assert out.where("value is distinct from back").count() == 0


def test_nan_comes_back_as_nan(spark, engine):
    df = spark.range(1).select(F.lit(float("nan")).alias("value"))
    out = df.transform(pb.async_io, echo, returns="back double", engine=engine)
    assert math.isnan(out.first().back)


def test_a_timestamp_is_naive_local_time_inside_the_function(spark, engine):
    async def look(row):
        zone = dt.datetime.now().astimezone().tzinfo
        aware = row.value.replace(tzinfo=None).astimezone()
        return f"{row.value.tzinfo} {aware.timestamp():.6f} {zone is not None}"

    df = spark.sql("select timestamp_micros(1710059400123456) as value")
    out = df.transform(pb.async_io, look, returns="seen string", engine=engine)
    assert out.first().seen == "None 1710059400.123456 True"


def test_an_aware_timestamp_may_be_returned(spark, engine):
    async def aware(row):
        return dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.timezone.utc)

    out = spark.range(1).transform(pb.async_io, aware, returns="at timestamp", engine=engine)
    assert out.selectExpr("unix_micros(at) as us").first().us == 1710055800000000


def test_a_variant_comes_back_as_it_was(spark, engine):
    df = spark.sql("""select parse_json('{"a": [1, null, "x"]}') as value""")
    out = df.transform(pb.async_io, echo, returns="back variant", engine=engine)
    assert out.selectExpr("to_json(back) as json").first().json == '{"a":[1,null,"x"]}'


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))


class PointType(t.UserDefinedType):
    """Stored as an array of two doubles."""

    @classmethod
    def sqlType(cls):
        return t.ArrayType(t.DoubleType(), False)

    @classmethod
    def module(cls):
        return __name__

    def serialize(self, obj):
        return [obj.x, obj.y]

    def deserialize(self, datum):
        return Point(*datum)


Point.__UDT__ = PointType()


def test_a_user_defined_type_arrives_as_its_class_and_goes_back_as_one(spark, engine):
    async def mirror(row):
        return Point(row.value.y, row.value.x)

    schema = t.StructType().add("value", PointType())
    df = spark.createDataFrame([(Point(1.0, 2.0),)], schema)
    returns = t.StructType().add("back", PointType())
    out = df.transform(pb.async_io, mirror, returns=returns, engine=engine)
    assert out.first().back == Point(2.0, 1.0)


def test_columns_that_are_not_inputs_pass_by_whatever_their_type(spark, engine):
    df = spark.range(3).select(
        "id",
        F.struct(F.array("id").alias("l")).alias("s"),
        F.current_timestamp().alias("now"),
    )
    out = df.transform(pb.async_io, one, returns="y long", inputs=["id"], engine=engine)
    assert out.drop("y").schema == df.schema
    assert [row.s for row in out.orderBy("id").collect()] == [Row(l=[i]) for i in range(3)]


async def one(row):
    return 1


def test_many_columns_and_odd_names_pass(spark, engine):
    names = ["a b", "ż", "select", "count", "index", "x-y"]
    df = spark.range(2).select(*[F.lit(i).alias(name) for i, name in enumerate(names)])
    out = df.transform(pb.async_io, by_name, returns="`sum of` long, `y.z` string", engine=engine)
    assert out.columns == [*names, "sum of", "y.z"]
    assert {row["sum of"] for row in out.collect()} == {15}


async def by_name(row):
    return {"sum of": sum(row[name] for name in row.__fields__), "y.z": "dots"}
