"""Single calls on the JVM engine: ids, retries, deadlines, errors, resources, workers."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pillarbox as pb
from pillarbox._async import options
from spark_support import CallLog, by_value, eventually, is_running, own_pool

by_value(__name__)


def test_a_call_id_is_stable_over_retries(spark: SparkSession, log: CallLog) -> None:
    async def flaky(row: Any) -> str:
        async with log.call(row.id):
            if len([r for r in log.events("start") if r["key"] == row.id]) < 3:
                raise ConnectionError("again")
        return pb.call_id()

    df = spark.range(0, 10, 1, 2).transform(
        pb.async_io,
        flaky,
        returns="call string",
        engine="jvm",
        retry=pb.Retry(3, backoff="1ms"),
    )
    answered = {row.id: row.call for row in df.collect()}
    assert len(set(answered.values())) == 10
    seen = {(record["key"], record["call_id"]) for record in log.events("start")}
    assert seen == set(answered.items())
    assert len(log.events("start")) == 30


def test_retry_after_is_obeyed(spark: SparkSession, log: CallLog) -> None:
    async def asks_for_patience(row: Any) -> int:
        log.write("start")
        if len(log.events("start")) == 1:
            raise pb.RetryAfter(0.7)
        return 1

    df = spark.range(0, 1, 1, 1).transform(
        pb.async_io,
        asks_for_patience,
        returns="x int",
        engine="jvm",
        retry=pb.Retry(2, backoff="1ms"),
    )
    assert df.collect()[0].x == 1
    first, second = [record["at"] for record in log.events("start")]
    assert 0.7 <= second - first < 5


def test_an_attempt_that_takes_too_long_is_cancelled_and_tried_again(
    spark: SparkSession, log: CallLog
) -> None:
    async def slow_once(row: Any) -> int:
        async with log.call(row.id):
            if len(log.events("start")) == 1:
                await asyncio.Event().wait()
        return 1

    df = spark.range(0, 1, 1, 1).transform(
        pb.async_io,
        slow_once,
        returns="x int",
        engine="jvm",
        timeout=pb.Timeout("20 seconds", attempt="2 seconds"),
        retry=pb.Retry(2, backoff="1ms"),
    )
    assert df.collect()[0].x == 1
    assert [r["event"] for r in log.events()] == ["start", "cancelled", "start", "end"]


def test_the_total_timeout_covers_all_attempts(spark: SparkSession) -> None:
    async def always_slow(row: Any) -> int:
        await asyncio.Event().wait()
        return 1

    df = spark.range(0, 1, 1, 1).transform(
        pb.async_io,
        always_slow,
        returns="x int",
        engine="jvm",
        timeout=pb.Timeout("1s", attempt="100ms"),
        retry=pb.Retry(100, backoff="1ms"),
        on_error="column",
    )
    problem = df.collect()[0].error
    assert problem.kind == "TIMEOUT"
    assert 2 <= problem.attempts <= 10
    assert "total timeout" in problem.message
    assert 1000 <= problem.elapsed_ms < 5000


def test_what_becomes_of_a_row_that_failed(spark: SparkSession) -> None:
    async def odd_fails(row: Any) -> int:
        if row.id % 2:
            raise KeyError(f"no {row.id}")
        return int(row.id)

    df = spark.range(0, 4, 1, 1)
    with pytest.raises(Exception, match=r"ASYNC_CALL_FAILED(?s:.)*id=1(?s:.)*KeyError"):
        df.transform(pb.async_io, odd_fails, returns="x int", engine="jvm").collect()
    nulls = df.transform(pb.async_io, odd_fails, returns="x int", engine="jvm", on_error="null")
    assert [row.x for row in nulls.collect()] == [0, None, 2, None]
    kept = df.transform(
        pb.async_io,
        odd_fails,
        returns="x int",
        engine="jvm",
        on_error=pb.ErrorColumn("why"),
    )
    assert [(row.x, row.why and row.why.kind) for row in kept.collect()] == [
        (0, None),
        (None, "KeyError"),
        (2, None),
        (None, "KeyError"),
    ]
    assert kept.where("why is not null").select("id").collect() == [(1,), (3,)]


def test_explode_gives_any_number_of_rows(spark: SparkSession) -> None:
    async def as_many(row: Any) -> list[int] | None:
        return None if row.id == 2 else list(range(row.id))

    df = spark.range(0, 4, 1, 1).transform(
        pb.async_io, as_many, returns="x int", engine="jvm", explode=True
    )
    assert list(map(tuple, df.collect())) == [(1, 0), (2, None), (3, 0), (3, 1), (3, 2)]


def test_plain_functions_run_in_threads_at_the_same_time(spark: SparkSession) -> None:
    def meets(row: Any, barrier: threading.Barrier) -> str:
        barrier.wait(20)
        return threading.current_thread().name

    class Meeting:
        def __enter__(self) -> threading.Barrier:
            return threading.Barrier(5)

        def __exit__(self, *error: object) -> None: ...

    df = spark.range(0, 10, 1, 1).transform(
        pb.async_io, meets, returns="thread string", engine="jvm", resource=Meeting, capacity=5
    )
    assert len({row.thread for row in df.collect()}) == 5


def test_a_resource_is_opened_once_a_worker_and_closed_when_the_worker_ends(
    spark: SparkSession, log: CallLog
) -> None:
    class Client:
        async def __aenter__(self) -> None:
            log.write("opened")

        async def __aexit__(self, *error: object) -> None:
            log.write("closed")

    async def use(row: Any, client: Any) -> int:
        log.write("start", key=row.id)
        return 1

    with own_pool(spark):
        df = spark.range(0, 20, 1, 1).transform(
            pb.async_io, use, returns="x int", engine="jvm", resource=Client
        )
    for _ in range(3):
        assert len(df.collect()) == 20
    assert [record["event"] for record in log.events("opened", "closed")] == ["opened"]
    (worker,) = log.pids()

    os.kill(worker, signal.SIGTERM)
    eventually(lambda: not is_running(worker), "the worker to end")
    assert [record["event"] for record in log.events("opened", "closed")] == ["opened", "closed"]


@pytest.mark.classic
def test_broadcast_variables_reach_the_function(spark: SparkSession) -> None:
    names = spark.sparkContext.broadcast({0: "zero", 1: "one"})

    async def name(row: Any) -> str:
        return names.value[row.id]

    df = spark.range(0, 2, 1, 1).transform(pb.async_io, name, returns="name string", engine="jvm")
    assert [row.name for row in df.collect()] == ["zero", "one"]


def test_a_blocked_event_loop_fails_the_task_with_its_stack_though_failed_rows_go_on(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "BLOCKED_LOOP_MS", 1000)

    async def blocks_here(row: Any) -> int:
        threading.Event().wait()
        return 1

    asked = {"returns": "x int", "engine": "jvm", "on_error": "column"}
    df = spark.range(0, 1, 1, 1).transform(pb.async_io, blocks_here, **asked)
    with pytest.raises(Exception, match=r"EVENT_LOOP_BLOCKED(?s:.)*blocks_here"):
        df.collect()


def test_explain_shows_the_options(spark: SparkSession, capsys: Any) -> None:
    async def enrich(row: Any) -> int:
        return 1

    spark.range(3).transform(
        pb.async_io,
        enrich,
        returns="x int",
        engine="jvm",
        name="weather",
        ordered=False,
        capacity=7,
        timeout="5s",
        retry=pb.Retry(3, backoff="100ms"),
        limit=pb.Limit(concurrency=8, per_second=50, scope="executor"),
    ).explain()
    shown = capsys.readouterr().out
    expected = (
        "AsyncIO weather, form=row, ordered=false, capacity=7, on_error=raise, "
        "limit=(concurrency=8 per_second=50 scope=executor), timeout=(total=5s), "
        "retry=(max_attempts=3 backoff=100ms)"
    )
    assert expected in shown


@pytest.mark.classic
@pytest.mark.parametrize("form", ["row", "thread", "batch"])
def test_what_calls_report_is_summed_up_by_unit(spark: SparkSession, form: str) -> None:
    def report(rows: list[Any]) -> list[int]:
        call = pb.current_call()
        call.report_usage(tokens=[row.id for row in rows] if form == "batch" else rows[0].id)
        call.report_usage(usd=0.5 * len(rows))
        if call.attempt == 1 and rows[0].id == 7:
            raise ConnectionError("again")
        return [call.attempt] * len(rows)

    async def one(row: Any) -> int:
        return report([row])[0]

    async def in_list(rows: list[Any]) -> list[int]:
        return report(rows)

    def in_thread(row: Any) -> int:
        return report([row])[0]

    df = spark.range(0, 10, 1, 1).transform(
        pb.async_io,
        {"row": one, "thread": in_thread, "batch": in_list}[form],
        returns="attempt long",
        usage=["tokens", "usd"],
        batch_size=1 if form == "batch" else None,
        retry=pb.Retry(2, backoff="1ms"),
        engine="jvm",
    )
    assert sorted(row.attempt for row in df.collect()) == [1] * 9 + [2]
    metrics = df._jdf.queryExecution().executedPlan().metrics()
    used = {unit: metrics.apply(f"usage.{unit}").value() for unit in ("tokens", "usd")}
    assert used == {"tokens": 45 + 7, "usd": 6}  # dollars are 5.5
