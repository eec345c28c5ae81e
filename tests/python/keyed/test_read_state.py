"""``pb.read_state``: every kind of state, on both backends and in both checkpoint formats."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream, settings

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, t bigint, v bigint"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class Largest(pb.AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, None)

    def add(self, value: Any, acc: Any) -> Any:
        return (acc[0] + 1, value if acc[1] is None else max(acc[1], value))

    def get_result(self, acc: Any) -> Any:
        return acc[1]


class Everything(pb.KeyedProcessFunction):
    """One state of each kind, and timers of both."""

    def open(self, ctx: Any) -> None:
        ttl = pb.StateTtl("10 seconds", time_domain="event_time")
        self.plain = ctx.value_state("plain", "bigint")
        self.struct = ctx.value_state("struct", "a bigint, b string", ttl=ttl)
        self.list = ctx.list_state("list", "bigint", ttl=ttl)
        self.map = ctx.map_state("map", "string", "bigint", ttl=ttl)
        self.total = ctx.reducing_state("total", "bigint", lambda a, b: a + b)
        self.largest = ctx.aggregating_state("largest", "n bigint, v bigint", Largest())

    def process(self, row: Any, ctx: Any) -> Any:
        self.plain.update(row.v)
        self.struct.update((row.v, row.k))
        self.list.add(row.v)
        self.map.put(str(row.v), row.t)
        self.total.add(row.v)
        self.largest.add(row.v)
        ctx.timers.register_event_time(row.t + 60_000)
        ctx.timers.register_processing_time(4_000_000_000_000)
        yield {"k": row.k}

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Nothing: the timers are there to be listed."""


def everything(backend: str) -> Any:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "0 seconds")
        return timed.transform(
            pb.process_keyed,
            Everything(),
            by="k",
            returns="k string",
            backend=backend,
        )

    return build


def at(ms: int) -> datetime:
    """As Spark's ``collect`` gives it: local time without a zone."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc).astimezone().replace(tzinfo=None)


@pytest.fixture(scope="module", params=["rocksdb-1", "rocksdb-2", "heap-1", "heap-2"])
def stream(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Stream:
    backend, version = request.param.split("-")
    made = Stream(spark, tmp_path_factory.mktemp(request.param), SCHEMA, everything(backend))
    made.add(("a", 1000, 5), ("b", 1000, 7)).add(("a", 2000, 3)).add((None, 3000, 1))
    # Versions are loaded from snapshots too: one is taken, in the background, after each commit.
    with settings(spark, **{FORMAT: version, "spark.pillarbox.state.snapshotEvery": "1"}):
        made.run()
    return made


def rows(stream: Stream, name: str, *columns: str, **options: Any) -> list[Any]:
    frame = pb.read_state(stream.spark, stream.checkpoint, "Everything", name, **options)
    chosen = frame.select("key.k", *columns)
    return sorted((tuple(row) for row in chosen.collect()), key=repr)


def test_values_come_plain_or_as_structs(stream: Stream) -> None:
    assert rows(stream, "plain", "value") == [("a", 3), ("b", 7), (None, 1)]
    assert rows(stream, "struct", "value.a", "value.b") == [
        ("a", 3, "a"),
        ("b", 7, "b"),
        (None, 1, None),
    ]
    frame = pb.read_state(stream.spark, stream.checkpoint, 0, "plain")
    assert frame.schema.simpleString() == (
        "struct<key:struct<k:string>,value:bigint,timestamp:timestamp,expires_at:timestamp,"
        "partition_id:int>"
    )


@pytest.mark.classic
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it needs Linux")
def test_a_read_leaves_no_file_open_also_one_that_stops_early(stream: Stream) -> None:
    frame = pb.read_state(stream.spark, stream.checkpoint, 0, "list")
    assert len(frame.collect()) == 4
    assert len(frame.limit(1).collect()) == 1
    jvm: Any = stream.spark._jvm
    own = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/fd")
    assert not [name for name in map(target, own.iterdir()) if "read-state" in name]


def target(link: Path) -> str:
    """What it links to, and nothing if it is gone by now."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def test_lists_and_maps_have_a_row_an_entry(stream: Stream) -> None:
    assert rows(stream, "list", "index", "value") == [
        ("a", 0, 5),
        ("a", 1, 3),
        ("b", 0, 7),
        (None, 0, 1),
    ]
    assert rows(stream, "map", "map_key", "value") == [
        ("a", "3", 2000),
        ("a", "5", 1000),
        ("b", "7", 1000),
        (None, "1", 3000),
    ]


def test_aggregates_come_as_their_accumulators(stream: Stream) -> None:
    assert rows(stream, "total", "value") == [("a", 8), ("b", 7), (None, 1)]
    assert rows(stream, "largest", "value.n", "value.v") == [
        ("a", 2, 5),
        ("b", 1, 7),
        (None, 1, 1),
    ]


def test_state_with_ttl_tells_its_time_and_its_end(stream: Stream) -> None:
    assert rows(stream, "struct", "timestamp", "expires_at") == [
        ("a", at(2000), at(12_000)),
        ("b", at(1000), at(11_000)),
        (None, at(3000), at(13_000)),
    ]
    assert rows(stream, "map", "map_key", "expires_at")[0] == ("a", "3", at(12_000))
    assert rows(stream, "plain", "timestamp", "expires_at")[0] == ("a", None, None)


def test_timers_are_listed_by_kind(stream: Stream) -> None:
    found = rows(stream, pb.TIMERS, "time_domain", "timestamp")
    assert [row for row in found if row[1] == "event_time"] == [
        ("a", "event_time", at(61_000)),
        ("a", "event_time", at(62_000)),
        ("b", "event_time", at(61_000)),
        (None, "event_time", at(63_000)),
    ]
    assert ("a", "processing_time", at(4_000_000_000_000)) in found
    assert len(found) == 7


def test_state_is_that_after_the_micro_batch(stream: Stream) -> None:
    assert rows(stream, "plain", "value", batch_id=0) == [("a", 5), ("b", 7)]
    assert rows(stream, "plain", "value", batch_id=1) == [("a", 3), ("b", 7)]
    assert rows(stream, "list", "value", batch_id=0) == [("a", 5), ("b", 7)]
    assert len(rows(stream, pb.TIMERS, "time_domain", batch_id=0)) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("Everything", "plian"),
            r"no state 'plian' after the micro-batch \d+; there are 'plain', 'struct'",
        ),
        (("Everthing", "plain"), r"no keyed operator 'Everthing'; there are 0 \(Everything\)"),
        ((7, "plain"), "has no keyed operator 7; there are 0"),
        (("Everything", ""), r"state must be the name of a state"),
    ],
)
def test_what_is_not_there_is_an_error_that_tells_what_is(
    stream: Stream, arguments: Any, message: str
) -> None:
    with pytest.raises(pb.InvalidOption, match=message):
        pb.read_state(stream.spark, stream.checkpoint, *arguments)


def test_a_micro_batch_that_left_no_state_is_an_error(stream: Stream) -> None:
    with pytest.raises(
        pb.InvalidOption, match=r"nothing of the micro-batch 98; there are those of 0 to \d"
    ):
        pb.read_state(stream.spark, stream.checkpoint, 0, "plain", batch_id=98)
    with pytest.raises(pb.InvalidOption, match="batch_id must be the number of a micro-batch"):
        pb.read_state(stream.spark, stream.checkpoint, 0, "plain", batch_id="3")  # type: ignore[arg-type]


def test_no_checkpoint_is_an_error_and_makes_none(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(pb.InvalidOption, match="NO_STORED_OPERATORS"):
        pb.read_state(spark, tmp_path / "none", 0, "plain")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("path", ["nofs://bucket/checkpoint", "a:b:c", "s3://no-jar/checkpoint"])
def test_a_checkpoint_that_the_driver_cannot_reach_is_an_error_that_names_it(
    spark: SparkSession, path: str
) -> None:
    with pytest.raises(pb.InvalidOption, match=f"CHECKPOINT_UNREACHABLE.* {path}: "):
        pb.read_state(spark, path, 0, "plain")


def test_the_state_of_a_scan_and_rows_that_wait(spark: SparkSession, tmp_path: Path) -> None:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "1 second")
        state = {"n": ("0L", "n + 1"), "total": ("0L", "total + v")}
        return pb.scan(timed, by=["k", "v"], state=state, time_sorted=True, name="totals")

    stream = Stream(spark, tmp_path, SCHEMA, build)
    stream.add(("a", 1000, 5), ("a", 2000, 5)).add(("b", 2500, 7))
    stream.run()
    state = pb.read_state(spark, stream.checkpoint, "totals", "scan")
    assert [tuple(r) for r in state.select("key.*", "value.*").collect()] == [("a", 5, 1, 5)]
    waiting = pb.read_state(spark, stream.checkpoint, "totals", pb.WAITING_ROWS)
    found = waiting.select("key.k", "value.t", "timestamp").collect()
    assert sorted(map(tuple, found)) == [("a", 2000, at(2000)), ("b", 2500, at(2500))]
    assert pb.read_state(spark, stream.checkpoint, "totals", pb.TIMERS).count() == 0
