"""However a query ends, no thread, worker or call of it is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from spark_support import (
    KILL_WATCH,
    CallLog,
    Latch,
    by_value,
    eventually,
    is_running,
    own_pool,
    threads_are_gone,
)

by_value(__name__)


def never_returns(log: CallLog) -> Callable[[Any], Any]:
    async def hang(row: Any) -> int:
        async with log.call(row.id):
            await asyncio.Event().wait()
        return 0

    return hang


@pytest.mark.parametrize("ordered", [True, False])
def test_a_limit_cancels_the_calls_that_it_does_not_need(
    spark: SparkSession, log: CallLog, ordered: bool
) -> None:
    has_more = asyncio.Event()  # of the worker

    async def only_small(row: Any) -> int:
        async with log.call(row.id):
            if row.id >= 3:
                has_more.set()
                await asyncio.Event().wait()
            await has_more.wait()
        return int(row.id)

    rows = spark.range(0, 1000, 1, 1).transform(
        pb.async_io, only_small, returns="same long", engine="jvm", capacity=20, ordered=ordered
    )
    assert [row.same for row in rows.where("same >= 0").limit(3).collect()] == [0, 1, 2]
    eventually(lambda: log.in_flight() == 0, "calls to be cancelled")
    threads_are_gone(spark)
    assert len(log.events("cancelled")) == len(log.events("start")) - 3 > 0
    # Those in flight at first, and at most one for each that has ended.
    assert len(log.events("start")) <= 20 + 3


def test_a_worker_that_was_cut_short_by_a_limit_serves_the_next_task(
    spark: SparkSession, log: CallLog
) -> None:
    async def slow_tail(row: Any) -> int:
        async with log.call(row.id):
            if row.id >= 1:
                await asyncio.Event().wait()
        return int(row.id)

    with own_pool(spark):
        rows = spark.range(0, 50, 1, 1).transform(
            pb.async_io, slow_tail, returns="same long", engine="jvm"
        )
    for _ in range(3):
        assert [row.same for row in rows.where("same >= 0").limit(1).collect()] == [0]
    assert len(log.pids()) == 1


def run_in_background(spark: SparkSession, rows: DataFrame, group: str, interrupt: bool) -> Any:
    """Starts the job in a job group; the list that is returned gets its error."""
    errors: list[BaseException] = []

    def run() -> None:
        spark.sparkContext.setJobGroup(group, group, interruptOnCancel=interrupt)
        try:
            rows.collect()
        except Exception as problem:
            errors.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


@pytest.mark.classic
@pytest.mark.parametrize("interrupt", [False, True], ids=["flagged", "interrupted"])
def test_cancelling_a_job_ends_calls_that_never_return(
    spark: SparkSession, log: CallLog, interrupt: bool
) -> None:
    rows = spark.range(0, 100, 1, 2).transform(
        pb.async_io, never_returns(log), returns="x int", engine="jvm", capacity=10
    )
    thread, errors = run_in_background(spark, rows, f"cancel-{interrupt}", interrupt)
    eventually(lambda: log.in_flight() == 20, "all calls to be in flight")
    spark.sparkContext.cancelJobGroup(f"cancel-{interrupt}")
    thread.join(10)
    assert not thread.is_alive()
    assert "cancel" in str(errors[0]).lower()
    eventually(lambda: all_ended(log), "the end of all calls", 10)
    threads_are_gone(spark)


@pytest.mark.classic
def test_an_attempt_that_lost_against_another_is_ended_and_the_rows_are_complete(
    spark: SparkSession, log: CallLog
) -> None:
    """As Spark ends the slower one of two speculative attempts: by a kill with an interrupt."""

    async def first_attempt_hangs(row: Any) -> int:
        context = TaskContext.get()
        assert context is not None
        async with log.call(row.id):
            log.write("task", task=context.taskAttemptId())
            if context.attemptNumber() == 0:
                await asyncio.Event().wait()
        return int(row.id)

    df = spark.range(0, 5, 1, 1).transform(
        pb.async_io, first_attempt_hangs, returns="same long", engine="jvm"
    )
    answers: list[int] = []
    job = threading.Thread(target=lambda: answers.extend(row.same for row in df.collect()))
    job.start()
    eventually(lambda: len(log.events("task")) == 5, "all calls to be in flight")
    jvm_context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    task = log.events("task")[0]["task"]
    assert jvm_context.killTaskAttempt(task, True, "another attempt succeeded")
    job.join(60)
    assert answers == [0, 1, 2, 3, 4]
    assert all_ended(log)
    threads_are_gone(spark)


def all_ended(log: CallLog) -> bool:
    """Cancelled one by one, or gone with their process."""
    started = {(record["pid"], record["key"]) for record in log.events("start")}
    ended = {(record["pid"], record["key"]) for record in log.events("cancelled", "end")}
    return not any(is_running(pid) for pid, _ in started - ended)


@pytest.mark.classic
@pytest.mark.parametrize("interrupt", [False, True], ids=["flagged", "interrupted"])
def test_cancelling_a_job_ends_a_resource_that_never_opens(
    spark: SparkSession, log: CallLog, interrupt: bool
) -> None:
    class Stuck:
        async def __aenter__(self) -> None:
            log.write("opening")
            await asyncio.Event().wait()

        async def __aexit__(self, *error: object) -> None: ...

    async def unused(row: Any, resource: Any) -> int:
        return 0

    rows = spark.range(0, 2, 1, 1).transform(
        pb.async_io, unused, returns="x int", engine="jvm", resource=Stuck
    )
    thread, errors = run_in_background(spark, rows, f"stuck-{interrupt}", interrupt)
    eventually(lambda: len(log.events("opening")) == 1, "the resource to be opened")
    spark.sparkContext.cancelJobGroup(f"stuck-{interrupt}")
    thread.join(10)
    assert not thread.is_alive()
    assert errors
    eventually(lambda: not any(map(is_running, log.pids())), "the end of the worker", 10)


def test_stopping_a_query_ends_calls_that_never_return(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    enriched = stream.selectExpr("value AS id").transform(
        pb.async_io, never_returns(log), returns="x int", engine="jvm"
    )
    query = (
        enriched.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    eventually(lambda: log.in_flight() > 0, "calls to be in flight")
    query.stop()
    assert not query.isActive
    eventually(lambda: all_ended(log), "the end of all calls", 10)
    threads_are_gone(spark)


def test_a_call_that_fails_the_task_ends_the_others(spark: SparkSession, log: CallLog) -> None:
    async def one_fails(row: Any) -> int:
        async with log.call(row.id):
            if row.id == 9:
                raise ValueError("nine")
            await asyncio.Event().wait()
        return 0

    rows = spark.range(0, 50, 1, 1).transform(
        pb.async_io, one_fails, returns="x int", engine="jvm", capacity=10
    )
    with pytest.raises(Exception, match="ValueError: nine"):
        rows.collect()
    # Nine are cancelled; the one that failed has no end either.
    eventually(lambda: len(log.events("cancelled")) == 9, "the others to be cancelled", 10)
    threads_are_gone(spark)


def test_a_thread_that_does_not_stop_goes_with_its_worker(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    never = Latch(str(tmp_path / "never"))

    def first_only(row: Any) -> int:
        log.write("start", key=row.id)
        while row.id > 0 and not os.path.exists(never.path):
            threading.Event().wait(0.05)
        return int(row.id)

    rows = spark.range(0, 20, 1, 1).transform(
        pb.async_io, first_only, returns="same long", engine="jvm", capacity=4
    )
    assert rows.where("same >= 0").limit(1).collect()[0].same == 0
    eventually(lambda: not any(map(is_running, log.pids())), "the end of the worker", 10)
    threads_are_gone(spark)


def test_a_worker_that_was_killed_is_reported_with_its_last_words(
    spark: SparkSession,
) -> None:
    async def dies(row: Any) -> int:
        os.write(2, b"last words of the worker\n")
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    rows = spark.range(0, 1, 1, 1).transform(pb.async_io, dies, returns="x int", engine="jvm")
    with pytest.raises(Exception, match=r"PYTHON_WORKER_DIED(?s:.)*last words of the worker"):
        rows.collect()
    threads_are_gone(spark)


def test_a_crash_in_native_code_shows_where(spark: SparkSession) -> None:
    async def crashes_here(row: Any) -> int:
        os.kill(os.getpid(), signal.SIGSEGV)
        return 0

    rows = spark.range(0, 1, 1, 1).transform(
        pb.async_io, crashes_here, returns="x int", engine="jvm"
    )
    with pytest.raises(Exception, match=r"Segmentation fault(?s:.)*crashes_here"):
        rows.collect()


@pytest.mark.parametrize("ordered", [True, False])
def test_partitions_that_one_task_reads_after_each_other_share_a_worker_and_its_resource(
    spark: SparkSession, log: CallLog, ordered: bool
) -> None:
    @asynccontextmanager
    async def client() -> AsyncIterator[int]:
        log.write("open", key=None)
        yield 2
        log.write("close", key=None)

    async def times(row: Any, factor: int) -> int:
        async with log.call(row.id):
            await asyncio.sleep(0)
        return int(row.id) * factor

    with own_pool(spark):
        rows = spark.range(0, 300, 1, 30).transform(
            pb.async_io, times, returns="twice long", engine="jvm", resource=client, ordered=ordered
        )
    assert sorted(map(tuple, rows.coalesce(1).collect())) == [(i, 2 * i) for i in range(300)]
    assert len(log.pids()) == len(log.events("open")) == 1
    threads_are_gone(spark)


def test_a_worker_is_given_back_when_the_last_row_is_out_though_the_task_goes_on(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    async def same(row: Any) -> int:
        async with log.call(row.id):
            return int(row.id)

    def held(rows: Iterator[Any]) -> Iterator[Any]:
        yield from rows
        # The task is not over, and nothing of the operator is left in it.
        eventually(lambda: (tmp_path / "checked").exists(), "the look from outside")

    rows = spark.range(0, 20, 1, 1).transform(pb.async_io, same, returns="same long", engine="jvm")
    job = threading.Thread(target=rows.mapInArrow(held, rows.schema).collect)
    job.start()
    eventually(lambda: len(log.events("end")) == 20, "all calls to end")
    threads_are_gone(spark, but=KILL_WATCH)
    assert job.is_alive()
    (tmp_path / "checked").touch()
    job.join(30)
    assert not job.is_alive()
