"""``initial_state``: queries that start with state, in streams and batches, of every form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, t bigint, v bigint"
RETURNS = "k string, n bigint, seen array<bigint>, best bigint"


class Remembers(pb.KeyedProcessFunction):
    """Emits what it knew before each row, and what a timer finds."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")
        self.seen = ctx.list_state("seen", "bigint")
        self.best = ctx.map_state("best", "string", "bigint", ttl="10 days")

    def process(self, row: Any, ctx: Any) -> Any:
        yield self.known(ctx)
        self.n.update((self.n.value() or 0) + 1)
        self.seen.add(row.v)
        self.best.put("x", row.v)
        ctx.timers.register_event_time(row.t + 1_000_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield {**self.known(ctx), "n": -timestamp}

    def known(self, ctx: Any) -> Any:
        return {
            "k": ctx.key,
            "n": self.n.value(),
            "seen": list(self.seen.get()),
            "best": self.best.get("x"),
        }


def remembers(initial: Any, backend: str = "rocksdb") -> Any:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "0 seconds")
        return timed.transform(
            pb.process_keyed,
            Remembers(),
            by="k",
            returns=RETURNS,
            backend=backend,
            timers=backend,
            initial_state=initial,
        )

    return build


def wide(spark: SparkSession) -> DataFrame:
    rows = [("a", 7, [3, 1, 2], {"x": 5}), (None, 1, None, None), ("c", None, [], {"y": 9})]
    return spark.createDataFrame(rows, "k string, n int, seen array<int>, best map<string,bigint>")


AFTER = [("a", 7, [3, 1, 2], 5), ("b", None, [], None), ("c", None, [], None), (None, 1, [], None)]


def ordered(rows: list[Any]) -> list[Any]:
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_a_stream_starts_with_the_columns_of_a_dataframe_and_reads_them_once(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, remembers(wide(spark), backend))
    stream.add(("a", 1, 4), ("b", 1, 4), (None, 1, 4), ("c", 1, 4))
    assert ordered(stream.run()) == AFTER
    stream.add(("a", 2, 6))
    other = spark.createDataFrame([("a", 100)], "k string, n bigint")
    again = stream.run(remembers(other, backend))
    assert ordered(set_of(again) - set_of(AFTER)) == [("a", 8, (3, 1, 2, 4), 4)]


def set_of(rows: Any) -> Any:
    return {(k, n, tuple(seen), best) for k, n, seen, best in rows}


def test_a_batch_starts_with_it_too(spark: SparkSession) -> None:
    rows = [("a", 1, 4), ("b", 1, 4), (None, 1, 4), ("c", 1, 4)]
    df = spark.createDataFrame(rows, SCHEMA).repartition(3)
    found = remembers(wide(spark))(df).collect()
    assert ordered([row for row in found if not (row.n or 0) < 0]) == AFTER
    fired = [row for row in found if (row.n or 0) < 0]
    assert {(row.k, tuple(row.seen)) for row in fired} == {
        ("a", (3, 1, 2, 4)),
        ("b", (4,)),
        ("c", (4,)),
        (None, (4,)),
    }


@pytest.mark.parametrize("backends", [("rocksdb", "heap"), ("heap", "rocksdb")])
def test_a_query_goes_on_where_another_one_stopped(
    spark: SparkSession, tmp_path: Path, backends: tuple[str, str]
) -> None:
    """State, its timestamps and timers, through read_state, to another backend."""
    first = Stream(spark, tmp_path / "first", SCHEMA, remembers(wide(spark), backends[0]))
    first.add(("a", 1, 4)).run()

    def stored(name: str) -> DataFrame:
        return pb.read_state(spark, first.checkpoint, 0, name)

    initial = {name: stored(name) for name in ("n", "seen", "best", pb.TIMERS)}
    second = Stream(spark, tmp_path / "second", SCHEMA, remembers(initial, backends[1]))
    second.add(("a", 2, 6)).add(("z", 1_000_001, 0))
    rows = second.run()
    assert ("a", 8, [3, 1, 2, 4], 4) in rows
    assert ("a", -1_000_001, [3, 1, 2, 4, 6], 6) in rows  # the first query's timer
    before = stored("best").select("key.k", "map_key", "value", "timestamp").collect()
    after = pb.read_state(spark, second.checkpoint, 0, "best").drop("expires_at")
    kept = after.where("map_key = 'y'").select("key.k", "map_key", "value", "timestamp").collect()
    assert kept == [row for row in before if row.map_key == "y"] != []


def test_a_scan_starts_with_columns_or_with_stored_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(initial: Any) -> Any:
        def scan(df: DataFrame) -> DataFrame:
            state = {"n": ("0L", "n + 1"), "total": ("0L", "total + v")}
            return pb.scan(df, by="k", state=state, emit=["k", "n", "total"], initial_state=initial)

        return scan

    plain = spark.createDataFrame([("a", 10, 100)], "k string, n int, total bigint")
    first = Stream(spark, tmp_path / "first", SCHEMA, build(plain))
    assert first.add(("a", 1, 4)).run() == [("a", 11, 104)]
    stored = {"scan": pb.read_state(spark, first.checkpoint, 0, "scan")}
    second = Stream(spark, tmp_path / "second", SCHEMA, build(stored))
    assert second.add(("a", 1, 6)).run() == [("a", 12, 110)]
    df = spark.createDataFrame([("a", 1, 1), ("b", 1, 1)], SCHEMA)
    assert ordered(build(plain)(df).collect()) == [("a", 11, 101), ("b", 1, 1)]


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        (lambda spark: 7, "but it is 7: it is neither"),
        (lambda spark: {}, "it is neither"),
        (lambda spark: spark.range(3), "it lacks the key column k"),
        (lambda spark: spark.range(3).selectExpr("'a' as k"), "it has the key columns only"),
        (lambda spark: {"n": spark.range(3)}, "n has the columns id, not those of pb.read_state"),
        (lambda spark: {"n": 3}, "'n' has 3"),
        (lambda spark: spark.readStream.format("rate").load(), "it is a stream"),
        (
            lambda spark: {pb.TIMERS: spark.sql("SELECT struct('a' AS k) AS key")},
            "pillarbox timers has the columns key, not those of pb.read_state",
        ),
    ],
)
def test_what_is_no_initial_state_is_refused_at_once(
    spark: SparkSession, initial: Any, message: str
) -> None:
    df = spark.createDataFrame([("a", 1, 1)], SCHEMA)
    with pytest.raises(pb.InvalidOption, match=message):
        remembers(initial(spark))(df)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("'a' AS k, 1L AS m", r"INITIAL_STATE_UNKNOWN.*'m'.*declared are 'n', 'seen', 'best'"),
        ("'a' AS k, 'x' AS n", r"INITIAL_STATE_TYPE.*'n' as STRING.*BIGINT"),
        ("'a' AS k, array(1L, null) AS seen", r"INITIAL_STATE_NULL.*'seen'"),
    ],
)
def test_what_does_not_fit_the_function_fails_the_first_batch(
    spark: SparkSession, columns: str, message: str
) -> None:
    df = spark.createDataFrame([("a", 1, 1)], SCHEMA)
    with pytest.raises(Exception, match=message):
        remembers(spark.sql(f"SELECT {columns}"))(df).collect()
