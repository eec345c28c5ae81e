"""What a keyed operator of a stream takes from its neighbours, and gives them: watermarks, rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream
from spark_support import Kept, process_of, run_stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "k string, t bigint"
COUNTS = "k string, n bigint"
# With it a function uses event time, and so gets no late rows.
EVENT_TTL = pb.StateTtl("1 day", time_domain="event_time")


class Count(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield ctx.key, self.n.value()


def counted(rows: DataFrame) -> DataFrame:
    return rows.transform(pb.process_keyed, Count(), by="k", returns=COUNTS)


def scanned(rows: DataFrame) -> DataFrame:
    return pb.scan(rows, by="k", state={"rows": ("0L", "rows + 1")}, select=["k", "rows"])


def timed(rows: DataFrame, delay: str = "0 seconds") -> DataFrame:
    return rows.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", delay)


def totals(rows: DataFrame) -> DataFrame:
    """A streaming aggregation: in update mode a row for each change, in append mode the last."""
    window = F.window("ts", "10 milliseconds")
    counts = timed(rows).groupBy("k", window).agg(F.count("*").alias("before"))
    return counts.select("k", F.window_time("window").alias("ts"), "before")


def run(
    spark: SparkSession, folder: Path, batches: list[list[Any]], build: Any, mode: str,
    look: Any = None,
) -> Any:  # fmt: skip
    """Each of ``batches`` is a micro-batch; the rows that came out, and the query."""
    stream = Stream(spark, folder, INPUT, build)
    for batch in batches:
        stream.add(*batch)
    kept = Kept(str(folder / "kept"), *([look] if look else []))
    query = run_stream(build(stream.source()), folder, kept, mode)
    return kept.rows(), query


@pytest.mark.parametrize("mode", ["update", "complete"])
@pytest.mark.parametrize("after", [counted, scanned])
def test_an_aggregation_that_tells_every_change_is_refused_before_ours(
    quick: SparkSession, tmp_path: Path, after: Any, mode: str
) -> None:
    with pytest.raises(Exception, match="AGGREGATION_BEFORE_KEYED") as caught:
        run(quick, tmp_path, [[("a", 5)], [("a", 6)]], lambda rows: after(totals(rows)), mode)
    message = str(caught.value)
    assert f"outputMode('{mode}')" in message
    assert 'Use outputMode("append") and a watermark' in message
    assert not list((tmp_path / "checkpoint" / "state").glob("1/*/*.delta"))


def test_an_aggregation_that_tells_its_end_is_not_refused(
    quick: SparkSession, tmp_path: Path
) -> None:
    batches = [[("a", 5), ("a", 6)], [("a", 15)], [("a", 40)], [("a", 60)]]
    rows, _ = run(quick, tmp_path, batches, lambda rows: counted(totals(rows)), "append")
    assert sorted(rows) == [("a", 1), ("a", 2), ("a", 3)]


def test_an_aggregation_after_ours_may_tell_every_change(
    quick: SparkSession, tmp_path: Path
) -> None:
    def build(rows: DataFrame) -> DataFrame:
        return counted(rows).groupBy("k").agg(F.max("n").alias("n"))

    rows, _ = run(quick, tmp_path, [[("a", 5)], [("a", 6), ("b", 1)]], build, "complete")
    assert sorted(rows) == [("a", 1), ("a", 2), ("b", 1)]


class First(pb.KeyedProcessFunction):
    """Gives the first time of the key with each row."""

    def open(self, ctx: Any) -> None:
        self.first = ctx.value_state("first", "timestamp", ttl=EVENT_TTL)

    def process(self, row: Any, ctx: Any) -> Any:
        if self.first.value() is None:
            self.first.update(row.ts)
        yield ctx.key, self.first.value()


class FirstColumns(pb.ArrowKeyedProcessFunction):
    """The same in the column form."""

    def open(self, ctx: Any) -> None:
        ctx.value_state("first", "timestamp", ttl=EVENT_TTL)

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        times = pb.columns.group_first(batch["ts"], state.index)
        state["first"] = pc.coalesce(state["first"], times)
        return {"k": batch["k"], "ts": state["first"].take(pa.array(state.index))}


FIRSTS = [[("a", 5)], [("b", 50), ("a", 9)], [("b", 60), ("a", 52)], [("c", 90)]]


def firsts(name: str, form: Any = First) -> Any:
    def build(rows: DataFrame) -> DataFrame:
        out = timed(rows).transform(
            process_of(form()), form(), by="k", returns=f"k string, {name} timestamp"
        )
        return out.withColumnRenamed(name, "ts") if name != "ts" else out

    return build


@pytest.mark.parametrize("form", [First, FirstColumns])
@pytest.mark.parametrize("then", [lambda rows: rows, lambda rows: rows.dropDuplicates(["k", "ts"])])
def test_an_event_time_behind_the_watermark_is_an_error_that_names_the_row(
    quick: SparkSession, tmp_path: Path, then: Any, form: Any
) -> None:
    with pytest.raises(Exception, match="EVENT_TIME_BEHIND_WATERMARK") as caught:
        run(quick, tmp_path, FIRSTS, lambda rows: then(firsts("ts", form)(rows)), "append")
    message = str(caught.value)
    assert f"process_keyed({form.__name__}): The function emitted Row(k='a', ts=" in message
    assert "has passed it with 1970-01-01T00:00:00.005Z" in message
    assert "Emit the time as a column of another name" in message


def test_under_another_name_a_time_is_a_time_like_any_other(
    quick: SparkSession, tmp_path: Path
) -> None:
    rows, _ = run(quick, tmp_path, FIRSTS, firsts("first_ts"), "append")
    assert sorted((k, ts.timestamp()) for k, ts in rows) == [
        ("a", 0.005), ("a", 0.005), ("a", 0.005), ("b", 0.05), ("b", 0.05), ("c", 0.09),
    ]  # fmt: skip


def test_rows_before_1970_are_not_late_in_the_first_micro_batch(
    quick: SparkSession, tmp_path: Path
) -> None:
    batches = [[("a", 0), ("a", -1), ("a", -86_400_000)], [("a", -5)]]
    rows, query = run(quick, tmp_path, batches, lambda rows: counted(timed(rows)), "append")
    assert sorted(rows) == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    operators = [p["stateOperators"][0] for p in query.recentProgress]
    assert sum(one["numRowsDroppedByWatermark"] for one in operators) == 0


class Sets(pb.KeyedProcessFunction):
    """Sets a timer at the row's time."""

    def process(self, row: Any, ctx: Any) -> Any:
        ctx.timers.register_event_time(row.t)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.key, timestamp


def test_timers_before_1970_wait_for_a_watermark_and_do_not_wake_the_query(
    quick: SparkSession, tmp_path: Path
) -> None:
    def build(rows: DataFrame) -> DataFrame:
        return timed(rows).transform(pb.process_keyed, Sets(), by="k", returns=COUNTS)

    early = [("a", -5), ("a", -(1 << 40))]
    rows, query = run(quick, tmp_path, [early], build, "append")
    assert (rows, len(query.recentProgress)) == ([], 1)
    rows, _ = run(quick, tmp_path / "more", [early, [("b", 7)]], build, "append")
    assert sorted(rows) == [("a", -(1 << 40)), ("a", -5), ("b", 7)]


def glance(batch: DataFrame, number: int) -> list[Any]:
    """Only looks whether there is anything, but for the last micro-batch."""
    if number < 3:
        assert not batch.isEmpty()
        return []
    return batch.collect()


@pytest.mark.classic
@pytest.mark.parametrize("build", [counted, scanned])
def test_a_batch_that_is_only_asked_whether_it_is_empty_is_processed_all_the_same(
    quick: SparkSession, tmp_path: Path, build: Any
) -> None:
    batches = [[(k, step) for k in "abcdefgh" for _ in range(100)] for step in range(4)]
    rows, _ = run(quick, tmp_path, batches, build, "append", glance)
    assert sorted(rows) == sorted((k, n) for k in "abcdefgh" for n in range(301, 401))


def test_a_key_of_a_batch_does_not_clear_away_what_another_one_started_with(
    spark: SparkSession,
) -> None:
    """Keys of a batch have a time each, and its TTL goes by that."""
    keys = [f"k{number:03}" for number in range(50)]
    rows = spark.createDataFrame(
        [(key, 0, None, "event 1000000, ttl.get") for key in keys],
        "k string, i int, ts timestamp, ops string",
    )
    known = spark.createDataFrame(
        [(key, 7, 5) for key in keys], "k string, value bigint, ms bigint"
    ).selectExpr("struct(k) AS key", "value", "timestamp_millis(ms) AS timestamp")
    from keyed.order_runners import GOLDEN_FUNCTION, add_golden_function

    add_golden_function(spark)
    on = {f"{key} event 1000000": "put 1, get" for key in keys}
    out = pb.process_keyed(
        rows.coalesce(1), pb.JvmFunction(GOLDEN_FUNCTION, on), by="k",
        returns="k string, n int, told string", timestamp="ts", initial_state={"brief": known},
    )  # fmt: skip
    told = [row.told for row in out.where("n = 1").collect()]
    assert told == ["row - @- 7"] * len(keys)
