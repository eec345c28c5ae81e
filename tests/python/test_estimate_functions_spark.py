"""Functions of the row that say what its call will use, on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from spark_support import CallLog, by_value, using

by_value(__name__)

TOKENS: dict[str, Any] = {"per_second": 1000, "unit": "tokens"}


class Calls(pb.AsyncKeyedProcessFunction):
    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    async def process(self, row: Any, ctx: Any) -> Any:
        return {"id": row.id, "n": await self.call(row)}


def keyed(df: DataFrame, call: Callable[[Any], Any], **options: Any) -> DataFrame:
    returns = "id bigint, n bigint"
    return df.transform(pb.process_keyed_async, Calls(call), by="id", returns=returns, **options)


def half(row: Any) -> float:
    return len(row.prompt) / 2


def odd(row: Any) -> Any:
    return {2: 1001, 3: None}[row.id] if row.id > 1 else 1


@pytest.mark.connect
def test_a_function_of_the_row_says_what_its_call_will_use(
    spark: SparkSession, log: CallLog
) -> None:
    df = spark.range(0, 12, 1, 2).selectExpr("id", "repeat('x', 400) AS prompt", "1 AS `a.b`")
    options: dict[str, Any] = {"returns": "same long", "resource": log.opened}
    options["limit"] = [pb.Limit(concurrency=50), pb.Limit(**TOKENS, estimate=half)]
    done = df.transform(pb.async_io, using(log, 200), **options)
    assert done.columns == [*df.columns, "same"]
    assert sorted(row.same for row in done.where(df["id"] >= 0).collect()) == list(range(12))
    assert log.since_open()[-1] > 1.9
    few = df.where("id < 2").transform(pb.async_io, using(log, 200), **options)
    assert len(few.alias("a").join(few.alias("b"), "id").collect()) == 2


@pytest.mark.connect
def test_a_function_that_fails_for_a_row_is_the_error_of_that_row(
    spark: SparkSession, log: CallLog
) -> None:
    options: dict[str, Any] = {"limit": pb.Limit(**TOKENS, estimate=odd), "returns": "same long"}
    df = spark.range(0, 5, 1, 1).transform(
        pb.async_io, using(log, 1), on_error="column", retry=3, **options
    )
    rows = sorted(df.collect(), key=lambda row: row.id)
    assert [row.error and row.error.kind for row in rows] == [
        None, None, "ESTIMATE_ABOVE_LIMIT", *["ESTIMATE_FUNCTION_FAILED"] * 2,
    ]  # fmt: skip
    assert "odd returned None" in rows[3].error.message
    assert "odd raised KeyError: 4" in rows[4].error.message
    assert sorted({record["key"] for record in log.events("start")}) == [0, 1]
    with pytest.raises(PythonException) as caught:
        spark.range(4, 5).transform(pb.async_io, using(log, 1), name="spends", **options).collect()
    failure = pb.failure_of(caught.value)
    assert failure is not None
    assert (failure.condition, failure.row) == ("ESTIMATE_FUNCTION_FAILED", "id=4")
    assert failure.operator == "async_io(spends)"
    assert str(caught.value).count("Traceback (most recent call last)") == 1
    assert "in odd" in failure.traceback


def test_a_limit_of_rows_limits_the_calls_below_a_function_that_estimates(
    spark: SparkSession, log: CallLog
) -> None:
    limit = pb.Limit(per_second=10**6, unit="tokens", estimate=lambda row: 1)
    first = spark.range(0, 300, 1, 1).transform(
        pb.async_io, using(log, 1), returns="same long", limit=limit
    )
    second = first.transform(pb.async_io, using(log, 1), returns="again long", limit=limit)
    assert [row.again for row in second.limit(3).collect()] == [0, 1, 2]
    assert sorted(record["key"] for record in log.events("start")) == [0, 0, 1, 1, 2, 2]


def test_the_sum_over_the_rows_of_a_list_is_charged(spark: SparkSession, log: CallLog) -> None:
    async def call(rows: list[Any]) -> list[int]:
        log.write("start", key=len(rows))
        pb.current_call().report_usage(tokens=300)
        return [int(row.id) for row in rows]

    df = spark.range(0, 30, 1, 1).transform(
        pb.async_io,
        call,
        returns="same long",
        inputs="id",
        batch_size=3,
        limit=pb.Limit(**TOKENS, estimate=lambda row: 100),
    )
    assert len(df.collect()) == 30
    times = log.starts()
    assert len(times) == 10
    assert times[-1] - times[0] > 2.0


@pytest.mark.connect
def test_a_function_of_values_is_charged_by_a_function_of_the_same_values(
    spark: SparkSession, log: CallLog
) -> None:
    def amount(value: int, base: int = 0) -> int:
        return base + value * 0

    async def same(value: int, base: int = 0) -> int:
        log.write("start", key=value)
        pb.current_call().report_usage(tokens=250)
        return value

    udf = pb.async_udf(same, returns="long", limit=pb.Limit(**TOKENS, estimate=amount))
    df = spark.range(0, 9, 1, 1).selectExpr("id", "id * 2 AS two")
    made = df.select(udf(df.id + 0, base=df.two * 0 + 250).alias("x"), "id").where("x >= 0")
    assert sorted(row.x for row in made.collect()) == list(range(9))
    times = log.starts()
    assert len(times) == 9
    assert times[-1] - times[0] > 1.4
    udf.register(spark, "same_in_sql")
    assert len(df.selectExpr("same_in_sql(id, 1) + same_in_sql(id, 1)").collect()) == 9
    assert len(log.starts()) == 18
    other = pb.async_udf(same, returns="long", limit=pb.Limit(**TOKENS, estimate=lambda value: 1))
    with pytest.raises(
        pb.InvalidFunction, match=r"ESTIMATE_WRONG_PARAMETERS.*<lambda>\(value\), can't be"
    ):
        other("id", base="two")
    large = bytes(400_000)
    big = pb.Limit(**TOKENS, estimate=lambda *values: len(large))
    with pytest.raises(pb.InvalidOption, match=r"limit\.estimate must be at most"):
        pb.async_udf(same, returns="long", limit=big)("id")


@pytest.mark.connect
def test_a_function_of_the_row_says_what_a_keyed_call_will_use(
    spark: SparkSession, log: CallLog
) -> None:
    def half(row: Any) -> float:
        log.write("estimate", key=row.id)
        return len(row.prompt) / 2

    df = spark.range(0, 12, 1, 1).selectExpr("id", "repeat('x', 400) AS prompt")
    limit = pb.Limit(per_second=1000, per_day=10**9, unit="tokens", estimate=half)
    out = keyed(df, using(log, 200), limit=limit)
    assert sorted(row.id for row in out.collect()) == list(range(12))
    # Estimates are made before permits are asked for.
    assert log.starts()[-1] - log.events("estimate")[0]["at"] > 1.9
    assert sorted(record["key"] for record in log.events("estimate")) == list(range(12))


def test_a_function_that_fails_for_a_row_is_the_error_of_that_keyed_row(
    spark: SparkSession, log: CallLog
) -> None:
    options = {"limit": pb.Limit(per_second=1000, unit="tokens", estimate=odd), "retry": 3}
    out = keyed(spark.range(0, 5, 1, 1), using(log, 1), on_error="column", **options)
    rows = sorted(out.collect(), key=lambda row: row.id)
    assert [row.error and row.error.kind for row in rows] == [
        None, None, "ESTIMATE_ABOVE_LIMIT", *["ESTIMATE_FUNCTION_FAILED"] * 2,
    ]  # fmt: skip
    assert "odd returned None" in rows[3].error.message
    assert {record["key"] for record in log.events("start")} == {0, 1}
    with pytest.raises(PythonException) as raised:
        keyed(spark.range(4, 5), using(log, 1), **options).collect()
    failure = pb.failure_of(raised.value)
    assert failure is not None
    assert failure.condition == "ESTIMATE_FUNCTION_FAILED"
    assert (failure.operator, failure.key) == ("process_keyed(Calls)", "4")
    assert str(raised.value).count("Traceback (most recent call last)") == 1
    assert "in odd" in failure.traceback
