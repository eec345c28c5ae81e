"""Accumulators of Spark that a function adds to: once a task, when it has ended well."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest
from pyspark import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import by_value, run_stream

by_value(__name__)
pytestmark = pytest.mark.classic

ROWS = 500


def run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


class ToList(AccumulatorParam[list[Any]]):
    """Its zero is always the same object, which adding changes."""

    nothing: list[Any]

    def __init__(self) -> None:
        self.nothing = []

    def zero(self, value: list[Any]) -> list[Any]:
        return self.nothing

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        value1 += value2
        return value1


@pytest.mark.parametrize("engine", ["jvm", "python"])
@pytest.mark.parametrize("form", ["row", "plain", "batch"])
def test_calls_add_to_an_accumulator_on_both_engines(
    spark: SparkSession, engine: str, form: str
) -> None:
    count = spark.sparkContext.accumulator(0)

    async def each(row: Any) -> int:
        count.add(1)
        return 1

    def plain(row: Any) -> int:
        nonlocal count
        count += 1
        return 1

    async def batch(rows: list[Any]) -> list[int]:
        count.add(len(rows))
        return [1] * len(rows)

    function = {"row": each, "plain": plain, "batch": batch}[form]
    options: dict[str, Any] = {"batch_size": 16} if form == "batch" else {}
    rows = spark.range(0, ROWS, 1, 4)
    df = rows.transform(pb.async_io, function, returns="y long", engine=engine, **options)
    run(df)
    assert count.value == ROWS
    run(df)  # on workers that have served the function already
    assert count.value == 2 * ROWS


def test_nothing_is_lost_when_many_threads_add_at_once(spark: SparkSession) -> None:
    count = spark.sparkContext.accumulator(0)

    def adds_often(row: Any) -> int:
        import sys

        sys.setswitchinterval(1e-6)
        for _ in range(2000):
            count.add(1)
        return 1

    rows = spark.range(0, 32, 1, 1)
    run(rows.transform(pb.async_io, adds_often, returns="y long", engine="jvm", capacity=16))
    assert count.value == 32 * 2000


def test_partitions_that_one_task_reads_add_up(spark: SparkSession) -> None:
    count = spark.sparkContext.accumulator(0)

    async def f(row: Any) -> int:
        count.add(1)
        return 1

    rows = spark.range(0, ROWS, 1, 5)
    run(rows.transform(pb.async_io, f, returns="y long", engine="jvm").coalesce(1))
    assert count.value == ROWS


def test_a_parameter_that_gives_out_one_zero_starts_each_task_with_none_of_the_last(
    spark: SparkSession,
) -> None:
    seen = spark.sparkContext.accumulator([], ToList())

    async def f(row: Any) -> int:
        seen.add([row.id])
        return 1

    df = spark.range(0, 40, 1, 8).transform(pb.async_io, f, returns="y long", engine="jvm")
    run(df)
    run(df)
    assert sorted(seen.value) == sorted(list(range(40)) * 2)


def test_attempts_of_one_task_count_all_and_a_failed_task_counts_nothing(
    spark: SparkSession,
) -> None:
    attempts = spark.sparkContext.accumulator(0)
    tries: dict[int, int] = {}

    async def third_time(row: Any) -> int:
        attempts.add(1)
        tries[row.id] = tries.get(row.id, 0) + 1
        if tries[row.id] < 3:
            raise ConnectionError
        return 1

    rows = spark.range(0, 10, 1, 2)
    retry = pb.Retry(3, backoff="1ms")
    run(rows.transform(pb.async_io, third_time, returns="y long", engine="jvm", retry=retry))
    assert attempts.value == 30

    async def fails_in_one_partition(row: Any) -> int:
        attempts.add(1000)
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(Exception, match="no"):
        run(rows.transform(pb.async_io, fails_in_one_partition, returns="y long", engine="jvm"))
    assert attempts.value == 30


def test_a_value_that_cannot_be_sent_fails_the_task_by_name(spark: SparkSession) -> None:
    class Anything(AccumulatorParam[Any]):
        def zero(self, value: Any) -> Any:
            return None

        def addInPlace(self, value1: Any, value2: Any) -> Any:
            return value2

    last = spark.sparkContext.accumulator(None, Anything())

    async def f(row: Any) -> int:
        last.add(threading.Lock())
        return 1

    with pytest.raises(Exception, match="ACCUMULATOR_NOT_SENT"):
        run(spark.range(3).transform(pb.async_io, f, returns="y long", engine="jvm"))

    class Keyed(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> Any:
            last.add(threading.Lock())
            yield (1,)

    with pytest.raises(Exception, match="ACCUMULATOR_NOT_SENT"):
        run(spark.range(3).transform(pb.process_keyed, Keyed(), by="id", returns="y long"))


def test_keyed_functions_of_both_forms_add_to_an_accumulator(spark: SparkSession) -> None:
    rows_seen = spark.sparkContext.accumulator(0)
    batches = spark.sparkContext.accumulator(0)

    class ByRow(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> Any:
            rows_seen.add(1)
            yield (row.id,)

    class ByColumn(pb.ArrowKeyedProcessFunction):
        def process(self, rows: Any, state: Any, ctx: Any) -> Any:
            batches.add(rows.num_rows)
            return rows.select(["id"])

    rows = spark.range(0, ROWS, 1, 3).withColumn("k", F.col("id") % 7)
    for times in (1, 2):
        run(rows.transform(pb.process_keyed, ByRow(), by="k", returns="id long"))
        run(rows.transform(pb.process_keyed_arrow, ByColumn(), by="k", returns="id long"))
        assert rows_seen.value == times * ROWS
        assert batches.value == times * ROWS


def test_a_keyed_worker_that_dies_with_nothing_left_to_do_fails_a_task_that_waits_for_its_sink(
    spark: SparkSession,
) -> None:
    count = spark.sparkContext.accumulator(0)

    class Keyed(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> Any:
            count.add(1)
            if row.id == 1:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return (row.id,)

    rows = spark.range(0, 2, 1, 1)
    made = rows.transform(pb.process_keyed, Keyed(), by="id", returns="y long")
    slow = made.withColumn("slept", F.expr("reflect('java.lang.Thread', 'sleep', 1500 * y)"))
    with pytest.raises(Exception, match="PYTHON_WORKER_DIED"):
        run(slow)
    assert count.value == 0


def test_each_micro_batch_of_a_stream_adds_what_its_tasks_did(
    spark: SparkSession, tmp_path: Any
) -> None:
    count = spark.sparkContext.accumulator(0)

    async def f(row: Any) -> int:
        count.add(1)
        return 1

    source = str(tmp_path / "in")
    for first in range(0, 30, 10):
        spark.range(first, first + 10, 1, 1).write.mode("append").parquet(source)
    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(source)
    run_stream(stream.transform(pb.async_io, f, returns="y long", engine="jvm"), tmp_path)
    assert count.value == 30
