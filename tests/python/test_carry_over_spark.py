"""Async I/O that outlives a micro-batch: when rows leave, what is called again, what is refused."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import pillarbox as pb
from keyed.streams import Stream, settings
from spark_support import CallLog, Kept, Latch, by_value, eventually, run_stream, threads_are_gone

by_value(__name__)

SLOW = 7


class Lookups:
    """A service: the call of row 7 waits for the latch."""

    def __init__(self, folder: Path) -> None:
        self.log, self.latch = CallLog(str(folder / "calls")), Latch(str(folder / "latch"))

    def function(self, fails: bool = False) -> Callable[[Any], Any]:
        log, latch = self.log, self.latch

        async def twice(row: Any) -> int:
            async with log.call(row.id):
                if row.id == SLOW:
                    await latch.wait()
                    if fails:
                        raise ConnectionError("the service is down")
            return int(row.id) * 2

        return twice

    def on(self, df: DataFrame, fails: bool = False, **options: Any) -> DataFrame:
        chosen: dict[str, Any] = {"ordered": False, "carry_over": pb.CarryOver(slots=2), **options}
        return pb.async_io(df, self.function(fails), returns="twice long", engine="jvm", **chosen)

    def ended(self) -> set[int]:
        return {record["key"] for record in self.log.events("end")}

    def starts(self, key: int) -> list[str]:
        return [r["call_id"] for r in self.log.events("start") if r["key"] == key]


class Query:
    """A query that runs until it is stopped. It keeps what each micro-batch puts out."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = Stream(spark, folder / "files", "id long", lambda df: df)
        self.lookups = Lookups(folder)
        self.kept = Kept(str(folder / "kept"))
        self.query: StreamingQuery | None = None

    def add(self, *ids: int) -> Query:
        self.files.add(*((i,) for i in ids))
        return self

    def start(self, df: DataFrame | None = None, **options: Any) -> Query:
        result = self.lookups.on(self.stream(), **options) if df is None else df
        writer = result.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        self.query = writer.foreachBatch(self.kept).start()
        return self

    def stream(self) -> DataFrame:
        rows = self.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        return rows.parquet(str(self.folder / "files" / "in"))

    def out(self) -> list[Any]:
        return self.kept.rows()

    def comes(self, ids: Any) -> None:
        """Waits until the rows of these ids have left, and no others."""
        wanted = sorted((i, 2 * i) for i in ids)
        running = self.running()

        def there() -> bool:
            assert running.exception() is None, str(running.exception())
            return len(self.out()) >= len(wanted)

        eventually(there, f"{wanted}, found {sorted(self.out())}")
        assert sorted(self.out()) == wanted

    def carried(self) -> int:
        progress = self.running().lastProgress
        assert progress is not None
        return int(progress["stateOperators"][0]["customMetrics"]["numRowsCarried"])

    def running(self) -> StreamingQuery:
        assert self.query is not None
        return self.query

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    made = Query(spark, tmp_path)
    yield made
    made.stop()
    threads_are_gone(spark)


def but(ids: Any, *without: int) -> list[int]:
    return [i for i in ids if i not in without]


def test_a_slow_call_holds_back_no_other_row_and_leaves_when_it_is_done(query: Query) -> None:
    query.add(*range(20)).start()
    query.comes(but(range(20), SLOW))
    query.add(*range(20, 40))
    query.comes(but(range(40), SLOW))
    eventually(lambda: query.carried() == 1, "one row carried")
    query.lookups.latch.open()
    query.comes(range(40))
    eventually(lambda: query.carried() == 0, "nothing carried")
    assert len(query.lookups.log.events("start")) == 40


def test_without_input_a_micro_batch_runs_only_when_results_wait(query: Query) -> None:
    query.add(SLOW).start()
    eventually(lambda: query.running().lastProgress is not None, "progress")
    eventually(lambda: query.carried() == 1, "the call carried")
    query.lookups.latch.open()
    query.comes([SLOW])
    query.running().processAllAvailable()
    # One with the row, one that stores its answer, one that emits it.
    batches = len(query.kept.batches())
    assert batches <= 3, query.kept.batches()
    query.add(10)
    query.comes([SLOW, 10])
    query.running().processAllAvailable()
    assert len(query.kept.batches()) <= batches + 3, query.kept.batches()


def test_processing_all_available_waits_for_carried_rows(query: Query) -> None:
    query.add(*range(10)).start()
    query.comes(but(range(10), SLOW))
    query.lookups.latch.open()
    query.running().processAllAvailable()
    assert sorted(query.out()) == [(i, 2 * i) for i in range(10)]


def test_order_is_kept_over_micro_batches(query: Query) -> None:
    query.add(*range(10)).add(*range(10, 20)).start(ordered=True, carry_over=pb.CarryOver(slots=1))
    query.comes(range(SLOW))
    eventually(lambda: query.lookups.ended() == set(but(range(20), SLOW)), "the other calls")
    query.lookups.latch.open()
    query.comes(range(20))
    assert query.out() == [(i, 2 * i) for i in range(20)]


def test_in_order_the_capacity_counts_calls_and_rows_that_wait_have_a_limit_of_their_own(
    query: Query,
) -> None:
    query.add(*range(30)).start(
        ordered=True, carry_over=pb.CarryOver(slots=1, max_rows=10), capacity=2
    )
    taken = but(range(SLOW + 10), SLOW)
    eventually(lambda: query.lookups.ended() == set(taken), "calls behind the slow one")
    query.lookups.latch.open()
    query.comes(range(30))
    assert query.out() == [(i, 2 * i) for i in range(30)]
    assert query.lookups.log.most_in_flight() == 2


def test_a_micro_batch_that_is_larger_than_the_capacity_takes_its_time(query: Query) -> None:
    query.add(*range(50)).start(carry_over=pb.CarryOver(slots=1), capacity=3)
    query.comes(but(range(50), SLOW))
    assert query.lookups.log.most_in_flight() <= 3
    query.lookups.latch.open()
    query.comes(range(50))


def test_no_rows_are_committed_past_one_that_lags(query: Query) -> None:
    query.add(*range(10)).start(carry_over=pb.CarryOver(max_lag="2s", slots=1))
    query.comes(but(range(10), SLOW))
    since = next(r["at"] for r in query.lookups.log.events("start") if r["key"] == SLOW)
    eventually(lambda: time.monotonic() > since + 2.5, "the lag")
    query.add(*range(10, 20)).add(20)
    eventually(lambda: query.lookups.ended() == set(but(range(20), SLOW)), "the other calls")
    query.comes(but(range(10), SLOW))
    assert query.lookups.starts(20) == [], "the micro-batch before is still open"
    query.lookups.latch.open()
    query.comes(range(21))


def test_a_restarted_query_calls_again_what_was_in_flight_under_the_same_id(query: Query) -> None:
    query.add(*range(10)).start()
    query.comes(but(range(10), SLOW))
    query.stop()
    threads_are_gone(query.spark)
    assert [r["key"] for r in query.lookups.log.events("cancelled")] == [SLOW]
    query.lookups.latch.open()
    query.start()
    query.comes(range(10))
    ids = {key: query.lookups.starts(key) for key in range(10)}
    assert {len(of) for key, of in ids.items() if key != SLOW} == {1}
    assert len(ids[SLOW]) == 2
    assert len(set(ids[SLOW])) == 1
    assert len({of[0] for of in ids.values()}) == 10


def test_in_order_a_restart_does_not_call_again_what_waits_behind_a_slow_row(query: Query) -> None:
    query.add(*range(20)).start(ordered=True, carry_over=pb.CarryOver(slots=1))
    eventually(lambda: len(query.lookups.ended()) == 19, "the other calls")
    # One more micro-batch takes what has come meanwhile into its state.
    query.add(20)
    eventually(lambda: 20 in query.lookups.ended(), "row 20")
    eventually(lambda: query.running().lastProgress is not None, "progress")
    eventually(lambda: query.carried() == 14, "rows 7 to 20 in the state")
    query.stop()
    query.lookups.latch.open()
    query.start(ordered=True, carry_over=pb.CarryOver(slots=1))
    query.comes(range(21))
    assert query.out() == [(i, 2 * i) for i in range(21)]
    again = [key for key in range(20) if len(query.lookups.starts(key)) > 1]
    assert again == [SLOW]


def test_a_carried_call_that_fails_fails_the_query_and_is_called_again(query: Query) -> None:
    query.add(*range(10)).start(fails=True)
    query.comes(but(range(10), SLOW))
    query.lookups.latch.open()
    with pytest.raises(Exception, match="ConnectionError: the service is down") as caught:
        query.running().awaitTermination()
    failure = pb.failure_of(caught.value)
    assert failure is not None
    assert "twice" in failure.operator
    query.start()
    query.comes(range(10))
    assert len(set(query.lookups.starts(SLOW))) == 1


def test_a_micro_batch_that_is_computed_twice_gives_the_same_rows(
    spark: SparkSession, query: Query
) -> None:
    kept = Kept(
        str(query.folder / "twice"),
        lambda batch, number: [(sorted(batch.collect()), sorted(batch.collect()))],
    )
    query.add(*range(10)).add(*range(10, 20))
    query.lookups.latch.open()
    run_stream(query.lookups.on(query.stream()), query.folder, kept)
    assert all(first == second for first, second in kept.rows())
    assert sorted(row.id for first, _ in kept.rows() for row in first) == list(range(20))
    assert len(query.lookups.log.events("start")) == 20


def test_who_takes_some_rows_only_loses_none(query: Query) -> None:
    first_only = Kept(str(query.folder / "first"), lambda batch, number: batch.limit(1).collect())
    query.add(*range(10)).add(*range(10, 20))
    query.lookups.latch.open()
    run_stream(query.lookups.on(query.stream()), query.folder, first_only)
    assert sorted(r["key"] for r in query.lookups.log.events("end")) == list(range(20))


def pieces(row: Any) -> list[int]:
    """What the service answers to a row of the random programs: no, one or three rows."""
    return [row.id * 10 + i for i in range((1, 3, 0, 1)[row.id % 4])]


async def answered(row: Any) -> list[int]:
    await asyncio.sleep(random.Random(row.id).choice([0.0, 0.0, 0.02, 0.02, 0.1, 0.8]))
    return pieces(row)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))]
)
def test_random_queries_that_are_stopped_at_random_lose_and_double_nothing(
    spark: SparkSession, query: Query, seed: int
) -> None:
    """Also under checkpoint format 2, and with rows of calls that wait for their turn."""
    rng = random.Random(seed)
    ordered, slots = seed % 2 == 0, rng.choice([1, 2, 5])
    capacity = rng.choice([1, 3, 10, 100])

    def carried() -> DataFrame:
        most = capacity + rng.choice([0, 5, 50]) if ordered else None
        limit = pb.Limit(concurrency=rng.choice([1, 4])) if rng.random() < 0.5 else None
        lag = rng.choice(["0.2s", "30s"])
        return pb.async_io(
            query.stream(), answered, returns="part long", engine="jvm", explode=True,
            carry_over=pb.CarryOver(max_lag=lag, max_rows=most, slots=slots), ordered=ordered,
            capacity=capacity, limit=limit,
        )  # fmt: skip

    version = {
        "spark.sql.streaming.stateStore.checkpointFormatVersion": str(1 + seed // 2),
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution."
        "streaming.state.RocksDBStateStoreProvider",
    }
    count = 0
    with settings(spark, **version):
        query.start(carried())
        for _ in range(6):
            more = rng.choice([1, 5, 12])
            query.add(*range(count, count + more))
            count += more
            if query.running().awaitTermination(rng.uniform(0, 0.6)):
                break
            if rng.random() < 0.5:
                query.stop()
                query.start(carried())
        query.running().processAllAvailable()
    rows = [type("Row", (), {"id": i}) for i in range(count)]
    expected = [(row.id, part) for row in rows for part in pieces(row)]
    found = query.out()
    assert sorted(found) == expected
    if ordered and slots == 1:
        assert found == expected


BASE = datetime(2026, 1, 1)


def timed(spark: SparkSession, folder: Path, build: Callable[[DataFrame], DataFrame]) -> Stream:
    """Five files of 5 s each, in order; the last row closes all windows."""
    stream = Stream(spark, folder / "timed", "id long, ts timestamp", build)
    for file in range(5):
        ids = range(file * 10, file * 10 + 10)
        stream.add(*((i, BASE + timedelta(seconds=i / 2)) for i in ids))
    return stream.add((1000, BASE + timedelta(hours=1)))


def windows(df: DataFrame) -> DataFrame:
    counts = df.groupBy(F.window("ts", "7 seconds")).agg(
        F.count("*").alias("n"), F.sum("twice").alias("sum")
    )
    return counts.select(F.col("window.start").alias("start"), "n", "sum")


async def slowly(row: Any) -> int:
    await asyncio.sleep(0.7 if row.id % 10 == 3 else 0.0)
    return int(row.id) * 2


# By day in test_exactly_once, whatever is killed.
@pytest.mark.nightly
@pytest.mark.parametrize("ordered", [False, True])
def test_windows_after_it_are_those_of_a_batch(
    spark: SparkSession, tmp_path: Path, ordered: bool
) -> None:
    def build(df: DataFrame) -> DataFrame:
        rows = df.withWatermark("ts", "1 second")
        options: dict[str, Any] = {"ordered": ordered, "carry_over": pb.CarryOver(slots=2)}
        return windows(pb.async_io(rows, slowly, returns="twice long", engine="jvm", **options))

    stream = timed(spark, tmp_path, build)
    rows = spark.read.parquet(str(tmp_path / "timed" / "in"))
    wanted = windows(rows.withColumn("twice", F.col("id") * 2)).where("n > 1 or sum < 2000")
    expected = sorted(tuple(row) for row in wanted.collect())
    found = sorted(stream.run())
    assert found == expected
    # A row that is far ahead lets the watermark close what was left open.
    assert len(found) >= 4


class Count(pb.KeyedProcessFunction):
    """Numbers the rows of a key, and tells the last number when the watermark has passed."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "long")

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.n.update((self.n.value() or 0) + 1)
        ctx.timers.register_event_time(ctx.timestamp + 1000)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if self.n.value() is not None:
            yield {"key": ctx.key, "n": self.n.value()}
            self.n.clear()


def test_a_keyed_function_after_two_of_them_sees_every_row_in_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(df: DataFrame) -> DataFrame:
        rows = df.withWatermark("ts", "1 second")
        options: dict[str, Any] = {"ordered": False, "carry_over": pb.CarryOver(slots=2)}
        once = pb.async_io(rows, slowly, returns="a long", engine="jvm", **options)
        twice = pb.async_io(once, slowly, returns="b long", engine="jvm", inputs=["id"], **options)
        keyed = twice.withColumn("key", F.col("id") % 2)
        return pb.process_keyed(keyed, Count(), by="key", returns="key long, n long")

    found = timed(spark, tmp_path, build).run()
    sums = {key: sum(n for k, n in found if k == key) for key in (0, 1)}
    # With the row far ahead, which comes before the timers that it lets fire.
    assert sums == {0: 26, 1: 25}


def test_it_has_no_effect_on_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    lookups = Lookups(tmp_path)
    lookups.latch.open()
    rows = lookups.on(spark.range(10)).collect()
    assert sorted(tuple(row) for row in rows) == [(i, 2 * i) for i in range(10)]


def run_now(query: Query, df: DataFrame) -> None:
    query.lookups.latch.open()
    run_stream(df, query.folder)


CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"carry_over": False}, {}, r"CARRY_OVER_ADDED.*read_offsets"),
    ({}, {"carry_over": False}, r"CARRY_OVER_REMOVED.*read_offsets"),
]


@pytest.mark.parametrize(("before", "after", "error"), CHANGES)
def test_a_checkpoint_that_does_not_fit_is_refused_before_any_call(
    query: Query, before: dict[str, Any], after: dict[str, Any], error: str
) -> None:
    def on(**options: Any) -> DataFrame:
        return query.lookups.on(query.stream(), **options).distinct()

    run_now(query.add(*range(5)), on(**before))
    query.add(*range(5, 10))
    calls = len(query.lookups.log.events("start"))
    with pytest.raises(Exception, match=error):
        run_now(query, on(**after))
    assert len(query.lookups.log.events("start")) == calls


def test_carry_over_is_added_and_taken_away_while_nothing_is_in_flight(query: Query) -> None:
    for start, carry_over in enumerate((False, True, False, True)):
        query.add(*range(5 * start, 5 * start + 5))
        run_now(query, query.lookups.on(query.stream(), carry_over=carry_over))
    assert len(query.lookups.log.events("end")) == 20


def test_what_may_change_at_a_restart(query: Query) -> None:
    run_now(query.add(*range(5)), query.lookups.on(query.stream(), capacity=2))
    query.add(*range(5, 10))
    changed = {
        "capacity": 9, "carry_over": pb.CarryOver(max_lag="5s"), "timeout": "1m",
        "limit": pb.Limit(concurrency=3),
    }  # fmt: skip
    run_now(query, query.lookups.on(query.stream(), **changed))
    assert len(query.lookups.log.events("end")) == 10
    # Nothing is in flight.
    query.add(*range(10, 15))
    run_now(
        query, query.lookups.on(query.stream(), carry_over=pb.CarryOver(slots=3), on_error="column")
    )
    assert len(query.lookups.log.events("end")) == 15


def test_other_columns_and_slots_are_refused_while_a_row_is_in_flight(query: Query) -> None:
    query.add(*range(10)).start()
    query.comes(but(range(10), SLOW))
    query.stop()
    with pytest.raises(Exception, match=r"CARRY_OVER_MISMATCH.*returns.*availableNow") as caught:
        query.start(on_error="column").running().processAllAvailable()
    query.stop()
    failure = pb.failure_of(caught.value)
    assert failure is not None
    assert failure.condition == "CARRY_OVER_MISMATCH"
    with pytest.raises(Exception, match=r"CARRY_OVER_MISMATCH.*slots.*availableNow"):
        query.start(carry_over=pb.CarryOver(slots=3)).running().processAllAvailable()
    query.stop()
    query.lookups.latch.open()
    query.start()
    query.comes(range(10))


def test_estimates_of_rows_in_flight_belong_to_their_limits_whatever_the_operators_name(
    query: Query,
) -> None:
    def limits(*units: str) -> Any:
        return [pb.Limit(per_second=10**6, unit=unit, estimate=lambda row: 1) for unit in units]

    query.add(*range(10)).start(limit=limits("tokens", "images"), name="once")
    query.comes(but(range(10), SLOW))
    query.stop()
    with pytest.raises(Exception, match=r"CARRY_OVER_MISMATCH.*images per 1000 ms"):
        query.start(limit=limits("images", "tokens")).running().processAllAvailable()
    query.stop()
    query.lookups.latch.open()
    query.start(limit=limits("tokens", "images"), name="again")
    query.comes(range(10))


def test_what_it_can_not_be_kept_with_is_refused_before_any_call(
    spark: SparkSession, query: Query
) -> None:
    carried = query.add(*range(5)).lookups.on(query.stream())
    checkpoint = str(query.folder / "checkpoint")
    writer = carried.writeStream.format("noop").option("checkpointLocation", checkpoint)
    with pytest.raises(Exception, match=r"CARRY_OVER_UNSUPPORTED.*once=True.*availableNow"):
        writer.trigger(once=True).start().awaitTermination()
    late = carried.withColumn("ts", F.current_timestamp()).withWatermark("ts", "1 second")
    with pytest.raises(Exception, match=r"CARRY_OVER_UNSUPPORTED.*withWatermark"):
        run_now(query, late)
    no_data = "spark.sql.streaming.noDataMicroBatches.enabled"
    with (
        settings(spark, **{no_data: "false"}),
        pytest.raises(Exception, match=f"CARRY_OVER_UNSUPPORTED.*{no_data}"),
    ):
        run_now(query, carried)
    multiple = "spark.sql.streaming.statefulOperator.allowMultiple"
    with (
        settings(spark, **{multiple: "false"}),
        pytest.raises(Exception, match=f"CARRY_OVER_UNSUPPORTED.*{multiple}"),
    ):
        run_now(query, carried.dropDuplicates(["id"]))
    assert query.lookups.log.events("start") == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"carry_over": pb.CarryOver(max_rows=100), "ordered": False}, "OPTION_NEEDS_OTHER"),
        ({"carry_over": pb.CarryOver(max_rows=99)}, "max_rows"),
        ({"carry_over": "yes"}, "carry_over"),
        ({"carry_over": True, "engine": "python"}, "OPTION_NEEDS_JVM_ENGINE"),
    ],
)
def test_odd_options_are_refused(spark: SparkSession, options: dict[str, Any], error: str) -> None:
    with pytest.raises(pb.InvalidOption, match=error):
        pb.async_io(spark.range(1), slowly, returns="x long", **options)
