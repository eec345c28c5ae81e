"""Odd functions, input and plans on Spark: no row is lost and no task hangs, on each engine."""

from __future__ import annotations

import asyncio
import contextlib
import decimal
import os
import sys
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import settings
from spark_support import (
    CallLog,
    Latch,
    by_value,
    collect_within,
    eventually,
    is_running,
    own_pool,
)

by_value(__name__)

KINDS = ["ValueError", "GeneratorExit", "CancelledError", "Whim", "NoStr", "Surrogate", "Long"]


def raise_kind(kind: str) -> None:
    class Whim(BaseException): ...

    class NoStr(Exception):
        def __str__(self) -> str:
            raise GeneratorExit

    problems: dict[str, BaseException] = {
        "ValueError": ValueError("plain"),
        "GeneratorExit": GeneratorExit(),
        "CancelledError": asyncio.CancelledError(),
        "Whim": Whim("of a moment"),
        "NoStr": NoStr(),
        "Surrogate": ValueError("half \ud800 a pair"),
        "Long": ValueError("x" * 20_000_000),
    }
    raise problems[kind]


@pytest.mark.parametrize("form", ["coroutine", "thread", "batch"])
def test_each_row_has_its_outcome_whatever_its_call_raises(
    spark: SparkSession, engine: str, form: str
) -> None:
    def in_thread(row: Any) -> int:
        if row.id % 10 < len(KINDS):
            raise_kind(KINDS[row.id % 10])
        return int(row.id)

    async def coroutine(row: Any) -> int:
        await asyncio.sleep(0)
        return in_thread(row)

    async def batch(rows: list[Any]) -> list[int]:
        return [await coroutine(row) for row in rows]

    df = spark.range(0, 40, 1, 1).transform(
        pb.async_io,
        {"coroutine": coroutine, "thread": in_thread, "batch": batch}[form],
        returns="x long",
        engine=engine,
        on_error="column",
        batch_size=1 if form == "batch" else None,
    )
    rows = collect_within(df, 60)
    expected = {"Surrogate": "ValueError", "Long": "ValueError"}
    for row in rows:
        if row.id % 10 >= len(KINDS):
            assert (row.x, row.error) == (row.id, None)
        else:
            kind = KINDS[row.id % 10]
            assert row.error.kind == expected.get(kind, kind)
    assert [row.id for row in rows] == list(range(40))
    assert rows[5].error.message == "half \\ud800 a pair"
    assert "characters are left out" in rows[6].error.message
    assert len(rows[6].error.message) < 11_000


@pytest.mark.parametrize("kind", ["GeneratorExit", "NoStr", "Surrogate", "Long"])
def test_a_task_that_such_a_failure_ends_says_why(
    spark: SparkSession, engine: str, kind: str
) -> None:
    async def fails(row: Any) -> int:
        raise_kind(kind)
        return 1

    df = spark.range(0, 3, 1, 1).transform(pb.async_io, fails, returns="x long", engine=engine)
    with pytest.raises(Exception, match="ASYNC_CALL_FAILED") as problem:
        collect_within(df, 60)
    name = kind if kind in ("GeneratorExit", "NoStr") else "ValueError"
    assert name in str(problem.value)
    assert "in fails" in str(problem.value)


@pytest.mark.parametrize("how", ["stop the loop", "exit in a predicate"])
def test_what_ends_the_worker_fails_the_task_at_once(
    spark: SparkSession, engine: str, how: str
) -> None:
    async def call(row: Any) -> int:
        if how == "stop the loop":
            asyncio.get_running_loop().stop()
            await asyncio.sleep(3600)
        raise ValueError("for the predicate")

    df = spark.range(0, 3, 1, 1).transform(
        pb.async_io,
        call,
        returns="x long",
        engine=engine,
        retry=pb.Retry(2, on=lambda _: sys.exit(3)),
    )
    with pytest.raises(Exception, match="ended the worker with") as problem:
        collect_within(df, 60)
    shown = "loop.stop()" if how == "stop the loop" else "SystemExit: 3"
    assert shown in str(problem.value)


def test_rows_whose_calls_another_one_cancels_fail_and_the_others_are_answered(
    spark: SparkSession, engine: str
) -> None:
    async def cancels_all(row: Any) -> int:
        if row.id == 9:
            for task in asyncio.all_tasks():
                task.cancel()
        await asyncio.sleep(0.01)
        return int(row.id)

    df = spark.range(0, 100, 1, 1).transform(
        pb.async_io,
        cancels_all,
        returns="x long",
        engine=engine,
        on_error="column",
        capacity=10,
    )
    rows = collect_within(df, 60)
    assert [row.id for row in rows] == list(range(100))
    cancelled = [row.id for row in rows if row.error]
    assert 9 in cancelled
    assert all(row.error.kind == "CancelledError" for row in rows if row.error)
    assert all(row.x == row.id for row in rows[20:])


UNREADABLE = {
    "string": "if(id % 3 = 1, cast(unhex('C328') as string), 'fine')",
    "timestamp": "if(id % 3 = 1, timestamp_seconds(253402300800 * 2), timestamp_seconds(id))",
    "timestamp_ntz": "cast(if(id % 3 = 1, timestamp'+20000-01-01', timestamp_seconds(id)) "
    "as timestamp_ntz)",
    "date": "if(id % 3 = 1, date'+20000-01-01', date'2024-06-01')",
    "array": "array('a', if(id % 3 = 1, cast(unhex('FF') as string), 'fine'))",
    "map": "map(if(id % 3 = 1, cast(unhex('FF') as string), 'fine'), 1)",
    "struct": "struct(id, if(id % 3 = 1, cast(unhex('FF') as string), 'fine') as s)",
}


@pytest.mark.parametrize("ddl", UNREADABLE)
@pytest.mark.parametrize("form", ["row", "batch"])
def test_a_row_that_python_cannot_represent_is_a_failure_of_its_own(
    spark: SparkSession, engine: str, ddl: str, form: str
) -> None:
    async def call(row: Any) -> int:
        return int(row.id)

    async def batch(rows: list[Any]) -> list[int]:
        return [int(row.id) for row in rows]

    df = spark.range(0, 9, 1, 1).select("id", F.expr(UNREADABLE[ddl]).alias("odd"))
    out = df.transform(
        pb.async_io,
        batch if form == "batch" else call,
        returns="x long",
        engine=engine,
        on_error="column",
        timeout="20 seconds",
        retry=pb.Retry(3),
        batch_size=4 if form == "batch" else None,
    )
    rows = collect_within(out.select("id", "x", "error"), 60)
    assert [row.id for row in rows] == list(range(9))
    for row in rows:
        if row.id % 3 == 1:
            assert row.error.kind == "INPUT_NOT_READABLE"
            assert "column odd" in row.error.message
            assert (row.x, row.error.attempts) == (None, 1)
        else:
            assert (row.x, row.error) == (row.id, None)


def test_such_a_row_ends_the_task_by_default_and_is_named(spark: SparkSession, engine: str) -> None:
    async def call(row: Any) -> int:
        return 1

    df = spark.range(0, 3, 1, 1).select("id", F.expr(UNREADABLE["string"]).alias("odd"))
    with pytest.raises(Exception, match="INPUT_NOT_READABLE") as problem:
        collect_within(df.transform(pb.async_io, call, returns="x long", engine=engine), 60)
    assert "id=1" in str(problem.value)


@pytest.mark.parametrize("ordered", [True, False])
def test_no_call_sees_what_another_one_has_set(
    spark: SparkSession, engine: str, ordered: bool
) -> None:
    def variable() -> ContextVar[int]:
        # Made in the worker, once: a context variable can't be sent.
        return sys.__dict__.setdefault("_test_variable", ContextVar("seen", default=-1))

    async def sets(row: Any) -> str:
        before = (variable().get(), decimal.getcontext().prec)
        variable().set(row.id)
        decimal.getcontext().prec = 5
        await asyncio.sleep(0.001 * (row.id % 3))
        return str(before)

    df = spark.range(0, 200, 1, 1).transform(
        pb.async_io, sets, returns="seen string", engine=engine, ordered=ordered, capacity=8
    )
    assert {row.seen for row in collect_within(df, 60)} == {"(-1, 28)"}


def test_calls_start_with_what_the_resource_has_set(spark: SparkSession, engine: str) -> None:
    def variable() -> ContextVar[int]:
        return sys.__dict__.setdefault("_test_variable", ContextVar("seen", default=-1))

    @contextlib.asynccontextmanager
    async def client() -> Any:
        variable().set(42)
        decimal.getcontext().prec = 9
        yield "client"

    async def sees(row: Any, client: Any) -> str:
        seen = (variable().get(), decimal.getcontext().prec)
        variable().set(row.id)
        decimal.getcontext().prec = 5
        await asyncio.sleep(0)
        return str(seen)

    df = spark.range(0, 50, 1, 1).transform(
        pb.async_io, sees, returns="seen string", engine=engine, resource=client, capacity=4
    )
    for _ in range(2):
        assert {row.seen for row in collect_within(df, 60)} == {"(42, 9)"}


def test_plain_functions_that_hang_fail_their_own_rows_only(
    spark: SparkSession, engine: str, log: CallLog, tmp_path: Path
) -> None:
    latch = Latch(str(tmp_path / "latch"))

    def first_hang(row: Any) -> int:
        log.write("start", key=row.id)
        while row.id < 4 and not os.path.exists(latch.path):
            time.sleep(0.02)
        return int(row.id)

    df = spark.range(0, 100, 1, 1).transform(
        pb.async_io,
        first_hang,
        returns="x long",
        engine=engine,
        capacity=4,
        timeout="2 seconds",
        on_error="column",
    )
    try:
        rows = collect_within(df, 60)
    finally:
        latch.open()
    assert [row.id for row in rows if row.error] == [0, 1, 2, 3]
    assert [row.x for row in rows[4:]] == list(range(4, 100))
    eventually(lambda: not any(map(is_running, log.pids())) or engine == "python", "its end")


BARRIERS: dict[int, threading.Barrier] = {}


def test_a_plain_function_runs_in_as_many_threads_as_the_capacity_says(
    spark: SparkSession, engine: str
) -> None:
    def meet(row: Any) -> int:
        BARRIERS.setdefault(os.getpid(), threading.Barrier(600)).wait(30)
        return int(row.id)

    df = spark.range(0, 600, 1, 1).transform(
        pb.async_io, meet, returns="x long", engine=engine, capacity=600
    )
    assert len(collect_within(df, 60)) == 600


@pytest.mark.parametrize("backoff", ["1ms", "none"])
@pytest.mark.parametrize("turn", range(4))
def test_the_batch_form_tries_again_until_all_rows_are_answered(
    spark: SparkSession, engine: str, backoff: str, turn: int
) -> None:
    tried: dict[str, int] = {}

    async def call(rows: list[Any]) -> list[int]:
        for one in pb.current_call().ids:
            tried[one] = tried.get(one, 0) + 1
        if (
            any(row.id % 7 == 0 for row in rows)
            and min(map(tried.__getitem__, pb.current_call().ids)) < 3
        ):
            if backoff == "none":
                raise pb.RetryAfter(0)
            raise ConnectionError("again")
        return [int(row.id) for row in rows]

    df = spark.range(0, 1000, 1, 2).transform(
        pb.async_io,
        call,
        returns="x long",
        engine=engine,
        batch_size=pb.BatchSize(5, wait="5ms"),
        ordered=False,
        retry=pb.Retry(1000, backoff="1ms"),
    )
    assert sorted(row.x for row in collect_within(df, 40)) == list(range(1000))


def test_at_the_end_of_the_input_the_last_group_does_not_wait_for_company(
    spark: SparkSession, engine: str
) -> None:
    async def call(rows: list[Any]) -> list[int]:
        return [len(rows)] * len(rows)

    df = spark.range(0, 7, 1, 1).transform(
        pb.async_io,
        call,
        returns="x long",
        engine=engine,
        batch_size=pb.BatchSize(5, wait="10 minutes"),
    )
    assert [row.x for row in collect_within(df, 40)] == [5] * 5 + [2] * 2


def test_waiting_for_a_permit_does_not_count_into_the_deadlines_of_the_batch_form(
    spark: SparkSession,
) -> None:
    async def call(rows: list[Any]) -> list[int]:
        return [int(row.id) for row in rows]

    df = spark.range(0, 40, 1, 1).transform(
        pb.async_io,
        call,
        returns="x long",
        engine="jvm",
        batch_size=1,
        limit=pb.Limit(per_second=20, scope="executor"),
        timeout=pb.Timeout("1 second", attempt="1 second"),
        on_error="column",
    )
    rows = collect_within(df, 60)
    # If it counted, the twenty that begin after a second had failed.
    late = [row.id for row in rows if row.error]
    assert len(late) < 10
    assert [row.x for row in rows] == [None if i in late else i for i in range(40)]


@pytest.mark.classic
def test_a_worker_lets_go_of_broadcasts_that_have_been_destroyed(spark: SparkSession) -> None:
    size = 20 << 20

    def resident_after(turn: int) -> tuple[int, int]:
        broadcast = spark.sparkContext.broadcast(bytes([turn]) * size)

        async def look(row: Any) -> dict[str, int]:
            assert len(broadcast.value) == size
            with open("/proc/self/statm") as file:
                pages = int(file.read().split()[1])
            return {"pid": os.getpid(), "bytes": pages * os.sysconf("SC_PAGE_SIZE")}

        df = spark.range(0, 1, 1, 1).transform(
            pb.async_io, look, returns="pid long, bytes long", engine="jvm"
        )
        (row,) = collect_within(df, 60)
        broadcast.destroy()
        return row.pid, row.bytes

    seen: dict[int, list[int]] = {}
    with own_pool(spark):
        for turn in range(16):
            pid, resident = resident_after(turn)
            seen.setdefault(pid, []).append(resident)
    longest = max(seen.values(), key=len)
    assert len(longest) >= 6
    assert max(longest) - longest[1] < 3 * size


def calls_for(df: Any, log: CallLog, limit_s: float = 60) -> int:
    before = len(log.events("start"))
    collect_within(df, limit_s)
    return len(log.events("start")) - before


def test_plans_that_read_their_input_several_times_make_the_calls_once(
    spark: SparkSession, engine: str, log: CallLog
) -> None:
    async def call(row: Any) -> int:
        log.write("start", key=row.id)
        return int(row.id)

    df = spark.range(0, 100, 1, 2).transform(pb.async_io, call, returns="x long", engine=engine)
    # Spark samples what it is to partition by range, and computes the samples apart. It computes
    # each side of a product for each partition of the other.
    product = df.hint("shuffle_replicate_nl").join(spark.range(0, 3, 1, 3).toDF("other"))
    found = [
        calls_for(some, log) for some in (df.orderBy("x"), df.repartitionByRange(3, "x"), product)
    ]
    if engine == "jvm":
        assert found == [100, 100, 100]
        with settings(spark, **{"spark.sql.adaptive.enabled": "false"}):
            assert calls_for(df.orderBy(F.desc("x")), log) == 100
    else:
        assert min(found) > 100
    joined = df.alias("a").join(df.alias("b"), F.col("a.x") == F.col("b.x") + 1)
    assert calls_for(joined, log) in (100, 200)
    kept = df.cache()
    kept.count()
    assert calls_for(kept.orderBy("x"), log) == 0
    kept.unpersist()
