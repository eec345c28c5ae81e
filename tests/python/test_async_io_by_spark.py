"""Async I/O with keys: an order within each key, and a limit of calls a key."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream, settings
from spark_support import CallLog, by_value

by_value(__name__)

ROWS, KEYS = 200, 7


def rows(spark: SparkSession) -> DataFrame:
    """In one partition, in the order of their ids; -0.0 and 0.0 are one key."""
    key = F.col("id") % KEYS
    zero = F.when(key == 0, F.when(F.col("id") % 2 == 0, -0.0).otherwise(0.0))
    return spark.range(0, ROWS, 1, 1).select("id", F.coalesce(zero, key.cast("double")).alias("k"))


class Calls:
    def __init__(self, folder: Path) -> None:
        self.log = CallLog(str(folder / "calls"))

    def function(self) -> Any:
        log = self.log

        async def wait(row: Any) -> int:
            async with log.call(row.k):
                await asyncio.sleep(random.Random(row.id).choice([0.0, 0.001, 0.03]))
            return int(row.id)

        return wait

    def most_of_a_key(self) -> int:
        now: dict[float, int] = {}
        most = 0
        for record in self.log.events("start", "end"):
            step = 1 if record["event"] == "start" else -1
            now[record["key"]] = now.get(record["key"], 0) + step
            most = max(most, now[record["key"]])
        return most


def by_key(found: list[Any]) -> dict[float, list[int]]:
    of: dict[float, list[int]] = {}
    for row in found:
        of.setdefault(row.k + 0.0, []).append(row.x)
    return of


EXPECTED = {float(key): list(range(key, ROWS, KEYS)) for key in range(KEYS)}


@pytest.mark.parametrize(
    ("ordered", "per_key"), [(True, None), (True, 1), (True, 3), (False, 1), (False, 3)]
)
def test_rows_of_a_key_keep_their_order_and_calls_of_a_key_their_limit(
    spark: SparkSession, tmp_path: Path, ordered: bool, per_key: int | None
) -> None:
    calls = Calls(tmp_path)
    limit = None if per_key is None else pb.Limit(concurrency=per_key, scope="key")
    options: dict[str, Any] = {"ordered": ordered, "limit": limit, "capacity": 50}
    found = pb.async_io(
        rows(spark), calls.function(), returns="x long", by="k", **options
    ).collect()
    of = by_key(found)
    assert {key: sorted(xs) for key, xs in of.items()} == EXPECTED
    if ordered or per_key == 1:
        assert of == EXPECTED
    if per_key is not None:
        assert calls.most_of_a_key() <= per_key
    if ordered:
        assert [row.x for row in found] != sorted(row.x for row in found), "keys pass each other"


def test_keys_keep_their_order_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    calls = Calls(tmp_path)

    def build(df: DataFrame) -> DataFrame:
        return pb.async_io(
            df,
            calls.function(),
            returns="x long",
            by=["k"],
            limit=pb.Limit(concurrency=1, scope="key"),
        )

    stream = Stream(spark, tmp_path / "stream", "id long, k double", build)
    all_rows = [(row.id, row.k) for row in rows(spark).collect()]
    stream.add(*all_rows[:120]).add(*all_rows[120:])
    found = stream.run()
    assert sorted(x for _, _, x in found) == list(range(ROWS))
    assert calls.most_of_a_key() == 1


def test_with_batches_and_retries(spark: SparkSession, tmp_path: Path) -> None:
    failed: set[int] = set()

    async def answer(batch: list[Any]) -> list[Any]:
        if random.Random(batch[0].id).random() < 0.3 and batch[0].id not in failed:
            failed.add(batch[0].id)
            raise ConnectionError("once")
        return [row.id for row in batch]

    limits = [pb.Limit(concurrency=2, scope="key"), pb.Limit(concurrency=9, per_second=100_000)]
    found = pb.async_io(
        rows(spark), answer, returns="x long", by="k", limit=limits, batch_size=4, capacity=20,
        retry=pb.Retry(ROWS, backoff="1ms"),
    ).collect()  # fmt: skip
    assert by_key(found) == EXPECTED


class Echo(pb.AsyncKeyedProcessFunction):
    async def process(self, row: Any, ctx: Any) -> Any:
        return {"x": row.k}


async def echo(row: Any) -> int:
    return int(row.k)


def tasks(df: DataFrame) -> int:
    return df.select(F.spark_partition_id()).distinct().count()


def small(spark: SparkSession) -> DataFrame:
    return spark.range(4000).withColumn("k", F.col("id") % 100)


def by_k(df: DataFrame) -> DataFrame:
    return pb.async_io(df, echo, returns="x long", by="k")


def shared(df: DataFrame) -> DataFrame:
    return pb.async_io(df, echo, returns="x long", inputs="k", share_calls="query")


def keyed(df: DataFrame) -> DataFrame:
    return pb.process_keyed_async(df, Echo(), by="k", returns="x long")


def test_small_rows_stay_in_the_partitions_of_their_shuffle(spark: SparkSession) -> None:
    df = small(spark)
    with settings(spark, **{"spark.sql.shuffle.partitions": "8"}):
        assert tasks(df.groupBy("k").count()) == 1, "Spark coalesces by bytes"
        assert [tasks(calls(df)) for calls in (by_k, shared, keyed)] == [8, 8, 8]
        assert tasks(by_k(df.repartition(3, "k"))) == 3


def test_small_rows_stay_in_the_partitions_of_an_earlier_shuffle(spark: SparkSession) -> None:
    df = small(spark)
    counts = df.groupBy("k").count()
    with settings(spark, **{"spark.sql.shuffle.partitions": "8"}):
        assert [tasks(calls(counts)) for calls in (by_k, shared, keyed)] == [8, 8, 8]
        earlier = {
            "join": df.join(counts.hint("merge"), "k"),
            "broadcast": counts.join(F.broadcast(counts.withColumnRenamed("count", "c")), "k"),
            "window": df.withColumn("first", F.min("id").over(Window.partitionBy("k"))),
            "project": df.repartition("k").select("k", (F.col("id") + 1).alias("next")),
        }
        assert {name: tasks(by_k(rows)) for name, rows in earlier.items()} == dict.fromkeys(
            earlier, 8
        )
        assert tasks(by_k(counts.orderBy("count").limit(10))) == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"by": "nowhere"}, "UNKNOWN_COLUMN"),
        ({"by": []}, "by"),
        ({"by": "k", "ordered": False}, "OPTION_NEEDS_OTHER"),
        ({"by": "k", "carry_over": True}, "OPTION_NEEDS_OTHER"),
        ({"by": "k", "engine": "python"}, "OPTION_NEEDS_JVM_ENGINE"),
        ({"by": "m"}, "NOT_COMPARABLE"),
        ({"by": "c"}, "KEY_COLLATION"),
    ],
)
def test_odd_options_are_refused(spark: SparkSession, options: dict[str, Any], error: str) -> None:
    df = spark.range(1).selectExpr(
        "id", "id k", "map(1, 2) m", "cast('a' as string collate UTF8_LCASE) c"
    )
    with pytest.raises(Exception, match=error):
        pb.async_io(df, lambda row: 1, returns="x long", **options)
