"""The operator in Structured Streaming: any sink, trigger and restart."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import (
    CallLog,
    Kept,
    as_dict,
    by_value,
    eventually,
    own_pool,
    run_stream,
    threads_are_gone,
)

by_value(__name__)


class Folders:
    """Input, output, checkpoint and call log of one query."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root
        self.source, self.sink = str(root / "in"), str(root / "out")
        self.checkpoint = str(root / "checkpoint")
        self.log = CallLog(str(root / "calls"))

    def add(self, first: int, last: int) -> None:
        """One more file, read by one partition."""
        self.spark.range(first, last, 1, 1).write.mode("append").parquet(self.source)

    def stream(self) -> DataFrame:
        return self.spark.readStream.schema("id long").parquet(self.source)

    def enriched(self, **options: Any) -> DataFrame:
        log = self.log

        async def double(row: Any) -> int:
            async with log.call(row.id):
                await asyncio.sleep(0)
            return int(row.id) * 2

        return self.stream().transform(
            pb.async_io, double, returns="twice long", engine="jvm", **options
        )

    def run(self, df: DataFrame) -> None:
        """Handles what is there, and ends."""
        run_stream(df, self.root, "parquet")

    def written(self) -> list[tuple[int, int]]:
        return sorted((row.id, row.twice) for row in self.spark.read.parquet(self.sink).collect())


@pytest.fixture
def folders(spark: SparkSession, tmp_path: Path) -> Folders:
    return Folders(spark, tmp_path)


@pytest.fixture
def own_workers(spark: SparkSession) -> Iterator[None]:
    with own_pool(spark):
        yield


def test_a_query_goes_on_where_it_stopped(folders: Folders) -> None:
    folders.add(0, 30)
    folders.run(folders.enriched())
    folders.add(30, 50)
    folders.run(folders.enriched())
    assert folders.written() == [(i, 2 * i) for i in range(50)]
    assert len(folders.log.events("start")) == 50
    threads_are_gone(folders.spark)


class Awaited(pb.AsyncKeyedProcessFunction):
    async def process(self, row: Any, ctx: Any) -> Any:
        return (1,)


def test_the_log_warns_of_a_stream_whose_calls_may_hang(
    folders: Folders, caplog: pytest.LogCaptureFixture
) -> None:
    folders.add(0, 1)
    for timeout in ("5s", pb.Timeout(attempt="5s")):
        folders.enriched(timeout=timeout)
    folders.spark.range(1).transform(pb.async_io, len, returns="n int")
    assert not caplog.records
    folders.enriched(name="prices")
    (record,) = caplog.records
    assert 'async_io("prices") on a stream has no timeout' in record.getMessage()
    caplog.clear()
    stream = folders.spark.readStream.format("rate").load()
    keyed = {"by": "value", "returns": "n int", "name": "charges"}
    pb.process_keyed_async(stream, Awaited(), timeout="5s", **keyed)
    assert not caplog.records
    pb.process_keyed_async(stream, Awaited(), **keyed)
    (record,) = caplog.records
    assert 'process_keyed_async("charges") on a stream has no timeout' in record.getMessage()


def test_a_batch_that_is_run_again_after_a_failure_uses_the_same_call_ids(
    folders: Folders,
) -> None:
    def query(fails: bool) -> DataFrame:
        log = folders.log

        async def double(row: Any) -> int:
            async with log.call(row.id):
                if fails and row.id == 19:
                    raise ConnectionError("down")
            return int(row.id) * 2

        return folders.stream().transform(
            pb.async_io, double, returns="twice long", engine="jvm", capacity=50
        )

    folders.add(0, 20)
    with pytest.raises(Exception, match="ConnectionError: down"):
        folders.run(query(fails=True))
    first = {record["key"]: record["call_id"] for record in folders.log.events("start")}
    folders.run(query(fails=False))
    second = {record["key"]: record["call_id"] for record in folders.log.events("start")}
    assert folders.written() == [(i, 2 * i) for i in range(20)]
    assert first == second
    assert len(set(second.values())) == 20


def test_the_progress_shows_what_calls_have_done(folders: Folders) -> None:
    async def second_time(row: Any) -> int:
        if pb.current_call().attempt == 1 and row.id % 2:
            raise ConnectionError("once more")
        return int(row.id)

    async def small(row: Any) -> int:
        if row.id >= 6:
            raise ValueError("too large")
        return int(row.id)

    folders.add(0, 10)
    options: dict[str, Any] = {"name": "look_up", "engine": "jvm", "on_error": "null"}
    retry = pb.Retry(2, backoff="1ms")
    rows = pb.async_io(folders.stream(), second_time, returns="a long", retry=retry, **options)
    rows = pb.async_io(rows, small, returns="b long", **options)
    rows = pb.async_io(rows, second_time, returns="c long", retry=retry, carry_over=True, **options)
    query = run_stream(rows, folders.root)
    (with_rows,) = [one for one in query.recentProgress if one.numInputRows]
    observed = {name: as_dict(row) for name, row in with_rows.observedMetrics.items()}
    others = "numTimeouts numJournalHits numRateLimited numShared limitWaitMs"
    none = dict.fromkeys(others.split(), 0)
    assert observed == {
        "look_up": {"numOutputRows": 10, "numCalls": 15, "numRetries": 5, "numErrors": 0, **none},
        "look_up 2": {"numOutputRows": 10, "numCalls": 10, "numRetries": 0, "numErrors": 4, **none},
    }
    carried = [dict(one.stateOperators[0].customMetrics) for one in query.recentProgress]
    counts = {"numCalls": 15, "numRetries": 5, "numErrors": 0, **none}
    assert {name: sum(one[name] for one in carried) for name in counts} == counts


def test_each_use_of_an_expression_has_its_line_in_the_progress(folders: Folders) -> None:
    @pb.async_udf(returns="long", name="twice", timeout="30s")
    async def twice(number: int) -> int:
        return 2 * number

    folders.add(0, 10)
    uses = [twice(F.col("id") + n).alias(f"n{n}") for n in range(3)]
    run = run_stream(folders.stream().select("id", *uses), folders.root)
    (with_rows,) = [one for one in run.recentProgress if one.numInputRows]
    observed = {name: as_dict(row)["numCalls"] for name, row in with_rows.observedMetrics.items()}
    assert observed == {"twice": 10, "twice 2": 10, "twice 3": 10}


def test_batches_of_one_query_have_different_call_ids(folders: Folders) -> None:
    folders.add(0, 5)
    folders.run(folders.enriched())
    folders.add(0, 5)
    folders.run(folders.enriched())
    assert len({record["call_id"] for record in folders.log.events("start")}) == 10


def test_a_resource_and_its_worker_serve_all_batches(folders: Folders, own_workers: None) -> None:
    log = folders.log

    class Client:
        async def __aenter__(self) -> Client:
            log.write("opened")
            return self

        async def __aexit__(self, *error: object) -> None:
            log.write("closed")

    async def use(row: Any, client: Client) -> int:
        log.write("start", key=row.id)
        return int(row.id) * 2

    for first in range(0, 40, 10):
        folders.add(first, first + 10)
    enriched = (
        folders.spark.readStream.schema("id long")
        .option("maxFilesPerTrigger", 1)
        .parquet(folders.source)
        .transform(pb.async_io, use, returns="twice long", engine="jvm", resource=Client)
    )
    folders.run(enriched)
    assert folders.written() == [(i, 2 * i) for i in range(40)]
    assert len(log.pids()) == 1
    assert len(log.events("opened")) == 1
    assert log.events("closed") == []


def test_for_each_batch(folders: Folders) -> None:
    folders.add(0, 20)
    kept = Kept(str(folders.root / "kept"))
    run_stream(folders.enriched(), folders.root, kept)
    assert sorted(kept.rows()) == [(i, 2 * i) for i in range(20)]


def test_async_io_inside_for_each_batch(folders: Folders) -> None:
    folders.add(0, 20)

    async def double(row: Any) -> int:
        return int(row.id) * 2

    def enrich(batch: DataFrame, number: int) -> list[Any]:
        return batch.transform(pb.async_io, double, returns="twice long", engine="jvm").collect()

    kept = Kept(str(folders.root / "kept"), enrich)
    run_stream(folders.stream(), folders.root, kept)
    assert sorted(kept.rows()) == [(i, 2 * i) for i in range(20)]


@pytest.mark.parametrize("carry_over", [False, True])
def test_spark_refuses_continuous_processing_with_calls(
    spark: SparkSession, carry_over: bool
) -> None:
    async def same(row: Any) -> int:
        return int(row.value)

    rows = spark.readStream.format("rate").load()
    called = rows.transform(pb.async_io, same, returns="x long", carry_over=carry_over)
    writer = called.writeStream.format("noop").trigger(continuous="1 second")
    with pytest.raises(Exception, match="processing does not support AsyncIO operations"):
        writer.start()


def test_a_processing_time_trigger(folders: Folders) -> None:
    folders.add(0, 10)
    query = (
        folders.enriched(ordered=False)
        .writeStream.format("parquet")
        .option("checkpointLocation", folders.checkpoint)
        .trigger(processingTime="100 milliseconds")
        .start(folders.sink)
    )
    try:
        query.processAllAvailable()
        folders.add(10, 25)
        eventually(lambda: len(folders.log.events("end")) == 25, "the second file")
        query.processAllAvailable()
    finally:
        query.stop()
    assert folders.written() == [(i, 2 * i) for i in range(25)]
    threads_are_gone(folders.spark)


def test_a_watermark_passes_through(folders: Folders) -> None:
    async def echo(row: Any) -> int:
        return int(row.id)

    def at(minute: int) -> datetime.datetime:
        return datetime.datetime(2013, 1, 1, 0, minute)

    def add(*minutes: int) -> None:
        rows = [(minute, at(minute)) for minute in minutes]
        events = folders.spark.createDataFrame(rows, "id long, at timestamp")
        events.coalesce(1).write.mode("append").parquet(folders.source)

    def run() -> None:
        stream = folders.spark.readStream.schema("id long, at timestamp").parquet(folders.source)
        counts = (
            stream.withWatermark("at", "5 minutes")
            .transform(pb.async_io, echo, returns="same long", engine="jvm")
            .groupBy(F.window("at", "10 minutes").alias("window"))
            .agg(F.sum("same").alias("total"))
        )
        folders.run(counts.select("window.start", "total"))

    def totals() -> list[tuple[datetime.datetime, int]]:
        return sorted(map(tuple, folders.spark.read.parquet(folders.sink).collect()))

    add(1, 2, 3, 12)
    run()
    assert totals() == []
    add(25)
    run()
    assert totals() == [(at(0), 6), (at(10), 12)]
    add(4)  # behind the watermark
    run()
    assert totals() == [(at(0), 6), (at(10), 12)]


def test_stateful_operators_of_spark_after_calls(folders: Folders) -> None:
    folders.add(0, 4)
    folders.add(2, 6)
    folders.run(folders.enriched().dropDuplicates(["id"]))
    assert folders.written() == [(i, 2 * i) for i in range(6)]


def seen_by_another_session(spark: SparkSession, df: DataFrame, name: str) -> DataFrame:
    """``df`` by a view, in a session that has made no operator."""
    if hasattr(spark, "newSession"):
        df.createOrReplaceGlobalTempView(name)
        return spark.newSession().table(f"global_temp.{name}")
    if not hasattr(spark, "cloneSession"):
        pytest.skip("this Spark Connect has one session a client")
    df.createOrReplaceTempView(name)
    return spark.cloneSession().table(name)


def test_a_query_that_another_session_starts_is_watched_too(
    spark: SparkSession, folders: Folders
) -> None:
    folders.add(0, 4)

    async def slow(row: Any) -> int:
        await asyncio.sleep(0.5)
        return int(row.id) * 2

    carried = folders.stream().transform(
        pb.async_io, slow, returns="twice long", engine="jvm", carry_over=True
    )
    seen = seen_by_another_session(spark, carried, "carried")
    with pytest.raises(Exception, match=r"CARRY_OVER_UNSUPPORTED.*trigger\(once=True\)"):
        seen.writeStream.format("noop").trigger(once=True).start().awaitTermination()
    folders.run(seen)
    assert folders.written() == [(i, 2 * i) for i in range(4)]


class RowThenTimer(pb.KeyedProcessFunction):
    def process(self, row: Any, ctx: Any) -> Any:
        # After the first run, which ends with this micro-batch, on a busy machine too.
        ctx.timers.register_processing_time(int(time.time() * 1000) + 5000)
        yield ctx.key, 0

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.key, 1


def test_a_timer_wakes_a_restarted_query_of_another_session(
    spark: SparkSession, folders: Folders
) -> None:
    folders.add(0, 2)
    keyed = folders.stream().transform(
        pb.process_keyed, RowThenTimer(), by="id", returns="id long, twice long"
    )
    seen = seen_by_another_session(spark, keyed, "timed")
    folders.run(seen)
    assert folders.written() == [(0, 0), (1, 0)]
    query = (
        seen.writeStream.format("parquet")
        .option("checkpointLocation", folders.checkpoint)
        .start(folders.sink)
    )
    try:
        everything = [(0, 0), (0, 1), (1, 0), (1, 1)]
        eventually(lambda: folders.written() == everything, "the timers")
    finally:
        query.stop()


@pytest.mark.classic
def test_a_session_of_batches_is_not_held_by_a_listener(
    spark: SparkSession, folders: Folders
) -> None:
    folders.add(0, 1)
    other = spark.newSession()
    other_folders = Folders(other, folders.root)

    async def double(row: Any) -> int:
        return int(row.id) * 2

    options: Any = {"returns": "twice long", "engine": "jvm"}
    assert other.range(1).transform(pb.async_io, double, **options).count() == 1
    # Not asked for before: listeners are kept by what this makes.
    listeners = other._jsparkSession.streams().listListeners  # type: ignore[attr-defined]
    assert len(listeners()) == 0
    other_folders.run(other_folders.enriched())
    assert len(listeners()) == 1
    assert other_folders.written() == [(0, 0)]
