"""An answer that can't be encoded fails its own row, whatever it is, and no other."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_values import FITTING, ShortTuple, odd_values
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

import pillarbox as pb
from pillarbox._arrow.ddl import parse_columns
from pillarbox._arrow.results import NO_MATCH, ResultEncoder
from pillarbox._base.failures import LONGEST_MESSAGE, final_failure
from pillarbox._base.spark_versions import in_utc
from spark_support import by_value, collect_within

by_value(__name__)

COUNT = len(odd_values())


def encoder(columns: str, explode: bool = False) -> ResultEncoder:
    schema = parse_columns(columns, "returns")
    return ResultEncoder(schema, to_arrow_schema(schema, **in_utc(to_arrow_schema)), explode)


@settings(max_examples=30)
@given(
    ddl=st.sampled_from(sorted(FITTING)),
    picks=st.lists(st.integers(0, COUNT), max_size=12),
    explode=st.booleans(),
)
def test_answers_are_judged_one_by_one(ddl: str, picks: list[int], explode: bool) -> None:
    values = [*odd_values(), FITTING[ddl]]
    one = encoder(f"v {ddl}", explode)
    answers = [[values[pick]] if explode else (values[pick],) for pick in picks]
    together = one.encode(answers)
    together.batch.validate(full=True)
    alone = [one.encode([answer]) for answer in answers]
    assert together.counts == [single.counts[0] for single in alone]
    assert together.batch.num_rows == sum(single.batch.num_rows for single in alone)
    for index, single in enumerate(alone):
        assert (index in together.mismatches) == bool(single.mismatches)
        for mismatch in single.mismatches.values():
            failure = final_failure(mismatch)
            assert failure.kind in ("RESULT_TYPE_MISMATCH", "RESULT_SHAPE_MISMATCH")
            assert len(failure.message) <= LONGEST_MESSAGE


@pytest.mark.parametrize("columns", ["v bigint", "a int, b string", "s struct<a:int,b:string>"])
def test_every_answer_has_one_outcome_as_a_whole_row_too(columns: str) -> None:
    encoded = encoder(columns).encode(odd_values())
    encoded.batch.validate(full=True)
    assert len(encoded.counts) == COUNT
    for index, count in enumerate(encoded.counts):
        assert (count == 0) == (index in encoded.mismatches)
        assert count in (0, 1, NO_MATCH)


@pytest.mark.parametrize("columns", ["a int, b string", "s struct<a:int,b:string>"])
def test_a_tuple_that_gives_fewer_items_than_it_counts_fails_its_row(columns: str) -> None:
    encoded = encoder(columns).encode([ShortTuple((1, "x"))])
    assert encoded.counts == [0]
    assert encoded.batch.num_rows == 0
    assert list(encoded.mismatches) == [0]


def test_what_only_spark_can_judge_fails_its_own_row_on_the_jvm_engine(spark: SparkSession) -> None:
    point = struct.pack("<BIdd", 1, 1, 1.0, 2.0)

    async def geometry(row: Any) -> Any:
        return (t.Geometry([point, b"garbage", b"", point][row.id], [4326, 4326, 4326, 3][row.id]),)

    df = spark.range(0, 4, 1, 1).transform(
        pb.async_io,
        geometry,
        returns=t.StructType([t.StructField("at", t.GeometryType(4326))]),
        engine="jvm",
        on_error="column",
    )
    rows = collect_within(df.selectExpr("at is null as is_null", "error"), 50)
    assert [row.is_null for row in rows] == [False, True, True, True]
    assert [row.error and row.error.kind for row in rows] == [None, *["RESULT_NOT_READABLE"] * 3]
    assert "WKB" in rows[1].error.message


def is_same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and math.isnan(found):
        return isinstance(expected, float) and math.isnan(expected)
    return bool(found == expected)


@pytest.mark.parametrize("ddl", FITTING)
def test_on_spark_the_rows_beside_an_odd_answer_are_answered(
    spark: SparkSession, engine: str, ddl: str
) -> None:
    fitting = FITTING[ddl]

    async def answer(row: Any) -> Any:
        return (fitting,) if row.id % 2 == 0 else (odd_values()[row.id // 2],)

    df = spark.range(0, 2 * COUNT, 1, 1).transform(
        pb.async_io,
        answer,
        returns=t.StructType([t.StructField("v", t.DataType.fromDDL(ddl))]),
        engine=engine,
        timeout="1 minute",
        on_error="column",
        capacity=2 * COUNT,
    )
    # What an odd answer has become is not asked for: the driver may not be able to hold it.
    fits = F.when(F.col("id") % 2 == 0, F.col("v")).alias("v")
    rows = collect_within(df.select("id", fits, F.isnull("v").alias("is_null"), "error"), 50)
    assert [row.id for row in rows] == list(range(2 * COUNT))
    for row in rows:
        if row.id % 2 == 0:
            assert row.error is None, row.error
            assert is_same(row.v, fitting)
        elif row.error is not None:
            assert row.error.kind in ("RESULT_TYPE_MISMATCH", "RESULT_SHAPE_MISMATCH"), row.error
            assert row.is_null
