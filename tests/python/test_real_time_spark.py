"""Real-time mode from Python: rows come, failures fail, restarts go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from pillarbox._base.spark_versions import installed
from real_time import Memory
from spark_support import by_value, eventually, own_pool, threads_are_gone

by_value(__name__)
pytestmark = pytest.mark.classic


of_spark_41 = pytest.mark.skipif(installed() == "4.0", reason="Spark 4.1 brought the mode")


class Output:
    """Spark collects rows before Python gets them; at the end of a batch all are there."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def process(self, row: Any) -> None:
        with self.file.open("a") as out:
            out.write(",".join(map(str, row)) + "\n")

    def lines(self) -> list[str]:
        return self.file.read_text().split() if self.file.exists() else []


def in_real_time(writer: Any) -> Any:
    """With the trigger, which PySpark has since 4.2. Spark's shortest batch has five seconds."""
    writer._spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
    if installed() != "4.1":
        return writer.trigger(realTime="1 second")
    jvm: Any = writer._spark._jvm
    trigger = jvm.org.apache.spark.sql.execution.streaming.RealTimeTrigger.apply("1 second")
    writer._jwrite = writer._jwrite.trigger(trigger)
    return writer


def started(rows: DataFrame, folder: Path) -> tuple[Any, Output]:
    output = Output(folder / "rows")
    writer = in_real_time(rows.writeStream.foreach(output).outputMode("update"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start(), output


@of_spark_41
def test_rows_of_a_python_function_come_and_a_stop_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)

    async def double(row: Any) -> int:
        return 2 * int(row.value)

    doubled = memory.rows.transform(pb.async_io, double, returns="twice long", engine="jvm")
    query, output = started(doubled.where("twice > 2"), tmp_path)
    memory.add(*range(5))
    eventually(lambda: output.lines() == ["2,4", "3,6", "4,8"], "the rows come")
    query.stop()
    threads_are_gone(spark)


@of_spark_41
def test_a_worker_that_is_killed_fails_the_query_and_a_restart_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory, killed, calls = Memory(spark), tmp_path / "killed", tmp_path / "calls"

    async def once(row: Any) -> str:
        with calls.open("a") as log:
            log.write(f"{row.value} {pb.call_id()}\n")
        if row.value == "3" and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return str(row.value)

    with own_pool(spark):
        called = memory.rows.transform(pb.async_io, once, returns="same string", engine="jvm")
        query, output = started(called, tmp_path)
        memory.add(*range(6))
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(60)
        assert killed.exists()
        memory.add(6)
        query, output = started(called, tmp_path)
        whole = {f"{i},{i}" for i in range(7)}
        eventually(lambda: set(output.lines()) == whole, "the rows of both runs")
        query.stop()
    ids = {tuple(line.split()) for line in calls.read_text().splitlines()}
    assert len(ids) == 7 == len({call_id for _, call_id in ids}), "a row keeps its call's id"


@of_spark_41
def test_a_failing_call_fails_the_query_as_in_any_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)

    async def fails(row: Any) -> int:
        raise ValueError(f"no {row.value}")

    called = memory.rows.transform(pb.async_io, fails, returns="x long", engine="jvm")
    query, _ = started(called, tmp_path)
    memory.add(7)
    with pytest.raises(StreamingQueryException, match=r"ASYNC_CALL_FAILED.*no 7"):
        query.awaitTermination(60)


@of_spark_41
def test_keyed_functions_and_calls_in_expressions_are_refused_with_our_words(
    spark: SparkSession, tmp_path: Path
) -> None:
    memory = Memory(spark)

    class Count(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> Any:
            yield (row.value,)

    keyed = pb.process_keyed(memory.rows, Count(), by="value", returns="value string")
    # Spark 4.3 has operators with state in this mode, and a list of names that ours can't be in.
    refusal = (
        r"REAL_TIME_ALLOWLIST" if installed() == "4.3" else r"REAL_TIME_KEYED.*Spark 4\.[12] runs"
    )
    query, output = started(keyed, tmp_path)
    with pytest.raises(StreamingQueryException, match=refusal):
        query.awaitTermination(60)
    scanned = memory.rows.transform(pb.scan, by="value", state={"n": ("0L", "n + 1")})
    query, output = started(scanned, tmp_path / "scan")
    with pytest.raises(StreamingQueryException, match=refusal):
        query.awaitTermination(60)
    assert output.lines() == []

    async def length(text: str) -> int:
        return len(text)

    called = memory.rows.select(pb.async_udf(length)("value"))
    query, _ = started(called, tmp_path / "udf")
    with pytest.raises(StreamingQueryException, match=r"REAL_TIME_UDF.*async_udf"):
        query.awaitTermination(60)

    async def whole(row: Any) -> int:
        return len(row.value)

    limit = pb.Limit(per_minute=1000, unit="tokens", estimate=lambda row: len(row.value))
    called = memory.rows.transform(pb.async_io, whole, returns="n long", limit=limit)
    query, _ = started(called, tmp_path / "estimate")
    with pytest.raises(StreamingQueryException, match=r"REAL_TIME_ESTIMATE.*async_io\(.*whole\)"):
        query.awaitTermination(60)


@pytest.mark.skipif(installed() not in ("4.0", "4.1"), reason="Spark 4.2 brought the argument")
def test_pyspark_itself_refuses_the_trigger_where_it_has_none(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load()
    with pytest.raises(TypeError, match="unexpected keyword argument 'realTime'"):
        rows.writeStream.trigger(realTime="5 seconds")
