"""State with event-time TTL that was written before any watermark lives from the first one."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream
from pillarbox.testing import KeyedHarness

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, t bigint"
HOUR = 3_600_000
MINUTE = 60_000
BACKENDS = pytest.mark.parametrize(
    "backend", ["rocksdb", pytest.param("heap", marks=pytest.mark.nightly)]
)


class Known(pb.KeyedProcessFunction):
    """Tells what is known of a key, after it has written that if it is to."""

    def __init__(self, ttl: Any, writes: bool) -> None:
        self.ttl, self.writes = ttl, writes

    def open(self, ctx: Any) -> None:
        self.one = ctx.value_state("one", "bigint", ttl=self.ttl)
        self.many = ctx.list_state("many", "bigint", ttl=self.ttl)
        self.named = ctx.map_state("named", "string", "bigint", ttl=self.ttl)

    def process(self, row: Any, ctx: Any) -> Any:
        if self.writes:
            self.one.update(7)
            self.many.add(7)
            self.named.put("x", 7)
        yield row.k, row.t, [self.one.value(), *self.many.get(), self.named.get("x")]


def known(
    ttl: Any,
    backend: str,
    initial: Any = None,
    watermark: bool = True,
    writes: bool = False,
) -> Any:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t"))
        if watermark:
            timed = timed.withWatermark("ts", "0 seconds")
        return timed.transform(
            pb.process_keyed,
            Known(ttl, writes),
            by="k",
            returns="k string, t bigint, known array<bigint>",
            backend=backend,
            initial_state=initial,
            name="known",
        )

    return build


def event(hours: int = 1) -> pb.StateTtl:
    return pb.StateTtl(f"{hours} hours", time_domain="event_time")


def rows(*events: tuple[str, int]) -> list[Any]:
    return [(key, 10 * HOUR + time) for key, time in events]


# The first watermark is 10 h: a is looked at just after it, b an hour later, c for both.
EVENTS = rows(("z", 0), ("z", 2 * MINUTE), ("a", 3 * MINUTE), ("c", 4 * MINUTE),
              ("z", HOUR), ("z", HOUR + MINUTE), ("b", HOUR + 2 * MINUTE),
              ("c", HOUR + 3 * MINUTE))  # fmt: skip


def play(stream: Stream, events: list[Any], build: Any, at_once: bool) -> dict[Any, Any]:
    """A micro-batch for each row: what was known at each, by key and minutes after 10 h."""
    for row in events:
        stream.add(row)
        if not at_once:
            found = stream.run(build)
    found = stream.run(build)
    return {(k, (t - 10 * HOUR) // MINUTE): known for k, t, known in found}


@pytest.mark.parametrize(
    ("backend", "at_once"),
    [("rocksdb", True), pytest.param("heap", False, marks=pytest.mark.nightly)],
)
def test_initial_state_lives_from_the_first_watermark(
    spark: SparkSession, tmp_path: Path, backend: str, at_once: bool
) -> None:
    start = spark.createDataFrame(
        [(key, 7, [7], {"x": 7}) for key in "abc"],
        "k string, one bigint, many array<bigint>, named map<string, bigint>",
    )
    stream = Stream(spark, tmp_path, SCHEMA, None)
    build = known(event(), backend, start)
    found = play(stream, EVENTS[:4], build, at_once)
    assert found["a", 3] == [7, 7, 7]
    assert found["c", 4] == [7, 7, 7]
    stored = pb.read_state(spark, stream.checkpoint, 0, "one").where("key.k = 'a'")
    assert stored.select(F.unix_millis("timestamp")).collect() == [(10 * HOUR,)]
    found = play(stream, EVENTS[4:], build, at_once)
    assert found["b", 62] == [None, None], "it was not looked at for an hour after the first one"
    assert found["c", 63] == [None, None], "being read did not renew it"


@pytest.mark.nightly
@BACKENDS
def test_a_scans_initial_state_does_too(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    start = spark.createDataFrame([(key, 7) for key in "abc"], "k string, n bigint")

    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "0 seconds")
        return pb.scan(
            timed,
            by="k",
            state={"n": ("0L", "n + 1")},
            select=["k", "t", "n"],
            ttl=event(),
            backend=backend,
            initial_state=start,
        )

    found = play(Stream(spark, tmp_path, SCHEMA, None), EVENTS, build, True)
    assert (found["a", 3], found["c", 4]) == (8, 8)
    assert (found["b", 62], found["c", 63]) == (1, 9)


@pytest.mark.nightly
@BACKENDS
@pytest.mark.parametrize(
    "before",
    [pytest.param(None, id="no TTL"), pytest.param("1 hour", id="processing time")],
)
def test_a_ttl_switched_on_before_any_watermark_starts_at_the_first(
    spark: SparkSession, tmp_path: Path, backend: str, before: Any
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, None)
    write = known(before, backend, watermark=False, writes=True)
    stream.add(("a", 0), ("b", 0)).run(write)
    read = known(event(), backend)
    found = play(stream, rows(("z", 0), ("z", 2 * MINUTE), ("a", 3 * MINUTE)), read, False)
    assert found["a", 3] == [7, 7, 7]
    later = rows(("z", HOUR), ("z", HOUR + MINUTE), ("b", HOUR + 2 * MINUTE))
    assert play(stream, later, read, False)["b", 62] == [None, None]


@BACKENDS
def test_a_ttl_that_goes_by_another_clock_starts_again(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    """From event to processing time: a life that was over by the watermark starts at the batch."""
    stream = Stream(spark, tmp_path, SCHEMA, None)
    stream.add(*rows(("a", 0))).run(known(event(), backend, writes=True))
    found = play(stream, rows(("a", MINUTE)), known("1 hour", backend), False)
    assert found["a", 1] == [7, 7, 7]
    stream.add(*rows(("z", 10 * HOUR))).run(known("1 hour", backend))
    found = play(stream, rows(("a", 10 * HOUR + MINUTE)), known(event(), backend), False)
    assert found["a", 601] == [7, 7, 7]


class Renewing(pb.KeyedProcessFunction):
    """Adds to a list that lives 10 s from each read, and tells it at 12 s and at 23 s."""

    def open(self, ctx: Any) -> None:
        ttl = pb.StateTtl("10 seconds", time_domain="event_time", update="on_read_and_write")
        self.many = ctx.list_state("many", "bigint", ttl=ttl)

    def process(self, row: Any, ctx: Any) -> Any:
        if row.k == "a":
            self.many.add(row.t)
            ctx.timers.register_event_time(12_000)
            ctx.timers.register_event_time(23_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp, list(self.many.get())


@BACKENDS
def test_what_is_left_of_a_list_is_renewed_at_the_time_of_the_timer_that_read_it(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "0 seconds")
        returns = "t bigint, many array<bigint>"
        return timed.transform(
            pb.process_keyed, Renewing(), by="k", returns=returns, backend=backend
        )

    batches = [[("a", 1), ("a", 5_000)], [("b", 14_000)], [("b", 24_000)], [("b", 25_000)]]
    stream = Stream(spark, tmp_path, "k string, t bigint", build)
    for rows in batches:
        stream.add(*rows)
    found = sorted(stream.run())
    harness = KeyedHarness(
        Renewing(),
        schema="k string, t bigint, ts timestamp",
        returns="t bigint, many array<bigint>",
        by="k",
        timestamp="ts",
    )
    expected = []
    for rows in batches:
        timed = [(k, t, datetime.fromtimestamp(t / 1000)) for k, t in rows]
        expected += [tuple(row) for row in harness.run_micro_batch(timed, watermark=rows[-1][1])]
    assert expected == [(12_000, [5_000]), (23_000, [])]
    assert found == expected


class WrittenTwice(pb.KeyedProcessFunction):
    """Writes up to 50 s, and tells afterwards what is still there of the last 20 s."""

    def open(self, ctx: Any) -> None:
        ttl = pb.StateTtl("20 seconds", time_domain="event_time")
        self.one = ctx.value_state("one", "bigint", ttl=ttl)
        self.named = ctx.map_state("named", "string", "bigint", ttl=ttl)

    def process(self, row: Any, ctx: Any) -> Any:
        if row.t is not None and row.t > 50_000:
            return row.t, [self.one.value(), self.named.get("x")]
        self.one.update(7)
        self.named.put("x", 7)
        return None


@BACKENDS
def test_what_is_written_again_in_the_micro_batch_of_the_first_watermark_lives_from_it(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    returns = "t bigint, found array<bigint>"

    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "0 seconds")
        return timed.transform(
            pb.process_keyed, WrittenTwice(), by="k", returns=returns, backend=backend
        )

    # The watermark of each micro-batch is that of the rows before it.
    batches = {
        None: [("a", None), ("z", 50_000)],
        50_000: [("a", 1000), ("z", 50_001)],
        50_001: [("a", 70_000)],
        70_000: [("a", 70_001)],
        70_001: [("a", 70_002)],
    }
    stream = Stream(spark, tmp_path, SCHEMA, build)
    harness = KeyedHarness(WrittenTwice(), schema=SCHEMA, returns=returns, by="k", timestamp="t")
    expected = []
    for watermark, rows in batches.items():
        stream.add(*rows)
        told = harness.run_micro_batch(rows, watermark=watermark)
        expected += [tuple(row) for row in told if row.t >= 70_000]
    assert expected == [(70_000, [7, 7]), (70_001, [7, 7]), (70_002, [None, None])]
    found = stream.run()
    assert sorted(row for row in found if row[0] >= 70_000) == expected
