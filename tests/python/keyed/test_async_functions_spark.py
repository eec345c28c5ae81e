"""Asynchronous keyed functions on Spark: calls at once, state, errors; random programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed import async_model, model, test_random_programs_spark
from keyed.async_model import AsyncInterpreter
from keyed.streams import Stream
from keyed.test_random_programs_spark import (
    BY_THE_CLOCK,
    EVERY,
    cases,
    check_rows,
    row_programs,
    stored,
)
from keyed.test_random_programs_spark import play as play_stream
from spark_support import process_of

for module in (model, async_model, test_random_programs_spark, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)

CALLS: dict[str, Any] = {
    "retry": pb.Retry(50, backoff="1ms"),
    "timeout": pb.Timeout(attempt="200ms"),
}


class Overlap(pb.AsyncKeyedProcessFunction):
    """Tells how many calls of the task, and of the key, are under way with a row's."""

    def __init__(self) -> None:
        self.running: list[str] = []

    def open(self, ctx: Any) -> None:
        self.seen = ctx.list_state("seen", "bigint")

    async def process(self, row: Any, ctx: Any) -> AsyncIterator[Any]:
        self.running.append(ctx.key)
        self.seen.add(row.id)
        await asyncio.sleep(0.01)
        most, of_key = len(self.running), self.running.count(ctx.key)
        yield ctx.key, row.id, self.seen.get()[-1], len(self.seen.get()), most, of_key
        self.running.remove(ctx.key)


def overlap(df: DataFrame, **options: Any) -> list[Any]:
    returns = "k string, id bigint, last bigint, n int, most int, of_key int"
    out = df.transform(
        pb.process_keyed_async, Overlap(), by="k", returns=returns, order_by="id", **options
    )
    return out.collect()


@pytest.mark.parametrize(
    ("options", "most"), [({"capacity": 1}, 1), ({"capacity": 7}, 7), ({}, 30)]
)
def test_keys_of_a_batch_run_at_once_up_to_the_capacity(
    spark: SparkSession, options: dict[str, int], most: int
) -> None:
    df = spark.range(0, 300, 1, 2).selectExpr("concat('k', id % 30) k", "id").coalesce(1)
    rows = overlap(df.repartition(1, "k"), **options)
    assert max(row.most for row in rows) == most
    assert {row.of_key for row in rows} == {1}
    assert all(row.last == row.id for row in rows)
    told = defaultdict(list)
    for row in rows:
        told[row.k].append((row.id, row.n))
    expected = {f"k{i}": [(i + 30 * j, j + 1) for j in range(10)] for i in range(30)}
    assert told == expected


def test_lines_of_keys_go_on_over_frames(spark: SparkSession) -> None:
    """A frame has 32,768 rows at most; that is also the size of this batch's largest key."""

    class Count(pb.AsyncKeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.n = ctx.value_state("n", "bigint")

        async def process(self, row: Any, ctx: Any) -> Any:
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            if n % 1000 == 0:
                await asyncio.sleep(0)
            return ctx.key, n

    df = spark.range(70_000).selectExpr("if(id % 2 = 0, 0, id % 7) k", "id")
    out = df.transform(pb.process_keyed_async, Count(), by="k", returns="k bigint, n bigint")
    found = out.groupBy("k").agg(F.count("*").alias("rows"), F.max("n").alias("n"))
    largest = out.where("k = 0").select("n").collect()
    assert all(row.rows == row.n for row in found.collect())
    assert [row.n for row in largest] == list(range(1, len(largest) + 1))
    assert len(largest) == 40_000


def failing(df: DataFrame, process: Callable[..., Any], **options: Any) -> pb.PillarboxError:
    class Fails(pb.AsyncKeyedProcessFunction):
        async def process(self, row: Any, ctx: Any) -> Any:
            await asyncio.sleep(0.01)
            if row.id == 7:
                return await process(row, ctx)
            return ctx.key, row.id

    with pytest.raises(Exception, match=r"\[[A-Z_]+\] process_keyed") as caught:
        df.transform(
            pb.process_keyed_async, Fails(), by="k", returns="k string, id bigint", **options
        ).collect()
    found = pb.failure_of(caught.value)
    assert found is not None
    return found


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 20, 1, 2).selectExpr("concat('k', id % 5) k", "id")


def test_an_error_shows_the_users_traceback_the_row_the_key_and_the_attempts(
    rows: DataFrame,
) -> None:
    async def process(row: Any, ctx: Any) -> Any:
        raise ConnectionError("no service")

    found = failing(rows, process, retry=pb.Retry(3, backoff="1ms"), name="enrich")
    assert (found.condition, found.operator) == ("KEYED_CALL_FAILED", "process_keyed(enrich)")
    assert (found.key, found.row) == ("'k2'", "k='k2', id=7")
    assert (found.kind, found.message, found.attempts) == ("ConnectionError", "no service", 3)
    assert 'raise ConnectionError("no service")' in found.traceback
    assert "pillarbox/_" not in found.traceback


def test_a_call_that_hangs_runs_out_of_time(rows: DataFrame) -> None:
    async def process(row: Any, ctx: Any) -> Any:
        await asyncio.sleep(1000)

    found = failing(rows, process, timeout="2 s")
    assert (found.kind, found.key, found.traceback) == ("TIMEOUT", "'k2'", "")
    assert found.elapsed_ms is not None
    assert found.elapsed_ms >= 2000


def test_a_function_that_holds_the_loop_is_told_of(
    rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pillarbox._driver import specs

    monkeypatch.setattr(specs, "BLOCKED_LOOP_MS", 1000)

    async def process(row: Any, ctx: Any) -> Any:
        time.sleep(100)

    found = failing(rows, process)
    assert found.condition == "EVENT_LOOP_BLOCKED"
    assert "time.sleep(100)" in str(found)


def test_leaving_the_worker_or_stopping_its_loop_is_told_of(rows: DataFrame) -> None:
    async def leaves(row: Any, ctx: Any) -> Any:
        sys.exit(3)

    async def stops(row: Any, ctx: Any) -> Any:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(1)

    for process in (leaves, stops):
        assert failing(rows, process).condition == "FUNCTION_EXITED"


def test_rows_that_fail_may_come_out_with_their_error(rows: DataFrame) -> None:
    class Fails(pb.AsyncKeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.n = ctx.value_state("n", "bigint")

        async def process(self, row: Any, ctx: Any) -> Any:
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            if row.id == 7:
                raise ValueError("seven")
            return ctx.key, row.id, n

    out = rows.transform(
        pb.process_keyed_async, Fails(), by="k", returns="k string, id bigint, n bigint not null",
        on_error="column", order_by="id",
    )  # fmt: skip
    assert out.schema["n"].nullable
    of_key = out.where("k = 'k2'").select("id", "n", "error.kind", "error.attempts").collect()
    assert sorted(map(tuple, of_key)) == [
        (2, 1, None, None), (7, None, "ValueError", 1), (12, 2, None, None), (17, 3, None, None),
    ]  # fmt: skip


def test_answers_that_cross_with_deadlines_are_kept_or_undone_and_nothing_between(
    spark: SparkSession,
) -> None:
    class Late(pb.AsyncKeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.n = ctx.value_state("n", "int")
            self.ids = ctx.list_state("ids", "bigint")
            self.seen = ctx.map_state("seen", "bigint", "int")

        async def process(self, row: Any, ctx: Any) -> Any:
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            self.ids.add(row.id)
            self.seen.put(row.id, n)
            await asyncio.sleep(0.017 + random.random() * 0.006)  # the deadline is among them
            return ctx.key, row.id, n, self.ids.get(), len(list(self.seen.keys()))

    df = spark.range(0, 600, 1, 1).selectExpr("id % 12 k", "id")
    out = df.transform(
        pb.process_keyed_async, Late(), by="k", order_by="id", on_error="column",
        returns="k bigint, id bigint, n int, ids array<bigint>, seen int",
        timeout=pb.Timeout(attempt="20ms"), retry=pb.Retry(2, backoff="1ms"), call_column="call",
    )  # fmt: skip
    kept: dict[int, list[int]] = defaultdict(list)
    rows = out.collect()
    for row in rows:
        if row.error is None:
            kept[row.k].append(row.id)
            assert (row.n, row.ids, row.seen) == (len(kept[row.k]), kept[row.k], len(kept[row.k]))
    assert len(rows) == 600
    assert 0 < sum(map(len, kept.values())) < 600
    assert {row.error.kind for row in rows if row.error is not None} == {"TIMEOUT"}
    assert sum(row.call.attempts for row in rows) == pb.usage(out).first()["calls"]


def test_the_resource_is_opened_once_a_worker_and_side_outputs_have_their_rows(
    rows: DataFrame,
) -> None:
    class Client:
        opened = 0

        @contextlib.asynccontextmanager
        @staticmethod
        async def make() -> AsyncIterator[Any]:
            Client.opened += 1
            yield Client.opened

    class Uses(pb.AsyncKeyedProcessFunction):
        async def process(self, row: Any, ctx: Any) -> Any:
            ctx.output("even" if row.id % 2 == 0 else "odd", (row.id,))
            return ctx.key, ctx.resource

    out = rows.transform(
        pb.process_keyed_async, Uses(), by="k", returns="k string, opened int",
        resource=Client.make,
        side_outputs={"even": "id bigint", "odd": "id bigint"},
    )  # fmt: skip
    assert {row.opened for row in pb.main_output(out).collect()} == {1}
    assert sorted(row.id for row in pb.side_output(out, "odd").collect()) == list(range(1, 20, 2))


class AsyncTold(AsyncInterpreter):
    """Also tells the order of a key's calls, and the clocks that each one sees."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.calls = ctx.value_state("calls", "int")

    async def process(self, row: Any, ctx: Any) -> Any:
        async for _, told in super().process(row, ctx):
            calls = (self.calls.value() or 0) + 1
            self.calls.update(calls)
            results = json.loads(told)[1:]
            clocks = ctx.watermark, ctx.processing_time
            yield ctx.key, json.dumps([calls, *clocks, 0, "row", row.number, results])


@pytest.mark.parametrize(
    ("ttl", "seed"),
    [
        *cases(day=2, seeds=2),
        pytest.param(BY_THE_CLOCK[0], 0, id="by the clock", marks=pytest.mark.nightly),
    ],
)
def test_a_program_of_coroutines_sees_what_the_model_holds(
    spark: SparkSession, tmp_path: Path, ttl: Any, seed: int
) -> None:
    """Restarted on either backend, with failures and retries; state is the model's in the end."""
    dice = random.Random(f"async {ttl} {seed}")
    batches = row_programs(dice, sorted(set(EVERY) - {"timers"}))
    make = lambda run: AsyncTold(ttl, 1, 2)  # noqa: E731
    told, checkpoint = play_stream(spark, tmp_path, batches, make, dice, **CALLS)
    models = check_rows(told, batches, [ttl])
    if ttl in BY_THE_CLOCK:
        return
    end = max(time for batch in batches for _, time, _, _ in batch)
    for name in ("value", "entries", "largest"):
        expected = sorted(
            (key, at, value, stamp if ttl else 0)
            for key, one in models.items()
            for at, (value, stamp) in one.cells[name].items()
            if not ttl or stamp + 10 > end
        )
        assert stored(spark, checkpoint, name, ttl, end) == expected, name


class Sum(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.value_state("total", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + row.v)
        return ctx.key, self.total.value()


class AsyncSum(pb.AsyncKeyedProcessFunction):
    open = Sum.open

    async def process(self, row: Any, ctx: Any) -> Any:
        before = self.total.value() or 0
        await asyncio.sleep(0)
        self.total.update(before + row.v)
        return ctx.key, self.total.value()


def summed(function: Any) -> Callable[[DataFrame], DataFrame]:
    returns = "k string, total bigint"
    return lambda df: df.transform(
        process_of(function), function, by="k", returns=returns, name="sums"
    )


def test_a_query_goes_on_in_the_other_form(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, "k string, v bigint", summed(AsyncSum()))
    stream.add(("a", 1), ("b", 2)).run()
    stream.add(("a", 10)).run(summed(Sum()))
    found = stream.add(("a", 100), ("b", 100)).run(summed(AsyncSum()))
    assert sorted(found) == [("a", 1), ("a", 11), ("a", 111), ("b", 2), ("b", 102)]


def test_initial_state_is_there_and_its_timers_are_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", 1), ("b", 2)], "k string, v bigint")
    start = spark.createDataFrame([("a", 40)], "k string, total bigint")
    out = df.transform(
        pb.process_keyed_async,
        AsyncSum(),
        by="k",
        returns="k string, n bigint",
        initial_state=start,
    )
    assert sorted(map(tuple, out.collect())) == [("a", 41), ("b", 2)]
    with pytest.raises(pb.InvalidFunction, match="TIMERS_OF_ASYNC_FUNCTION"):
        df.transform(
            pb.process_keyed_async, AsyncSum(), by="k", returns="k string, n bigint",
            initial_state={pb.TIMERS: start},
        )  # fmt: skip


def test_what_has_no_meaning_is_refused_before_any_work(rows: DataFrame) -> None:
    def made(function: Any = None, **options: Any) -> None:
        fn = function or AsyncSum()
        returns = "k string, n bigint"
        rows.transform(pb.process_keyed_async, fn, by="k", returns=returns, **options)

    with pytest.raises(pb.InvalidOption, match="ends when its rows and calls are done"):
        made(carry_over=True)
    with pytest.raises(pb.InvalidFunction, match=r"Use pb\.process_keyed\."):
        made(Sum())
    with pytest.raises(pb.InvalidOption, match="TIMEOUT_BELOW_ATTEMPT_TIMEOUT"):
        made(timeout=pb.Timeout("1s", attempt="2s"))
    with pytest.raises(pb.InvalidOption, match=r"retry.on='java.io.IOException'"):
        made(retry=pb.Retry(2, on="java.io.IOException"))
    with pytest.raises(pb.InvalidFunction, match="RESOURCE_NOT_CALLABLE"):
        made(resource=3)  # type: ignore[arg-type]
    with pytest.raises(pb.InvalidSchema, match="OUTPUT_NAME_CLASH"):
        made(on_error=pb.ErrorColumn("N"))
    with pytest.raises(pb.InvalidFunction, match=r"Pass an object, such as AsyncSum\(\)"):
        made(AsyncSum)
