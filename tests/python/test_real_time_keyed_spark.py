"""Keyed functions in real-time mode, which Spark has since 4.3."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from java_jars import compiled
from pillarbox._base.spark_versions import installed
from real_time import Memory
from spark_support import add_jar, by_value, eventually, own_pool, threads_are_gone

by_value(__name__)
pytestmark = [
    pytest.mark.classic,
    pytest.mark.skipif(
        installed() in ("4.0", "4.1", "4.2"), reason="Spark 4.3 brought the shuffle of the mode"
    ),
]

CHECK = "spark.sql.streaming.realTimeMode.allowlistCheck"
RETURNS = "key string, what string, n long, late_ms long"

#: Longer than a test: what is seen has left within the micro-batch.
LONG = "10 minutes"
SHORT = "5 seconds"


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    """One task reads and one processes, which is what the session has slots for."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set(CHECK, "false")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))
    spark.conf.unset(CHECK)


class Count(pb.KeyedProcessFunction):
    """Counts the rows of a key; a row ``key+`` sets a timer after 500 ms."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        if row.value.endswith("+"):
            ctx.timers.register_processing_time(ctx.processing_time + 500)
        yield ctx.key, "row", n, 0

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.key, "timer", self.n.value(), ctx.processing_time - timestamp


def keyed(rows: DataFrame, function: pb.KeyedProcessFunction | None = None) -> DataFrame:
    with_key = rows.withColumn("key", F.substring("value", 1, 1))
    return with_key.transform(pb.process_keyed, function or Count(), by="key", returns=RETURNS)


def started(rows: DataFrame, folder: Path, trigger: str = LONG) -> Any:
    writer: Any = rows.writeStream.outputMode("update").trigger(realTime=trigger)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    jvm: Any = rows.sparkSession._jvm  # type: ignore[attr-defined]
    to_file = jvm.io.pillarbox.files.RowsToFile(str(folder / "rows"))
    writer._jwrite = writer._jwrite.foreach(to_file)
    return writer.start()


def started_to_noop(rows: DataFrame, folder: Path) -> Any:
    """To a sink that is not in Spark's list."""
    writer: Any = rows.writeStream.format("noop").outputMode("update").trigger(realTime=LONG)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def lines(folder: Path) -> list[str]:
    file = folder / "rows"
    return file.read_text().split() if file.exists() else []


def no_batch_has_ended(folder: Path) -> bool:
    return not (folder / "checkpoint/commits/0").exists()


def await_commit_of(query: Any, rows: int) -> None:
    done = lambda: sum(p.numInputRows for p in query.recentProgress) == rows  # noqa: E731
    eventually(lambda: query.exception() is not None or done(), f"{rows} rows are committed")
    assert query.exception() is None, query.exception()


def test_rows_and_timers_leave_within_the_batch_and_timers_are_on_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)
    query = started(keyed(memory.rows), tmp_path)
    memory.add("a+", "b")
    eventually(lambda: len(lines(tmp_path)) >= 2 or not query.isActive, "rows leave")
    assert query.exception() is None, query.exception()
    # No row comes that could set off the timer.
    eventually(lambda: len(lines(tmp_path)) == 3, "the timer fires while the input is quiet")
    memory.add("a")
    eventually(lambda: len(lines(tmp_path)) == 4, "the next row leaves")
    assert no_batch_has_ended(tmp_path)
    query.stop()
    rows, timer, last = lines(tmp_path)[:2], lines(tmp_path)[2], lines(tmp_path)[3]
    assert (set(rows), last) == ({"a,row,1,0", "b,row,1,0"}, "a,row,2,0")
    *head, late_ms = timer.split(",")
    assert head == ["a", "timer", "1"]
    assert 0 <= int(late_ms) < 250
    threads_are_gone(spark)


def test_state_is_committed_with_the_batch_and_what_was_not_is_processed_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)
    query = started(keyed(memory.rows), tmp_path)
    memory.add("a", "a", "b")
    first = ["a,row,1,0", "a,row,2,0", "b,row,1,0"]
    eventually(lambda: sorted(lines(tmp_path)) == first, "rows leave")
    query.stop()
    assert no_batch_has_ended(tmp_path)
    query = started(keyed(memory.rows), tmp_path, SHORT)
    eventually(lambda: sorted(lines(tmp_path)) == sorted(2 * first), "the same rows again")
    await_commit_of(query, 3)
    memory.add("a")
    eventually(lambda: lines(tmp_path)[6:] == ["a,row,3,0"], "a later batch has the state")
    await_commit_of(query, 4)
    query.stop()
    query = started(keyed(memory.rows), tmp_path)
    memory.add("b")
    eventually(lambda: lines(tmp_path)[7:] == ["b,row,2,0"], "a later run has the state")
    query.stop()


def test_rows_that_no_operator_asks_for_count_in_the_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A join with an empty table takes none, unless its loop is generated."""
    memory = Memory(spark)
    empty = spark.range(3).where("id > 5").selectExpr("CAST(id AS string) AS key")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        query = started(keyed(memory.rows).join(F.broadcast(empty), "key"), tmp_path, SHORT)
        memory.add("a", "a", "b")
        await_commit_of(query, 3)
        query.stop()
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    query = started(keyed(memory.rows), tmp_path)
    memory.add("a")
    eventually(lambda: lines(tmp_path) == ["a,row,3,0"], "a later run has the state")
    query.stop()


def test_timers_of_a_stopped_query_fire_when_it_runs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)

    class Later(Count):
        def process(self, row: Any, ctx: Any) -> Any:
            ctx.timers.register_processing_time(ctx.processing_time + 7000)
            yield from super().process(row, ctx)

    query = started(keyed(memory.rows, Later()), tmp_path, SHORT)
    memory.add("a")
    await_commit_of(query, 1)
    query.stop()
    assert lines(tmp_path) == ["a,row,1,0"]
    query = started(keyed(memory.rows, Later()), tmp_path)
    eventually(lambda: len(lines(tmp_path)) == 2, "the timer fires")
    assert lines(tmp_path)[1].startswith("a,timer,1,")
    query.stop()


def test_a_run_without_input_is_checked_against_the_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)
    query = started(keyed(memory.rows), tmp_path, SHORT)
    memory.add("a")
    await_commit_of(query, 1)
    query.stop()
    # A key of another type.
    with_length = memory.rows.withColumn("length", F.length("value"))
    by_length = with_length.transform(pb.process_keyed, Count(), by="length", returns=RETURNS)
    query = started(by_length, tmp_path)
    with pytest.raises(StreamingQueryException, match="CHECKPOINT_MISMATCH"):
        query.awaitTermination(60)


COUNT = """
package com.acme;

import io.pillarbox.api.*;
import org.apache.spark.sql.*;

public class CountInJava extends KeyedProcessFunction<Row, Row, Row> {
  private ValueState<Long> count;

  @Override public void open(OpenContext context) {
    count = context.getState(StateDescriptor.value("count", Serializers.ofLong()));
  }

  @Override public void processElement(Row row, Context<Row> context, Collector<Row> out)
      throws Exception {
    count.update(count.value() == null ? 1L : count.value() + 1);
    TimerService timers = context.timerService();
    timers.registerProcessingTimeTimer(timers.currentProcessingTime() + 500);
    out.collect(RowFactory.create(context.currentKey().get(0), "row", count.value(), 0L));
  }

  @Override public void onTimer(long time, OnTimerContext<Row> context, Collector<Row> out)
      throws Exception {
    long late = context.timerService().currentProcessingTime() - time;
    out.collect(RowFactory.create(context.currentKey().get(0), "timer", count.value(), late));
  }
}
"""


def test_a_function_of_the_jvm_runs_row_by_row_and_its_timers_are_on_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    add_jar(spark, compiled(tmp_path, "count.jar", {"CountInJava": COUNT}))
    memory = Memory(spark)
    function = pb.JvmFunction("com.acme.CountInJava")
    counted = memory.rows.transform(pb.process_keyed, function, by="value", returns=RETURNS)
    query = started(counted, tmp_path)
    memory.add("a")
    eventually(lambda: len(lines(tmp_path)) == 2, "the row leaves, and its timer fires")
    memory.add("a", "b")
    eventually(lambda: len(lines(tmp_path)) == 6, "the next rows leave, and their timers fire")
    assert no_batch_has_ended(tmp_path)
    query.stop()
    told = [line.rsplit(",", 1) for line in lines(tmp_path)]
    assert [what for what, _ in told[:2]] == ["a,row,1", "a,timer,1"]
    assert sorted(what for what, _ in told[2:]) == ["a,row,2", "a,timer,2", "b,row,1", "b,timer,1"]
    assert all(0 <= int(late) < 250 for _, late in told)


def test_a_scan_runs_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    memory = Memory(spark)
    scanned = memory.rows.transform(
        pb.scan, by="value", state={"n": ("0L", "n + 1")}, select=["value", "n"]
    )
    query = started(scanned, tmp_path)
    for n in (1, 2, 3):
        memory.add("x")
        eventually(lambda n=n: lines(tmp_path) == [f"x,{i}" for i in range(1, n + 1)], "it leaves")
    assert no_batch_has_ended(tmp_path)
    query.stop()


def with_times(rows: DataFrame) -> DataFrame:
    """Rows such as ``a100``: a key and its time."""
    return rows.selectExpr(
        "substring(value, 1, 1) AS key", "value", "timestamp_millis(int(substring(value, 2))) AS ts"
    ).withWatermark("ts", "0 seconds")


def test_event_time_timers_fire_at_the_beginning_of_the_batch_that_has_the_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)

    class AtTime(Count):
        def process(self, row: Any, ctx: Any) -> Any:
            ctx.timers.register_event_time(ctx.timestamp + 1)
            yield from super().process(row, ctx)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.key, "timer", self.n.value(), timestamp

    function = with_times(memory.rows).transform(
        pb.process_keyed, AtTime(), by="key", returns=RETURNS
    )
    query = started(function, tmp_path, SHORT)
    memory.add("a100", "b100000")
    eventually(lambda: len(lines(tmp_path)) == 2, "rows leave")
    # The micro-batch after has no row.
    eventually(lambda: lines(tmp_path)[2:] == ["a,timer,1,101"], "the timer fires")
    # Under the watermark by which the timer has fired, and in the same micro-batch.
    memory.add("c5", "d200000")
    eventually(lambda: len(lines(tmp_path)) > 3, "a row leaves")
    assert lines(tmp_path)[3:] == ["d,row,1,0"], "a late row is dropped"
    query.stop()


def test_calls_before_and_after_it(spark: SparkSession, tmp_path: Path) -> None:
    memory = Memory(spark)

    async def longer(row: Any) -> str:
        return row.value + "!"

    async def doubled(row: Any) -> int:
        return int(2 * row.n)

    before = memory.rows.transform(pb.async_io, longer, returns="longer string", engine="jvm")
    counted = keyed(before.selectExpr("longer AS value"))
    after = counted.transform(pb.async_io, doubled, returns="twice long", engine="jvm")
    query = started(after.select("key", "n", "twice"), tmp_path)
    memory.add("a", "a")
    eventually(lambda: lines(tmp_path) == ["a,1,2", "a,2,4"], "rows leave")
    memory.add("b")
    eventually(lambda: lines(tmp_path)[2:] == ["b,1,2"], "the next row leaves")
    assert no_batch_has_ended(tmp_path)
    query.stop()
    threads_are_gone(spark)


def test_a_worker_that_is_killed_fails_the_query_and_state_is_exactly_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory, killed = Memory(spark), tmp_path / "killed"

    class Dying(Count):
        def process(self, row: Any, ctx: Any) -> Any:
            if row.value == "k" and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield from super().process(row, ctx)

    with own_pool(spark):
        query = started(keyed(memory.rows, Dying()), tmp_path, SHORT)
        memory.add("a", "a")
        await_commit_of(query, 2)
        memory.add("a", "b", "k", "a")
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(60)
        query = started(keyed(memory.rows, Dying()), tmp_path, SHORT)
        await_commit_of(query, 4)
        query.stop()
    last = {line.split(",")[0]: line for line in lines(tmp_path)}
    assert last == {"a": "a,row,4,0", "b": "b,row,1,0", "k": "k,row,1,0"}


def test_what_it_can_not_be_kept_with_is_refused_and_other_operators_are_checked(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)

    def failure(rows: DataFrame, name: str, start: Any = started) -> str:
        query = start(rows, tmp_path / name)
        with pytest.raises(StreamingQueryException) as error:
            query.awaitTermination(60)
        return str(error.value)

    ordered = memory.rows.transform(
        pb.process_keyed, Count(), by="value", returns=RETURNS, order_by="value"
    )
    assert "REAL_TIME_UNSUPPORTED" in failure(ordered, "order")
    first = with_times(memory.rows).transform(pb.process_keyed, Count(), by="key", returns=RETURNS)
    second = first.withColumnRenamed("key", "value").transform(keyed)
    assert "REAL_TIME_UNSUPPORTED" in failure(second, "second")
    # Of two operators that Spark's list has not, Spark's error names the other one.
    batched = keyed(memory.rows).mapInArrow(lambda batches: batches, RETURNS)
    text = failure(batched, "map")
    assert "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST" in text
    assert "MapInArrowExec" in text
    assert "pillarbox" not in text.split("=== Streaming Query ===")[0]
    text = failure(keyed(memory.rows), "sink", started_to_noop)
    assert "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST" in text
    assert "NoopTable" in text
    spark.conf.set(CHECK, "true")
    assert "REAL_TIME_ALLOWLIST" in failure(keyed(memory.rows), "check")
