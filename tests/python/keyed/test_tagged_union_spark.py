"""``tagged_union`` on Spark: the order of its rows in each form, and its watermark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed import tagged_orders
from keyed.tagged_orders import (
    RETURNS,
    START,
    TAGS,
    Item,
    Numbers,
    NumbersAwaited,
    NumbersColumns,
    by_micro_batch,
    by_time,
    items,
    seen_by,
    sorted_by,
)  # fmt: skip
from spark_support import process_of, run_stream

cloudpickle.register_pickle_by_value(tagged_orders)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "k string, minute bigint, step int, id int, at timestamp"
_ARROW = pa.schema(
    [
        ("k", pa.string()),
        ("minute", pa.int64()),
        ("step", pa.int32()),
        ("id", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def table(rows: list[Item]) -> pa.Table:
    columns = [[getattr(row, name) for row in rows] for name in _ARROW.names]
    return pa.table(columns, schema=_ARROW)


def numbered(union: DataFrame, function: Any = None, **options: Any) -> DataFrame:
    function = function or Numbers()
    return process_of(function)(union, function, by="k", returns=RETURNS, **options)


def scanned(union: DataFrame, **options: Any) -> DataFrame:
    own = [
        f"coalesce({', '.join(f'{tag}.{name}' for tag in TAGS)}) AS {name}"
        for name in ("minute", "step", "id")
    ]
    return pb.scan(
        union, by="k", state={"n": ("0L", "n + 1")}, select=["k", "n", "tag", *own], **options
    )


class Streams:
    """Inputs of files, one of each input a micro-batch; every run goes on from the checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, delay: str | None = None) -> None:
        self.spark, self.folder, self.delay = spark, folder, delay
        for tag in TAGS:
            (folder / tag).mkdir()

    def add(self, number: int, rows: list[Item]) -> None:
        for tag in TAGS:
            own = [row for row in rows if row.tag == tag]
            written = self.folder / tag / f".{number}.parquet"
            pq.write_table(table(own), written)
            # Spark takes files by their times, which may be equal for files written at once.
            os.utime(written, (1_000_000 + number * 10,) * 2)
            written.rename(self.folder / tag / f"{number}.parquet")

    def run(self, apply: Callable[..., DataFrame], **options: Any) -> tuple[list[Any], Any]:
        """Returns all rows that ever came out, and the watermark that the run came to."""
        inputs = {tag: self._input(tag) for tag in TAGS}
        result = apply(pb.tagged_union(inputs, by="k", timestamp="at"), **options)
        query = run_stream(result, self.folder, "parquet")
        told = [progress["eventTime"].get("watermark") for progress in query.recentProgress]
        out = self.spark.read.schema(result.schema).parquet(str(self.folder / "out"))
        return [tuple(row) for row in out.collect()], told[-1] if told else None

    def _input(self, tag: str) -> DataFrame:
        files = self.spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1)
        rows = files.parquet(str(self.folder / tag))
        return rows if self.delay is None else rows.withWatermark("at", self.delay)


def batch(spark: SparkSession, rows: list[Item]) -> DataFrame:
    inputs = {
        tag: spark.createDataFrame(table([row for row in rows if row.tag == tag]), INPUT)
        for tag in TAGS
    }
    return pb.tagged_union(inputs, by="k", timestamp="at")


@pytest.mark.parametrize("form", ["row", "async", "arrow", "sorted", "inputs", "scan"])
def test_a_batch_gives_each_form_its_rows_by_time_then_by_input(
    spark: SparkSession, form: str
) -> None:
    rows = items(Random(1))
    union = batch(spark, rows)
    result = {
        "row": lambda: numbered(union),
        "async": lambda: numbered(union, NumbersAwaited()),
        "arrow": lambda: numbered(union, NumbersColumns()),
        "sorted": lambda: numbered(union, time_sorted=True),
        # A function that sees some columns only is given its rows in the same order.
        "inputs": lambda: numbered(union, inputs=["k", *TAGS, "tag"]),
        "scan": lambda: scanned(union),
    }[form]()
    assert seen_by(by_time, rows, result.collect()) == sorted_by(by_time, rows)


def test_the_order_outlives_what_keeps_the_columns_and_order_by_comes_first(
    spark: SparkSession,
) -> None:
    rows = items(Random(4), count=30)
    union = batch(spark, rows).where("k <> 'z'").withColumnRenamed("at", "when").repartition(3)
    assert seen_by(by_time, rows, numbered(union).collect()) == sorted_by(by_time, rows)
    ordered = numbered(union.withColumn("one", F.lit(1)), order_by="one").collect()

    def place(item: Item) -> tuple[int, ...]:
        return (TAGS.index(item.tag),)

    assert seen_by(place, rows, ordered) == sorted_by(place, rows)


@pytest.mark.parametrize(
    "apply", [numbered, pytest.param(scanned, marks=pytest.mark.nightly)], ids=["row", "scan"]
)
def test_a_micro_batch_gives_its_rows_by_time_then_by_input(
    spark: SparkSession, tmp_path: Path, apply: Callable[..., DataFrame]
) -> None:
    rows = items(Random(2))
    streams = Streams(spark, tmp_path)
    for step in range(3):
        streams.add(step, [row for row in rows if row.step == step])
    told, _ = streams.run(apply)
    assert seen_by(by_micro_batch, rows, told) == sorted_by(by_micro_batch, rows)


@pytest.mark.nightly
def test_time_sorted_rows_come_by_time_then_by_input_however_they_are_cut(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = items(Random(3))
    streams = Streams(spark, tmp_path, delay="1 hour")
    for step in range(3):
        streams.add(step, [row for row in rows if row.step == step])
    ends = [Item(tag, "end", 90, 3, len(rows) + at) for at, tag in enumerate(TAGS)]
    streams.add(3, ends)
    told, _ = streams.run(numbered, time_sorted=True)
    assert seen_by(by_time, rows, told) == sorted_by(by_time, rows)
    again = numbered(batch(spark, rows + ends), time_sorted=True)
    assert sorted(row for row in map(tuple, again.collect()) if row[0] != "end") == sorted(told)


def test_the_watermark_is_the_lowest_and_after_a_restart_waits_for_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams = Streams(spark, tmp_path, delay="0 minutes")
    number = iter(range(100))

    def run(**minutes: int) -> tuple[list[int], str]:
        """A run of the query over new rows; gives the minutes that came out, and the watermark."""
        at = next(number)
        streams.add(at, [Item(tag, "a", m, at, at) for tag, m in minutes.items()])
        told, watermark = streams.run(numbered, time_sorted=True)
        return sorted(row[3] for row in told), watermark

    def minute(passed: int) -> str:
        return (START + timedelta(minutes=passed)).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    never = datetime.fromtimestamp(0).astimezone().astimezone(START.tzinfo)
    assert run(rates=10, orders=20) == ([], never.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    # Each run is a restart, and an input without rows since then holds the watermark.
    assert run(rates=30, orders=40, control=35) == ([10, 20, 30], minute(30))
    assert run(rates=90, orders=90) == ([10, 20, 30], minute(30))
    assert run(control=50) == ([10, 20, 30], minute(30))
    # The lowest of this run's rows: 60, though the control's own was at 50 before.
    assert run(rates=80, orders=70, control=60) == ([10, 20, 30, 35, 40, 50, 60], minute(60))
    # It does not fall.
    told, watermark = run(rates=85, orders=86, control=55)
    assert watermark == minute(60)
    assert told == [10, 20, 30, 35, 40, 50, 60]
