"""How many rows come to the worker at once: no more than maxRecordsPerBatch, where it is set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream, settings
from pillarbox import columns
from spark_support import process_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

LIMIT = "spark.sql.execution.arrow.maxRecordsPerBatch"
RETURNS = "k bigint, n bigint, size bigint"
ROWS = 1000


class Columns(pb.ArrowKeyedProcessFunction):
    """The number of each row among those of its key, and how many rows came with it."""

    def open(self, ctx: Any) -> None:
        ctx.value_state("n", "bigint")

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        n = columns.running_count(state.index, state["n"])
        state["n"] = columns.group_last(n, state.index, state["n"])
        return {"k": batch["k"], "n": n, "size": [batch.num_rows] * batch.num_rows}


class Rows(pb.KeyedProcessFunction):
    """The same a row at a time; and one more from a timer, which comes after all rows of a key."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        ctx.timers.register_event_time(1 << 40)
        yield row.k, self.n.value(), 0

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.key, -self.n.value(), 0


def processed(fn: Any) -> Any:
    def build(df: DataFrame) -> DataFrame:
        return df.transform(process_of(fn), fn, by="k", returns=RETURNS)

    return build


def numbers(keys: int, last: bool) -> list[tuple[int, int]]:
    own = {k: len(range(k, ROWS, keys)) for k in range(keys)}
    found = [(k, n) for k, count in own.items() for n in range(1, count + 1)]
    return sorted(found + [(k, -count) for k, count in own.items() if last])


@pytest.mark.parametrize("limit", [1, 64])
@pytest.mark.parametrize("keys", [1, 7, 500])
@pytest.mark.parametrize("fn", [Columns(), Rows()], ids=lambda fn: type(fn).__name__)
def test_a_batch_has_no_more_rows_than_allowed_and_the_rows_are_the_same(
    spark: SparkSession, fn: Any, keys: int, limit: int
) -> None:
    df = spark.range(ROWS).select((F.col("id") % keys).alias("k"))
    with settings(spark, **{LIMIT: str(limit)}):
        found = processed(fn)(df).collect()
    assert sorted((row.k, row.n) for row in found) == numbers(keys, isinstance(fn, Rows))
    assert max(row["size"] for row in found) <= limit


@pytest.mark.parametrize("limit", ["0", "-1", None])
def test_without_a_limit_a_batch_has_what_there_is(spark: SparkSession, limit: str | None) -> None:
    df = spark.range(20_000).select(F.lit(1).cast("bigint").alias("k")).coalesce(1)
    with settings(spark, **({} if limit is None else {LIMIT: limit})):
        assert processed(Columns())(df).agg(F.max("size")).first()[0] == 20_000


@pytest.mark.parametrize("fn", [Columns(), Rows()], ids=lambda fn: type(fn).__name__)
def test_a_streams_batches_are_limited_too(spark: SparkSession, tmp_path: Path, fn: Any) -> None:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("k")).withWatermark("ts", "0 seconds")
        return processed(fn)(timed)

    stream = Stream(spark, tmp_path, "k bigint", build)
    stream.add(*[(n % 7,) for n in range(500)]).add(*[(n % 7,) for n in range(500, ROWS)])
    with settings(
        spark, **{LIMIT: "64", "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    ):
        found = stream.run()
    assert max(size for _, _, size in found) <= 64


class CountsSilently(Columns):
    """Tells of the second row of a key and of none else; for batches without one it gives None."""

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        numbers = super().process(batch, state, ctx)["n"].to_pylist()
        second = [at for at, number in enumerate(numbers) if number == 2]
        return {"k": batch["k"].take(second)} if second else None


def test_a_batch_may_give_no_rows_at_all(spark: SparkSession) -> None:
    rows = spark.range(0, 10, 1, 1).selectExpr("id % 5 k")
    with settings(spark, **{LIMIT: "2"}):
        out = pb.process_keyed_arrow(rows, CountsSilently(), by="k", returns="k bigint").collect()
    assert sorted(row.k for row in out) == [0, 1, 2, 3, 4]
    nothing = pb.process_keyed_arrow(rows.limit(0), CountsSilently(), by="k", returns="k bigint")
    assert nothing.collect() == []
    first = pb.process_keyed_arrow(rows.limit(5), CountsSilently(), by="k", returns="k bigint")
    assert first.collect() == []
