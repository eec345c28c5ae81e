"""Lists that expire stay with the worker from frame to frame, and nothing of them is lost."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.streams import Stream, settings
from pillarbox.testing import KeyedHarness

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "k string, ts timestamp, i int, adds boolean"
RETURNS = "k string, i int, seen array<int>"
OPTIONS = {"by": "k", "timestamp": "ts", "order_by": "i", "returns": RETURNS}
START = datetime(2024, 5, 1, tzinfo=timezone.utc)
KEYS = "abcdefgh"


class Recent(pb.KeyedProcessFunction):
    """Adds the number of a row, or tells those that are alive, which keeps them alive."""

    def __init__(self, update: str) -> None:
        self.ttl = pb.StateTtl("20 ms", update=update, time_domain="event_time")  # type: ignore[arg-type]

    def open(self, ctx: Any) -> None:
        self.list = ctx.list_state("list", "int", ttl=self.ttl)

    def process(self, row: Any, ctx: Any) -> Any:
        if row.adds:
            self.list.add(row.i)
        else:
            yield row.k, row.i, self.list.get()


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def micro_batches(random: Random) -> list[list[Any]]:
    """Rows in the order of their times, so that none is late."""
    rows = [
        (random.choice(KEYS), at(time), time, random.random() < 0.4)
        for time in range(1, 401)
        if random.random() < 0.9
    ]
    return [rows[:60], rows[60:200], rows[200:], [("end", at(2000), 2000, False)]]


def expected(update: str, batches: list[list[Any]], time_sorted: bool) -> list[Any]:
    options: dict[str, Any] = {**OPTIONS, "schema": INPUT, "time_sorted": time_sorted}
    harness = KeyedHarness(Recent(update), **options)
    found, watermark = [], None
    for batch in [*batches, []]:
        found += harness.run_micro_batch(batch, watermark=watermark)
        watermark = batch[-1][1] if batch else None
    return sorted(tuple(row) for row in found if row.k != "end")


@pytest.mark.parametrize("time_sorted", [True, False])
@pytest.mark.parametrize("update", ["on_read_and_write", "on_create_and_write"])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_many_frames_of_a_micro_batch_give_what_one_gives(
    spark: SparkSession, tmp_path: Path, backend: str, update: str, time_sorted: bool
) -> None:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withWatermark("ts", "0 seconds")
        return pb.process_keyed(
            timed, Recent(update), time_sorted=time_sorted, backend=backend, **OPTIONS
        )

    batches = micro_batches(Random(5))
    stream = Stream(spark, tmp_path, INPUT, build)
    for batch in batches:
        stream.add(*batch)
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": "7"}):
        found = sorted(row for row in stream.run() if row[0] != "end")
    assert len(found) > 100
    assert any(seen for _, _, seen in found)
    assert found == expected(update, batches, time_sorted)
