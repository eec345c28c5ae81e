"""``on_late`` on streams of Spark, beside the harness over the same micro-batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream
from pillarbox.testing import AsyncKeyedHarness, KeyedHarness

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "k string, v bigint, at timestamp"
RETURNS = "k string, v bigint, at timestamp, n bigint, was_late boolean"
START = datetime(2026, 11, 1, tzinfo=timezone.utc)
# Minutes. A row is late if it is 5 or more behind what came up to the last micro-batch but one.
BATCHES = [
    [("a", 0), ("a", 20), ("b", 3)],
    [("a", 1), ("b", 30)],
    [("a", 2), ("b", 40), ("b", 9), ("a", 15), ("c", None)],
    [("b", 24), ("b", 25), ("a", 36), ("c", 41)],
]
DELAY = timedelta(minutes=5)


class Numbered(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        return {**row.asDict(), "n": n, "was_late": ctx.is_late}


class Timed(Numbered):
    def process(self, row: Any, ctx: Any) -> Any:
        if ctx.timestamp is not None:
            ctx.timers.register_event_time(ctx.timestamp)
        return super().process(row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return {"k": ctx.key, "n": -1, "v": None, "at": None, "was_late": ctx.is_late}


class Expiring(Numbered):
    def open(self, ctx: Any) -> None:
        life = pb.StateTtl("1 day", time_domain="event_time")
        self.n = ctx.value_state("n", "bigint", ttl=life)


class Awaited(pb.AsyncKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    async def process(self, row: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        return {**row.asDict(), "n": n, "was_late": ctx.is_late}


def batches(*, with_time: bool = False) -> list[list[tuple[str, int, Any]]]:
    """The rows of each micro-batch, numbered; ``with_time`` leaves out those without one."""
    rows: list[list[tuple[str, int, Any]]] = []
    number = 0
    for batch in BATCHES:
        rows.append([])
        for key, minute in batch:
            number += 1
            at = None if minute is None else START + timedelta(minutes=minute)
            if at is not None or not with_time:
                rows[-1].append((key, number, at))
    return rows


def ran(spark: SparkSession, folder: Path, build: Any, **given: bool) -> list[Any]:
    """The rows of a run over all micro-batches but the last one, and of one more from there."""

    def watermarked(df: DataFrame) -> DataFrame:
        return build(df.withWatermark("at", "5 minutes"))

    stream = Stream(spark, folder, INPUT, watermarked)
    *first, last = batches(**given)
    for batch in first:
        stream.add(*batch)
    stream.run()
    return stream.add(*last).run()


def told(rows: Iterable[Any]) -> list[str]:
    return sorted(map(str, rows))


def of_harness(make: Any, function: Any, **options: Any) -> tuple[list[str], list[str]]:
    one = make(function, by="k", schema=INPUT, returns=RETURNS, timestamp="at", **options)
    rows: list[Any] = []
    watermark = None
    for batch in batches(with_time=options.get("time_sorted", False)):
        rows += one.run_micro_batch(batch, watermark=watermark)
        watermark = max(at for _, _, at in batch if at is not None) - DELAY
    rows += one.advance_watermark(watermark)
    late = one.side_output("late") if options["on_late"] == "output" else []
    return told(map(tuple, rows)), told(map(tuple, late))


LATE = [("a", 6), ("b", 8), ("a", 9), ("b", 11), ("b", 12)]
CASES = [
    (make, function, {"on_late": on_late, **more})
    for make, function in [
        (pb.process_keyed, Timed),
        (pb.process_keyed, Expiring),
        (pb.process_keyed_async, Awaited),
    ]
    for on_late, more in [
        ("drop", {}),
        ("process", {}),
        ("output", {}),
        ("output", {"time_sorted": True}),
    ]
]


@pytest.mark.parametrize(("make", "function", "options"), CASES)
def test_late_rows_go_where_on_late_says(spark, tmp_path, make, function, options):
    def build(df: DataFrame) -> DataFrame:
        return df.transform(make, function(), by="k", returns=RETURNS, timestamp="at", **options)

    result = ran(spark, tmp_path, build, with_time=options.get("time_sorted", False))
    harness = AsyncKeyedHarness if make is pb.process_keyed_async else KeyedHarness
    expected, late = of_harness(harness, function(), **options)
    if options["on_late"] == "output":
        assert told(tuple(row[-1]) for row in result if row[0] == "late") == late
        assert len(late) == len(LATE)
        result = [row[1:-1] for row in result if row[0] == "main"]
    assert told(result) == expected


def test_a_function_without_event_time_gets_all_rows(spark, tmp_path):
    def build(df: DataFrame) -> DataFrame:
        return df.transform(pb.process_keyed, Numbered(), by="k", returns=RETURNS)

    result = ran(spark, tmp_path, build)
    assert sorted(row[1] for row in result) == list(range(1, 15))
    assert not any(row[-1] for row in result)


def scanned(df: DataFrame, **options: Any) -> DataFrame:
    state = {"n": ("0L", "n + 1")}
    return pb.scan(df, by="k", state=state, timestamp="at", **options)


def test_late_rows_of_a_scan(spark, tmp_path):
    result = ran(
        spark,
        tmp_path / "process",
        lambda df: scanned(df, on_late="process", select=["k", "v", "is_late"]),
    )
    assert [row[:2] for row in sorted(result, key=lambda row: row[1]) if row[2]] == LATE
    result = ran(spark, tmp_path / "output", lambda df: scanned(df, on_late="output"))
    late = [row[-1] for row in result if row[0] == "late"]
    assert [tuple(row)[:2] for row in sorted(late, key=lambda row: row.v)] == LATE
    dropped = ran(spark, tmp_path / "drop", lambda df: scanned(df, on_late="drop"))
    assert told(dropped) == told(row[1:-1] for row in result if row[0] == "main")


def test_a_batch_has_the_same_columns(spark):
    df = spark.createDataFrame([row for batch in batches() for row in batch], INPUT)
    asked = {"by": "k", "returns": RETURNS, "inputs": ["k", "at", "v"]}
    out = df.transform(pb.process_keyed, Timed(), on_late="output", **asked)
    assert out.columns == ["tag", *pb.main_output(out).columns, "late"]
    assert pb.side_output(out, "late").columns == df.columns
    assert pb.side_output(out, "late").count() == 0
    assert pb.main_output(out).where("n > 0").count() == 14
    marked = df.transform(pb.process_keyed, Timed(), on_late="process", **asked)
    assert marked.where("was_late").count() == 0
    all_rows = scanned(df, on_late="process", select=["v", "is_late", "n"])
    assert [row.is_late for row in all_rows.collect()] == [False] * 14


def test_a_star_is_all_columns_but_is_late(spark):
    df = spark.createDataFrame([("a", 1, START)], INPUT)
    out = scanned(df, on_late="process", select=["*", "is_late"])
    assert out.columns == ["k", "v", "at", "n", "is_late"]


def test_late_rows_have_no_watermark(spark, tmp_path):
    stream = Stream(spark, tmp_path, INPUT, lambda df: df)
    df = spark.readStream.schema(INPUT).parquet(str(stream.folder / "in"))
    late = pb.side_output(scanned(df.withWatermark("at", "1 minute"), on_late="output"), "late")
    assert [field.metadata for field in late.schema.fields] == [{}, {}, {}]
    with pytest.raises(pb.InvalidOption, match="on a stream whose columns have no watermark"):
        scanned(df, on_late="output")
    lost = df.withWatermark("at", "1 minute").selectExpr("k", "v", "at + interval 1 day AS at")
    with pytest.raises(pb.InvalidOption, match="and keep the column"):
        scanned(lost, on_late="process")


def test_windows_go_through_a_scan(spark, tmp_path):
    def build(df: DataFrame) -> DataFrame:
        counts = df.groupBy("k", F.window("at", "1 minute")).count()
        scan = pb.scan(counts, by="k", state={"n": ("0L", "n + 1")}, on_late="output")
        return scan.selectExpr("tag", "k", "n", "window.start")

    result = ran(spark, tmp_path, build)
    assert {row[0] for row in result} == {"main"}
    assert len(result) > 2


def test_a_column_of_the_input_hides_is_late(spark):
    df = spark.createDataFrame([("a", 1, START, "mine")], f"{INPUT}, is_late string")
    row = scanned(df, on_late="process", select=["is_late"]).first()
    assert row == ("mine",)


def test_names_for_late_rows_are_taken(spark):
    df = spark.createDataFrame([("a", 1, START)], INPUT)
    with pytest.raises(pb.InvalidSchema, match="one from on_late, another from returns"):
        df.transform(pb.process_keyed, Timed(), by="k", returns="late int", on_late="output")
    with pytest.raises(Exception, match="one from on_late, another from select"):
        scanned(df, on_late="output", select=["v AS tag"])
