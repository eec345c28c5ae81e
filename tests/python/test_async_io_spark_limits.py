"""Limits that hold for a whole executor: calls in flight, and calls started a second."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from spark_support import CallLog, by_value, own_pool, run_stream, threads_are_gone

by_value(__name__)


def called(df: DataFrame, function: Any, **options: Any) -> DataFrame:
    return pb.async_io(df, function, returns="same long", engine="jvm", **options)


def together(log: CallLog, enough: int, limit: int) -> Callable[[Any], Any]:
    """A call that waits until ``enough`` have been in flight with it, so that many must overlap."""

    async def call(row: Any) -> int:
        async with log.call(row.id):
            while row.id < limit and log.most_in_flight() < enough:
                await asyncio.sleep(0.005)
        return int(row.id)

    return call


def test_max_concurrency_holds_over_the_partitions_of_an_executor(
    spark: SparkSession, log: CallLog
) -> None:
    with own_pool(spark):
        df = called(
            spark.range(0, 60, 1, 2),
            together(log, 8, 60),
            capacity=50,
            limit=pb.Limit(concurrency=8, scope="executor"),
        )
    assert sorted(row.same for row in df.collect()) == list(range(60))
    assert log.most_in_flight() == 8
    assert len(log.pids()) == 2
    threads_are_gone(spark)


def test_without_it_each_task_has_its_capacity(spark: SparkSession, log: CallLog) -> None:
    df = spark.range(0, 40, 1, 2).transform(
        pb.async_io, together(log, 16, 40), returns="same long", engine="jvm", capacity=8
    )
    assert len(df.collect()) == 40
    assert log.most_in_flight() == 16


def test_rows_that_are_sent_ahead_are_not_called_before_there_is_room(
    spark: SparkSession, log: CallLog
) -> None:
    overlap = together(log, 8, 150)

    async def first_attempt_fails(row: Any) -> int:
        answer = await overlap(row)
        if row.id % 7 == 0 and pb.call_id() not in failed:
            failed.add(pb.call_id())
            raise LookupError("come again")
        if row.id % 11 == 0:
            raise ValueError("never")
        return int(answer)

    failed: set[str] = set()
    df = called(
        spark.range(0, 200, 1, 1),
        first_attempt_fails,
        ordered=False,
        capacity=8,
        retry=pb.Retry(2, backoff="1ms", on=LookupError),
        on_error="column",
        timeout="1 minute",
    )
    rows = sorted(df.collect(), key=lambda row: row.id)
    assert [row.id for row in rows] == list(range(200))
    assert [row.id for row in rows if row.error] == list(range(0, 200, 11))
    assert all(row.same == row.id for row in rows if not row.error)
    assert log.most_in_flight() == 8
    assert len(log.events("start")) == 200 + len(range(0, 200, 7))
    threads_are_gone(spark)


def test_permits_of_cancelled_calls_come_back(spark: SparkSession, log: CallLog) -> None:
    async def first_of_many(row: Any) -> int:
        async with log.call(row.id):
            if row.id > 0:
                await asyncio.Event().wait()
        return int(row.id)

    df = called(
        spark.range(0, 40, 1, 1), first_of_many, limit=pb.Limit(concurrency=3, scope="executor")
    )
    for _ in range(3):
        assert [row.same for row in df.where("same >= 0").limit(1).collect()] == [0]
    assert log.most_in_flight() <= 3
    threads_are_gone(spark)


def test_rate_limit_holds_over_tasks(spark: SparkSession, log: CallLog) -> None:
    async def call(row: Any, resource: None) -> int:
        log.write("start", key=row.id)
        return int(row.id)

    with own_pool(spark):
        df = called(
            spark.range(0, 45, 1, 4),
            call,
            resource=log.opened,
            limit=pb.Limit(per_second=30, scope="executor"),
        )
    assert len(df.collect()) == 45
    # 44 intervals, whatever task the calls are in. Two tasks with a limit each would take half the
    # time.
    assert log.since_open()[-1] >= 44 / 30 * 0.75
    assert len({record["pid"] for record in log.events("start")}) == 2


def test_rate_limit_holds_over_micro_batches(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    async def call(row: Any, resource: None) -> int:
        log.write("start", key=row.id)
        return int(row.id)

    for first in range(2):
        spark.range(first, first + 1, 1, 1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    limit = pb.Limit(per_minute=20)
    enriched = stream.parquet(str(tmp_path / "in")).transform(
        pb.async_io, call, returns="same long", engine="jvm", limit=limit, resource=log.opened
    )
    run_stream(enriched, tmp_path)
    times = log.since_open()
    assert len(times) == 2
    # More than two micro-batches take by themselves; what is lent may be spent half a second early.
    assert times[1] >= 2.4


def test_max_concurrency_counts_calls_of_the_batch_form(spark: SparkSession, log: CallLog) -> None:
    async def call(rows: list[Any]) -> list[int]:
        log.write("start", key=len(rows))
        while log.most_in_flight() < 2:
            await asyncio.sleep(0.005)
        log.write("end", key=len(rows))
        return [int(row.id) for row in rows]

    df = called(
        spark.range(0, 80, 1, 2),
        call,
        capacity=40,
        batch_size=pb.BatchSize(5, wait="10ms"),
        limit=pb.Limit(concurrency=2, scope="executor"),
    )
    assert sorted(row.same for row in df.collect()) == list(range(80))
    assert log.most_in_flight() == 2
    sizes = [record["key"] for record in log.events("start")]
    assert max(sizes) == 5
    assert math.ceil(80 / 5) <= len(sizes) < 40


def test_a_batch_leaves_after_its_wait_though_it_is_not_full(
    spark: SparkSession, log: CallLog
) -> None:
    async def call(rows: list[Any]) -> list[int]:
        log.write("start", key=len(rows))
        return [int(row.id) for row in rows]

    df = called(spark.range(0, 7, 1, 1), call, batch_size=pb.BatchSize(5, wait="50ms"))
    assert [row.same for row in df.collect()] == list(range(7))
    assert [record["key"] for record in log.events("start")] == [5, 2]


@asynccontextmanager
async def one_counter() -> AsyncIterator[list[int]]:
    yield [0]


class Refused(Exception):
    """As clients of HTTP raise it."""

    status_code = 503


def test_a_service_that_is_down_is_asked_by_one_call_at_a_time(
    spark: SparkSession, log: CallLog
) -> None:
    """Without ``retry``: the rows that met the overload fail."""

    async def down(row: Any) -> int:
        async with log.call(row.id):
            while log.most_in_flight() < 20:
                await asyncio.sleep(0.005)
        raise Refused("no")

    rows = (
        spark.range(0, 120, 1, 2)
        .transform(
            pb.async_io,
            down,
            returns="same long",
            engine="jvm",
            limit=pb.Limit(concurrency=20, scope="executor", adaptive=True),
            on_error="column",
        )
        .collect()
    )
    assert {row.error.kind for row in rows} == {"Refused"}
    assert len(rows) == 120
    assert log.most_in_flight() == 20
    # Seven tenths of 20, nine times, is below 2.
    last = log.events("start", "end", "cancelled")[-40:]
    assert [record["event"] for record in last] == ["start", "end"] * 20


def test_after_retry_after_nobody_calls_before_the_time(spark: SparkSession, log: CallLog) -> None:
    async def wait_once(row: Any) -> int:
        async with log.call(row.id):
            await asyncio.sleep(0.01)
        if row.id == 10 and len([r for r in log.events("start") if r["key"] == 10]) == 1:
            log.write("told")
            raise pb.RetryAfter(0.5)
        return int(row.id)

    df = called(
        spark.range(0, 60, 1, 1),
        wait_once,
        limit=pb.Limit(concurrency=4, scope="executor", adaptive=True),
        retry=pb.Retry(2, backoff="1ms"),
    )
    assert sorted(row.same for row in df.collect()) == list(range(60))
    told = log.events("told")[0]["at"]
    starts = [record["at"] for record in log.events("start")]
    # The other three that were allowed may be on their way.
    assert len([at for at in starts if told < at < told + 0.49]) <= 3
    assert len([at for at in starts if at >= told + 0.49]) > 40


def test_the_limit_follows_what_the_service_bears(spark: SparkSession, tmp_path: Path) -> None:
    """It bears 4 calls at a time. With ``adaptive`` fewer calls are refused."""
    refused = {}
    for adaptive in (False, True):
        log = CallLog(str(tmp_path / f"calls {adaptive}"))

        async def bears_four(row: Any, under_way: list[int], log: CallLog = log) -> int:
            under_way[0] += 1
            bears = under_way[0] <= 4
            await asyncio.sleep(0.02)
            under_way[0] -= 1
            if not bears:
                log.write("refused")
                raise Refused("too many")
            return int(row.id)

        df = called(
            spark.range(0, 60, 1, 1),
            bears_four,
            limit=pb.Limit(concurrency=16, scope="executor", adaptive=adaptive),
            retry=pb.Retry(500, backoff="1ms"),
            resource=one_counter,
        )
        assert sorted(row.same for row in df.collect()) == list(range(60))
        refused[adaptive] = len(log.events("refused"))
    assert refused[True] < refused[False] / 2


def test_attempts_that_time_out_lower_the_limit_too(spark: SparkSession, log: CallLog) -> None:
    async def hangs(row: Any) -> int:
        async with log.call(row.id):
            await asyncio.Event().wait()
        return 0

    df = called(
        spark.range(0, 40, 1, 1),
        hangs,
        limit=pb.Limit(concurrency=8, scope="executor", adaptive=True),
        timeout=pb.Timeout(attempt="50ms"),
        on_error="null",
    )
    assert [row.same for row in df.collect()] == [None] * 40
    # A call whose time is over before its worker has begun it is not begun.
    assert 1 <= log.most_in_flight() <= 8
    last = log.events("start", "cancelled")[-20:]
    assert [record["event"] for record in last] == ["start", "cancelled"] * 10


@pytest.mark.parametrize(("scope", "most"), [("task", 6), ("executor", 3), ("query", 3)])
def test_a_limit_counts_the_calls_of_its_scope(
    spark: SparkSession, log: CallLog, scope: Any, most: int
) -> None:
    df = spark.range(0, 40, 1, 2).transform(
        pb.async_io, together(log, most, 40), returns="same long", engine="jvm", capacity=20,
        limit=pb.Limit(concurrency=3, scope=scope),
    )  # fmt: skip
    assert sorted(row.same for row in df.collect()) == list(range(40))
    assert log.most_in_flight() == most
    threads_are_gone(spark)


def test_two_uses_of_a_frame_in_one_action_are_one_limit(spark: SparkSession, log: CallLog) -> None:
    df = spark.range(0, 20, 1, 1).transform(
        pb.async_io, together(log, 3, 20), returns="same long", engine="jvm", capacity=20,
        limit=pb.Limit(concurrency=3),
    )  # fmt: skip
    found = df.union(df.select((df.id + 100).alias("id"), "same")).collect()
    assert sorted(row.same for row in found) == sorted([*range(20), *range(20)])
    assert log.most_in_flight() == 3
    threads_are_gone(spark)


def test_operators_that_foreach_batch_makes_anew_are_one_limit(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    async def call(row: Any) -> int:
        log.write("start", key=row.id)
        return int(row.id)

    def each(batch: DataFrame, number: int) -> None:
        batch.transform(
            pb.async_io, call, returns="same long", engine="jvm", limit=pb.Limit(per_minute=10)
        ).collect()

    for first in range(2):
        spark.range(first, first + 1, 1, 1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    run_stream(stream.parquet(str(tmp_path / "in")), tmp_path, each)
    times = log.starts()
    assert len(times) == 2
    assert times[1] - times[0] >= 5.0


@pytest.mark.parametrize("carry_over", [False, True])
def test_the_limit_of_a_query_holds_over_its_micro_batches(
    spark: SparkSession, log: CallLog, tmp_path: Path, carry_over: bool
) -> None:
    spark.range(0, 60, 1, 6).write.parquet(str(tmp_path / "in"))

    async def call(row: Any) -> int:
        async with log.call(row.id):
            await asyncio.sleep(0.02)
        return int(row.id)

    options: dict[str, Any] = {"carry_over": pb.CarryOver(slots=2)} if carry_over else {}
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2)
    limit = pb.Limit(concurrency=3, adaptive=True)
    called = rows.parquet(str(tmp_path / "in")).transform(
        pb.async_io, call, returns="same long", engine="jvm", limit=limit, **options
    )
    query = run_stream(called, tmp_path, "parquet")
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.same for row in found) == list(range(60))
    assert log.most_in_flight() == 3
    if carry_over:
        metrics = [p["stateOperators"][0]["customMetrics"] for p in query.recentProgress]
        assert 3 <= max(one["maxConcurrencyNow"] for one in metrics) <= 6
    threads_are_gone(spark)
