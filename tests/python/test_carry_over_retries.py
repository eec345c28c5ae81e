"""Async I/O that outlives a micro-batch: failures where Spark runs a task again, other masters."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pillarbox as pb
from spark_apps import run_app

# The applications find it where they run.
build: Any = None


def fails_for_ever(folder: str) -> tuple[object, int]:
    spark = pb.configure(build({"spark.master": "local[2,4]"})).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    async def failing(row):  # type: ignore[no-untyped-def]
        with open(folder + "/calls", "a") as calls:
            calls.write(f"{row.value}\n")
        await asyncio.sleep(0.3)
        if row.value == 3:
            raise ConnectionError("the service is down")
        return row.value

    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    if os.path.exists(folder + "/few"):
        rows = spark.readStream.schema("value long").parquet(folder + "/few")
    answers = pb.async_io(rows, failing, returns="x long", carry_over=pb.CarryOver(slots=2))
    writer = answers.writeStream.format("noop").option("checkpointLocation", folder + "/checkpoint")
    query = writer.start()
    try:
        ended = query.awaitTermination(40)
    except Exception as problem:
        ended = str(problem)[:3000]
    query.stop()
    with open(folder + "/calls") as calls:
        return ended, calls.read().split().count("3")


def test_a_call_that_always_fails_fails_the_query_after_as_many_attempts_as_a_task_has(
    tmp_path: Path,
) -> None:
    ended, calls = run_app(fails_for_ever, str(tmp_path))
    assert "ConnectionError: the service is down" in str(ended)
    assert 4 <= calls <= 8


@pytest.mark.whole
def test_so_it_does_when_no_row_follows(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    pq.write_table(pa.table({"value": list(range(10))}), tmp_path / "few" / "0.parquet")
    ended, calls = run_app(fails_for_ever, str(tmp_path))
    assert "ConnectionError: the service is down" in str(ended)
    assert 4 <= calls <= 8


def other_parallelism(folder: str, master: str, crash: bool) -> str:
    spark = pb.configure(build({"spark.master": master})).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    async def same(row):  # type: ignore[no-untyped-def]
        return row.value

    def keep(batch, number):  # type: ignore[no-untyped-def]
        batch.collect()
        if crash:
            raise ValueError("crash")

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    answers = pb.async_io(rows, same, returns="x long", carry_over=True)
    writer = answers.writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    try:
        query.awaitTermination(60)
    except Exception as problem:
        return str(problem)[:3000]
    return "ended"


@pytest.mark.whole
def test_the_noted_number_of_slots_counts_even_if_no_micro_batch_was_committed(
    tmp_path: Path,
) -> None:
    assert "crash" in run_app(other_parallelism, str(tmp_path), "local[2]", True)
    assert run_app(other_parallelism, str(tmp_path), "local[3]", False) == "ended"
