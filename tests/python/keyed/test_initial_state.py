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
from keyed.streams import Stream, settings
from spark_support import Kept, run_stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, t bigint, v bigint"
RETURNS = "k string, n bigint, seen array<bigint>, best bigint"
# Of the query that stops and of the one that goes on.
BACKENDS = pytest.mark.parametrize(
    "backends", [("rocksdb", "heap"), pytest.param(("heap", "rocksdb"), marks=pytest.mark.nightly)]
)


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


@BACKENDS
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


@pytest.mark.parametrize("shape", ["join", "coalesced"])
def test_a_stream_starts_with_it_whatever_lies_below(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    """Without an exchange of the operator's own its input has partitions of another kind."""
    other = spark.createDataFrame([("a",), ("b",)], "k string")

    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "0 seconds")
        below = timed.join(other, "k") if shape == "join" else timed.coalesce(1)
        return below.transform(
            pb.process_keyed, Remembers(), by="k", returns=RETURNS, initial_state=wide(spark)
        )

    partitions = "1" if shape == "coalesced" else "2"
    with settings(spark, **{"spark.sql.shuffle.partitions": partitions}):
        stream = Stream(spark, tmp_path, SCHEMA, build).add(("a", 1, 4), ("b", 1, 4))
        assert ordered(stream.run()) == AFTER[:2]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_an_empty_dataframe_is_no_state(spark: SparkSession, tmp_path: Path, adaptive: str) -> None:
    given = [("a", 1, 4), ("b", 2, 5)]
    expected = [("a", None, [], None), ("b", None, [], None)]
    empties = [spark.createDataFrame([], wide(spark).schema), wide(spark).limit(0)]
    with settings(spark, **{"spark.sql.adaptive.enabled": adaptive}):
        for number, empty in enumerate(empties):
            folder = tmp_path / str(number)
            stream = Stream(spark, folder, SCHEMA, remembers(empty)).add(*given)
            assert ordered(stream.run()) == expected
            df = spark.createDataFrame(given, SCHEMA)
            rows = df.transform(remembers(empty)).where("n is null or n >= 0").collect()
            assert ordered(rows) == expected


class Sums(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + row.v)
        ctx.output("side.way", {"a.b": str(ctx.key)})
        yield {"main.n": self.n.value()}


@pytest.mark.parametrize("key", ["index", "order", "key 0", "state 0", "a.b", "a`b", "value", "k"])
def test_names_of_columns_are_taken_as_they_are(spark: SparkSession, key: str) -> None:
    """Internal names clash with none, and dots are part of a name."""
    df = spark.createDataFrame([("x", 1), ("y", 2)], ["k", "v"]).toDF(key, "v")
    for start in (
        spark.createDataFrame([("x", 5)], ["k", "n"]).toDF(key, "n"),
        {"n": spark.sql(
            "SELECT struct('x') AS key, 5L AS value, CAST(null AS TIMESTAMP) AS timestamp"
        )},
    ):  # fmt: skip
        found = df.transform(
            pb.process_keyed,
            Sums(),
            by=key,
            returns="`main.n` bigint",
            side_outputs={"side.way": "`a.b` string"},
            initial_state=start,
        )
        main, side = pb.main_output(found), pb.side_output(found, "side.way")
        assert (main.columns, side.columns) == (["main.n"], ["a.b"])
        assert sorted(main.collect()) == [(2,), (6,)]
        assert sorted(side.collect()) == [("x",), ("y",)]


def test_a_scan_whose_only_state_is_called_value_starts_from_columns_and_its_own_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(initial: Any) -> Any:
        return lambda df: pb.scan(
            df,
            by="k",
            state={"value": ("0L", "value + v")},
            select=["value"],
            initial_state=initial,
        )

    plain = spark.createDataFrame([("a", 10)], "k string, value bigint")
    first = Stream(spark, tmp_path / "first", SCHEMA, build(plain))
    assert first.add(("a", 1, 4)).run() == [(14,)]
    stored = {"scan": pb.read_state(spark, first.checkpoint, 0, "scan")}
    second = Stream(spark, tmp_path / "second", SCHEMA, build(stored))
    assert second.add(("a", 1, 6)).run() == [(20,)]


def test_a_scans_state_clashes_with_no_key_of_its_name(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", 1)], "scan string, v bigint")
    start = spark.createDataFrame([("a", 5)], "scan string, n bigint")
    found = pb.scan(df, by="scan", state={"n": ("0L", "n + v")}, select=["n"], initial_state=start)
    assert found.collect() == [(6,)]


class Waits(pb.KeyedProcessFunction):
    """Tells its timers."""

    def process(self, row: Any, ctx: Any) -> Any:
        yield {"text": str([tuple(timer) for timer in ctx.timers.list()])}
        if row.v:
            ctx.timers.register_event_time((1 << 63) - 1)
            ctx.timers.register_processing_time(1 << 62)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise AssertionError("its timers are too far")


def test_timers_beyond_all_calendars_go_through_read_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(initial: Any) -> Any:
        def query(df: DataFrame) -> DataFrame:
            timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "0 seconds")
            return timed.transform(
                pb.process_keyed, Waits(), by="k", returns="text string", initial_state=initial
            )

        return query

    first = Stream(spark, tmp_path / "first", SCHEMA, build(None)).add(("a", 1, 1))
    first.run()
    stored = pb.read_state(spark, first.checkpoint, 0, pb.TIMERS)
    far = stored.select("time_domain", "epoch_ms", "timestamp").where("timestamp is null").collect()
    assert sorted(far) == [
        ("event_time", (1 << 63) - 1, None),
        ("processing_time", 1 << 62, None),
    ]
    second = Stream(spark, tmp_path / "second", SCHEMA, build({pb.TIMERS: stored}))
    expected = [(1 << 62, "processing_time"), ((1 << 63) - 1, "event_time")]
    assert second.add(("a", 1, 0)).run() == [(str(expected),)]


def test_a_scan_starts_with_columns_or_with_stored_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(initial: Any) -> Any:
        def scan(df: DataFrame) -> DataFrame:
            state = {"n": ("0L", "n + 1"), "total": ("0L", "total + v")}
            return pb.scan(
                df, by="k", state=state, select=["k", "n", "total"], initial_state=initial
            )

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
        ("'a' AS k, timestamp'2024-01-01' AS n", r"INITIAL_STATE_TYPE.*'n' as TIMESTAMP.*BIGINT"),
        ("'a' AS k, 1.5D AS n", r"INITIAL_STATE_TYPE.*'n' as DOUBLE.*BIGINT"),
        (
            "explode(array('b', 'a', 'c', 'a')) AS k, 1L AS n",
            r"INITIAL_STATE_TWICE.*more than one row for the key 'a'",
        ),
    ],
)
def test_what_does_not_fit_the_function_fails_the_first_batch(
    spark: SparkSession, columns: str, message: str
) -> None:
    df = spark.createDataFrame([("a", 1, 1)], SCHEMA)
    with pytest.raises(Exception, match=message):
        remembers(spark.sql(f"SELECT {columns}"))(df).collect()


def entries(spark: SparkSession, text: str, rows: str) -> DataFrame:
    return spark.sql(f"SELECT struct(k) AS key, {text} FROM VALUES {rows} AS t(k, v, w)")


@pytest.mark.parametrize(
    ("state", "text", "rows", "message"),
    [
        (
            "n",
            "v AS value, null AS timestamp",
            "('a', 1L, 0), ('b', 2L, 0), ('a', 3L, 0)",
            r"INITIAL_STATE_TWICE.*value of 'n' for the key 'a'",
        ),
        (
            "best",
            "w AS map_key, v AS value, null AS timestamp",
            "('a', 1L, 'x'), ('a', 2L, 'y'), ('a', 3L, 'x')",
            "INITIAL_STATE_TWICE.*entry of one key in the map 'best'",
        ),
        (
            "n",
            "v AS value, 1700000000L AS timestamp",
            "('a', 1L, 0)",
            "INITIAL_STATE_TYPE.*BIGINT.*TIMESTAMP",
        ),
        (
            pb.TIMERS,
            "v AS time_domain, now() AS timestamp",
            "('a', 'evnt', 0)",
            r"INITIAL_TIMER_INVALID.*key 'a' with the time_domain evnt",
        ),
        (
            pb.TIMERS,
            "'event_time' AS time_domain, CAST(null AS TIMESTAMP) AS timestamp",
            "('a', 0, 0)",
            "INITIAL_TIMER_INVALID.*with the time null",
        ),
        (
            pb.TIMERS,
            "'event_time' AS time_domain, 1700000000L AS timestamp",
            "('a', 0, 0)",
            "INITIAL_STATE_TYPE.*BIGINT.*TIMESTAMP",
        ),
    ],
)
def test_entries_that_have_no_one_meaning_fail_the_first_batch(
    spark: SparkSession, tmp_path: Path, state: str, text: str, rows: str, message: str
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, remembers({state: entries(spark, text, rows)}))
    with pytest.raises(Exception, match=message):
        stream.add(("a", 1, 1)).run()


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("key", "given"),
    [("bigint", "1.9D"), ("bigint", "'x17'"), ("int", "1L"), ("double", "1L"), ("string", "1")],
)
def test_a_key_that_can_not_become_the_inputs_without_loss_is_refused_at_once(
    spark: SparkSession, key: str, given: str, ansi: str
) -> None:
    df = spark.sql(f"SELECT CAST(1 AS {key}) AS k, 1L AS t, 1L AS v")
    with settings(spark, **{"spark.sql.ansi.enabled": ansi}):
        for start in (
            spark.sql(f"SELECT {given} AS k, 1L AS n"),
            {"n": spark.sql(f"SELECT struct({given}) AS key, 1L AS value, now() AS timestamp")},
        ):
            with pytest.raises(Exception, match=r"INITIAL_STATE_KEY_TYPE.*key column k as"):
                remembers(start)(df)


@pytest.mark.parametrize(
    ("key", "given"), [("bigint", "1Y"), ("double", "1"), ("timestamp", "DATE'2024-01-01'")]
)
def test_a_narrower_key_is_the_inputs(spark: SparkSession, key: str, given: str) -> None:
    df = spark.sql(f"SELECT CAST({given} AS {key}) AS k, 1L AS t, 1L AS v")
    start = spark.sql(f"SELECT {given} AS k, 7L AS n")
    found = df.transform(
        pb.process_keyed, Sums(), by="k", returns="`main.n` bigint",
        side_outputs={"side.way": "`a.b` string"}, initial_state=start,
    )  # fmt: skip
    assert pb.main_output(found).collect() == [(8,)]


class Passes(pb.KeyedProcessFunction):
    """Emits each row with those before it, so that their order is seen."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.list_state("seen", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        yield {"k": row.k, "t": row.t, "seen": list(self.seen.get())}
        self.seen.add(row.t)


def passes(initial: Any = None, **options: Any) -> Any:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "100 seconds")
        return timed.transform(
            pb.process_keyed,
            Passes(),
            by="k",
            returns="k string, t bigint, seen array<bigint>",
            timestamp="ts",
            initial_state=initial,
            **{"time_sorted": True, **options},
        )

    return build


EARLY = [("a", 1_000, 0), ("a", 150_000, 1), ("b", 120_000, 2), ("a", 110_000, 3)]
LATER = [("a", 130_000, 4), ("b", 119_000, 5), ("a", 900_000, 6)]


@BACKENDS
def test_rows_that_wait_for_the_watermark_move_to_a_new_query(
    spark: SparkSession, tmp_path: Path, backends: tuple[str, str]
) -> None:
    whole = Stream(spark, tmp_path / "whole", SCHEMA, passes()).add(*EARLY).add(*LATER)
    first = Stream(spark, tmp_path / "first", SCHEMA, passes(backend=backends[0])).add(*EARLY)
    out = first.run()
    names = ("seen", pb.TIMERS, pb.WAITING_ROWS)
    old = {name: pb.read_state(spark, first.checkpoint, 0, name) for name in names}
    assert old[pb.WAITING_ROWS].count() == 3
    with settings(spark, **{"spark.sql.shuffle.partitions": "3"}):
        second = Stream(spark, tmp_path / "second", SCHEMA, passes(old, backend=backends[1]))
        out += second.add(*LATER).run()
    assert ordered(out) == ordered(whole.run())
    assert len(out) == 6


def test_rows_that_wait_are_refused_where_none_can_wait(spark: SparkSession) -> None:
    df = spark.createDataFrame(EARLY, SCHEMA)
    rows = spark.createDataFrame(
        [], "key struct<k string>, value struct<k string>, timestamp timestamp"
    )
    given = {pb.WAITING_ROWS: rows}
    with pytest.raises(pb.InvalidOption, match="union their values with the input"):
        passes(given)(df)
    with pytest.raises(pb.InvalidOption, match="only rows of time_sorted=True"):
        passes(given, time_sorted=False)(df)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.withColumn("value", F.struct("value.k", "value.t", "value.ts")), "INT"),
        (lambda rows: rows.withColumn("key", F.struct(F.lit("z").alias("k"))), "another key than"),
    ],
)
def test_rows_that_wait_and_do_not_fit_fail_the_first_batch(
    spark: SparkSession, tmp_path: Path, change: Any, message: str
) -> None:
    first = Stream(spark, tmp_path / "first", SCHEMA, passes()).add(*EARLY)
    first.run()
    rows = change(pb.read_state(spark, first.checkpoint, 0, pb.WAITING_ROWS))
    second = Stream(spark, tmp_path / "second", SCHEMA, passes({pb.WAITING_ROWS: rows}))
    with pytest.raises(Exception, match=message) as caught:
        second.add(*LATER).run()
    assert "INITIAL_" in str(caught.value)


class Counts(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield ctx.key, self.n.value()


def test_a_keyed_function_in_foreach_batch_must_say_what_its_state_begins_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = Kept(str(tmp_path / "kept"), look=counted_in_a_micro_batch)
    spark.createDataFrame([("a",), ("a",)], "k string").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("k string").parquet(str(tmp_path / "in"))
    run_stream(stream, tmp_path, kept)
    assert kept.rows() == [
        ("KEYED_IN_FOREACH_BATCH", 0), ("a", 1), ("a", 2), ("KEYED_IN_FOREACH_BATCH", 0), ("a", 2),
        ("a", 6), ("a", 7),
    ]  # fmt: skip


def counted_in_a_micro_batch(batch: DataFrame, number: int) -> list[Any]:
    def found(**initial: Any) -> list[Any]:
        try:
            counted = pb.process_keyed(
                batch, Counts(), by="k", returns="k string, n bigint", **initial
            )
            return sorted(tuple(row) for row in counted.collect())
        except pb.InvalidOption as refusal:
            return [(refusal.condition, 0)]

    def scanned(**initial: Any) -> list[Any]:
        try:
            total = pb.scan(
                batch, by="k", state={"n": ("0L", "n + 1")}, select=["k", "n"], **initial
            )
            return [max(tuple(row) for row in total.collect())]
        except pb.InvalidOption as refusal:
            return [(refusal.condition, 0)]

    start = batch.sparkSession.createDataFrame([("a", 5)], "k string, n bigint")
    return [
        *found(), *found(initial_state={}), *scanned(), *scanned(initial_state={}),
        *found(initial_state=start),
    ]  # fmt: skip
