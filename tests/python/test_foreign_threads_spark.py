"""Spark hands some iterators to its own threads: TRANSFORM after the first row, pipe from it on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream
from spark_support import CallLog, by_value, eventually, threads_are_gone

by_value(__name__)

ROWS = 300_000


async def double(row: Any) -> int:
    await asyncio.sleep(0)
    return int(row.id) * 2


class Same(pb.KeyedProcessFunction):
    """Every row goes out as it came, counted by key."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "long")

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield row.id, self.count.value()


def keyed(df: DataFrame, **options: Any) -> DataFrame:
    key = F.col("id") % 10
    return pb.process_keyed(
        df.withColumn("k", key), Same(), by="k", returns="id long, n long", **options
    )


def through_cat(df: DataFrame, columns: str) -> DataFrame:
    """Rows of ``columns``, all bigint, on the far side of a process."""
    df.createOrReplaceTempView("input_of_cat")
    names = ", ".join(column.split()[0] for column in columns.split(","))
    return df.sparkSession.sql(
        f"SELECT TRANSFORM({names}) USING 'cat' AS ({columns}) FROM input_of_cat"
    )


@pytest.mark.parametrize("ordered", [True, False])
def test_transform_over_calls(spark: SparkSession, ordered: bool) -> None:
    rows = spark.range(0, 2000, 1, 2).transform(
        pb.async_io, double, returns="twice long", engine="jvm", ordered=ordered, capacity=20
    )
    found = through_cat(rows, "id bigint, twice bigint").collect()
    assert sorted(found) == [Row(id=i, twice=2 * i) for i in range(2000)]
    threads_are_gone(spark)


def test_transform_between_calls(spark: SparkSession) -> None:
    async def add(row: Any) -> int:
        await asyncio.sleep(0.0001)
        return int(row.id) + int(row.twice)

    below = spark.range(0, 2000, 1, 2).transform(
        pb.async_io, double, returns="twice long", engine="jvm", capacity=7
    )
    above = through_cat(below, "id bigint, twice bigint").transform(
        pb.async_io, add, returns="thrice long", engine="jvm", capacity=5
    )
    assert sorted(tuple(row) for row in above.collect()) == [(i, 2 * i, 3 * i) for i in range(2000)]
    threads_are_gone(spark)


@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.nightly), "rocksdb"])
def test_transform_over_a_keyed_stream(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    def build(df: DataFrame) -> DataFrame:
        return through_cat(keyed(df, backend=backend), "id bigint, n bigint")

    stream = Stream(spark, tmp_path, "id long", build)
    spark.range(0, ROWS, 1, 1).write.parquet(str(tmp_path / "rows"))
    (part,) = (tmp_path / "rows").glob("*.parquet")
    part.rename(tmp_path / "in" / "rows.parquet")
    found = stream.run()
    assert sorted(found) == [(i, i // 10 + 1) for i in range(ROWS)]
    threads_are_gone(spark)


def test_transform_over_a_keyed_batch(spark: SparkSession) -> None:
    found = through_cat(keyed(spark.range(0, ROWS, 1, 2)), "id bigint, n bigint")
    assert found.agg(F.count("*"), F.sum("id")).head() == (ROWS, sum(range(ROWS)))


@pytest.mark.classic
def test_pipe_over_calls(spark: SparkSession) -> None:
    rows: Any = spark.range(0, 500, 1, 2).transform(
        pb.async_io, double, returns="twice long", engine="jvm", capacity=20
    )
    lines = list(rows._jdf.toJavaRDD().pipe("cat").collect())
    assert lines == [f"[{i},{2 * i}]" for i in range(500)]
    threads_are_gone(spark)


@pytest.mark.classic
def test_permits_come_back_from_a_piped_job_that_is_cancelled(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    go_on = tmp_path / "go_on"

    async def hang_at_first(row: Any) -> int:
        async with log.call(row.id):
            while not go_on.exists():
                await asyncio.sleep(0.01)
        return int(row.id)

    rows: Any = spark.range(0, 10, 1, 1).transform(
        pb.async_io,
        hang_at_first,
        returns="same long",
        engine="jvm",
        limit=pb.Limit(concurrency=2, scope="executor"),
    )

    def piped() -> None:
        spark.sparkContext.setJobGroup("piped", "piped", interruptOnCancel=True)
        with pytest.raises(Exception, match="cancel"):
            rows._jdf.toJavaRDD().pipe("cat").collect()

    job = threading.Thread(target=piped)
    job.start()
    eventually(lambda: log.in_flight() == 2, "both permits to be taken")
    spark.sparkContext.cancelJobGroup("piped")
    job.join(30)
    assert not job.is_alive()
    threads_are_gone(spark)
    go_on.touch()
    assert [row.same for row in rows.collect()] == list(range(10))
